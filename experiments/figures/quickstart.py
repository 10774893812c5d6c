"""The quick start: who leads, iterations by precision, and the residual on its way down."""

import pandas as pd

from cpms.experiment.report.output import PALETTE, label

NEEDS = ["quickstart"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    leaders = pd.concat([_leaders(cells) for _, cells in rows.groupby("graph", sort=False)])
    if len(set(rows.graph)) == 1:
        out.table(leaders.drop(columns="graph"), suffix="_ranking", caption=f"Highest ranks of {label(rows.iloc[0])}")
    else:
        out.table(leaders, suffix="_ranking", caption="Highest ranks of each graph")
    out.table(_by_precision(rows), caption="Iterations by bits read, and the error certified in float64")
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
    import matplotlib.pyplot as plt

    graphs = dict(list(rows.groupby("graph", sort=False)))
    columns = max(len(cells) for cells in graphs.values())
    height = 2.3 if len(graphs) == 1 else 2 * len(graphs)
    figure, axes = plt.subplots(len(graphs), columns, figsize=(7, height), sharey=True, squeeze=False)
    for line, cells in zip(axes, graphs.values(), strict=True):
        for panel in line[len(cells) :]:
            panel.set_axis_off()
        for panel, (_, row) in zip(line, cells.iterrows(), strict=False):
            name = row.storage if len(graphs) == 1 else f"{label(row)}, {row.storage}"
            _plot_history(panel, row.history, name)
        line[0].set_ylabel("residual (L1)")
    out.figure(figure)


def _plot_history(panel, recorded, name):
    history = pd.DataFrame(recorded, columns=["residual", "bits", "mass", "seconds"])
    history["iteration"] = range(1, len(history) + 1)
    for bits, part in history.groupby("bits"):
        panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=PALETTE[bits], label=f"{bits} bits")
    panel.set(title=name, xlabel="iteration")
    panel.legend()


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
