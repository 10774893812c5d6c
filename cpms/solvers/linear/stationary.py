"""Iterations without inner products, for the corrections of a residual-form outer loop: Jacobi's and Chebyshev's.

Both solve A c = r to a given reduction with vectors in few bits, and keep the residual of c by recurrence. Chebyshev's
polynomial (Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, algorithm 12.1) is optimal for eigenvalues
in an interval, which `spectrum` estimates by Lanczos' method where it is not given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cpms.contracts.linear_solve import SolveTask, in_format

_LANCZOS_STEPS = 24
_ABOVE, _BELOW = 1.05, 0.9
"""What estimates of the largest and smallest eigenvalue are multiplied by."""


class Spectrum(NamedTuple):
    """An interval of the eigenvalues of D^-1 A, D the diagonal of A."""

    least: float
    most: float


def jacobi_corrections(task: SolveTask, inverse_diagonal: Any, r: Any, c: Any) -> Iterator[float]:
    """Yield the residual's norm after each sweep c += D^-1 r, r -= A D^-1 r; D^-1 r is stored in the task's format.

    Parameters
    ----------
    task : SolveTask
        Of one format.
    inverse_diagonal : vector of float64
    r, c : vectors of float64
        Both are updated.
    """
    operator = task.stored
    q = operator.empty((task.size,), "float64")
    while True:
        step = in_format(operator, inverse_diagonal * r, task.formats[0])
        operator.combine([step], [1.0], c)
        operator.apply(step, q, read_matrix=task.read)
        yield operator.update_and_norm(r, -1.0, q)


def chebyshev_corrections(
    task: SolveTask, inverse_diagonal: Any, spectrum: Spectrum, r: Any, c: Any
) -> Iterator[float]:
    """Yield the residual's norm after each iteration of Chebyshev's method, preconditioned by the diagonal."""
    operator = task.stored
    middle, half = (spectrum.most + spectrum.least) / 2.0, (spectrum.most - spectrum.least) / 2.0
    sigma = middle / half
    rho = 1.0 / sigma
    q = operator.empty((task.size,), "float64")
    step = inverse_diagonal * r * (1.0 / middle)
    while True:
        stored = in_format(operator, step, task.formats[0])
        operator.combine([stored], [1.0], c)
        operator.apply(stored, q, read_matrix=task.read)
        size = operator.update_and_norm(r, -1.0, q)
        yield size
        following = 1.0 / (2.0 * sigma - rho)
        step = following * rho * operator.convert(stored, None) + (2.0 * following / half) * inverse_diagonal * r
        rho = following


def spectrum(task: SolveTask, inverse_diagonal: Any) -> Spectrum | None:
    """Estimate the eigenvalues of D^-1 A by Lanczos' method; None if they are not all positive, as far as it sees.

    D^-1 A is symmetric in the inner product of D, where Lanczos' recurrence runs.
    """
    operator = task.exact
    random = np.random.default_rng(0).standard_normal(task.size)
    v = operator.upload(random)
    diagonal = 1.0 / inverse_diagonal
    before, beta = task.zeros(), 0.0
    square = float(operator.dots([v], diagonal * v).tolist()[0])
    if not 0.0 < square < math.inf:
        return None
    v = v * (1.0 / math.sqrt(square))
    w = operator.empty((task.size,), "float64")
    diagonals, beside = [], []
    for _ in range(min(_LANCZOS_STEPS, task.size)):
        operator.apply(v, w)
        task.recorder.other_bytes += operator.bytes_read()
        alpha = float(operator.dots([v], w).tolist()[0])
        u = inverse_diagonal * w - alpha * v - beta * before
        square = float(operator.dots([u], diagonal * u).tolist()[0])
        diagonals.append(alpha)
        if not square > 1e-24 * alpha * alpha or not math.isfinite(square):
            break
        beta = math.sqrt(square)
        beside.append(beta)
        before, v = v, u * (1.0 / beta)
    off = beside[: len(diagonals) - 1]
    tridiagonal = np.diag(diagonals) + np.diag(off, 1) + np.diag(off, -1)
    if not np.isfinite(tridiagonal).all():
        return None
    try:
        values = np.linalg.eigvalsh(tridiagonal)
    except np.linalg.LinAlgError:  # Of entries near the ends of float64's range.
        return None
    # A residual that Lanczos' last vector leaves bounds how far an eigenvalue may be beyond.
    return Spectrum(_BELOW * float(values[0]), _ABOVE * float(values[-1])) if values[0] > 0.0 else None
