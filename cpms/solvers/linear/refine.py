"""Mixed-precision iterative refinement of linear systems: any inner solver in few bits, residuals in float64.

Wilkinson's refinement with an iterative inner solver (Higham and Mary, "Mixed precision algorithms in numerical linear
algebra", Acta Numerica 31, 2022, section 5): r = b - A x in float64, A c = r to a modest reduction in few bits, and
x += c. The inner precision decides how many outer steps there are, and nothing about the answer. An outer step costs
one product in float64. Jacobi's and Chebyshev's methods are this outer iteration, too
(`cpms.solvers.linear.stationary`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask, bits_of
from cpms.solvers.linear.widening import Method, widened

_REDUCTION = {16: 1e-2, 32: 1e-4}
"""Of the residual by inner iterations, by the bits of vectors; of more bits, `_WIDE_REDUCTION`."""
_WIDE_REDUCTION = 1e-6
_SMALLER = 0.95
"""What an outer step at least makes of the residual."""

Correction = Callable[[SolveTask, Any, float], SolveStatus | None]
"""Improves c, which is 0, for A c = b of a task; the number is the norm of b. It returns None where c is of no use,
else how a solve ends whose residual does not fall by c; CONVERGED leaves that to the residual."""


def refine(task: SolveTask, x: Any, *, inner: Method) -> SolveStatus:
    """Improve x by corrections that another method finds in few bits, of the matrix as well as of vectors.

    Parameters
    ----------
    task : SolveTask
    x : vector of float64
    inner : callable
        A method such as `cpms.solvers.linear.cg.cg`; it sees the stored matrix alone, also for its residuals.
    """

    def correct(given: SolveTask, c: Any, _: float) -> SolveStatus:
        status = inner(replace(given, exact=given.stored, recorder=_Inner(given.recorder)), c)
        return SolveStatus.STAGNATED if status in (SolveStatus.CONVERGED, SolveStatus.MAX_ITERATIONS) else status

    return outer_iteration(task, x, correct)


def outer_iteration(task: SolveTask, x: Any, correct: Correction) -> SolveStatus:
    """Improve x by outer steps, in each format of the task in turn."""
    return widened(lambda attempt, start: _in_one_format(attempt, start, correct), task, x)


def _in_one_format(task: SolveTask, x: Any, correct: Correction) -> SolveStatus:
    recorder = task.recorder
    reduction = _REDUCTION.get(bits_of(task.formats[0]), _WIDE_REDUCTION)
    r, size = task.residual(x)
    while size > task.goal:
        if not math.isfinite(size):
            return SolveStatus.OVERFLOW
        if recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        c, before = task.zeros(), size
        status = correct(replace(task, b=r, goal=max(reduction * size, 0.5 * task.goal)), c, size)
        if status is None:
            return SolveStatus.DIVERGED
        task.exact.combine([c], [1.0], x)
        r, size = task.residual(x)
        recorder.correct(size)
        if size > task.goal and not size <= _SMALLER * before:
            if status is SolveStatus.CONVERGED:
                status = SolveStatus.STAGNATED if size <= 2.0 * before else SolveStatus.DIVERGED
            is_cut_short = status is SolveStatus.STAGNATED and recorder.left <= 0
            return SolveStatus.MAX_ITERATIONS if is_cut_short else status
    return SolveStatus.CONVERGED


class _Inner(Recorder):
    """Passes iterations on to the outer recorder, whose last residual stays a recurrence's for an inner method."""

    def __init__(self, outer: Recorder) -> None:  # Shares what it records with another recorder.
        self.__dict__ = outer.__dict__

    def correct(self, residual: float) -> None:
        """Leave the last residual: it is of the stored matrix."""
