"""Chebyshev's method as a solver in adaptive precision, and as a preconditioner.

Where the eigenvalues of D^-1 A lie in an interval above 0, D being the diagonal of A, Chebyshev's polynomial in D^-1 A
reduces the error most of all polynomials of its degree (Saad, Iterative Methods for Sparse Linear Systems, 2nd edition,
algorithm 12.1). Where the interval is not given, `spectrum` estimates it by Lanczos' method. The solver is iterative
refinement whose inner iterations run in few bits. An inner iteration costs one product and no dot products. The
preconditioner is a polynomial of low degree that reduces the upper part of the spectrum.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from cpms.base.errors import InputError
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner, SolveStatus, SolveTask
from cpms.contracts.sweeps import Coefficients, Sweeps
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.jacobi import inverse_diagonal
from cpms.solvers.linear.stationary import stationary, sweeps_of

_LANCZOS_STEPS = 24
"""Most products of an estimate of the interval."""
_ABOVE, _BELOW = 1.05, 0.9
"""Factors of the largest and the smallest Ritz value, which lie inside the spectrum, for the ends of the interval."""
_SMOOTHED = 30.0
"""Upper over lower end of the preconditioner's interval, at most: eigenvalues below it are hardly reduced."""
_DEGREE = 4
"""Iterations of an application of the preconditioner, and so the degree of its polynomial."""


class Spectrum(NamedTuple):
    """An interval of the eigenvalues of D^-1 A, D the diagonal of A."""

    least: float
    most: float


def chebyshev(task: SolveTask, x: Any, *, inverse_diagonal: Any, interval: Spectrum | None = None) -> SolveStatus:
    """Improve x by Chebyshev's method until ||b - A x|| is at most the goal.

    Parameters
    ----------
    task : SolveTask
        Its matrix is symmetric positive definite, unless ``interval`` is given.
    x : vector of float64
        The start, and the answer.
    inverse_diagonal : vector of float64
        1 over the diagonal of the matrix.
    interval : Spectrum, optional
        It contains the eigenvalues of D^-1 A. None: they are estimated. An estimated interval may begin above the least
        eigenvalue, so each outer step after the first iteration halves its lower end.
    """
    found = interval or spectrum(task, inverse_diagonal)
    if found is None:
        return SolveStatus.INDEFINITE
    held = [found]

    def coefficients(inner: SolveTask) -> Iterator[Coefficients]:
        if interval is None and inner.recorder.steps:
            held[0] = Spectrum(held[0].least / 2.0, held[0].most)
        return _coefficients(held[0])

    return stationary(task, x, inverse_diagonal, coefficients)


def _coefficients(spectrum: Spectrum) -> Iterator[Coefficients]:
    """Yield ``keep`` and ``turn`` of each iteration of algorithm 12.1 (see `cpms.contracts.sweeps`)."""
    middle, half = (spectrum.most + spectrum.least) / 2.0, (spectrum.most - spectrum.least) / 2.0
    sigma = middle / half
    rho = 1.0 / sigma
    yield 0.0, 1.0 / middle
    while True:
        following = 1.0 / (2.0 * sigma - rho)
        yield following * rho, 2.0 * following / half
        rho = following


def spectrum(task: SolveTask, inverse_diagonal: Any) -> Spectrum | None:
    """Estimate an interval with the eigenvalues of D^-1 A by Lanczos' method; None if a Ritz value is not above 0.

    For symmetric A, D^-1 A is symmetric in the inner product x'D y, in which Lanczos' recurrence runs. It costs at most
    `_LANCZOS_STEPS` products in float64.
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
    except np.linalg.LinAlgError:  # Entries near the ends of float64's range.
        return None
    return Spectrum(_BELOW * float(values[0]), _ABOVE * float(values[-1])) if values[0] > 0.0 else None


class Chebyshev(Preconditioner):
    """A few iterations of Chebyshev's method from 0, which is a polynomial in D^-1 A times the residual.

    Its interval is the upper part of the spectrum, where a polynomial of low degree suffices; the outer method reduces
    the rest. An application costs `_DEGREE` products with the stored matrix, or with the same matrix in a format of
    the preconditioner's own. The polynomial is then of the rounded matrix, and so is the interval. Applications share
    their vectors, so those of several threads wait for one another.

    Parameters
    ----------
    task : SolveTask
    system : LinearSystem
    rounded : callable, optional
        Returns the `LinearOperator` of A in the preconditioner's own format, or raises `InputError` where the format
        is too small. If that happens, or rounding makes A indefinite, ``task.stored`` is used, and ``note`` says so.
    """

    name = "chebyshev"

    def __init__(
        self, task: SolveTask, system: LinearSystem, rounded: Callable[[], LinearOperator] | None = None
    ) -> None:
        self._inverse = task.exact.upload(inverse_diagonal(system))
        of_own_format = None if rounded is None else self._rounded(task, rounded)
        self._task, found = of_own_format or (replace(task, formats=(None,)), spectrum(task, self._inverse))
        if found is None:
            raise InputError("preconditioner 'chebyshev' needs a symmetric positive definite matrix; leave it out")
        upper = Spectrum(max(found.least, found.most / _SMOOTHED), found.most)
        self._pairs = list(islice(_coefficients(upper), _DEGREE))
        self._sweeps: Sweeps | None = None
        self._applying = threading.Lock()
        self.nbytes = _DEGREE * (self._task.stored.bytes_read(self._task.read) + 40 * task.size)
        held = self._task.stored.request.storage
        self.storage = "pattern" if held is None else held.name

    def _rounded(self, task: SolveTask, rounded: Callable[[], LinearOperator]) -> tuple[SolveTask, Spectrum] | None:
        """Return the task and the interval of the rounded matrix; None, with a note, if it is of no use."""
        try:
            operator = rounded()
        except InputError as error:
            why = str(error)
        else:
            found = spectrum(replace(task, exact=operator), self._inverse)
            if found is not None:
                return replace(task, stored=operator, formats=(None,), read=None), found
            name = operator.request.storage.name  # type: ignore[union-attr]  # Patterns are not rounded.
            why = f"{name} rounds A to an indefinite matrix"
        self.note = f"preconditioner with A as it is stored: {why}"
        return None

    def apply(self, r: Any) -> Any:
        """Return the correction after `_DEGREE` iterations from 0."""
        with self._applying:
            if self._sweeps is None:
                self._rest, self._correction = self._task.zeros(), self._task.zeros()
                self._sweeps = sweeps_of(self._task, self._inverse, self._rest, self._correction)
            self._rest[...] = r
            self._correction[...] = 0.0
            sizes = self._sweeps.run(self._pairs, 0.0, math.inf)
            if not math.isfinite(sizes[-1]):
                self._sweeps = None  # A last step that is not finite would spoil the first of the next application.
            return self._task.exact.convert(self._correction, None)
