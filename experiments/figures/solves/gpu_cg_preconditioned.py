"""Preconditioned conjugate gradients on a GPU: time to one certified residual, beside cuSPARSE and cuBLAS, and CuPy."""

from cpms.experiment.report.solve_tables import show_solves

NEEDS = ["gpu_cg_preconditioned"]
NAMES = {
    "cupy cg, jacobi": "CuPy",
    "cuda cg fp64, jacobi": "ours, 64 bits",
    "cuda cg fp32, jacobi": "ours, 32 bits",
    "cuda cg bfp16, jacobi": "ours, 16-bit blocks",
    "cuda cg fp32, block_jacobi": "ours, 32 bits,\nblock Jacobi",
}


def show(rows, out):
    show_solves(
        rows,
        out,
        {"cuSPARSE": 0, "own float64": 2},
        title="Preconditioned conjugate gradients on a GPU",
        called="cuSPARSE with cuBLAS",
        names=NAMES,
        caption="Conjugate gradients with Jacobi's preconditioner, where no other is named, against cuSPARSE with "
        "cuBLAS in float64",
    )
