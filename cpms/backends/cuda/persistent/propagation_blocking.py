"""Deterministic propagation blocking of a graph's edges, for sources without locality.

A binning phase reads x range by range and writes each entry's value to its bin; an accumulation phase sums each bin in
shared memory (Beamer, Asanović and Patterson, 2017). Here the position of each value is fixed beforehand, so sums have
a fixed order and results repeat bit for bit. Each value is written and read once in a stream, in place of one scattered
sector an entry. See ``persistent/propagation_blocking.cuh``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels import structs
from cpms.backends.cuda.kernels.launch_shape import MAX_STAGED_BYTES, BlockingSizes, blocking_sizes
from cpms.backends.cuda.persistent.load_balance import Integers
from cpms.backends.cuda.persistent.sell_slices import RowChunks, SellSlices, SlicePacking, part_of
from cpms.backends.cuda.persistent.tiled_gather import OCTET_NODES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

_MIN_CELL_ENTRIES = 8
"""Entries in a cell from which blocking was faster on an H200: in smaller cells much of the traffic is padding."""
_MIN_GATHERED = 30
"""Bytes of gathered sectors an edge from which it was: hardly two edges of a tile share a sector."""
_RANGE_COST = 500
"""Cost of loading the values of a range, in octets."""
_ALIGNED = 4
"""Octets of which a bin's begin is a multiple."""
_LONG_CELL = 256
"""Entries in the cells of a full bin from which cells are such multiples too, because their padding is then small."""
_AT_ONCE = 1 << 24
"""Entries that are sorted at a time."""


