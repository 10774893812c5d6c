"""The memory of a stored basis: slabs of sixteen vectors of one format, which later cycles reuse.

Consecutive vectors of one format and level are a run, and one launch reads a run as a whole. In a basis of layers, the
layers k of all vectors that have so many are a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.structs import MOST_SLABS
from cpms.backends.cuda.runtime.current import current
from cpms.contracts.arnoldi import StoredAs
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FP64
from cpms.storage.array import SegmentedArray
from cpms.storage.block_float import BlockFloatArray

SLAB_VECTORS = 16
"""Vectors of a slab; ``krylov/stored_basis.cuh`` has the same number."""
_LINE = 256
"""Alignment of each vector in bytes."""


class Slab:
    """Memory of up to sixteen vectors of a padded length; ``vectors`` are these as products take them."""

    def __init__(self, storage: VectorFormat | None, length: int, count: int) -> None:
        backend, nbytes = current(), (FP64 if storage is None else storage).nbytes(length)
        self.stride = -(-nbytes // _LINE) * _LINE
        with backend.memory_for("a part of a basis", count * self.stride):
            self.memory = backend.arrays.empty(count * self.stride, np.uint8)
        self.address = backend.address(self.memory)
        parts = [self.memory[at * self.stride : at * self.stride + nbytes] for at in range(count)]
        self.vectors = [_as_vector(part, storage, length) for part in parts]


def _as_vector(memory: Any, storage: VectorFormat | None, length: int) -> Any:
    if storage is None or storage == FP32:
        return memory.view(np.float64 if storage is None else np.float32)
    if isinstance(storage, BlockFloatFormat):
        return BlockFloatArray(memory, length, storage)
    return SegmentedArray(memory, length, storage)


class Run:
    """Consecutive vectors of one format and level, to which further ones may be added."""

    def __init__(self, chosen: StoredAs, first: int) -> None:
        self.storage, self.segments, self.first, self.count = chosen.storage, chosen.segments, first, 0
        self.slabs: list[Slab] = []
        self.layout: tuple[Any, ...] = ()
        """Equal for two launches if they take the same slabs, so that their packed addresses need no change."""

    def takes(self, chosen: StoredAs) -> bool:
        """Return whether another vector, stored as ``chosen`` says, can be added to this run."""
        has_space = self.count < SLAB_VECTORS * MOST_SLABS
        return has_space and (self.storage, self.segments) == (chosen.storage, chosen.segments)

    def use(self, slabs: list[Slab]) -> None:
        """Set the slabs that hold the vectors."""
        self.slabs = slabs
        self.layout = self.first, self.segments, *(slab.address for slab in slabs)

    @property
    def end(self) -> int:
        """Index after that of the last vector."""
        return self.first + self.count

    @property
    def vector(self) -> Any:
        """The last vector as products take it."""
        slab, place = self._last
        return slab.vectors[place]

    @property
    def address(self) -> int:
        """The address of the last vector."""
        slab, place = self._last
        return slab.address + place * slab.stride

    @property
    def _last(self) -> tuple[Slab, int]:
        slab, place = divmod(self.count - 1, SLAB_VECTORS)
        return self.slabs[slab], place


class Basis:
    """The vectors of a cycle in their formats, at most ``most``.

    ``length`` is that of each vector, and ``bits`` holds the bits of a value of each.
    """

    def __init__(self, length: int, most: int) -> None:
        self.length, self._most = length, most
        self._free: dict[VectorFormat | None, list[Slab]] = {}
        self.runs: list[Run] = []
        self.bits: list[int] = []

    def add(self, chosen: StoredAs) -> list[int]:
        """Allocate memory for a vector; return its address, or those of its layers."""
        if not self.runs or not self.runs[-1].takes(chosen):
            self.runs.append(Run(chosen, len(self.bits)))
        self.bits.append(chosen.bits)
        return [self._extended(self.runs[-1])]

    def _extended(self, run: Run) -> int:
        """Add a vector to a run, with a free slab or a new one where the last is full; return its address."""
        if run.count == SLAB_VECTORS * len(run.slabs):
            free = self._free.setdefault(run.storage, [])
            run.use([*run.slabs, free.pop() if free else Slab(run.storage, self.length, min(SLAB_VECTORS, self._most))])
        run.count += 1
        return run.address

    def cut(self, count: int) -> None:
        """Remove all but the first ``count`` vectors; later ones reuse their memory."""
        del self.bits[count:]
        for run in reversed(self.runs):
            run.count = min(run.count, max(0, count - run.first))
            kept = -(-run.count // SLAB_VECTORS)
            self._free.setdefault(run.storage, []).extend(reversed(run.slabs[kept:]))
            run.use(run.slabs[:kept])
        self.runs = [run for run in self.runs if run.count]


class LayeredBasis(Basis):
    """Vectors that are sums of vectors in one format; none has more layers than the one before it."""

    def __init__(self, length: int, most: int, storage: BlockFloatFormat) -> None:
        super().__init__(length, most)
        self.storage = storage

    def add(self, chosen: StoredAs) -> list[int]:
        """Allocate as many layers as ``chosen.bits`` has, but no more than the vector before has."""
        count = chosen.bits // self.storage.width
        if self.bits:
            count = min(count, self.bits[-1] // self.storage.width)
        while len(self.runs) < count:
            self.runs.append(Run(StoredAs(self.storage, None, self.storage.width), 0))
        self.bits.append(count * self.storage.width)
        return [self._extended(run) for run in self.runs[:count]]
