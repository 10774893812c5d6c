"""Bases of GMRES: iterations over float64's against the mean bits that are read of a value, by matrix."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends, shortened
from cpms.experiment.report.page import labels
from cpms.experiment.report.palette import nearest

NEEDS = ["gmres_bits", "gmres_bits_held", "gmres_bits_poisson"]
NAMED = {"gmres_bits": "listed", "gmres_bits_held": "held out", "gmres_bits_poisson": "7-point Poisson"}
LIMITS = {"bytes": 40, "blocks": 28}
MOST = 1.1
OF_POISSON = {"bytes": 36, "blocks": 24}
MOST_OF_POISSON = 1.07


def show(rows, out):
    table = pd.DataFrame([line for _, row in rows[rows.status == "ok"].iterrows() for line in _lines(row)])
    out.table(table, caption="GMRES(100): iterations and mean bits read of a basis value, by the basis")
    held = table[table.comparable & (table.basis != "fp64")]
    means = [
        {
            "basis": basis,
            "matrices": named,
            "systems": len(part),
            "iterations over float64's, geometric mean": float(np.exp(np.log(part["over float64"]).mean())),
            "mean bits": part["mean bits"].mean(),
            "bits allowed": (OF_POISSON if named == NAMED["gmres_bits_poisson"] else LIMITS).get(basis),
            "iterations allowed": MOST_OF_POISSON if named == NAMED["gmres_bits_poisson"] else MOST,
        }
        for (named, basis), part in held.groupby(["matrices", "basis"], sort=False)
    ]
    out.table(pd.DataFrame(means), suffix="_means", caption="Means over the systems that both solve")
    figure, (panel,) = panels.grid(out.width, 1, 2.3)
    marks = dict(zip(dict.fromkeys(held.basis), "osD^v", strict=False))
    for _, line in held.iterrows():
        filled = line.matrices != NAMED["gmres_bits_held"]
        panels.point(
            panel, line["mean bits"], line["over float64"], line["mean bits"], marks[line.basis], filled=filled
        )
    panels.unity(panel, across=True)
    panel.set(xlabel="mean bits read of a basis value", ylabel="iterations over float64's")
    panels.legend(figure, panels.key(set(map(nearest, held["mean bits"])), marks))
    at = ["mean bits", "over float64"]
    far = held[(held["over float64"] - 1).abs() > 0.15]
    points = [*far[at].to_numpy(float)[:, None]]
    labels.place(panel, out.names(map(shortened, far.matrix)), points, others=held[at], all_or_none=False)
    out.figure(
        figure,
        caption="GMRES(100) with a basis of few bits: iterations over those with a float64 basis. A mark is a system "
        "that both solve, hollow if its matrix was held out; circles: as many whole bytes of each basis value are read "
        "as the residual asks for, squares: blocks of values share exponents; colour: the nearest number of bits; "
        "named: over 15 % more or fewer iterations, each right-hand side a mark. Counts of one run have no spread",
        alt=ends(held, "over float64", ["matrix", "basis"], "Iterations over float64's", "times"),
    )


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        both = first["status"] == way["status"] == "CONVERGED"
        yield {
            "matrices": NAMED.get(row.experiment, row.experiment),
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "unknowns": row.rows,
            "basis": " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "over float64": way["iterations"] / max(1, first["iterations"]),
            "mean bits": way["mean_bits"],
            "comparable": both,
        }
