"""Sweeps as the inner solver of iterative refinement: the common part of Jacobi's and Chebyshev's methods.

Both compute a step from the last step and the residual alone, with two coefficients and without inner products
(`cpms.contracts.sweeps`). A step is stored in few bits, and a recurrence updates the residual of the correction. A
sweep costs one product with the stored matrix, and passes over four vectors of float64 and one stored vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from cpms.base.errors import InputError
from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of, in_format, vector_bytes
from cpms.contracts.sweeps import Coefficients, Sweeps
from cpms.solvers.linear.refine import outer_iteration

_GROWTH = 1e4
"""Growth of the residual in the sweeps of an outer step, above which they diverge."""
_UNCHANGED = 100
"""Consecutive sweeps without a new least or largest residual, after which an outer step in few bits ends.

Steps then may round to 0.
"""
_WINDOW = 2000
"""Most sweeps of an outer step."""


def stationary(
    task: SolveTask, x: Any, inverse_diagonal: Any, coefficients: Callable[[SolveTask], Iterator[Coefficients]]
) -> SolveStatus:
    """Improve x by iterative refinement whose corrections are computed by sweeps.

    Parameters
    ----------
    task : SolveTask
    x : vector of float64
        The start, and the answer.
    inverse_diagonal : vector of float64
        1 over the diagonal of the matrix.
    coefficients : callable
        Returns the coefficients of the sweeps of an outer step, given its task.
    """

    def correct(inner: SolveTask, c: Any, size: float) -> SolveStatus | None:
        storage, recorder = inner.formats[0], inner.recorder
        pairs = islice(coefficients(inner), min(_WINDOW, recorder.left))
        sweeps, last, least, largest, unchanged = sweeps_of(inner, inverse_diagonal, inner.b, c), size, size, size, 0
        while some := list(islice(pairs, sweeps.together)):
            for found in sweeps.run(some, inner.goal, _GROWTH * size):
                recorder.add(found, bits_of(storage), sweeps.bytes_read)
                if not found <= _GROWTH * size:
                    return None
                last, unchanged = found, unchanged + 1 if least <= found <= largest else 0
                # A residual may rise for many sweeps before it falls.
                least, largest = (found, found) if found > largest else (min(least, found), largest)
            if last <= inner.goal or (unchanged >= _UNCHANGED and storage is not None):
                break
        return SolveStatus.CONVERGED

    return outer_iteration(task, x, correct)


def sweeps_of(task: SolveTask, inverse_diagonal: Any, r: Any, c: Any) -> Sweeps:
    """Return sweeps that update c and its residual r, vectors of float64; fused ones if the backend has them."""
    return task.stored.sweeps(task, inverse_diagonal, r, c) or VectorSweeps(task, inverse_diagonal, r, c)


class VectorSweeps(Sweeps):
    """Sweeps by separate operations of `LinearOperator`, for backends and formats without fused sweeps."""

    together = 1

    def __init__(self, task: SolveTask, inverse_diagonal: Any, r: Any, c: Any) -> None:
        self._task, self._inverse, self._r, self._c = task, inverse_diagonal, r, c
        self._q = task.stored.empty((task.size,), "float64")
        self._step: Any = None
        of_vectors = 4 * 8 * task.size + vector_bytes(task.formats[0], task.size)
        self.bytes_read = task.stored.bytes_read(task.read) + of_vectors

    def run(self, coefficients: Sequence[Coefficients], target: float, limit: float) -> list[float]:
        """Sweep once for each pair of coefficients, until the residual is at most ``target`` or not below ``limit``.

        The list ends with inf if the format refuses a step.
        """
        operator, sizes = self._task.stored, list[float]()
        for keep, turn in coefficients:
            step = self._inverse * self._r
            if turn != 1.0:  # It is 1 in all sweeps of Jacobi's method.
                step *= turn
            if keep:
                step = keep * operator.convert(self._step, None) + step
            try:
                self._step = in_format(operator, step, self._task.formats[0])
            except InputError:  # A format without infinities refuses them.
                return [*sizes, math.inf]
            operator.combine([self._step], [1.0], self._c)
            operator.apply(self._step, self._q, read_matrix=self._task.read)
            sizes.append(operator.update_and_norm(self._r, -1.0, self._q))
            if not target < sizes[-1] < limit:
                break
        return sizes
