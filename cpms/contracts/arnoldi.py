"""The contract of Arnoldi's method: the part of a GMRES cycle that a backend may fuse.

A cycle begins and ends with a residual in float64, which its caller computes. Each step between multiplies with the
matrix, orthogonalises against the basis as it is stored, brings the new column of the Hessenberg matrix to triangular
form by Givens rotations, and stores the next vector. `cpms.solvers.linear.gmres` has the method and its references.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from cpms.formats.codes import VectorFormat


class StoredAs(NamedTuple):
    """The storage of a basis vector.

    ``storage`` is a format, or None for float64. ``segments`` is how many of its segments are written, None for all.
    ``bits`` are those of a value.
    """

    storage: VectorFormat | None
    segments: int | None
    bits: int


class ArnoldiStep(NamedTuple):
    """Results of a step: the residual of the least-squares problem, and the passes of Gram-Schmidt.

    ``bits`` are the sum, over all basis vectors and passes, of the bits read of one value; None if each pass read all
    vectors whole.
    """

    residual: float
    passes: int
    bits: int | None = None


class ArnoldiCycle(NamedTuple):
    """Limits of a cycle.

    Parameters
    ----------
    enough : float
        Residual of the least-squares problem at which the cycle ends, absolute.
    most : int
        Most steps.
    stored_as : callable
        Returns the storage of a vector, given the residual relative to the first of the cycle.
    floor : float
        Residual that the cycle is to reach, relative to its first.
    """

    enough: float
    most: int
    stored_as: Callable[[float], StoredAs]
    floor: float


CANCELLED = 0.1
"""2-norm of a vector after the first pass of Gram-Schmidt, over the one before, below which a second pass follows."""
NO_LONGER = 1e-15
"""2-norm of a new vector, over the largest entry of its column, at which the Krylov space is exhausted."""


class ArnoldiSteps(ABC):
    """The basis of a cycle, its Hessenberg matrix in triangular form, and the least-squares problem.

    One object serves all cycles of a solve, one after the other.
    """

    bits: list[int]
    """Bits of a value of each basis vector."""

    @abstractmethod
    def begin(self, r: Any, size: float, cycle: ArnoldiCycle) -> None:
        """Begin a cycle at the residual r, whose 2-norm is ``size``; r may be overwritten."""

    @abstractmethod
    def run(self) -> list[ArnoldiStep]:
        """Do one step or several, and return their results; an empty list once the cycle has ended.

        A backend may enqueue steps ahead, and here wait for them.
        """

    @abstractmethod
    def update(self, x: Any) -> None:
        """Add M V y to x: preconditioner M, basis V, and the solution y of the least-squares problem."""
