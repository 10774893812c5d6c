"""Conjugate gradients on a GPU: time to the same certified residual, beside cuSPARSE with cuBLAS, and CuPy."""

from cpms.experiment.report.solve_tables import means, show_ways, times
from cpms.experiment.rows.products import HELD_OUT

NEEDS = ["gpu_cg_time"]
NAMES = {
    "cupy cg": "CuPy",
    "cuda cg fp64, matrix fp64": "ours, 64 bits",
    "cuda cg fp64": "ours, 64 bits,\nlossless matrix",
    "cuda cg fp32": "ours, 32 bits",
    "cuda cg bfp16": "ours, 16-bit blocks",
    "cuda auto": "ours, auto",
}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = times(rows, {"cuSPARSE": 0, "own float64": 2, "lossless float64": 3})
    out.table(table, caption="Conjugate gradients on a GPU: time to the same certified residual")
    out.table(
        means(table, HELD_OUT["gpu_cg_time"]),
        suffix="_means",
        caption="Times faster, geometric means over the matrices",
    )
    caption = "Conjugate gradients with vectors of so many bits against cuSPARSE with cuBLAS in float64"
    more = ". Lossless: in the format of fewest bits that holds the matrix exactly, as in the rows below"
    shared = {"over": "cuSPARSE", "called": "cuSPARSE with cuBLAS", "names": NAMES, "caption": caption, "more": more}
    show_ways(table, out, held_out=HELD_OUT["gpu_cg_time"], **shared)
