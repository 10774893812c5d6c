"""Power iteration for the eigenvalue of largest size and its eigenvector, in few bits first.

The iterate is stored in the task's formats from the fewest bits to the most, each as long as the residual
||A x - lambda x|| of the Rayleigh quotient falls. An iteration costs one product. The method converges like the ratio
of the second eigenvalue's size to the first's, and not at all where the two are equal, as for a complex pair.
"""

from __future__ import annotations

import math
from typing import Any

from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of, in_format, norm
from cpms.formats.codes import VectorFormat

_PATIENCE = 50
"""Iterations without a smaller residual, after which more bits are read."""


def power_iteration(task: SolveTask, x: Any, *, tol: float) -> tuple[SolveStatus, float]:
    """Improve x, of norm 1, until ||A x - lambda x|| is at most ``tol`` |lambda|; return lambda, too.

    Parameters
    ----------
    task : SolveTask
        Its ``b`` and ``goal`` are not used.
    x : vector of float64
        The start, and the eigenvector.
    tol : float
        Of a residual that float64 products find.
    """
    ladder: list[tuple[LinearOperator, int | None, VectorFormat | None]]
    ladder = [(task.stored, task.read, each) for each in task.formats if each is not None]
    ladder.append((task.exact, None, None))
    y = task.exact.empty((task.size,), "float64")
    value = 0.0
    for operator, read, storage in ladder:
        best, since = math.inf, 0
        while task.recorder.left > 0:
            given = in_format(operator, x, storage)
            operator.apply(given, y, read_matrix=read)
            product, square = (float(operator.dots([given], each).tolist()[0]) for each in (y, x))
            value = product / square if square > 0.0 else math.nan
            size = norm(operator, y)
            if not math.isfinite(size) or not math.isfinite(value):
                if storage is not None:  # More bits may hold what this format made infinite, or 0.
                    break
                return SolveStatus.OVERFLOW, value
            if size == 0.0:  # x is an eigenvector of 0, and of nothing else as far as float64 sees.
                return (SolveStatus.CONVERGED if operator is task.exact else SolveStatus.BREAKDOWN), 0.0
            x[...] = y
            residual = operator.update_and_norm(y, -value, given)
            task.recorder.add(
                residual, bits_of(storage), operator.bytes_read(read) + 32 * task.size, exact=storage is None
            )
            if storage is None and residual <= tol * abs(value):
                x[...] = given
                return SolveStatus.CONVERGED, value
            operator.scale(x, 1.0 / size)
            best, since = (residual, 0) if residual < 0.9 * best else (best, since + 1)
            coarse = storage is not None and residual <= 2.0 ** -min(bits_of(storage) // 2, 40) * abs(value)
            if coarse or (storage is not None and since >= _PATIENCE):
                break
    return SolveStatus.MAX_ITERATIONS, value
