"""Parts of calls that solve linear systems on a GPU which `linear` does not count, since it compares solvers alone."""

import pandas as pd

from cpms.experiment.pages.numbers import spread
from cpms.experiment.report.solve_tables import times

_EXPERIMENTS = {
    "cg_time": "conjugate gradients",
    "cg_preconditioned": "preconditioned conjugate gradients",
    "gmres_time": "GMRES(100)",
}
_CONTESTANTS = {
    "cusparse": ("cuSPARSE and cuBLAS", "cusparse"),
    "cupy": ("CuPy", "cupy"),
    "ours": ("ours", "cuda(?!.*block_jacobi)"),
    "block": ("ours with block Jacobi", "cuda.*block_jacobi"),
}
"""Contestants in words, and what matches the names of their ways."""


def rests(rows):
    """Yield how long preparing, copies and certificate take, over the time of the solver alone, by contestant."""
    for name, method in _EXPERIMENTS.items():
        cells = rows.measured(f"gpu_{name}")
        if not cells:
            raise LookupError(f"gpu_{name}")
        table = times(pd.DataFrame(cells), {})
        table = table[table.status == "CONVERGED"]
        for key, (called, pattern) in _CONTESTANTS.items():
            found = table[table.way.str.match(pattern)]
            if len(found):
                what = f"{method}, {called}: preparing, copies and certificate over the solver's time"
                what = f"{what}, {len(found)} solves"
                shares = [*(found["rest ms"] / found.ms)]
                yield spread(f"rest.{name}.{key}", what, "times", shares, cells, f"gpu_{name}")


NUMBERS = [rests]
