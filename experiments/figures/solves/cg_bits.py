"""Conjugate gradients by the bits of r and p: iterations over float64's, ones and random right-hand sides apart."""

import re

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import shortened, some
from cpms.experiment.report.intervals import UNSEEN, geometric
from cpms.experiment.report.speedup_figures import looks_of_means, mean_rows

NEEDS = ["cg_bits"]
ITERATIONS, BYTES = "iterations over float64's", "bytes over float64's"
DRAWN = {"over float64": ITERATIONS, "bytes over float64": "bytes read over float64's"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame(
        [
            {
                "matrix": row.graph,
                "right-hand side": row.rhs,
                "vectors": " then ".join(way["vectors"]),
                "status": way["status"],
                "iterations": way["iterations"],
                "over float64": way["iterations"] / row.ways_found[0]["iterations"],
                "mean bits": way["mean_bits"],
                "bytes over float64": way["bytes_read"] / row.ways_found[0]["bytes_read"],
            }
            for _, row in rows.iterrows()
            for way in row.ways_found
        ]
    )
    what = "Conjugate gradients by the formats in which residual and direction are stored, to a residual of "
    what += f"{rows.tol.iloc[0]:g}"
    out.table(table, caption=f"{what}; iterations, and bytes read, over those of float64", timed=False)
    unsolved = table[table.status != "CONVERGED"]
    solved = table[~table["matrix"].isin(unsolved["matrix"])]
    means = [
        {
            "right-hand side": rhs,
            "vectors": vectors,
            "matrices": len(part),
            ITERATIONS: geometric(part["over float64"])["mean"],
            "largest": part["over float64"].max(),
            BYTES: geometric(part["bytes over float64"])["mean"],
        }
        for (rhs, vectors), part in solved.groupby(["right-hand side", "vectors"], sort=False)
    ]
    caption = (
        f"{what}: geometric means over the matrices that all formats solve{_unsolved(table)}; two formats in turn are "
        "not fused, and read each entry of the matrix where one format reads patterns of rows"
    )
    out.table(pd.DataFrame(means), suffix="_means", caption=caption, timed=False)
    drawn = solved[solved.vectors != "fp64"]
    count = drawn["matrix"].nunique()
    out.figure(
        _figure(drawn, out),
        caption=f"{what}: geometric means over the {count} matrices that all formats solve{_unsolved(table)}, filled "
        "for right-hand sides of ones, hollow for random ones; small dots are the matrices, those of ones above their "
        f"mean; lines: 95 % bootstrap intervals{UNSEEN}. Colour: the fewest bits of a vector's value. Two formats in "
        "turn are not fused, so they read more bytes",
        timed=False,
    )


def _unsolved(table):
    """Return on which matrices how many formats do not converge, as a text in brackets; empty if there are none."""
    missed = table[table.status != "CONVERGED"].groupby("matrix", sort=False).vectors.nunique()
    formats = table.vectors.nunique()
    names = [
        f"{shortened(name)}, which {'none' if count == formats else f'{formats - count} of {formats}'} solves"
        for name, count in missed.items()
    ]
    return f" (left out: {some(names)})" if names else ""


def _figure(drawn, out):
    """Draw a panel for iterations and one for bytes, with a row for each way of storing the vectors."""
    names = list(dict.fromkeys(drawn.vectors))
    drawn = drawn.assign(
        name=drawn.vectors, bits=drawn.vectors.map(_fewest_bits), **{"held out": drawn["right-hand side"] == "random"}
    )
    height = panels.rows_height(names, 0.3, 0.8)
    figure, axes = panels.grid(out.width, len(DRAWN), height, columns=(1, 2), sharey=True)
    for panel, (column, label) in zip(axes, DRAWN.items(), strict=True):
        mean_rows(panel, drawn, names, column)
        panel.set_xlabel(label)
    panels.legend(figure, panels.key(drawn.bits, lines=looks_of_means("ones", "random")))
    return figure


def _fewest_bits(vectors):
    """Return the fewest bits of the formats in a name such as ``fp32 then bfp16``."""
    return min(int(digits) for digits in re.findall(r"\d+\b", vectors))
