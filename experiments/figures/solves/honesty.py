"""Honesty: answers called converged, and those of them whose residual is above the tolerance, by solver."""

from cpms.experiment.report.solve_tables import answers

NEEDS = ["honesty"]


def show(rows, out):
    out.table(
        answers(rows[rows.status == "ok"]),
        caption="Answers called converged, and how many of them are not; worst residual over tolerance",
    )
