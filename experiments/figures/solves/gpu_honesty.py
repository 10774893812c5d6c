"""Honesty: answers called converged, and those of them whose residual is above the tolerance, by solver."""

from cpms.experiment.report.solve_tables import ANSWERS, answers

NEEDS = ["gpu_honesty"]


def show(rows, out):
    out.table(answers(rows[rows.status == "ok"]), caption=ANSWERS, timed=False)
