"""Conjugate gradients on a GPU: time to the same certified residual, beside cuSPARSE with cuBLAS, and CuPy."""

from cpms.experiment.report.solve_tables import show_solves

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
    show_solves(
        rows,
        out,
        {"cuSPARSE": 0, "own float64": 2, "lossless float64": 3},
        title="Conjugate gradients on a GPU",
        called="cuSPARSE with cuBLAS",
        names=NAMES,
        caption="Conjugate gradients with vectors of so many bits against cuSPARSE with cuBLAS in float64",
        more=". Lossless: A in the fewest bits that hold it, as below, where diffusion is in float32",
    )
