"""Bases of GMRES: iterations over float64's against the mean bits that are read of a value, by matrix."""

import numpy as np
import pandas as pd

NEEDS = ["gmres_bits"]
LIMITS = {"bytes": 40, "blocks": 28}
MOST = 1.1


def show(rows, out):
    import matplotlib.pyplot as plt

    table = pd.DataFrame([line for _, row in rows[rows.status == "ok"].iterrows() for line in _lines(row)])
    out.table(table, caption="GMRES(100): iterations and mean bits read of a basis value, by the basis")
    held = table[table.comparable & (table.basis != "fp64")]
    means = [
        {
            "basis": basis,
            "matrices": len(part),
            "iterations over float64's, geometric mean": float(np.exp(np.log(part["over float64"]).mean())),
            "mean bits": part["mean bits"].mean(),
            "bits allowed": LIMITS.get(basis),
            "iterations allowed": MOST,
        }
        for basis, part in held.groupby("basis", sort=False)
    ]
    out.table(pd.DataFrame(means), suffix="_means", caption="Means over the matrices that float64 solves")
    figure, axis = plt.subplots(figsize=(4.2, 3.0))
    for basis, part in held.groupby("basis", sort=False):
        axis.plot(part["mean bits"], part["over float64"], "o", markersize=4, label=basis)
    axis.axhline(MOST, color="grey", linewidth=0.8)
    axis.set_xlabel("mean bits read of a basis value")
    axis.set_ylabel("iterations over float64's")
    axis.legend(fontsize=8)
    out.figure(figure)


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        both = first["status"] == way["status"] == "CONVERGED"
        yield {
            "matrix": row.graph,
            "unknowns": row.rows,
            "basis": " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "over float64": way["iterations"] / max(1, first["iterations"]),
            "mean bits": way["mean_bits"],
            "comparable": both,
        }
