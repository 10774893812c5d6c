"""The contract of a prepared PageRank operator: sweeps x = G(x) over vectors in a storage format.

Power iteration needs no more than this contract. A sweep fuses the product with the matrix, teleport and dangling mass,
rounding to the storage format, and the norms of the change, so that each vector is read and written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple

from cpms.base import work_clock
from cpms.base.types import Floats, Norm, Vector
from cpms.formats.formats import Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem


class Sweep(NamedTuple):
    """Norms of the change that a sweep made, and the mass of the vector that it wrote."""

    l1: float
    l2: float
    linf: float
    mass: float

    def of(self, norm: Norm) -> float:
        """Return one of the norms by name."""
        value: float = getattr(self, norm)
        return value


class Sweeps(NamedTuple):
    """Norms of consecutive sweeps, and the end of each in seconds since the first began."""

    found: list[Sweep]
    seconds: list[float]


class Operator(ABC, Generic[Vector]):
    """A problem prepared for sweeps: matrix in a layout, values in a storage format.

    Vectors are opaque to algorithms; only the operator that made one can use it.
    """

    storage: Format
    nbytes: int
    takes_problems: ClassVar[bool] = False
    """Whether `with_problem` shares the matrix; the operator must then be a dataclass with the field ``problem``."""

    @abstractmethod
    def load(self, values: Floats) -> Vector:
        """Return float64 ``values``, shape (nodes,), as a vector with all its segments written."""

    @abstractmethod
    def empty(self) -> Vector:
        """Return a vector to sweep into; its content is undefined."""

    def queue(self, x: Vector, out: Vector, level: Level, step: int, norm: Norm) -> Callable[[], Sweep] | None:
        """Enqueue `sweep`; return a function that waits for its results, of which L1 norm, ``norm`` and mass are valid.

        The next sweep, from ``out`` into ``x``, may be enqueued before that function is called. An operator without a
        queue enqueues nothing and returns None.
        """
        del x, out, level, step, norm
        return None

    @abstractmethod
    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:
        """Write one application of the PageRank operator to ``x`` into ``out``.

        Values of the matrix and ``x`` are read in their first ``level.read`` segments, and ``level.write`` segments of
        ``out`` are written. The change is the difference of the stored vectors. ``step`` is the number of the sweep, on
        which stochastic rounding depends.
        """

    def sweeps(self, x: Vector, out: Vector, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:
        """Sweep at most ``most`` times, with ``x`` and ``out`` in turn, until ``norm`` falls below ``tol``.

        Persistent kernels do many sweeps in one launch; other engines return after one sweep.
        """
        del norm, tol, most
        began = work_clock.now()
        return Sweeps([self.sweep(x, out, level, step)], [work_clock.now() - began])

    @abstractmethod
    def scale(self, x: Vector, factor: float, segments: int) -> None:
        """Multiply ``x``, read and written in its first ``segments`` segments, by ``factor``."""

    def to_float64(self, x: Vector, out: Vector) -> tuple[Operator[Any], Any, Any]:
        """Convert matrix and vectors to plain float64, in place where the format allows it.

        Return the converted operator and vectors; the old ones must not be used again. By default nothing is
        converted, for operators that are plain float64.
        """
        return self, x, out

    @property
    def survives_conversion(self) -> bool:
        """Whether the operator can be used again after `to_float64`, which then leaves its matrix as it was."""
        return False

    def with_problem(self, problem: Problem) -> Operator[Vector] | None:
        """Return an operator, with the same matrix, of a problem that differs in teleport and dangling rule alone.

        None means that the engine has to prepare the problem anew.
        """
        changed: Any = self
        return replace(changed, problem=problem) if self.takes_problems else None

    @abstractmethod
    def read(self, x: Vector, segments: int) -> Floats:
        """Return ``x``, read in its first ``segments`` segments, as float64, shape (nodes,)."""

    def read_device(self, x: Vector, segments: int) -> Any | None:
        """Return `read` as a CuPy array, or None for vectors in main memory."""
        del x, segments
        return None
