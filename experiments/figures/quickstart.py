"""The quick start: who leads, iterations by precision, and the residual on its way down."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.output import label
from cpms.experiment.report.palette import colour

NEEDS = ["quickstart"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    leaders = pd.concat([_leaders(cells) for _, cells in rows.groupby("graph", sort=False)])
    if len(set(rows.graph)) == 1:
        out.table(
            leaders.drop(columns="graph"),
            suffix="_ranking",
            caption=f"Highest ranks of {label(rows.iloc[0])}",
            timed=False,
        )
    else:
        out.table(leaders, suffix="_ranking", caption="Highest ranks of each graph", timed=False)
    out.table(_by_precision(rows), caption="Iterations by bits read, and the error certified in float64", timed=False)
    if "history" in rows:
        _figures(rows[rows.history.notna()], out)


def _leaders(cells):
    """Return the highest ranks of a graph, by its cell in float64 if there is one."""
    double = cells[cells.storage == "fp64"]
    finest = (cells if double.empty else double).iloc[0]
    top = pd.DataFrame(finest.top[:10], columns=["node", "rank"])
    top.insert(0, "place", range(1, len(top) + 1))
    top.insert(0, "graph", label(finest))
    return top


def _figures(rows, out):
    graphs = dict(list(rows.groupby("graph", sort=False)))
    found = [row for cells in graphs.values() for _, row in cells.iterrows()]
    figure, axes = panels.grid(out.width, len(found), 1.7, columns=(2, 4), sharey=True)
    for panel, row in zip(axes, found, strict=True):
        name = row.storage if len(graphs) == 1 else f"{label(row)}, {row.storage}"
        _plot_history(panel, row.history, name)
    panels.logarithmic(axes[0], "y")
    figure.supxlabel("iteration")
    figure.supylabel("residual (L1)")
    panels.legend(figure, panels.key(int(bits) for row in found for bits in row.iterations_by_bits))
    out.figure(
        figure,
        caption="Residual in L1 against iteration, in the colour of the bits that an iteration reads, by storage; each "
        "point is one iteration of one run",
    )


def _plot_history(panel, recorded, name):
    history = pd.DataFrame(recorded, columns=["residual", "bits", "mass", "seconds"])
    history["iteration"] = range(1, len(history) + 1)
    for bits, part in history.groupby("bits"):
        panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=colour(bits))
    panel.set_title(name)


def _by_precision(rows):
    bits = sorted({int(b) for counts in rows.iterations_by_bits for b in counts})
    table = pd.DataFrame({"graph": [label(row) for _, row in rows.iterrows()], "storage": rows.storage.tolist()})
    for b in bits:
        table[f"{b} bits"] = [counts.get(str(b), 0) for counts in rows.iterations_by_bits]
    table["total"] = rows.iterations.tolist()
    table["error bound"] = rows.error_bound.tolist()
    if "error_l1" in rows:
        table["true error"] = rows.error_l1.tolist()
    return table
