"""Mixed-precision iterative refinement of linear systems: any inner solver in few bits, residuals in float64.

The method is Wilkinson's refinement with an iterative inner solver (Higham and Mary, "Mixed precision algorithms in
numerical linear algebra", Acta Numerica 31, 2022, section 5). An outer step computes r = b - A x in float64, solves A c
= r in few bits until its residual is reduced by a modest factor, and adds c to x. The inner precision decides the
number of outer steps, and not the accuracy of the answer. An outer step costs one product in float64 besides the inner
solve. Jacobi's and Chebyshev's methods use the same outer iteration, with sweeps of their own inside
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
"""Reduction of the residual that an inner solve aims at, by the bits of vectors; for others `_WIDE_REDUCTION`."""
_WIDE_REDUCTION = 1e-6
_SMALLER = 0.95
"""Residual after an outer step, over the one before it, above which the solve ends."""

Correction = Callable[[SolveTask, Any, float], SolveStatus | None]
"""An inner solver: it improves c, which is 0 at first, for A c = b, given the task of A and b, c, and the norm of b.

It returns None if c is useless. Otherwise it returns the status with which the whole solve ends if c does not reduce
the residual. CONVERGED then stands for STAGNATED or DIVERGED, as the residual says.
"""


def refine(task: SolveTask, x: Any, *, inner: Method) -> SolveStatus:
    """Improve x by corrections of another method, which reads both matrix and vectors in few bits.

    Parameters
    ----------
    task : SolveTask
    x : vector of float64
        The start, and the answer.
    inner : callable
        A method such as `cpms.solvers.linear.cg.cg`. It gets the stored matrix in place of the exact one, also for its
        own residuals.
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
    """The outer recorder as an inner method sees it: residuals that the inner method recomputes are not recorded.

    They are residuals of the stored matrix for a correction, and not b - A x of the system.
    """

    def __init__(self, outer: Recorder) -> None:  # Shares what it records with another recorder.
        self.__dict__ = outer.__dict__

    def correct(self, residual: float) -> None:
        """Keep the recorded residual."""
