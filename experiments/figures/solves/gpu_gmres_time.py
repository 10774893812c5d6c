"""GMRES(100) on a GPU by the format of its basis: time to the same certified residual, and CuPy's."""

from cpms.experiment.report.solve_tables import means, show_ways, times
from cpms.experiment.rows.products import HELD_OUT

NEEDS = ["gpu_gmres_time"]
NAMES = {
    "cupy gmres": "CuPy",
    "cuda gmres bfp32": "ours, basis in 32 bits",
    "cuda gmres bytes": "ours, basis by bytes",
    "cuda gmres blocks": "ours, basis in blocks",
}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = times(rows, {"own float64": 0, "float32 basis": 3})
    out.table(table, caption="GMRES on a GPU: time to the same certified residual")
    out.table(
        means(table, HELD_OUT["gpu_gmres_time"]),
        suffix="_means",
        caption="Times faster, geometric means over the matrices",
    )
    caption = "GMRES(100) by the format of its basis, and CuPy's GMRES, against ours with a basis in float64"
    shared = {"over": "own float64", "called": "our float64 basis", "names": NAMES, "caption": caption}
    show_ways(table, out, held_out=HELD_OUT["gpu_gmres_time"], **shared)
