"""Load balance: partitions of the tiles into parts of about equal cost for blocks and warps.

A cost model adds weights of tiles, rows and touched cache lines; parts begin at quantiles of its prefix sum, as in
merge-based CSR products (Merrill and Garland, 2016). Static parts cost nothing in a sweep, and a sweep takes as long as
its slowest warp.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr

Integers = npt.NDArray[np.int64]

_COUNT_LINES = Variant("count_lines")
_WARP = 32
"""Threads that count the cache lines of a tile together."""
_LINE_BYTES = 128


class _Weights(NamedTuple):
    """Cost in a sweep of a tile of 256 entries, of a row, and of a cache line that a tile's gathers touch."""

    tile: int
    row: int
    line: int


STREAMED, _IN_CACHE = _Weights(100, 1, 0), _Weights(200, 2, 1)
_INNER = _Weights(1300, 10, 3)
"""Weights of inner sweeps that write the quantised residual alone; the best for web graphs on an H100 among rows of 60
to 200 a tile and line weights of 0 to 1.
"""


def streamed_costs(entries: padded_csr.PaddedCsr) -> Integers:
    """Return the prefix sum of the cost of tiles where memory bandwidth limits a sweep, in rows."""
    return _without_lines(entries, STREAMED)


def inner_costs(entries: padded_csr.PaddedCsr, sources: Any, value_bytes: int) -> Integers:
    """Return the prefix sum of the cost of tiles in inner sweeps, in tenths of rows; see `in_cache_costs`."""
    return _with_lines(entries, sources, value_bytes, _INNER)


def in_cache_costs(entries: padded_csr.PaddedCsr, sources: Any, value_bytes: int) -> Integers:
    """Return the prefix sum of the cost of tiles of a graph in the device's cache, in lines.

    Parameters
    ----------
    entries : PaddedCsr
    sources : device array of uint32
        By entry.
    value_bytes : int
        Size of a gathered value.
    """
    return _with_lines(entries, sources, value_bytes, _IN_CACHE)


def _without_lines(entries: padded_csr.PaddedCsr, weights: _Weights) -> Integers:
    cost: Integers = weights.row * entries.rows_ended + weights.tile * np.arange(entries.tiles + 1)
    return cost


def _with_lines(entries: padded_csr.PaddedCsr, sources: Any, value_bytes: int, weights: _Weights) -> Integers:
    touched = current().arrays.empty(entries.tiles, np.uint16)
    arguments = sources, np.uint32(entries.tiles), np.uint32(_LINE_BYTES // value_bytes), touched
    current().run(_COUNT_LINES, current().grid_size(_WARP * entries.tiles), arguments)
    cost = _without_lines(entries, weights)
    cost[1:] += weights.line * np.cumsum(current().to_host(touched), dtype=np.int64)
    return cost


def equal_parts(cost: Integers, begins: Integers, ends: Integers, parts: int) -> Integers:
    """Return the first tile of parts of about equal cost within each of some ranges of tiles.

    Parameters
    ----------
    cost : array of int, shape (tiles + 1,)
        Prefix sum of the cost of tiles.
    begins, ends : arrays of int, shape (ranges,)
    parts : int

    Returns
    -------
    array of int, shape (ranges, parts)

    Examples
    --------
    >>> equal_parts(np.array([0, 1, 2, 3, 4, 8]), np.array([0, 2]), np.array([4, 5]), 2).tolist()
    [[0, 2], [2, 5]]
    """
    total = cost[ends] - cost[begins]
    target = cost[begins, None] + total[:, None] * np.arange(parts) // parts
    found: Integers = np.clip(np.searchsorted(cost, target), begins[:, None], ends[:, None])
    return found


def nonempty_parts(cost: Integers, begins: Integers, ends: Integers, parts: int) -> Integers:
    """Return such parts without an empty one, except the last parts of a range with fewer tiles than parts.

    Examples
    --------
    >>> nonempty_parts(np.array([0, 1, 2, 3, 256]), np.array([0]), np.array([4]), 2).tolist()
    [[0, 3]]
    >>> nonempty_parts(np.array([0, 9, 10, 11]), np.array([0, 2]), np.array([2, 3]), 3).tolist()
    [[0, 1, 2], [2, 3, 3]]
    """
    counts = np.minimum(parts, ends - begins)[:, None]
    indices = np.arange(parts)
    target = cost[begins, None] + (cost[ends] - cost[begins])[:, None] * indices // counts
    found = np.maximum.accumulate(np.searchsorted(cost, target) - indices, axis=1) + indices
    filled: Integers = np.minimum(np.minimum(found, ends[:, None] - counts + indices), ends[:, None])
    return filled


def split_tiles(cost: Integers, parts: int) -> Integers:
    """Return the first tile of each of ``parts`` non-empty parts of all tiles, or of one part a tile."""
    tiles = len(cost) - 1
    (begins,) = nonempty_parts(cost, np.zeros(1, np.int64), np.array([tiles]), min(parts, tiles))
    return np.asarray(begins)


def split_blocks(cost: Integers, block_begins: Integers, max_parts: int) -> Integers:
    """Return the first tile of each warp, for blocks that begin at these tiles; all blocks have as many warps."""
    ends = np.append(block_begins[1:], len(cost) - 1)
    return nonempty_parts(cost, block_begins, ends, min(max_parts, int((ends - block_begins).max()))).ravel()


def align_to_rows(
    entries: padded_csr.PaddedCsr, begins: Integers, warps: int
) -> tuple[padded_csr.PaddedCsr, Integers] | None:
    """Return entries, and tiles near ``begins``, such that blocks begin with rows.

    A block that begins with a row needs no carry-out of the block before. A block moves by at most an eighth of its
    length; where no row begins so near, it begins within a row, or as few tiles from its start. Returns None if a block
    begins within a row while another has fewer tiles than warps: a warp without a tile must not lie within a row.
    """
    target = begins * WHOLE_VALUES
    amid = entries.rows_at(current().arrays.asarray(target.astype(np.uint32)))
    row = current().to_host(amid).astype(np.int64)
    block_entries = WHOLE_VALUES * np.diff(np.append(begins, entries.tiles))
    before, after = target - entries.starts_of(row), entries.starts_of(row + 1) - target
    is_after = (after < before) & (row + 2 < len(entries.starts))
    is_near = np.where(is_after, after, before) <= block_entries // 8
    row += is_near & is_after
    moved = entries.aligned_to_tiles(np.unique(row[is_near]))
    found = (moved.starts_of(row) + np.where(is_near, 0, before)) // WHOLE_VALUES
    lengths = np.diff(np.append(found, moved.tiles))
    all_filled = is_near[1:].all() or lengths.min() >= warps
    return (moved, found) if all_filled and (lengths > 0).all() else None
