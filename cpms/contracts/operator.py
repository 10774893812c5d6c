"""The contract of a prepared operator: sweeps over vectors in a storage format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from cpms.base import work_clock
from cpms.base.types import Floats, Norm, Vector
from cpms.formats.formats import Format
from cpms.precision.controllers import Level


class Sweep(NamedTuple):
    """What one sweep found: norms of the change it made, and the mass of what it wrote."""

    l1: float
    l2: float
    linf: float
    mass: float

    def of(self, norm: Norm) -> float:
        """Return one of the norms by name."""
        found: float = getattr(self, norm)
        return found


class Sweeps(NamedTuple):
    """What sweeps one after the other found, and when each ended, in seconds since the first began."""

    found: list[Sweep]
    seconds: list[float]


class Operator(ABC, Generic[Vector]):
    """A problem prepared for sweeps: matrix in a layout, values in a storage format.

    Vectors are opaque to algorithms; only the operator that made one can use it.
    """

    storage: Format
    nbytes: int

    @abstractmethod
    def load(self, values: Floats) -> Vector:
        """Return float64 ``values``, shape (nodes,), as a vector with all its segments written."""

    @abstractmethod
    def empty(self) -> Vector:
        """Return a vector to sweep into; its content is undefined."""

    def queue(self, x: Vector, out: Vector, level: Level, step: int, norm: Norm) -> Callable[[], Sweep] | None:
        """Begin `sweep` and return how to wait for what it finds, of which only L1, ``norm`` and mass count.

        The next sweep may be begun before, from ``out`` into ``x``. None where the caller has to wait: nothing has
        been begun then.
        """
        del x, out, level, step, norm
        return None

    @abstractmethod
    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:
        """Write one application of the PageRank operator to ``x`` into ``out``.

        Values and ``x`` are read in their first ``level.read`` segments, ``level.write``
        segments of ``out`` are written. The change is that of the stored values. ``step``
        numbers the sweep: stochastic rounding depends on it.
        """

    def sweeps(self, x: Vector, out: Vector, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:
        """Sweep at most ``most`` times, ``x`` and ``out`` taking turns, until ``norm`` falls below ``tol``.

        Engines that stay on the device for many sweeps do; the others return after one.
        """
        del norm, tol, most
        began = work_clock.now()
        return Sweeps([self.sweep(x, out, level, step)], [work_clock.now() - began])

    @abstractmethod
    def scale(self, x: Vector, factor: float, segments: int) -> None:
        """Multiply ``x``, read and written in its first ``segments`` segments, by ``factor``."""

    @abstractmethod
    def to_float64(self, x: Vector, out: Vector) -> tuple[Operator[Any], Any, Any]:
        """Convert matrix and vectors to plain float64, in place where the format allows it.

        Returns the operator and vectors to go on with; the old ones must not be used again.
        """

    @abstractmethod
    def read(self, x: Vector, segments: int) -> Floats:
        """Return ``x``, read in its first ``segments`` segments, as float64, shape (nodes,)."""

    def read_device(self, x: Vector, segments: int) -> Any | None:
        """Return what `read` does as a CuPy array, or None where vectors are in main memory."""
        del x, segments
        return None
