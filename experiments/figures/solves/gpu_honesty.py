"""Honesty: answers called converged, and those of them whose residual is above the tolerance, by solver."""

from cpms.experiment.report.solve_tables import show_answers

NEEDS = ["gpu_honesty"]
show = show_answers
