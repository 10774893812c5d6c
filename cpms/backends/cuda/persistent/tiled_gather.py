"""Tiled gather: the values that a panel's entries gather lie in shared memory while a block sums the panel.

A panel is a run of tiles whose sources fall into few octets of eight neighbouring nodes. A block copies their values
from x to shared memory, and entries index the copy with 16 bits (tiling as in Yang, Buluç and Owens, 2018). An octet is
read once a panel instead of once an entry, at the cost of lists of octets; it is worthwhile where an entry needs few
octets. See ``persistent/tiled_gather.cuh``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import PANEL_OCTETS, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.persistent.load_balance import Integers, equal_parts, streamed_costs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

OCTET_NODES = 8
_MAX_OCTETS = 0.08
"""Octets an edge up to which the tiled gather was faster on an H200."""
_SAMPLES, _SAMPLED_TILES = 16, 256
"""Number of sampled runs of tiles, and their length: about that of a panel."""
_AT_ONCE = 1 << 24
"""Entries that are sorted at a time."""


@dataclass(frozen=True, eq=False)
class Panels:
    """Edges in panels, for a number of blocks.

    Parameters
    ----------
    block_panels : device array of uint32, shape (blocks + 1,)
        First panel of each block, and one past the last.
    ranges : device array of uint32, shape (panels, warps, 4)
        First tile, number of tiles, and row of the first entry, of each warp.
    list_begins : device array of uint32, shape (panels + 1,)
        Begin of the list of each panel, and the end.
    lists : device array of uint32
        Lists of the octets of nodes that contain a panel's sources.
    local_indices : device array of uint16
        Index of each entry's value among those of its panel.
    row_end_flags : device array of uint16
        Those of the edges; see `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.to_device`.
    first_blocks : device array of uint32, shape (blocks,)
        Block in which the first row of each block begins.
    capacity : int
        Octets that a list can have.
    carry_out : device array of uint64
        Partial sums of rows that continue in the next block; all ones where there is none.
    """

    block_panels: Any
    ranges: Any
    list_begins: Any
    lists: Any
    local_indices: Any
    row_end_flags: Any
    first_blocks: Any
    capacity: int
    carry_out: Any

    @classmethod
    def of(cls, sources: Any, row_end_flags: Any, entries: padded_csr.PaddedCsr, blocks: int) -> Panels:
        """Partition the tiles of these sources into panels for so many blocks, and list their octets."""
        block_begins = balanced_blocks(entries, blocks)
        begins = _panel_begins(sources, block_begins, PANEL_OCTETS)
        list_begins, lists, local_indices = _list_octets(sources, begins)
        range_begins = equal_parts(streamed_costs(entries), begins[:-1], begins[1:], SHARED_MEMORY_SHAPE.warps)
        tiles = np.diff(np.column_stack([range_begins, begins[1:]]), axis=1)
        first_rows = _rows_of(entries, range_begins.ravel())
        block_panels = np.searchsorted(begins, np.append(block_begins, entries.tiles))
        block_rows = _rows_of(entries, block_begins)
        row_starts = entries.starts_of(block_rows)
        return cls(
            block_panels=words(block_panels),
            ranges=words(np.column_stack([range_begins.ravel(), tiles.ravel(), first_rows, 0 * first_rows])),
            list_begins=words(list_begins),
            lists=lists,
            local_indices=local_indices,
            row_end_flags=row_end_flags,
            first_blocks=words(np.searchsorted(block_begins * WHOLE_VALUES, row_starts, side="right") - 1),
            capacity=PANEL_OCTETS,
            carry_out=current().arrays.full(len(block_begins), np.uint64(2**64 - 1), np.uint64),
        )

    def argument(self, rows: int) -> Struct:
        """Return the kernel argument: panels of so many rows."""
        return pack(
            structs.PANELS,
            **vars(self),
            tiles=self.local_indices.size // WHOLE_VALUES,
            rows=rows,
        )

    @property
    def streamed_bytes(self) -> float:
        """Bytes of indices, row-end flags and lists, which a sweep reads once."""
        return float(self.local_indices.nbytes + padded_csr.FLAG_BYTES * self.local_indices.size + self.lists.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the row-end flags, which belong to the edges."""
        lists = self.block_panels, self.ranges, self.list_begins, self.lists
        return sum(int(part.nbytes) for part in (*lists, self.local_indices, self.first_blocks, self.carry_out))


def is_worthwhile(sources: Any) -> bool:
    """Return whether panels of these sources have few octets an edge, by samples."""
    tiles = sources.reshape(-1, WHOLE_VALUES)
    length = min(_SAMPLED_TILES, len(tiles))
    sampled = np.linspace(0, len(tiles) - length, _SAMPLES).astype(np.int64)[:, None] + np.arange(length)
    octets = tiles[current().arrays.asarray(sampled.ravel())].reshape(_SAMPLES, -1) // np.uint32(OCTET_NODES)
    return access_sampling.mean_distinct(octets) <= _MAX_OCTETS * int(octets.shape[1])


