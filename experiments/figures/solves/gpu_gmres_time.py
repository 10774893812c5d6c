"""GMRES(100) on a GPU by the format of its basis: time to the same certified residual, and CuPy's."""

from cpms.experiment.report.solve_tables import show_solves

NEEDS = ["gpu_gmres_time"]
NAMES = {
    "cupy gmres": "CuPy",
    "cuda gmres bfp32": "ours, basis in 32 bits",
    "cuda gmres bytes": "ours, basis by bytes",
    "cuda gmres blocks": "ours, basis in blocks",
}


def show(rows, out):
    show_solves(
        rows,
        out,
        {"own float64": 0, "float32 basis": 3},
        title="GMRES on a GPU",
        called="our float64 basis",
        names=NAMES,
        caption="GMRES(100) by the format of its basis, and CuPy's, against ours in float64",
        more=". By bytes: as many of a value as residuals ask for; in blocks: of values that share exponents. "
        "Ours read A lossless in few bits, CuPy in float64; CuPy tests residuals each 100 iterations",
    )
