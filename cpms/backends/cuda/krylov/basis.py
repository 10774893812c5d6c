"""The memory of a stored basis: slabs of sixteen vectors of one format, which cycles use again.

Neighbouring vectors of one format and level are a run, which one launch takes as a whole. In a basis of layers, layer k
of all vectors that have one is a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.runtime.current import current
from cpms.contracts.arnoldi import StoredAs
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FP64
from cpms.storage.array import SegmentedArray
from cpms.storage.block_float import BlockFloatArray

SLAB_VECTORS, MOST_SLABS = 16, 16
"""Vectors of a slab, and slabs of a launch; ``krylov/arnoldi.cu`` has the same."""
_LINE = 256
"""Bytes that each vector begins at a multiple of."""


class Slab:
    """Memory of up to sixteen vectors of a padded length, and each of them as products take it."""

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
    """Neighbouring vectors of one format and level, of which more may follow."""

    def __init__(self, chosen: StoredAs, first: int) -> None:
        self.storage, self.segments, self.first, self.count = chosen.storage, chosen.segments, first, 0
        self.slabs: list[Slab] = []
        self.layout: tuple[Any, ...] = ()
        """What distinguishes launches on these slabs from others."""

    def takes(self, chosen: StoredAs) -> bool:
        """Return whether another vector, stored so, belongs to this run."""
        room = self.count < SLAB_VECTORS * MOST_SLABS
        return room and (self.storage, self.segments) == (chosen.storage, chosen.segments)

    def use(self, slabs: list[Slab]) -> None:
        """Lie in these slabs."""
        self.slabs = slabs
        self.layout = self.first, self.segments, *(slab.address for slab in slabs)

    @property
    def end(self) -> int:
        """Number of the vector behind the last."""
        return self.first + self.count

    @property
    def vector(self) -> Any:
        """The last vector as products take it."""
        slab, place = self._last
        return slab.vectors[place]

    @property
    def address(self) -> int:
        """Where the last vector begins."""
        slab, place = self._last
        return slab.address + place * slab.stride

    @property
    def _last(self) -> tuple[Slab, int]:
        slab, place = divmod(self.count - 1, SLAB_VECTORS)
        return self.slabs[slab], place


class Basis:
    """The vectors of a cycle in their formats, ``most`` of them at most."""

    def __init__(self, length: int, most: int) -> None:
        self._length, self._most = length, most
        self._free: dict[VectorFormat | None, list[Slab]] = {}
        self.runs: list[Run] = []
        self.bits: list[int] = []

    def add(self, chosen: StoredAs) -> list[int]:
        """Make room for a vector; return where it begins, or where each of its layers does."""
        if not self.runs or not self.runs[-1].takes(chosen):
            self.runs.append(Run(chosen, len(self.bits)))
        self.bits.append(chosen.bits)
        return [self._room(self.runs[-1])]

    def _room(self, run: Run) -> int:
        if run.count == SLAB_VECTORS * len(run.slabs):
            free = self._free.setdefault(run.storage, [])
            run.use(
                [*run.slabs, free.pop() if free else Slab(run.storage, self._length, min(SLAB_VECTORS, self._most))]
            )
        run.count += 1
        return run.address

    def cut(self, count: int) -> None:
        """Forget all but the first vectors; later ones take their memory."""
        del self.bits[count:]
        for run in reversed(self.runs):
            run.count = min(run.count, max(0, count - run.first))
            kept = -(-run.count // SLAB_VECTORS)
            self._free.setdefault(run.storage, []).extend(reversed(run.slabs[kept:]))
            run.use(run.slabs[:kept])
        self.runs = [run for run in self.runs if run.count]


class LayeredBasis(Basis):
    """Vectors that are sums of vectors in one format, none with more layers than the one before it."""

    def __init__(self, length: int, most: int, storage: BlockFloatFormat) -> None:
        super().__init__(length, most)
        self.storage = storage

    def add(self, chosen: StoredAs) -> list[int]:
        """Make room for as many layers as ``chosen.bits`` has, and no more than the vector before."""
        count = chosen.bits // self.storage.width
        if self.bits:
            count = min(count, self.bits[-1] // self.storage.width)
        while len(self.runs) < count:
            self.runs.append(Run(StoredAs(self.storage, None, self.storage.width), 0))
        self.bits.append(count * self.storage.width)
        return [self._room(run) for run in self.runs[:count]]
