"""Power iteration for the eigenvalue of largest absolute value and its eigenvector, in few bits first.

The iterate is stored in each of the task's formats in turn, and in float64 last (Saad, Numerical Methods for Large
Eigenvalue Problems, 2011, section 4.1). Lambda being the Rayleigh quotient, a format is left when ||A x - lambda x||
reaches about what its bits allow, or stops falling. An iteration costs one product. The error falls by the absolute
value of the second eigenvalue over that of the first. Where the two are equal, as for a complex pair, it does not fall.
"""

from __future__ import annotations

import math
from typing import Any

from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveStatus, SolveTask, bits_of, in_format, norm
from cpms.formats.codes import VectorFormat

_PATIENCE = 50
"""Iterations without a residual below 0.9 times the least one, after which the next format is used."""


def power_iteration(task: SolveTask, x: Any, *, tol: float) -> tuple[SolveStatus, float]:
    """Improve x, of norm 1, until ||A x - lambda x|| is at most ``tol`` |lambda|; return the status and lambda.

    Parameters
    ----------
    task : SolveTask
        Its ``b`` and ``goal`` are not used.
    x : vector of float64
        The start, and the eigenvector.
    tol : float
        Relative to |lambda|; the last residual is that of a product in float64.
    """
    attempts: list[tuple[LinearOperator, int | None, VectorFormat | None]]
    attempts = [(task.stored, task.read, each) for each in task.formats if each is not None]
    attempts.append((task.exact, None, None))
    y = task.exact.empty((task.size,), "float64")
    value = 0.0
    for operator, read, storage in attempts:
        best, since = math.inf, 0
        while task.recorder.left > 0:
            given = in_format(operator, x, storage)
            operator.apply(given, y, read_matrix=read)
            product, square = (float(operator.dots([given], each).tolist()[0]) for each in (y, x))
            value = product / square if square > 0.0 else math.nan
            size = norm(operator, y)
            if storage is not None and not (math.isfinite(value) and 0.0 < size < math.inf):
                break  # More bits may hold what this format made infinite, or 0.
            if not math.isfinite(size) or not math.isfinite(value):
                return SolveStatus.OVERFLOW, value
            if size == 0.0:  # x is an eigenvector of the eigenvalue 0.
                return SolveStatus.CONVERGED, 0.0
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
