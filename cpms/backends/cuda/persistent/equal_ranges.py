"""Warp ranges of equal shares, built by five small kernels: the arrangement that takes the least time.

Where a graph is solved once, its preparation is a large part of the call, and that of a small graph is mostly launches
and round trips. So entries go straight to where lanes load them, shares are cut on the device, and the host waits once,
for the number of entries. See ``preprocess/equal_ranges.cu``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.kernels.template import EQUAL_RANGES, WHOLE_VALUES
from cpms.backends.cuda.persistent.load_balance import STREAMED
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges, blocks_for, warps_for
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import DeviceRows, require_countable

_COUNT_EMPTY, _PLACE_STARTS, _FILL_TILES, _SPLIT, _DESCRIBE = EQUAL_RANGES


def equal_ranges(
    rows: DeviceRows, range_tiles: int, *, value_bytes: int, warps: int | None = None
) -> tuple[WarpRanges, Any]:
    """Return the ranges of rows without weights, in their order, and the first entry of each row and the last's end.

    Parameters are those of `WarpRanges.of`.
    """
    backend = current()
    arrays, nodes = backend.arrays, np.uint32(rows.nodes)
    backend.compile(EQUAL_RANGES)
    blocks = backend.grid_size(rows.nodes, each=4)
    empty, starts = arrays.empty(blocks, np.uint32), arrays.empty(rows.nodes + 1, np.uint32)
    backend.run(_COUNT_EMPTY, blocks, (rows.indptr, nodes, empty))
    backend.run(_PLACE_STARTS, blocks, (rows.indptr, nodes, empty, starts))
    # Where each node has an entry of its own at most, the count is within 32 bits.
    require_countable(rows.name, rows.edges, rows.edges + rows.nodes)
    count = int(backend.fetch_async(starts[rows.nodes :])()[0])
    tiles = -(-count // WHOLE_VALUES)
    sources, flags = arrays.empty(tiles * WHOLE_VALUES, np.uint32), arrays.empty(tiles * 32, np.uint16)
    tile_rows = arrays.empty(tiles + 1, np.uint32)
    given = rows.indptr, starts, rows.sources, nodes, np.uint32(tiles), sources, flags, tile_rows
    backend.run(_FILL_TILES, backend.grid_size(32 * tiles), given)
    shape = SHAPES[warps or warps_for(sources, rows.nodes, value_bytes)]
    blocks = blocks_for(shape, -(-tiles // range_tiles) if range_tiles else tiles)
    ranges = -(-tiles // range_tiles) if range_tiles else min(tiles, blocks * shape.warps)
    if range_tiles:
        ends = np.append(np.arange(0, tiles, range_tiles), tiles)
        begins = backend.upload(ends.astype(np.uint32))
    else:
        begins = arrays.empty(ranges + 1, np.uint32)
        costs = np.uint32(STREAMED.tile // STREAMED.row)
        backend.run(_SPLIT, 1, (tile_rows, np.uint32(tiles), np.uint32(ranges), costs, begins))
    first_rows, first_ranges = (arrays.empty(ranges, np.uint32) for _ in range(2))
    carry_out = arrays.empty(ranges, np.uint64)
    described = starts, tile_rows, begins, np.uint32(ranges), first_rows, first_ranges, carry_out
    backend.run(_DESCRIBE, backend.grid_size(ranges), described)
    made = WarpRanges(
        shape=shape,
        blocks=blocks,
        block_ranges=min(shape.warps, -(-ranges // blocks)),
        tiles=tiles,
        sources=sources,
        row_end_flags=flags,
        range_begins=begins,
        first_rows=first_rows,
        first_ranges=first_ranges,
        carry_out=carry_out,
    )
    return made, starts
