"""Products on the suites of matrices: times faster than cuSPARSE's best CSR, and the share of copy bandwidth."""

import numpy as np
import pandas as pd

NEEDS = [f"gpu_suite_{suite}_{part}" for suite in "ab" for part in ("grids", "irregular")]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(table, caption="Products on suites A and B: times faster than cuSPARSE's fastest algorithm in CSR")
    summary = table.pivot_table("times faster", "product", "experiment", aggfunc=_geometric_mean, sort=False)
    out.table(summary.reset_index(), caption="Geometric means of times faster, by suite", suffix="_means")
    figure, axes = plt.subplots(figsize=(7, 3))
    for name, part in table.groupby("product", sort=False):
        axes.plot(part.matrix, part["times faster"], "o", markersize=3, label=name)
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    axes.tick_params(axis="x", rotation=90, labelsize=5)
    axes.set_ylabel("times faster than cuSPARSE")
    axes.legend(fontsize=5)
    out.figure(figure)


def _geometric_mean(ratios):
    return float(np.exp(np.log(ratios).mean()))


def _lines(row):
    first = row.contestants[0]["median_ms"]
    for c in row.contestants:
        gbps = c["least_bytes"] / c["median_ms"] / 1e6
        yield {
            "experiment": row.experiment,
            "matrix": row.graph,
            "product": f"{c['engine']} {c['layout']} {c['storage']}, vectors {c['vectors']}",
            "stored as": c["stored_as"],
            "ms": c["median_ms"],
            "least ms": c["least_ms"],
            "most ms": c["most_ms"],
            "times faster": first / c["median_ms"],
            "of copy bandwidth": gbps / row.copy_gbps,
            "error": c["error"],
        }
