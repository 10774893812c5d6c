"""Iterations without inner products as the inner solver of iterative refinement: Jacobi's and Chebyshev's.

Both correct x by steps that are found from the last one and the residual alone. A step is stored in few bits, and the
residual of the correction is kept by recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of, in_format, vector_bytes
from cpms.solvers.linear.refine import outer_iteration

_GROWTH = 1e4
"""By which a residual may grow in inner iterations before they count as divergent."""
_UNCHANGED = 100
"""Inner iterations in few bits that may leave a residual as it was, as where all steps round to 0."""
_WINDOW = 2000
"""Inner iterations of an outer step, at most."""

Corrections = Callable[[SolveTask, Any, Any], Iterator[float]]
"""Yields the norm of r after each iteration; r and the correction c, vectors of float64, are updated."""


def stationary(task: SolveTask, x: Any, corrections: Corrections) -> SolveStatus:
    """Improve x by outer steps with such inner iterations."""

    def correct(inner: SolveTask, c: Any, size: float) -> SolveStatus | None:
        storage, recorder = inner.formats[0], inner.recorder
        bits = bits_of(storage)
        bytes_read = inner.stored.bytes_read(inner.read) + 4 * 8 * inner.size + vector_bytes(storage, inner.size)
        most, last, unchanged = min(_WINDOW, recorder.left), size, 0
        for found in islice(corrections(inner, inner.b, c), most):
            recorder.add(found, bits, bytes_read)
            if not found <= _GROWTH * size:
                return None
            last, unchanged = found, unchanged + 1 if found == last else 0
            if found <= inner.goal or (unchanged >= _UNCHANGED and storage is not None):
                break
        return SolveStatus.CONVERGED

    return outer_iteration(task, x, correct)


def add_step(task: SolveTask, step: Any, q: Any, r: Any, c: Any) -> tuple[Any, float]:
    """Do c += step and r -= A step, with the step as it is stored; return that, and the norm of r.

    Parameters
    ----------
    task : SolveTask
        Of one format.
    step, r, c : vectors of float64
    q : vector of float64
        Is overwritten.
    """
    operator = task.stored
    stored = in_format(operator, step, task.formats[0])
    operator.combine([stored], [1.0], c)
    operator.apply(stored, q, read_matrix=task.read)
    return stored, operator.update_and_norm(r, -1.0, q)
