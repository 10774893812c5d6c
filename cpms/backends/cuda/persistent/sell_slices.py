"""SELL slices of the entries of each bin: row chunks of about equal length, one a lane.

SELL-C-sigma with C = 32 (Kreutzer et al., 2014): rows longer than a limit are cut into chunks, chunks are sorted by
length within a window, and 32 consecutive ones form a slice, stored by groups of 4 columns. Lanes sum whole chunks
without exchanging partial sums, at the cost of padding to the longest chunk of a slice. See
``persistent/sell_slices.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import MAX_WINDOW_SUMS, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.persistent import tiled_gather
from cpms.backends.cuda.persistent.load_balance import Integers
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

_LANES, _GROUP_COLUMNS = 32, 4
"""Lanes of a slice, and columns of a column group."""
MAX_CHUNK = 128
"""Entries of a chunk at most."""
_MAX_WIDE_CHUNK, _LONG_ROW, _WIDE_BYTES = 24, 20, 8
"""Entries of a chunk of float64 values (`_WIDE_BYTES`) at most: with longer chunks some warps of a bin would have none.

It applies where rows are longer than `_LONG_ROW` on average, or some rows are cut anyway.
"""
NO_CHUNK = 0xFFFF
_PREFETCHED = 12
"""Column groups and slices that a warp prefetches beyond its own; as in ``persistent/sell_slices.cuh``."""
_MAX_PREFETCHED = _PREFETCHED + 16
"""Column groups past the last that are prefetched, for slices of the largest prefetched length."""
_LAST_OF_WINDOW = 1 << 31
_ROW_COST = 6
"""Cost of a row end in a sweep, in entries."""


@dataclass(frozen=True, eq=False)
class RowChunks:
    """Rows, cut into chunks.

    Parameters
    ----------
    starts : device array of uint32, shape (chunks + 1,)
        First entry of each chunk, and the end.
    rows : device array of uint32, shape (chunks + 1,)
        Row of each chunk, and the number of rows.
    ends : device array of uint32, shape (rows,), or None
        One past the last chunk of each row; None where each row is one chunk.
    """

    starts: Any
    rows: Any
    ends: Any | None

    @classmethod
    def of(cls, entries: padded_csr.PaddedCsr, value_bytes: int) -> RowChunks:
        """Cut rows into as few chunks as possible, of about equal length in a row."""
        arrays = current().arrays
        begins = entries.starts
        lengths = begins[1:] - begins[:-1]
        is_wide = value_bytes >= _WIDE_BYTES
        fits = int(current().to_host(lengths.max())) <= MAX_CHUNK
        if fits and not (is_wide and entries.count > _LONG_ROW * len(lengths)):
            return cls(begins, arrays.arange(len(begins), dtype=np.uint32), None)
        parts = _ceil(lengths, _MAX_WIDE_CHUNK if is_wide else MAX_CHUNK)
        ends = arrays.cumsum(parts, dtype=np.uint32)
        chunk = arrays.arange(int(current().to_host(ends[-1:])[0]), dtype=np.uint32)
        rows = arrays.searchsorted(ends, chunk, side="right")
        size = _GROUP_COLUMNS * _ceil(_ceil(lengths, parts), _GROUP_COLUMNS)
        nth = chunk - (ends - parts)[rows]
        starts, of = arrays.zeros(len(chunk) + 1, np.uint32), arrays.zeros(len(chunk) + 1, np.uint32)
        starts[:-1], starts[-1:] = begins[rows] + size[rows] * nth, begins[-1:]
        of[:-1], of[-1:] = rows, len(lengths)
        return cls(starts, of, ends)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.starts) - 1

    def starts_at(self, chunks: Integers) -> Integers:
        """Return the first entries of some chunks, in host memory."""
        found: Integers = current().to_host(self.starts[current().arrays.asarray(chunks)]).astype(np.int64)
        return found

    def blocks(self, blocks: int) -> Integers:
        """Return the first chunk of each block, and the end: blocks of about equal cost."""
        arrays = current().arrays
        cost = self.starts.astype(np.int64) + _ROW_COST * self.rows.astype(np.int64)
        target = arrays.asarray(int(current().to_host(cost[-1:])[0]) * np.arange(blocks + 1) // blocks)
        found: Integers = current().to_host(arrays.searchsorted(cost, target)).astype(np.int64)
        return found

    def split_evenly(self, block_begins: Integers, parts: Integers) -> Integers:
        """Split each block into at most so many bins of about equal length; return their first chunks, and the end."""
        bounds = self.starts_at(block_begins)
        target, _ = tiled_gather.split_evenly(bounds[:-1], bounds[1:], parts)
        found = current().to_host(current().arrays.searchsorted(self.starts, words(target))).astype(np.int64)
        return np.unique(np.concatenate([found, block_begins]))


@dataclass(frozen=True, eq=False)
class SellSlices:
    """Slices, window by window, for a number of blocks, as the kernel's struct; all but ``capacity`` are device arrays.

    Parameters
    ----------
    block_windows : uint32, shape (blocks + 1,)
        First window of each block, and the end.
    window_bins : uint32, shape (windows + 1,)
        Bin of each window, and the number of bins.
    value_begins : uint32, shape (bins + 1,)
        Begin of the values of each bin, in octets, and the end.
    chunk_begins, first_rows : uint32, shape (windows + 1,)
        First chunk of each window and its row, and the numbers of chunks and rows.
    warp_starts : uint32, shape (blocks * warps, 2)
        First slice of each warp, and its first column group.
    slice_words : uint32, shape (slices + 2,)
        Column groups of each slice, in the order in which warps process them; the top bit flags a warp's last slice of
        a window.
    slice_chunks : uint16, shape ((slices + 2 + _PREFETCHED) * 32,)
        Chunk of each lane within its window, or `NO_CHUNK`.
    local_indices : uint16
        By column group, then by lane, indices of four values of a bin.
    last_chunks : uint16, shape (rows,), or None
        Last chunk of each row within its window; None where each row is one chunk.
    first_blocks : uint32, shape (blocks,)
        Block in which the first row of each block begins.
    capacity : int
        Octets that a bin holds at most, that of the padding included.
    carry_out : uint64, shape (blocks,)
        Partial sums of rows that continue in the next block; all ones where there is none.
    """

    block_windows: Any
    window_bins: Any
    value_begins: Any
    chunk_begins: Any
    first_rows: Any
    warp_starts: Any
    slice_words: Any
    slice_chunks: Any
    local_indices: Any
    last_chunks: Any | None
    first_blocks: Any
    capacity: int
    carry_out: Any

    @property
    def argument(self) -> Struct:
        """The kernel argument."""
        return pack(structs.SELL_SLICES, **vars(self))

    @property
    def streamed_bytes(self) -> float:
        """Bytes that a sweep reads once."""
        last = 0 if self.last_chunks is None else self.last_chunks.nbytes
        return float(self.slice_words.nbytes + self.slice_chunks.nbytes + self.local_indices.nbytes + last)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.argument.held)


class SlicePacking:
    """Positions of the entries of chunks in slices.

    Parameters
    ----------
    chunked : RowChunks
    block_begins, bin_begins : array of int
        First chunk of each block, and of each bin, and the end.
    """

    def __init__(self, chunked: RowChunks, block_begins: Integers, bin_begins: Integers) -> None:
        arrays = current().arrays
        self._chunked, self._block_begins, self._bin_begins = chunked, block_begins, bin_begins
        self._begins = windows(bin_begins)
        slices = np.maximum(-(-np.diff(self._begins) // _LANES), SHARED_MEMORY_SHAPE.warps)
        first_slices = np.cumsum(slices) - slices
        window = part_of(self._begins, chunked.count)
        lengths = (chunked.starts[1:] - chunked.starts[:-1]).astype(np.int64)
        # Within a window the longest chunks come first.
        order = arrays.argsort(window.astype(np.int64) * (MAX_CHUNK + 1) + (MAX_CHUNK - lengths), kind="stable")
        window = window[order]
        first = arrays.asarray(self._begins)[window]
        rank = arrays.arange(chunked.count) - first
        sequence, is_last, first_of_warp = self._sequence(slices, first_slices)
        position = arrays.empty(len(sequence), np.int64)
        position[sequence] = arrays.arange(len(sequence))
        slice_index, lane = position[arrays.asarray(first_slices)[window] + rank // _LANES], rank % _LANES
        column_groups = arrays.zeros(len(sequence) + 2, np.int64)
        longest = lane == 0
        column_groups[slice_index[longest]] = _ceil(lengths[order[longest]], _GROUP_COLUMNS)
        begins = arrays.cumsum(column_groups) - column_groups
        self.size = _LANES * _GROUP_COLUMNS * (int(current().to_host(begins[-1:])[0]) + _MAX_PREFETCHED)
        """Length of the local indices, with the column groups past the end that are prefetched."""
        self._first_positions = arrays.empty(chunked.count, np.int64)
        self._first_positions[order] = _LANES * _GROUP_COLUMNS * begins[slice_index] + _GROUP_COLUMNS * lane
        self._slice_chunks = arrays.full((len(sequence) + 2 + _PREFETCHED) * _LANES, NO_CHUNK, np.uint16)
        self._slice_chunks[_LANES * slice_index + lane] = (order - first).astype(np.uint16)
        self._slice_words = (column_groups + arrays.asarray(_LAST_OF_WINDOW * is_last)).astype(np.uint32)
        warp_starts = arrays.asarray(first_of_warp)
        self._warp_starts = arrays.zeros((len(warp_starts), 2), np.uint32)
        self._warp_starts[:, 0], self._warp_starts[:, 1] = warp_starts, begins[warp_starts]

    def position(self, chunk: Any, entry: Any) -> Any:
        """Return the positions of entries of some chunks: four by four, one column group further each time."""
        return (
            self._first_positions[chunk] + entry // _GROUP_COLUMNS * (_LANES * _GROUP_COLUMNS) + entry % _GROUP_COLUMNS
        )

    def _sequence(self, slices: Integers, first_slices: Integers) -> tuple[Any, Integers, Integers]:
        """Return the slices in the order in which warps process them; warps take those of a window in zigzag order.

        Also a flag, 1 or 0, for a warp's last slice of a window, with two zeros past the end; and the first slice of
        each warp.
        """
        warps = SHARED_MEMORY_SHAPE.warps
        window = np.repeat(np.arange(len(slices)), slices)
        pass_index, warp = np.divmod(np.arange(len(window)) - first_slices[window], warps)
        warp = np.where(pass_index % 2, warps - 1 - warp, warp)
        block = np.searchsorted(self._block_begins, self._begins[:-1], side="right") - 1
        warp_index = block[window] * warps + warp
        order = current().arrays.argsort(current().arrays.asarray((warp_index << 32) + window), kind="stable")
        warp_index, window = (part[current().to_host(order)] for part in (warp_index, window))
        ends = np.append((np.diff(warp_index) != 0) | (np.diff(window) != 0), True)
        first_of_warp = np.searchsorted(warp_index, np.arange((len(self._block_begins) - 1) * warps))
        return order, np.append(ends, [False, False]).astype(np.int64), first_of_warp

    def of(self, value_begins: Integers, local_indices: Any, capacity: int) -> SellSlices:
        """Build the slices whose entries have these indices in bins that begin at ``value_begins``."""
        arrays, begins = current().arrays, self._begins
        which = np.searchsorted(self._bin_begins[:-1], begins, side="right") - 1
        which[-1] += 1
        return SellSlices(
            block_windows=words(np.searchsorted(begins, self._block_begins)),
            window_bins=words(which),
            value_begins=words(value_begins),
            chunk_begins=words(begins),
            first_rows=self._chunked.rows[arrays.asarray(begins)],
            warp_starts=self._warp_starts,
            slice_words=self._slice_words,
            slice_chunks=self._slice_chunks,
            local_indices=local_indices,
            last_chunks=self._last_chunks,
            first_blocks=words(self._first_blocks),
            capacity=capacity,
            carry_out=arrays.full(len(self._block_begins) - 1, np.uint64(2**64 - 1), np.uint64),
        )

    @property
    def _last_chunks(self) -> Any | None:
        if self._chunked.ends is None:
            return None
        last = self._chunked.ends.astype(np.int64) - 1
        begins = current().arrays.asarray(self._begins)
        return (last - begins[current().arrays.searchsorted(begins, last, side="right") - 1]).astype(np.uint16)

    @property
    def _first_blocks(self) -> Integers:
        """Where each row is one chunk, no row begins in an earlier block."""
        begins = self._block_begins[:-1]
        if self._chunked.ends is None:
            return np.arange(len(begins))
        arrays = current().arrays
        row_ends = arrays.zeros(len(self._chunked.ends) + 1, np.int64)
        row_ends[1:] = self._chunked.ends
        first = current().to_host(row_ends[self._chunked.rows[arrays.asarray(begins)].astype(np.int64)])
        return np.searchsorted(begins, first, side="right") - 1


def windows(bin_begins: Integers) -> Integers:
    """Return the first chunk of each window of bins with these first chunks, and the end.

    Windows of a bin have about as many chunks, such that each warp of a block has as many slices as the others, except
    in the last window.

    Examples
    --------
    >>> windows(np.array([0, 3000, 4000])).tolist()
    [0, 1536, 3000, 4000]
    """
    chunks_per_pass = min(SHARED_MEMORY_SHAPE.warps * _LANES, MAX_WINDOW_SUMS)
    passes = -(-np.diff(bin_begins) // chunks_per_pass)
    parts = -(-passes // (MAX_WINDOW_SUMS // chunks_per_pass))
    first = np.repeat(bin_begins[:-1], parts)
    begins, _ = tiled_gather.split_evenly(np.zeros_like(passes), passes, parts)
    # The shorter pass comes last.
    found: Integers = np.append(first + chunks_per_pass * begins, bin_begins[-1])
    return found


def part_of(begins: Integers, count: int) -> Any:
    """Return the part of each of ``count`` elements, on the device, for parts with these begins, which all differ."""
    flags = current().arrays.zeros(count, np.uint32)
    flags[current().arrays.asarray(begins[1:-1])] = 1
    return current().arrays.cumsum(flags, dtype=np.uint32)


def _ceil(numbers: Any, by: Any) -> Any:
    return (numbers + by - 1) // by
