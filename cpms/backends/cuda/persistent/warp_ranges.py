"""Edges in stretches of steps, for warps that stay for many sweeps; see ``persistent/warp_ranges.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.kernels.launch_shape import SHAPES, Shape
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.persistent import load_balance
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr

_NODE_BYTES = 16
"""What a low sweep that adds up what it finds streams of a node."""
_LOW_BYTES = 2
"""Of a value, for which graphs are cut where most sweeps are low ones."""
_SLOW_MEMORY = 3.35e12
"""Bytes a second of an H100's: of a web of 52M edges whose gathers fetch 1.05 of what it streams, 24 warps took 10 %
longer than 16 there, and 6 % less on an H200, whose memory is 1.44 times as fast."""
_MOST_COUNTED = 255
"""Blocks that a word of ``persistent/fixed_point_allreduce.cuh`` counts."""


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
        See `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.place`.
    begins, first_rows, first_stretches : device arrays of uint32
        First step of each stretch and behind the last; row of its first slot; stretch in which that begins.
    pieces : device array of uint64
        What stretches leave of rows that go on in the next; all ones where there is nothing.
    cached : bool
        Whether they are cut for ``persistent/segmented_sum_in_cache.cuh``: no warp has two, and the last of a
        block may be empty.
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
    cached: bool = False

    @classmethod
    def of(
        cls,
        slots: padded_csr.PaddedCsr,
        graph: padded_csr.Rows,
        stretch_steps: int,
        *,
        value_bytes: int = 2,
        warps: int | None = None,
        columns: padded_csr.ColumnPositions | None = None,
        cached: bool | None = None,
    ) -> tuple[Stretches, padded_csr.PaddedCsr]:
        """Cut a graph's slots; return them, too: they are others where blocks begin with rows.

        Small graphs take fewer blocks.

        Parameters
        ----------
        stretch_steps : int
            Steps in a stretch; 0 for one long stretch a warp.
        value_bytes : int
            Of what sweeps gather.
        warps : int, optional
            A multiprocessor, one of `SHAPES`.
        cached : bool, optional
            Whether sweeps are those of graphs in the device's cache; by default where it is. There warps are 16, of one
            stretch each, on up to 255 multiprocessors.
        """
        arrays = current().arrays
        streamed = padded_csr.ENTRY_BYTES * slots.tiles * WHOLE_VALUES + _NODE_BYTES * graph.nodes
        fits = streamed <= current().cache_bytes
        cached = (fits if cached is None else cached) and warps in (None, 16) and not stretch_steps
        cached = cached and current().processors <= _MOST_COUNTED
        if cached:
            graph = padded_csr.DeviceRows.of(graph)
        sources, marks, _ = slots.place(graph, columns)
        shape = SHAPES[warps or (16 if cached or fits else _warps_for(sources, graph.nodes, streamed, value_bytes))]
        blocks = _blocks_for(shape, -(-slots.tiles // stretch_steps) if stretch_steps else slots.tiles)
        if cached:
            cost = load_balance.cached_costs(slots, sources, value_bytes)
            found = load_balance.at_rows(slots, load_balance.of_all(cost, blocks), shape.warps)
            if found is None:
                begins = load_balance.of_all(cost, blocks * shape.warps)
            else:
                slots, block_begins = found
                sources, marks, _ = slots.place(graph, columns)
                begins = load_balance.of_blocks(
                    load_balance.cached_costs(slots, sources, value_bytes), block_begins, shape.warps
                )
        elif stretch_steps:
            begins = np.arange(0, slots.tiles, stretch_steps)
        else:
            low = value_bytes == _LOW_BYTES
            cost = load_balance.low_costs(slots, sources, value_bytes) if low else load_balance.streamed_costs(slots)
            begins = load_balance.of_all(cost, blocks * shape.warps)
        count = len(begins)
        first_slots = arrays.asarray((begins * WHOLE_VALUES).astype(np.uint32))
        rows = slots.rows_at(first_slots)
        first = arrays.searchsorted(first_slots, slots.starts[rows], side="right") - 1
        made = cls(
            shape=shape,
            blocks=blocks,
            each=min(shape.warps, -(-count // blocks)),
            steps=slots.tiles,
            sources=padded_csr.for_lanes(sources, 32),
            marks=marks,
            begins=arrays.asarray(np.append(begins, slots.tiles).astype(np.uint32)),
            first_rows=rows.astype(np.uint32),
            first_stretches=first.astype(np.uint32),
            pieces=arrays.full(count, np.uint64(2**64 - 1), np.uint64),
            cached=cached,
        )
        return made, slots

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


def _blocks_for(shape: Shape, stretches: int) -> int:
    """Return the blocks of warps that have so many stretches: one a multiprocessor where that is enough.

    A warp that shares its scheduler with few is done sooner.
    """
    most, processors = current().persistent_blocks(shape), current().processors
    few = stretches <= processors * shape.warps
    return max(1, min(most, processors if few else most, stretches))


def _warps_for(sources: Any, nodes: int, streamed: float, value_bytes: int) -> int:
    """Return the warps a multiprocessor that sweep slots of these sources, by slot, the fastest.

    Few leave each more of the first-level cache, and meet sooner: where sectors of 16-bit values that gathers fetch are
    more bytes than those that streams bring, the more the faster memory brings what gathers miss; and in float64 where
    values outgrow the cache that all share. Else many have more on its way.
    """
    outgrown = value_bytes > _LOW_BYTES and value_bytes * nodes > current().cache_bytes
    most = max(1.0, current().memory_bandwidth / _SLOW_MEMORY) * streamed
    return 16 if outgrown or access_sampling.gathered_bytes(sources, _LOW_BYTES) > most else 24
