"""Honesty: answers called converged, and those of them whose residual is above the tolerance, by solver."""

from cpms.experiment.report.solve_tables import answers

NEEDS = ["gpu_honesty"]


def show(rows, out):
    out.table(
        answers(rows[rows.status == "ok"]),
        caption="The same with CuPy's solvers on a GPU: answers called converged, and how many are not",
    )
