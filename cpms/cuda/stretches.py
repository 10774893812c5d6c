"""Edges in stretches of steps, for warps that stay for many sweeps; see ``walk.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.cuda import arrange
from cpms.cuda.backend import current
from cpms.cuda.shape import SHAPES, Shape
from cpms.cuda.variants import WHOLE_VALUES

_NODE_BYTES = 16
"""What a low sweep streams of a node."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """Edges in slots, cut into stretches of steps for warps that stay.

    Parameters
    ----------
    shape : Shape
        Of the kernels.
    blocks, each, steps : int
        Of the kernels; and how many warps of a block have a stretch.
    sources, marks : device arrays
        See `cpms.cuda.arrange.Slots.place`.
    begins, first_rows, first_stretches : device arrays of uint32
        First step of each stretch and behind the last; row of its first slot; stretch in which that begins.
    pieces : device array of uint64
        What stretches leave of rows that go on in the next; all ones where there is nothing.
    """

    shape: Shape
    blocks: int
    each: int
    steps: int
    sources: Any
    marks: Any
    begins: Any
    first_rows: Any
    first_stretches: Any
    pieces: Any

    @classmethod
    def of(
        cls,
        slots: arrange.Slots,
        graph: arrange.Rows,
        stretch_steps: int,
        *,
        warps: int | None = None,
        columns: arrange.Columns | None = None,
    ) -> Stretches:
        """Cut a graph's slots; small graphs take fewer blocks."""
        arrays = current().arrays
        sources, marks, _ = slots.place(graph, columns)
        shape = SHAPES[warps or _warps_for(sources, graph.nodes)]
        most_blocks = current().resident_blocks(shape)
        sources = arrange.for_lanes(sources, 32)
        if stretch_steps == 0:
            most = most_blocks * shape.warps
            begins = _cuts(slots.rows_before, min(most, slots.steps))
        else:
            begins = np.arange(0, slots.steps, stretch_steps)
        count = len(begins)
        # One block a multiprocessor where that is enough: a warp that shares its scheduler with few is done sooner.
        few = count <= current().processors * shape.warps
        blocks = max(1, min(most_blocks, current().processors if few else count, count))
        first_slots = arrays.asarray((begins * WHOLE_VALUES).astype(np.uint32))
        rows = arrays.searchsorted(slots.starts, first_slots, side="right") - 1
        first = arrays.searchsorted(first_slots, slots.starts[rows], side="right") - 1
        return cls(
            shape=shape,
            blocks=blocks,
            each=min(shape.warps, -(-count // blocks)),
            steps=slots.steps,
            sources=sources,
            marks=marks,
            begins=arrays.asarray(np.append(begins, slots.steps).astype(np.uint32)),
            first_rows=rows.astype(np.uint32),
            first_stretches=first.astype(np.uint32),
            pieces=arrays.full(count, np.uint64(2**64 - 1), np.uint64),
        )

    @classmethod
    def none(cls) -> Stretches:
        """Return what a kernel walks of a graph without rows."""
        arrays = current().arrays
        begins, rows, first = (arrays.zeros(1, np.uint32) for _ in range(3))
        sources, marks = arrays.zeros(WHOLE_VALUES, np.uint32), arrays.zeros(WHOLE_VALUES // 8, np.uint16)
        return cls(SHAPES[16], 1, 1, 1, sources, marks, begins, rows, first, arrays.zeros(0, np.uint64))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        rows = self.first_rows, self.first_stretches
        counts = np.uint32(len(self.pieces)), np.uint32(self.steps), np.uint32(self.each)
        return self.sources, self.marks, self.begins, *rows, *counts, self.pieces

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.arguments)


def _cuts(rows_before: npt.NDArray[np.int64], warps: int) -> npt.NDArray[np.int64]:
    """Return the first step of each warp: stretches of about equal cost, none of them empty.

    Examples
    --------
    >>> _cuts(np.array([0, 1, 2, 3, 256]), 2).tolist()
    [0, 3]
    """
    steps = len(rows_before) - 1
    cost = np.arange(steps + 1) * arrange.STEP_COST + rows_before
    places = np.arange(warps)
    cuts = np.searchsorted(cost[:-1], places * cost[-1] // max(warps, 1))
    ascending: npt.NDArray[np.int64] = np.maximum.accumulate(cuts - places) + places
    return np.minimum(ascending, steps - warps + places)


def _warps_for(sources: Any, nodes: int) -> int:
    """Return the warps a multiprocessor that sweep slots of these sources, in steps, the fastest.

    Few leave each more of the first-level cache, and meet sooner: where sectors of 16-bit values that gathers fetch are
    more bytes than those that streams bring, or all of it fits in the device's cache. Else many have more on its way.
    """
    streamed = arrange.SLOT_BYTES * sources.size + _NODE_BYTES * nodes
    if streamed <= current().cache_bytes:
        return 16
    return 16 if arrange.gathered_bytes(sources, 2) > streamed else 24
