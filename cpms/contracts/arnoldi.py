"""The contract of Arnoldi's method: what a backend may fuse, between two residuals found in float64.

Each step multiplies with the matrix, orthogonalises against the basis as it is stored, brings the new column of the
Hessenberg matrix to triangular form by Givens rotations, and stores the next vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from cpms.formats.codes import VectorFormat


class StoredAs(NamedTuple):
    """The storage of a basis vector: a format, None for float64, and the number of segments that are written."""

    storage: VectorFormat | None
    segments: int | None
    bits: int


class ArnoldiStep(NamedTuple):
    """Results of a step: the residual of the least-squares problem, and the passes of Gram-Schmidt.

    ``bits`` are those read of one value of each basis vector, in all passes; None if all vectors were read whole.
    """

    residual: float
    passes: int
    bits: int | None = None


class ArnoldiCycle(NamedTuple):
    """Limits of a cycle.

    Parameters
    ----------
    enough : float
        Residual at which it ends.
    most : int
        Steps.
    stored_as : callable
        Returns the storage of a vector, given the relative residual of the cycle.
    floor : float
        Relative residual that the cycle is to reach.
    """

    enough: float
    most: int
    stored_as: Callable[[float], StoredAs]
    floor: float


CANCELLED = 0.1
"""Length after the first pass of Gram-Schmidt, over the length before, below which a second pass follows."""
NO_LONGER = 1e-15
"""Length of a new vector, over the largest entry of its column, at which the basis is complete."""


class ArnoldiSteps(ABC):
    """A basis, its Hessenberg matrix in triangular form, and the least squares; for one cycle after the other."""

    bits: list[int]
    """Bits of a value of each basis vector."""

    @abstractmethod
    def begin(self, r: Any, size: float, cycle: ArnoldiCycle) -> None:
        """Begin with a residual of this 2-norm."""

    @abstractmethod
    def run(self) -> list[ArnoldiStep]:
        """Do some steps, or wait for those that are queued; return their results, none if the cycle has ended."""

    @abstractmethod
    def update(self, x: Any) -> None:
        """Add M V y to x, y being the solution of the least squares."""