@dataclass(frozen=True, eq=False)
class PropagationBlocking:
    """Edges by the range of their sources, and again in bins by their rows.

    The entries from one range to one bin are a cell. A cell has a value an entry, in octets of values; octets are
    ordered by range, then bin, in the binning phase, and by bin, then range, in the accumulation phase. Fields have the
    names of the kernel's struct.

    Parameters
    ----------
    local_indices : device array of uint16, shape (8 octets,)
        Index of each entry's source in its range.
    octet_targets : device array of uint32, shape (octets // run_octets,)
        Position in the bins of the first octet of each run; the run's other octets follow it.
    range_begins : device array of uint32, shape (ranges + 1,)
        First octet of each range, and the end.
    block_begins : device array of uint32, shape (blocks + 1,)
        First octet of each block, and the end.
    first_ranges : device array of uint32, shape (blocks,)
        Range of that octet.
    run_octets, range_nodes, nodes : int
        Octets in a run, nodes in a range, nodes in all.
    slices : SellSlices
        Entries of the bins.
    binned : device array of uint8
        Buffer of the binned values.
    """

    local_indices: Any
    octet_targets: Any
    range_begins: Any
    block_begins: Any
    first_ranges: Any
    run_octets: int
    range_nodes: int
    nodes: int
    slices: SellSlices
    binned: Any

    @classmethod
    def of(
        cls, sources: Any, entries: padded_csr.PaddedCsr, nodes: int, blocks: int, value_bytes: int
    ) -> PropagationBlocking:
        """Sort the entries of these sources into cells, for so many blocks."""
        chunked = RowChunks.of(entries, value_bytes)
        sizes = blocking_sizes(value_bytes)
        ranges = -(-vector_length(nodes) // sizes.nodes)
        run_octets = _ALIGNED if sizes.octets * OCTET_NODES >= _LONG_CELL * ranges else 1
        block_first_chunks = chunked.blocks(blocks)
        begins, counts = _split_bins(chunked, sources, block_first_chunks, ranges, sizes, run_octets)
        cells = _Cells(chunked.starts_at(begins), counts, run_octets)
        packing = SlicePacking(chunked, block_first_chunks, begins)
        in_bins, in_ranges = cells.local_indices(sources, chunked, packing, sizes)
        block_begins, first_ranges = _split_blocks(cells.range_begins, blocks, run_octets)
        return cls(
            local_indices=in_ranges,
            octet_targets=cells.targets,
            range_begins=words(cells.range_begins),
            block_begins=words(block_begins),
            first_ranges=words(first_ranges),
            run_octets=run_octets,
            range_nodes=sizes.nodes,
            nodes=nodes,
            slices=packing.of(cells.bin_begins, in_bins, sizes.octets),
            binned=current().arrays.zeros(int(cells.bin_begins[-1]) * OCTET_NODES * value_bytes, np.uint8),
        )

    @property
    def argument(self) -> Struct:
        """The kernel argument."""
        return pack(
            structs.PROPAGATION_BLOCKING,
            local_indices=self.local_indices,
            octet_targets=self.octet_targets,
            range_begins=self.range_begins,
            block_begins=self.block_begins,
            first_ranges=self.first_ranges,
            log2_run=self.run_octets.bit_length() - 1,
            range=self.range_nodes,
            values=vector_length(self.nodes),
            slices=self.slices.argument,
            binned=self.binned,
        )

    def streamed_bytes(self, value_bytes: int) -> float:
        """Return the bytes that a sweep streams for its edges: each value is written and read once."""
        values = 2 * value_bytes * self.local_indices.size
        return float(self.local_indices.nbytes + self.octet_targets.nbytes + values + self.slices.streamed_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.argument.held)


def has_long_cells(entries: int, nodes: int, value_bytes: int) -> bool:
    """Return whether cells are long enough on average for padding to be a small part of the traffic."""
    range_nodes, capacity = blocking_sizes(value_bytes)
    return entries >= _MIN_CELL_ENTRIES * -(-nodes // range_nodes) * -(-entries // (OCTET_NODES * capacity))


def is_scattered(sources: Any, edges: int) -> bool:
    """Return whether blocking is faster than a gather for these sources, by samples."""
    return access_sampling.gathered_bytes(sources, MAX_STAGED_BYTES) >= _MIN_GATHERED * float(edges)


class _Cells:
    """Layout of the cells.

    Parameters
    ----------
    begins : array of int, shape (bins + 1,)
        First entry of each bin, and the end.
    counts : device array of int, shape (bins, ranges)
        Entries in each cell.
    run_octets : int
        The octets of a cell are a multiple of this number.
    """

    def __init__(self, begins: Integers, counts: Any, run_octets: int) -> None:
        arrays = current().arrays
        self._begins, self._counts, self._together = begins, counts, run_octets
        octets = _octets(counts, run_octets)
        in_bin = arrays.cumsum(octets, axis=1)
        self._in_bin = in_bin - octets
        of_bins = current().to_host(in_bin[:, -1])
        self.bin_begins: Integers = np.append(0, np.cumsum(-(-of_bins // _ALIGNED) * _ALIGNED))
        self._by_range = arrays.zeros(octets.size + 1, np.int64)
        self._by_range[1:] = arrays.cumsum(octets.T.ravel())
        self.range_begins: Integers = current().to_host(self._by_range[:: len(counts)])
        """First octet of each range, and the end."""

    @property
    def targets(self) -> Any:
        """Position in the bins of each run of octets."""
        arrays = current().arrays
        begins = arrays.asarray(self.bin_begins[:-1])[:, None] + self._in_bin
        octet = arrays.arange(0, int(self.range_begins[-1]), self._together)
        cell = arrays.searchsorted(self._by_range[1:], octet, side="right")
        return ((begins.T.ravel() - self._by_range[:-1])[cell] + octet).astype(np.uint32)

    def local_indices(
        self, sources: Any, chunked: RowChunks, packing: SlicePacking, sizes: BlockingSizes
    ) -> tuple[Any, Any]:
        """Return the index of each entry's value in its bin, by column group, and by octet the index of its source."""
        arrays = current().arrays
        ranges = self._counts.shape[1]
        by_column_group = arrays.full(packing.size, sizes.octets * OCTET_NODES - 1, np.uint16)
        by_octet = arrays.zeros(int(self.range_begins[-1]) * OCTET_NODES, np.uint16)
        octet_begins = self._by_range[:-1].reshape(ranges, -1).T
        chunk_of = part_of(chunked.starts.astype(np.int64), int(self._begins[-1]))
        for first, last in _parts(self._begins):
            part = slice(int(self._begins[first]), int(self._begins[last]))
            key = _keys(sources[part], self._begins[first : last + 1], sizes.nodes, ranges)
            order = arrays.argsort(key, kind="stable")
            key = key[order]
            counts = self._counts[first:last].ravel()
            nth = arrays.arange(key.size) - (arrays.cumsum(counts) - counts)[key]
            row_chunk = chunk_of[part][order]
            into = packing.position(row_chunk, part.start + order - chunked.starts[row_chunk])
            by_column_group[into] = (OCTET_NODES * self._in_bin[first:last].ravel()[key] + nth).astype(np.uint16)
            at = OCTET_NODES * octet_begins[first:last].ravel()[key] + nth
            by_octet[at] = (sources[part][order] % np.uint32(sizes.nodes)).astype(np.uint16)
        return by_column_group, by_octet


def _split_blocks(begins: Integers, blocks: int, run_octets: int) -> tuple[Integers, Integers]:
    """Return the first octet of each block and the end, and the range of each: blocks of about equal cost.

    Examples
    --------
    >>> _split_blocks(np.array([0, 5000, 5000, 6000]), 2, 1)
    (array([   0, 3000, 6000]), array([0, 0]))
    """
    loads = _RANGE_COST * (np.diff(begins) > 0)
    before = begins + np.append(0, np.cumsum(loads))
    target = before[-1] * np.arange(blocks + 1) // blocks
    of_range = np.searchsorted(before[:-1], target, side="right") - 1
    block_begins = begins[of_range] + (target - before[of_range] - loads[of_range]).clip(0) // run_octets * run_octets
    return block_begins, of_range[:-1]


def _octets(counts: Any, run_octets: int) -> Any:
    return -(-counts // (OCTET_NODES * run_octets)) * run_octets


def _split_bins(
    chunked: RowChunks, sources: Any, block_first_chunks: Integers, ranges: int, sizes: BlockingSizes, run_octets: int
) -> tuple[Integers, Any]:
    """Return the first row chunk of each bin and the end, and the number of its entries from each range.

    The bins of a block are of about equal length. Each reserves `_ALIGNED` octets for padding.
    """
    entries, capacity = np.diff(chunked.starts_at(block_first_chunks)), sizes.octets - _ALIGNED
    max_entries = max(1, capacity * OCTET_NODES - OCTET_NODES // 2 * min(run_octets * ranges, capacity))
    parts = -(-entries // max_entries)
    while True:
        begins = chunked.split_evenly(block_first_chunks, parts)
        counts = _count_cells(sources, chunked.starts_at(begins), sizes.nodes, ranges)
        octets = current().to_host(_octets(counts, run_octets).sum(axis=1))
        overfull = (octets > capacity) & (np.diff(begins) > 1)
        if not overfull.any():
            return begins, counts
        block = np.searchsorted(block_first_chunks, begins[:-1][overfull], side="right") - 1
        blocks_to_refine = np.unique(block)
        parts[blocks_to_refine] += np.maximum(1, parts[blocks_to_refine] // 8)


def _count_cells(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return the number of entries of each bin from each range, on the device."""
    arrays, found = current().arrays, []
    for first, last in _parts(begins):
        part = sources[int(begins[first]) : int(begins[last])]
        key = _keys(part, begins[first : last + 1], range_nodes, ranges)
        found.append(arrays.bincount(key, minlength=(last - first) * ranges))
    return arrays.concatenate(found).reshape(-1, ranges)


def _parts(begins: Integers) -> Iterator[tuple[int, int]]:
    """Yield the first bin, and one past the last, of runs of bins that are sorted at a time."""
    number = begins[:-1] // _AT_ONCE
    block_begins = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    yield from zip(block_begins[:-1].tolist(), block_begins[1:].tolist(), strict=True)


def _keys(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return the cell of each entry, by bin, then range, for bins that begin at these entries."""
    return sources // np.uint32(range_nodes) + part_of(begins - begins[0], sources.size) * np.uint32(ranges)
