"""Jacobi's method as a solver in adaptive precision, and as a preconditioner, both by the inverse of the diagonal.

D being the diagonal of A, the solver is iterative refinement whose inner sweeps add D^-1 r in few bits (Saad, Iterative
Methods for Sparse Linear Systems, 2nd edition, section 4.1). A sweep costs one product and no dot products. The
preconditioner multiplies by D^-1. It only steers the directions of a method, so D^-1 may be stored in any format.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import Preconditioner, SolveStatus, SolveTask
from cpms.formats.codes import VectorFormat
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.stationary import stationary


def jacobi(task: SolveTask, x: Any, *, inverse_diagonal: Any) -> SolveStatus:
    """Improve x by Jacobi's method until ||b - A x|| is at most the goal.

    It converges where the spectral radius of I - D^-1 A is below 1, as for strictly diagonally dominant matrices.
    """
    return stationary(task, x, inverse_diagonal, lambda _: repeat((0.0, 1.0)))


def inverse_diagonal(system: LinearSystem) -> Floats:
    """Return 1 over the diagonal, shape (size,).

    Raises
    ------
    InputError
        If a diagonal entry is 0, or so small that its inverse overflows.
    """
    with np.errstate(divide="ignore", over="ignore"):
        found: Floats = 1.0 / system.diagonal
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"row {row} has {system.diagonal[row]} on the diagonal, which is divided by here; use method='gmres' "
            "without this preconditioner"
        )
    return found


class Jacobi(Preconditioner):
    """Multiplication by the inverse diagonal, stored in a format; None is float64.

    If the format would make a value infinite or 0, the inverse is stored in float64, and ``note`` says so.
    """

    name = "jacobi"

    def __init__(self, system: LinearSystem, operator: LinearOperator, storage: VectorFormat | None = None) -> None:
        given = operator.upload(inverse_diagonal(system))
        self._operator = operator
        self._inverse = given
        if storage is not None:
            stored = _stored(operator, given, storage)
            if stored is None:
                self.note = f"preconditioner in fp64: the range of {storage.name} is too small for its values"
                storage = None
            else:
                self._inverse = stored
        self.weights = given if storage is None else None
        self.nbytes = int(self._inverse.nbytes)
        self.storage = "fp64" if storage is None else storage.name
        held = operator.to_host(operator.convert(self._inverse, None))
        self.least = 1.0 / float(held.max()) if (held > 0.0).all() else None

    def apply(self, r: Any) -> Any:
        """Return D^-1 r."""
        return self._operator.convert(self._inverse, None) * r


def _stored(operator: LinearOperator, values: Any, storage: VectorFormat) -> Any | None:
    """Return values in a format; None if the format refuses one of them, or makes one infinite or 0."""
    try:
        stored = operator.convert(values, storage)
    except InputError:
        return None
    held, given = (operator.to_host(operator.convert(each, None)) for each in (stored, values))
    return stored if np.isfinite(held).all() and (np.sign(held) == np.sign(given)).all() else None
