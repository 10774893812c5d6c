"""Speed-up against the tolerance."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, storage_of

NEEDS = ["gpu_tolerance"]
STORAGES = ["cpms2", "cpms4", "cpms2 to 32 bits"]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    lines = []
    for _, row in rows.iterrows():
        solved = {(r["engine"], storage_of(r)): r["solve_s"] for r in row.results if r["status"] == "ok"}
        for storage in STORAGES:
            lines.append(
                {
                    "graph": label(row),
                    "tol": row.tol,
                    "storage": storage,
                    "over own fp64": solved.get(("cuda", "fp64"), np.nan) / solved.get(("cuda", storage), np.nan),
                    "over cuSPARSE": solved.get(("cusparse", "fp64"), np.nan) / solved.get(("cuda", storage), np.nan),
                }
            )
    table = pd.DataFrame(lines)
    out.table(table, caption=f"Whole solves on {rows.gpu.iloc[0]} against the tolerance: times faster")
    figure, axes = plt.subplots(figsize=(6, 2.8))
    graphs = list(dict.fromkeys(table.graph))
    for (graph, storage), part in table.groupby(["graph", "storage"], sort=False):
        style, colour = ("-o", "--s", ":^")[STORAGES.index(storage)], f"C{graphs.index(graph)}"
        axes.semilogx(part.tol, part["over own fp64"], style, color=colour, markersize=3, label=f"{graph}, {storage}")
    axes.axhline(1, color="#999999", linewidth=0.6)
    axes.set(xlabel="tolerance", ylabel="times faster than float64")
    axes.invert_xaxis()
    figure.legend(loc="outside right center", fontsize=6)
    out.figure(figure)
