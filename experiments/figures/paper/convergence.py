"""Residual against iteration, coloured by the bits read."""

import pandas as pd

from cpms.base.errors import InputError
from cpms.experiment.report import panels
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import colour
from cpms.formats.formats import format_named

NEEDS = ["table2"]
SHOWN = ["web-Google-scc", "cnr-2000", "luxembourg_osm", "rgg_n_2_15_s0", "wiki-Vote", "pagerank-100000"]
"""Of the recorded graphs; of one's own, all."""
LIMIT = {"color": "#999999", "linewidth": 0.7, "linestyle": "--"}


def show(rows, out):
    rows = _drawable(_chosen(rows[rows.status == "ok"]), out)
    last = min(step[0] for history in rows.history for step in history if step[0] > 0)
    storage = rows.storage.iloc[0]
    out.figure(
        _figure(rows, out),
        caption=f"Residual in L1 of power iteration in {storage}, coloured by the bits each iteration reads; dashed: "
        "10 / 2^m where m bits of the mantissa are read, below which the paper's rule reads another segment, from the "
        "second iteration below on",
        alt=f"{len(rows)} panels of falling curves, in up to {format_named(storage).segments} colours from few bits "
        f"to all; the least residual is {last:.1e}.",
    )


def _figure(rows, out):
    figure, axes = panels.grid(out.width, len(rows), 1.35, columns=(2, 3), sharex=True, sharey=True)
    seen, names = set(), out.names([shortened(label(row)) for _, row in rows.iterrows()])
    for panel, name, (_, row) in zip(axes, names, rows.iterrows(), strict=True):
        history = pd.DataFrame(row.history, columns=["residual", "bits", "mass", "seconds"])
        history["iteration"] = range(1, len(history) + 1)
        for bits, part in history[history.residual > 0].groupby("bits"):
            panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=colour(bits))
            seen.add(int(bits))
        storage = format_named(row.storage)
        for read in range(1, storage.segments):
            panel.axhline(10 * 2.0 ** -storage.mantissa_kept(read), zorder=0, **LIMIT)
        panel.set_title(name)
        panel.set_yticks([1, 1e-3, 1e-6, 1e-9], ["1", "10⁻³", "10⁻⁶", "10⁻⁹"])
        panel.minorticks_off()
        if panel.get_subplotspec().is_first_col():
            panel.set_ylabel("residual (L1)")
    figure.supxlabel("iteration")
    panels.legend(figure, panels.key(seen, lines={"10 / 2ᵐ": LIMIT}))
    return figure


def _chosen(rows):
    """Return the rows of cpms4, or of the last storage where there are none: of the graphs shown if all are there."""
    if "history" not in rows or rows.history.isna().all():
        raise InputError(
            "the rows of table2 hold no residuals of iterations; set record_history = true in the configuration, and "
            "give the run an --output folder of its own"
        )
    rows = rows[rows.history.notna()]
    rows = rows[rows.storage == ("cpms4" if (rows.storage == "cpms4").any() else rows.storage.iloc[-1])]
    if set(SHOWN) <= set(rows.graph):
        rows = rows.set_index("graph", drop=False).loc[SHOWN]
    return rows


def _drawable(rows, out):
    """Return the rows with a residual above 0, which a logarithmic axis can show, and name the others."""
    above = rows.history.map(lambda history: any(step[0] > 0 for step in history))
    for _, row in rows[~above].iterrows():
        out.leave_out(f"graph {label(row)}", "its residuals are 0, which a logarithmic axis cannot show")
    if not above.any():
        raise InputError("all residuals of the rows are 0, which a logarithmic axis cannot show")
    return rows[above]
