"""Residual against iteration, coloured by the bits read."""

import pandas as pd

from cpms.base.errors import InputError
from cpms.experiment.report import panels
from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import colour
from cpms.formats.formats import format_named

NEEDS = ["table2"]
SHOWN = ["web-Google-scc", "cnr-2000", "luxembourg_osm", "rgg_n_2_15_s0", "wiki-Vote", "pagerank-100000"]
"""Of the recorded graphs; of one's own, all."""
LIMIT = {"color": "#999999", "linewidth": 0.7, "linestyle": "--"}


def show(rows, out):
    rows = _drawable(_chosen(rows[rows.status == "ok"]), out)
    storage = format_named(rows.storage.iloc[0])
    kept = [storage.mantissa_kept(read) for read in range(1, storage.segments)]
    tolerances = sorted({f"{tol:g}" for tol in rows.tol})
    dampings = sorted({f"{each:g}" for each in rows.damping})
    figure = _figure(rows, out)
    out.figure(
        figure,
        caption=f"Residual in L1 of power iteration in {storage.name} with damping "
        f"{' or '.join(dampings)}, coloured by the bits each iteration reads; runs end below "
        f"{' or '.join(tolerances)}. Dashed: 10 / 2^m for the m = {', '.join(map(str, kept))} bits of the mantissa "
        "that are read before the last. By the paper's rule the iteration after the first below a line writes another "
        "segment, and those after it read that, too",
        alt=_in_words(figure),
    )


def _in_words(figure):
    """Return the curves of the panels in words, from what is drawn."""
    panels_of = [axes for axes in figure.axes if axes.axison]
    dots = {
        axes.get_title(): [place for line in axes.lines if line.get_marker() == "." for place in line.get_xydata()]
        for axes in panels_of
    }
    lengths = {name: int(max(x for x, _ in places)) for name, places in dots.items()}
    residuals = [y for places in dots.values() for _, y in places]
    texts = [f"{name} {count}" for name, count in lengths.items()]
    return (
        f"Residual in L1 against iteration, {len(dots)} panels of a falling curve of dots each, in colours of few "
        f"bits, then more. Residuals: from {three_digits(min(residuals))} to {three_digits(max(residuals))}. "
        f"Iterations: {', '.join(texts)}."
    )


def _figure(rows, out):
    figure, axes = panels.grid(out.width, len(rows), 1.35, columns=(2, 3), sharex=True, sharey=True)
    seen, names = set(), out.names([shortened(label(row)) for _, row in rows.iterrows()])
    for panel, name, (_, row) in zip(axes, names, rows.iterrows(), strict=True):
        history = pd.DataFrame(row.history, columns=["residual", "bits", "mass", "seconds"])
        history["iteration"] = range(1, len(history) + 1)
        for bits, part in history[history.residual > 0].groupby("bits"):
            panel.semilogy(part.iteration, part.residual, ".", markersize=2.4, color=colour(bits))
            seen.add(int(bits))
        storage = format_named(row.storage)
        for read in range(1, storage.segments):
            panel.axhline(10 * 2.0 ** -storage.mantissa_kept(read), zorder=0, **LIMIT)
        panel.set_title(name)
        panel.set_yticks([1, 1e-3, 1e-6, 1e-9], ["1", "1e-3", "1e-6", "1e-9"])
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
