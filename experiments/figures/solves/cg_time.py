"""Conjugate gradients on a processor's threads: SciPy's time over ours, to the same certified residual."""

import pandas as pd

from cpms.experiment.report.intervals import geometric

NEEDS = ["cg_time", "cg_time_held"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    table = pd.DataFrame(lines)
    what = "Conjugate gradients to the same certified residual"
    out.table(table, caption=f"{what}: medians of whole calls, and times faster than SciPy's, whole and solver alone")
    ours = table[table.method != "scipy cg"]
    means = [
        {
            "vectors": vectors,
            "matrices": f"{len(part)} held out" if held else f"{len(part)}",
            "times faster, whole call": geometric(part["times faster, whole call"])["mean"],
            "least, whole call": part["times faster, whole call"].min(),
            "times faster, solver": geometric(part["times faster, solver"])["mean"],
            "least, solver": part["times faster, solver"].min(),
        }
        for (held, vectors), part in ours.groupby(["held out", "vectors"], sort=False)
    ]
    caption = f"{what}: times faster than SciPy's, geometric means over the matrices"
    out.table(pd.DataFrame(means), suffix="_means", caption=caption)


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        samples = way["whole_samples_s"]
        yield {
            "matrix": row.graph,
            "held out": row.experiment.endswith("_held"),
            "unknowns": row.rows,
            "method": way["used"],
            "storage": way["stored_as"],
            "vectors": "fp64" if way["engine"] == "scipy" else " ".join(way["vectors"]),
            "status": way["status"],
            "residual": way["residual"],
            "iterations": way["iterations"],
            "whole s": way["whole_s"],
            "least s": min(samples),
            "most s": max(samples),
            "times faster, whole call": first["whole_s"] / way["whole_s"],
            "times faster, solver": first["solve_s"] / way["solve_s"],
        }
