"""Conjugate gradients on a GPU: time to the same certified residual, beside cuSPARSE with cuBLAS, and CuPy."""

from cpms.experiment.report.solve_tables import means, times

NEEDS = ["gpu_cg_time"]
TUNED = 4
"""Matrices of the configuration before those held out."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = times(rows, {"cuSPARSE": 0, "own float64": 2, "lossless float64": 3})
    out.table(table, caption="Conjugate gradients on a GPU: time to the same certified residual")
    out.table(means(table, TUNED), suffix="_means", caption="Times faster, geometric means over the matrices")
