"""Findings about a system whose solve has not converged: sentences for `cpms.Solution.reason`, beside the status.

They cost a few passes over the matrix, and are looked for only where a solve has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cpms.api.linear.solution import Answer
from cpms.base.types import Floats
from cpms.contracts.linear_solve import LinearStep, SolveStatus
from cpms.problems.linear_system import LinearSystem

_CANCELS = 1e-13
"""Largest sum of a row, over the sum of its sizes, that is taken for a rounded 0."""
_SPREAD = 1e6
"""Ratio of the largest entries of two rows from which on scaling is advised."""
_FEWEST = 50
"""Iterations from which on their residuals say whether more would help."""


def findings(system: LinearSystem, b: Floats, answer: Answer, steps: Sequence[LinearStep]) -> Iterator[str]:
    """Yield what the matrix, the right-hand side and the residuals say about a solve that has not converged.

    Parameters
    ----------
    system : LinearSystem
    b : ndarray of float64, shape (n,)
    answer : Answer
    steps : sequence of LinearStep

    Examples
    --------
    >>> from cpms.certify.linear_system import certificate
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[1.0, -1.0], [-1.0, 1.0]]))
    >>> b, x = np.ones(2), np.zeros(2)
    >>> list(findings(system, b, Answer(x, SolveStatus.STAGNATED, certificate(system, b, x)), []))
    ['each row of A sums to 0, so A is singular; as A is symmetric, b must sum to 0, and sums to 2']
    """
    if answer.status is SolveStatus.CONVERGED:
        return
    values, held = system.matrix.given_values(), np.bincount(system.matrix.indices, minlength=system.size)
    largest = _of_rows(np.maximum, np.abs(values), system)
    if not largest.all():
        row = int(np.flatnonzero(largest == 0.0)[0])
        unsolvable = ", and no x solves this equation" if b[row] != 0.0 else ""
        yield f"row {row} of A is 0, so A is singular{unsolvable}"
    elif not held.all():
        yield f"column {int(np.flatnonzero(held == 0)[0])} of A is 0, so A is singular"
    elif (np.abs(_of_rows(np.add, values, system)) <= _CANCELS * _of_rows(np.add, np.abs(values), system)).all():
        total = float(b.sum())
        inside = abs(total) <= _CANCELS * float(np.abs(b).sum())
        lacking = f"; as A is symmetric, b must sum to 0, and sums to {total:.3g}"
        yield "each row of A sums to 0, so A is singular" + (lacking if system.is_symmetric and not inside else "")
    if largest.all() and largest.max() / largest.min() >= _SPREAD:
        remedy = "preconditioner='jacobi' scales them" if system.is_symmetric else "divide rows of A and b by them"
        yield f"the largest entries of rows differ by a factor of {largest.max() / largest.min():.1e}: {remedy}"
    if answer.status is SolveStatus.MAX_ITERATIONS and (why := _hopeless(answer, [step.residual for step in steps])):
        yield f"{why}: more iterations would hardly help"


def _hopeless(answer: Answer, residuals: Sequence[float]) -> str:
    """Return why more iterations would hardly help; empty if they might."""
    if answer.certificate.relative > 1.0:
        return "the residual is larger than that of x = 0"
    half = len(residuals) // 2
    if len(residuals) < _FEWEST or min(residuals[half:]) < min(residuals[:half]) / 2:
        return ""
    return f"the residual did not halve in the last {len(residuals) - half} iterations"


def _of_rows(operation: np.ufunc, values: Floats, system: LinearSystem) -> Floats:
    """Return the sums, or the largest, of the values of each row; 0 of a row without entries."""
    found, starts = np.zeros(system.size), system.matrix.indptr
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        found[filled] = operation.reduceat(values, starts[filled])
    return found
