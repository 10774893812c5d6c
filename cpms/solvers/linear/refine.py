"""Mixed-precision iterative refinement of linear systems: any inner solver in few bits, residuals in float64.

Wilkinson's refinement with an iterative inner solver (Higham and Mary, "Mixed precision algorithms in numerical linear
algebra", Acta Numerica 31, 2022, section 5): r = b - A x in float64, A c = r to a modest reduction in few bits, and
x += c. The inner precision decides how many outer steps there are, and nothing about the answer. Jacobi's and
Chebyshev's methods are this loop around their sweeps; an outer step costs one product in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask, bits_of, vector_bytes
from cpms.solvers.linear.stationary import Spectrum, chebyshev_corrections, jacobi_corrections, spectrum
from cpms.solvers.linear.widening import Method, widened

_REDUCTION = {16: 1e-2, 32: 1e-4}
"""Of the residual by inner iterations, by the bits of vectors; of more bits, `_WIDE_REDUCTION`."""
_WIDE_REDUCTION = 1e-6
_GROWTH = 1e4
"""By which a residual may grow in inner iterations before they count as divergent."""
_SMALLER = 0.95
"""What an outer step at least makes of the residual."""
_UNCHANGED = 100
"""Inner iterations in few bits that may leave a residual as it was, as where all steps round to 0."""
_WINDOW = 2000
"""Inner iterations of an outer step, at most."""

Corrections = Callable[[SolveTask, Any, Any], Iterator[float]]


def jacobi(task: SolveTask, x: Any, *, inverse_diagonal: Any) -> SolveStatus:
    """Improve x by Jacobi's method; it converges for strictly diagonally dominant matrices."""
    return _stationary(task, x, lambda inner, r, c: jacobi_corrections(inner, inverse_diagonal, r, c))


def chebyshev(task: SolveTask, x: Any, *, inverse_diagonal: Any, interval: Spectrum | None = None) -> SolveStatus:
    """Improve x by Chebyshev's method, for a positive definite matrix, or for eigenvalues in an interval.

    An interval that is estimated may end above the least eigenvalue; slow convergence lowers it.
    """
    found = interval or spectrum(task, inverse_diagonal)
    if found is None:
        return SolveStatus.INDEFINITE
    held = [found]

    def corrections(inner: SolveTask, r: Any, c: Any) -> Iterator[float]:
        if interval is None and inner.recorder.steps:
            held[0] = Spectrum(held[0].least / 2.0, held[0].most)
        return chebyshev_corrections(inner, inverse_diagonal, held[0], r, c)

    return _stationary(task, x, corrections)


def _stationary(task: SolveTask, x: Any, corrections: Corrections) -> SolveStatus:
    return widened(lambda attempt, start: _outer(attempt, start, corrections), task, x)


def _outer(task: SolveTask, x: Any, corrections: Corrections) -> SolveStatus:
    recorder, bits = task.recorder, bits_of(task.formats[0])
    reduction = _REDUCTION.get(bits, _WIDE_REDUCTION)
    bytes_read = task.stored.bytes_read(task.read) + 4 * 8 * task.size + vector_bytes(task.formats[0], task.size)
    r, size = task.residual(x)
    while size > task.goal:
        if not math.isfinite(size):
            return SolveStatus.OVERFLOW
        if recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        c, before = task.zeros(), size
        target = max(reduction * size, 0.5 * task.goal)
        last, unchanged = before, 0
        for done, inner in enumerate(corrections(task, r, c), start=1):
            recorder.add(inner, bits, bytes_read)
            if not inner <= _GROWTH * before:
                return SolveStatus.DIVERGED
            last, unchanged = inner, unchanged + 1 if inner == last else 0
            too_narrow = unchanged >= _UNCHANGED and task.formats[0] is not None
            if inner <= target or recorder.left <= 0 or done >= _WINDOW or too_narrow:
                break
        task.exact.combine([c], [1.0], x)
        r, size = task.residual(x)
        recorder.correct(size)
        if size > task.goal and not size <= _SMALLER * before:
            return SolveStatus.STAGNATED if size <= 2.0 * before else SolveStatus.DIVERGED
    return SolveStatus.CONVERGED


def refine(task: SolveTask, x: Any, *, inner: Method) -> SolveStatus:
    """Improve x by corrections that another method finds in few bits, of the matrix as well as of vectors.

    Parameters
    ----------
    task : SolveTask
    x : vector of float64
    inner : callable
        A method such as `cpms.solvers.linear.cg.cg`; it sees the stored matrix alone, also for its residuals.
    """
    return widened(lambda attempt, start: _refined(attempt, start, inner), task, x)


def _refined(task: SolveTask, x: Any, inner: Method) -> SolveStatus:
    recorder = task.recorder
    reduction = _REDUCTION.get(bits_of(task.formats[0]), _WIDE_REDUCTION)
    r, size = task.residual(x)
    while size > task.goal:
        if not math.isfinite(size):
            return SolveStatus.OVERFLOW
        if recorder.left <= 0:
            return SolveStatus.MAX_ITERATIONS
        c, before = task.zeros(), size
        goal = max(reduction * size, 0.5 * task.goal)
        status = inner(replace(task, exact=task.stored, b=r, goal=goal, recorder=_Inner(recorder)), c)
        task.exact.combine([c], [1.0], x)
        r, size = task.residual(x)
        recorder.correct(size)
        if size > task.goal and not size <= _SMALLER * before:
            failed = status not in (SolveStatus.CONVERGED, SolveStatus.MAX_ITERATIONS)
            return status if failed else SolveStatus.STAGNATED
    return SolveStatus.CONVERGED


class _Inner(Recorder):
    """Passes iterations on to the outer recorder, whose last residual stays a recurrence's for an inner method."""

    def __init__(self, outer: Recorder) -> None:  # Shares what it records with another recorder.
        self.__dict__ = outer.__dict__

    def correct(self, residual: float) -> None:
        """Leave the last residual: it is of the stored matrix."""