def balanced_blocks(entries: padded_csr.PaddedCsr, blocks: int) -> Integers:
    """Return the first tile of each block, shape (blocks,): all have about equal cost."""
    (begins,) = equal_parts(streamed_costs(entries), np.array([0]), np.array([entries.tiles]), blocks)
    return np.asarray(begins)


def split_evenly(begins: Integers, ends: Integers, parts: Integers) -> tuple[Integers, Integers]:
    """Split each range into so many parts of about equal length; return the begins and the ends of the parts.

    Examples
    --------
    >>> [found.tolist() for found in split_evenly(np.array([0, 4]), np.array([4, 9]), np.array([1, 2]))]
    [[0, 4, 6], [4, 6, 9]]
    """
    which = np.repeat(np.arange(len(parts)), parts)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
    length, of = (ends - begins)[which], parts[which]
    return begins[which] + length * nth // of, begins[which] + length * (nth + 1) // of


def _rows_of(entries: padded_csr.PaddedCsr, tiles: Integers) -> Integers:
    """Return the row of the first entry of each tile; for a position past the last tile, the last row."""
    first_entries = current().arrays.asarray(np.minimum(tiles * WHOLE_VALUES, entries.count - 1).astype(np.uint32))
    return current().to_host(entries.rows_at(first_entries)).astype(np.int64)


def _panel_begins(sources: Any, block_begins: Integers, capacity: int) -> Integers:
    """Return the first tile of each panel, and the end: as many tiles of a block as the capacity of a list allows."""
    tiles = sources.size // WHOLE_VALUES
    ends = np.append(block_begins[1:], tiles)
    nonempty = block_begins < ends
    begins, ends = block_begins[nonempty], ends[nonempty]
    done: list[Integers] = []
    max_octets = capacity - 3  # Lists are filled up to a multiple of 4.
    while len(begins):
        counts = np.concatenate([_count_octets(keys, panels) for keys, _, panels in _keys(sources, begins, ends)])
        fits = (counts <= max_octets) | (ends - begins <= 1)
        done.append(begins[fits])
        begins, ends, counts = begins[~fits], ends[~fits], counts[~fits]
        # Parts that still do not fit are split again.
        parts = np.minimum(-(-counts * 33 // (32 * max_octets)), ends - begins)
        begins, ends = split_evenly(begins, ends, parts)
    return np.append(np.sort(np.concatenate(done)), tiles)


def _keys(sources: Any, begins: Integers, ends: Integers, *, inverse: bool = False) -> Iterator[tuple[Any, Any, int]]:
    """Yield, for a few panels at a time, the octets of each as sorted keys ``panel << 32 | octet``.

    Also the index of each entry's octet among these, if requested, and the number of panels.
    """
    arrays = current().arrays
    tiles = sources.reshape(-1, WHOLE_VALUES)
    chunk = (np.cumsum(ends - begins) * WHOLE_VALUES) // _AT_ONCE
    for number in np.unique(chunk):
        selected = chunk == number
        lengths = (ends - begins)[selected]
        panel_of = np.repeat(np.arange(len(lengths)), lengths)
        tile_of = np.repeat(begins[selected] - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(panel_of))
        octets = (tiles[arrays.asarray(tile_of)] // np.uint32(OCTET_NODES)).astype(np.uint64)
        keys = (octets | arrays.asarray(panel_of.astype(np.uint64) << np.uint64(32))[:, None]).ravel()
        found = arrays.unique(keys, return_inverse=inverse)
        unique, local_indices = found if inverse else (found, None)
        yield unique.astype(np.int64), local_indices, len(lengths)


def _count_octets(keys: Any, panels: int) -> Integers:
    """Return the number of octets of each panel."""
    return current().to_host(current().arrays.bincount(keys >> 32, minlength=panels)).astype(np.int64)


def _list_octets(sources: Any, begins: Integers) -> tuple[Integers, Any, Any]:
    """Return the begins of lists, the lists, and the index of each entry's value in its panel."""
    arrays = current().arrays
    list_begins, lists, local_indices, done = [np.zeros(1, np.int64)], [], [], 0
    for keys, inverse, panels in _keys(sources, begins[:-1], begins[1:], inverse=True):
        panel_of, counts = keys >> 32, _count_octets(keys, panels)
        firsts = np.cumsum(counts) - counts
        padded = -(-counts // 4) * 4
        shift = np.cumsum(padded) - padded - firsts
        filled = arrays.zeros(int(padded.sum()), np.uint32)
        filled[arrays.asarray(shift)[panel_of] + arrays.arange(len(keys))] = keys & (2**32 - 1)
        lists.append(filled)
        list_begins.append(list_begins[-1][-1] + np.cumsum(padded))
        entries = sources[done : done + inverse.size]
        local_index = (inverse.reshape(-1) - arrays.asarray(firsts)[panel_of[inverse.reshape(-1)]]) * OCTET_NODES
        local_indices.append((local_index + entries % np.uint32(OCTET_NODES)).astype(np.uint16))
        done += inverse.size
    return np.concatenate(list_begins), arrays.concatenate(lists), arrays.concatenate(local_indices)
