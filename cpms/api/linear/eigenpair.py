"""`cpms.dominant_eigenpair`: the eigenvalue of largest size by power iteration, with a certified residual."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from cpms.api import product_engines
from cpms.api.given_matrix import given_matrix
from cpms.api.linear.arguments import positive, step_function, vector
from cpms.api.linear.choice import chosen
from cpms.api.linear.prepared_system import PreparedSystem, widened
from cpms.api.linear.solution import Eigenpair
from cpms.api.linear.solver import OnStep
from cpms.api.matrix import StoredMatrix
from cpms.base import threads, work_clock
from cpms.base.text.keywords import checked_keywords
from cpms.base.types import Floats
from cpms.base.validation import at_least
from cpms.certify import linear_system as certify
from cpms.certify.roundoff import UNIT
from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.power_iteration import power_iteration
from cpms.sparse.matrix import Matrix

_MOST_EXPONENT, _LARGEST_SHIFT = 400, 1000
"""Exponent of the largest entry up to which a matrix is used as it is, and the largest power of two by which it is
divided."""
_FAR = 2.0**-40
"""Of a 2-norm from 1: more than rounding."""


@checked_keywords
def dominant_eigenpair(
    A: Any,
    *,
    tol: float = 1e-10,
    storage: Any = "auto",
    vectors: Any = "auto",
    engine: str = "auto",
    layout: str = "auto",
    x0: Any | None = None,
    max_iterations: int = 10_000,
    on_step: OnStep | None = None,
) -> Eigenpair:
    """Return the eigenvalue of largest size of a square matrix, and its eigenvector, in few bits first.

    Parameters
    ----------
    A : matrix, shape (n, n)
        What `cpms.matrix` takes.
    tol : float
        The certified ||A x - lambda x||_2 is to be at most ``tol`` |lambda| ||x||_2.
    storage, vectors, engine, layout
        As in `cpms.Solver`.
    x0 : array_like, shape (n,), optional
        The start; random by default, the same in each call.
    max_iterations : int
        At most so many, at any precision.
    on_step : callable, optional
        Called with a `cpms.LinearStep` after each iteration.

    Returns
    -------
    Eigenpair

    Raises
    ------
    InputError
        As `cpms.solve`.

    Notes
    -----
    Power iteration with Rayleigh quotients (Saad, Numerical Methods for Large Eigenvalue Problems, 2011, section 4.1).
    The error falls by the size of the second eigenvalue over that of the first in each iteration; where both have the
    same size, as of a complex pair, it does not fall.

    Examples
    --------
    >>> import cpms
    >>> found = cpms.dominant_eigenpair([[2.0, 1.0], [1.0, 2.0]])
    >>> found.converged, round(found.value, 9)
    (True, 3.0)
    """
    given, exponent = _centred(A.source if isinstance(A, StoredMatrix) else given_matrix(A, None))
    system = LinearSystem(given)
    name = product_engines.chosen(engine)
    asked = positive("tol", tol)
    choice = widened(system, chosen(system, "jacobi", storage, vectors, name, layout))
    prepared = PreparedSystem.of(system, choice, name, None)
    exact = prepared.exact
    start = np.random.default_rng(0).standard_normal(system.size) if x0 is None else vector("x0", x0, system.size)
    start = np.ldexp(start, -math.frexp(float(np.abs(start).max()))[1])
    size = certify.norm(start)
    x = exact.upload(start / size if size > 0.0 else np.full(system.size, system.size**-0.5))
    most = at_least(0, "max_iterations", max_iterations)
    recorder = Recorder(most, 2.0**-exponent, step_function(on_step), work_clock.now)
    task = SolveTask(exact, prepared.stored, None, 0.0, recorder, choice.vectors)
    with np.errstate(over="ignore", invalid="ignore"):
        status, value = power_iteration(task, x, tol=0.5 * asked)
        found = _unit(exact.to_host(x))
        value = float(np.ldexp(value, exponent))
        residual = _certified(system, float(np.ldexp(value, -exponent)), found)
    if residual <= asked:
        status = SolveStatus.CONVERGED
    elif status is SolveStatus.CONVERGED:
        status = SolveStatus.UNVERIFIED if math.isfinite(value) else SolveStatus.OVERFLOW
    return Eigenpair(value, found, status, residual, tuple(recorder.steps), name)


def _centred(matrix: Matrix) -> tuple[Matrix, int]:
    """Return a matrix over 2**e, and e: squares of entries that are far from 1 would overflow or vanish.

    Eigenvectors remain, and eigenvalues are divided by 2**e. It is 0 where the division would round an entry.

    Examples
    --------
    >>> matrix, exponent = _centred(Matrix.from_dense([[3.0 * 2.0**-800]]))
    >>> matrix.values.tolist(), exponent
    ([0.75], -798)
    """
    values = matrix.values
    exponent = 0 if values is None else math.frexp(threads.largest_size(values))[1]
    if values is None or abs(exponent) <= _MOST_EXPONENT:
        return matrix, 0
    exponent = max(-_LARGEST_SHIFT, min(_LARGEST_SHIFT, exponent))
    centred = np.ldexp(values, -exponent)
    is_exact = np.array_equal(np.ldexp(centred, exponent), values)
    return (replace(matrix, values=centred, shared=None), exponent) if is_exact else (matrix, 0)


def _unit(x: Floats) -> Floats:
    """Return a vector of 2-norm 1; iterations lose that where products lie below the normal numbers."""
    size = certify.norm(x)
    return x / size if 0.0 < size < math.inf and abs(size - 1.0) > _FAR else x


def _certified(system: LinearSystem, value: float, x: Floats) -> float:
    """Return an upper bound of ||A x - value x|| over |value| ||x||; of 0 over 0, 0."""
    if not math.isfinite(value) or not np.isfinite(x).all():
        return math.inf
    found = certify.certificate(system, value * x, x)
    size = certify.norm(x)
    if value == 0.0:
        return 0.0 if found.residual == 0.0 and _is_null_vector(system, x) else math.inf
    # The product value * x is rounded, row by row.
    bound = found.bound + 2.0 * UNIT * abs(value) * size
    return bound / (abs(value) * size) * (1.0 + 8.0 * UNIT) if size > 0.0 else math.inf


def _is_null_vector(system: LinearSystem, x: Floats) -> bool:
    """Return whether A x is exactly 0, by fractions: products may vanish below the range of float64."""
    given = system.matrix
    values, factors = given.given_values(), x[given.indices]
    terms = np.flatnonzero((values != 0.0) & (factors != 0.0))
    rows, values, factors = (each[terms].tolist() for each in (given.row_numbers(), values, factors))
    sums = dict.fromkeys(rows, Fraction(0))
    for row, value, factor in zip(rows, values, factors, strict=True):
        sums[row] += Fraction(value) * Fraction(factor)
    return not any(sums.values())
