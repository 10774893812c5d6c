"""Residual against iteration, coloured by the bits read."""

import pandas as pd

from cpms.base.errors import InputError
from cpms.experiment.report.output import PALETTE, label
from cpms.formats.formats import format_named

NEEDS = ["table2"]
SHOWN = ["web-Google-scc", "cnr-2000", "luxembourg_osm", "rgg_n_2_15_s0", "wiki-Vote", "pagerank-100000"]
"""Of the recorded graphs; of one's own, all."""
COLUMNS = 3


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = _drawable(_chosen(rows[rows.status == "ok"]), out)
    lines = -(-len(rows) // COLUMNS)
    columns = min(COLUMNS, len(rows))
    figure, axes = plt.subplots(lines, columns, figsize=(7, 2 * max(lines, 1.5)), sharey=True, squeeze=False)
    for panel in axes.flat[len(rows) :]:
        panel.set_axis_off()
    for panel, (_, row) in zip(axes.flat, rows.iterrows(), strict=False):
        history = pd.DataFrame(row.history, columns=["residual", "bits", "mass", "seconds"])
        history["iteration"] = range(1, len(history) + 1)
        for bits, part in history.groupby("bits"):
            name = f"{row.storage}, {bits} bits"
            panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=PALETTE[bits], label=name)
        storage = format_named(row.storage)
        for read in range(1, storage.segments):
            style = {"color": "#bbbbbb", "linewidth": 0.6, "linestyle": "--", "zorder": 0}
            limit = 10 * 2.0 ** -storage.mantissa_kept(read)
            panel.axhline(limit, **style, label="10 / 2^m of m mantissa bits read")
        panel.set_title(label(row))
    for panel in axes.flat[max(0, len(rows) - columns) : len(rows)]:
        panel.set_xlabel("iteration")
    for panel in axes[:, 0]:
        panel.set_ylabel("residual (L1)")
    by_name = {name: mark for panel in axes.flat for mark, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(by_name.values(), by_name, loc="outside upper center", ncols=min(5, len(by_name)), markerscale=2)
    out.figure(figure)


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
