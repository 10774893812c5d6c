"""Ranges of tiles for the warps of persistent kernels: the direct gather's layout of edges.

Each warp computes a segmented sum over its own tiles, the same in every sweep; rows that several ranges share are
completed from carry-outs (Blelloch et al., 1993). Ranges have equal cost, not equal rows, so hubs do not unbalance a
sweep. See ``persistent/warp_ranges.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import SHAPES, Shape
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.persistent import load_balance
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr

_NODE_BYTES = 16
"""Bytes a node that an accumulating inner sweep streams."""
_INNER_BYTES = 2
"""Bytes of a value for which graphs are partitioned where most sweeps are inner ones."""
_SLOW_BANDWIDTH = 3.35e12
"""Memory bytes a second up to which fewer warps pay where gathers fetch about as much as a sweep streams (an
H100's).
"""
_MAX_COUNTED_BLOCKS = 255
"""Blocks that a word of ``persistent/fixed_point_allreduce.cuh`` can count."""


@dataclass(frozen=True, eq=False)
class WarpRanges:
    """Edges as padded entries, partitioned into ranges of tiles for the warps of a persistent kernel.

    Parameters
    ----------
    shape : Shape
        Launch shape of the kernels.
    blocks, block_ranges, tiles : int
        Blocks; warps of a block that have a range; tiles in all.
    sources, row_end_flags : device arrays
        See `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.to_device`.
    range_begins, first_rows, first_ranges : device arrays of uint32
        First tile of each range, and one past the last tile; row of a range's first entry; range in which that row
        begins.
    carry_out : device array of uint64
        Partial sums of rows that continue in the next range; all ones where there is none.
    in_cache : bool
        Whether ranges are those of ``persistent/segmented_sum_in_cache.cuh``: one a warp, and the last of a block may
        be empty.
    """

    shape: Shape
    blocks: int
    block_ranges: int
    tiles: int
    sources: Any
    row_end_flags: Any
    range_begins: Any
    first_rows: Any
    first_ranges: Any
    carry_out: Any
    in_cache: bool = False

    @classmethod
    def of(
        cls,
        entries: padded_csr.PaddedCsr,
        graph: padded_csr.Rows,
        range_tiles: int,
        *,
        value_bytes: int = 2,
        warps: int | None = None,
        columns: padded_csr.ColumnPositions | None = None,
        in_cache: bool | None = None,
    ) -> tuple[WarpRanges, padded_csr.PaddedCsr]:
        """Partition a graph's entries; return them too, since they are others where blocks begin with rows.

        Small graphs use fewer blocks.

        Parameters
        ----------
        range_tiles : int
            Tiles in a range; 0 for one long range a warp.
        value_bytes : int
            Size of a gathered value.
        warps : int, optional
            Warps a multiprocessor, a key of `SHAPES`.
        in_cache : bool, optional
            Whether sweeps are those of graphs in the device's cache; by default whether the graph fits. These use 16
            warps of one range each, on up to 255 multiprocessors.
        """
        arrays = current().arrays
        fits = _streamed_bytes(entries.tiles, graph.nodes) <= current().cache_bytes
        in_cache = (fits if in_cache is None else in_cache) and warps in (None, 16) and not range_tiles
        in_cache = in_cache and current().processors <= _MAX_COUNTED_BLOCKS
        if in_cache:
            graph = padded_csr.DeviceRows.of(graph)
        sources, row_end_flags, _ = entries.to_device(graph, columns)
        shape = SHAPES[warps or (16 if in_cache else warps_for(sources, graph.nodes, value_bytes))]
        blocks = blocks_for(shape, -(-entries.tiles // range_tiles) if range_tiles else entries.tiles)
        if in_cache:
            cost = load_balance.in_cache_costs(entries, sources, value_bytes)
            found = load_balance.align_to_rows(entries, load_balance.split_tiles(cost, blocks), shape.warps)
            if found is None:
                begins = load_balance.split_tiles(cost, blocks * shape.warps)
            else:
                entries, block_begins = found
                sources, row_end_flags, _ = entries.to_device(graph, columns)
                begins = load_balance.split_blocks(
                    load_balance.in_cache_costs(entries, sources, value_bytes), block_begins, shape.warps
                )
        elif range_tiles:
            begins = np.arange(0, entries.tiles, range_tiles)
        else:
            is_inner = value_bytes == _INNER_BYTES
            cost = (
                load_balance.inner_costs(entries, sources, value_bytes)
                if is_inner
                else load_balance.streamed_costs(entries)
            )
            begins = load_balance.split_tiles(cost, blocks * shape.warps)
        count = len(begins)
        first_entries = arrays.asarray((begins * WHOLE_VALUES).astype(np.uint32))
        rows = entries.rows_at(first_entries)
        first = arrays.searchsorted(first_entries, entries.starts[rows], side="right") - 1
        ranges = cls(
            shape=shape,
            blocks=blocks,
            block_ranges=min(shape.warps, -(-count // blocks)),
            tiles=entries.tiles,
            sources=padded_csr.for_lanes(sources, 32),
            row_end_flags=row_end_flags,
            range_begins=arrays.asarray(np.append(begins, entries.tiles).astype(np.uint32)),
            first_rows=rows.astype(np.uint32),
            first_ranges=first.astype(np.uint32),
            carry_out=arrays.full(count, np.uint64(2**64 - 1), np.uint64),
            in_cache=in_cache,
        )
        return ranges, entries

    @classmethod
    def empty(cls) -> WarpRanges:
        """Return the ranges of a graph without rows."""
        arrays = current().arrays
        begins, rows, first = (arrays.zeros(1, np.uint32) for _ in range(3))
        sources, row_end_flags = arrays.zeros(WHOLE_VALUES, np.uint32), arrays.zeros(WHOLE_VALUES // 8, np.uint16)
        return cls(SHAPES[16], 1, 1, 1, sources, row_end_flags, begins, rows, first, arrays.zeros(0, np.uint64))

    def argument(self, rows: int) -> Struct:
        """Return the kernel argument: edges of so many rows."""
        return pack(
            structs.EDGES,
            sources=self.sources,
            row_end_flags=self.row_end_flags,
            range_begins=self.range_begins,
            first_rows=self.first_rows,
            first_ranges=self.first_ranges,
            ranges=len(self.carry_out),
            tiles=self.tiles,
            rows=rows,
            block_ranges=self.block_ranges,
            carry_out=self.carry_out,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        parts = self.sources, self.row_end_flags, self.range_begins, self.first_rows, self.first_ranges, self.carry_out
        return sum(int(part.nbytes) for part in parts)


def blocks_for(shape: Shape, ranges: int) -> int:
    """Return the number of blocks for so many ranges: one a multiprocessor where that suffices.

    A warp that shares its scheduler with few others ends sooner.
    """
    most, processors = current().persistent_blocks(shape), current().processors
    few = ranges <= processors * shape.warps
    return max(1, min(most, processors if few else most, ranges))


def _streamed_bytes(tiles: int, nodes: int) -> float:
    """Return the bytes that a sweep streams."""
    return padded_csr.ENTRY_BYTES * tiles * WHOLE_VALUES + _NODE_BYTES * nodes


def warps_for(sources: Any, nodes: int, value_bytes: int) -> int:
    """Return the warps a multiprocessor with which sweeps over these sources are fastest, tiles in any inner order.

    Few warps leave each a larger part of the first-level cache and reach the barrier sooner. They win where the graph
    fits in the shared cache; where gathers fetch more bytes, in sectors of 16-bit values, than a sweep streams,
    weighted by memory bandwidth; and in float64 where values exceed the shared cache. Elsewhere more warps keep more
    loads in flight.
    """
    streamed = _streamed_bytes(sources.size // WHOLE_VALUES, nodes)
    outgrown = value_bytes > _INNER_BYTES and value_bytes * nodes > current().cache_bytes
    if outgrown or streamed <= current().cache_bytes:
        return 16
    max_bytes = max(1.0, current().memory_bandwidth / _SLOW_BANDWIDTH) * streamed
    return 16 if access_sampling.gathered_bytes(sources, _INNER_BYTES) > max_bytes else 24
