"""Conjugate gradients by the bits of r and p: iterations over float64's, ones and random right-hand sides apart."""

import pandas as pd

from cpms.experiment.report.intervals import geometric

NEEDS = ["cg_bits"]


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
    what = "Conjugate gradients by the formats in which residual and direction are stored"
    out.table(table, caption=f"{what}; iterations, and bytes read, over those of float64", timed=False)
    unsolved = table[table.status != "CONVERGED"]
    solved = table[~table["matrix"].isin(unsolved["matrix"])]
    means = [
        {
            "right-hand side": rhs,
            "vectors": vectors,
            "matrices": len(part),
            "iterations over float64's": geometric(part["over float64"])["mean"],
            "largest": part["over float64"].max(),
            "bytes over float64's": geometric(part["bytes over float64"])["mean"],
        }
        for (rhs, vectors), part in solved.groupby(["right-hand side", "vectors"], sort=False)
    ]
    caption = (
        f"{what}: geometric means over the matrices that all formats solve; two formats in turn are not fused, and "
        "read each entry of the matrix where one format reads patterns of rows"
    )
    out.table(pd.DataFrame(means), suffix="_means", caption=caption, timed=False)
