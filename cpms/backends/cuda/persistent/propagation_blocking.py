"""Deterministic propagation blocking of a graph's edges; see ``persistent/propagation_blocking.cuh``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.launch_shape import MAX_STAGED_BYTES, BlockingSizes, blocking_sizes
from cpms.backends.cuda.persistent.load_balance import Integers
from cpms.backends.cuda.persistent.sell_packing import Cut, Packing, Strands, marked
from cpms.backends.cuda.persistent.tiled_gather import GROUP_NODES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

_LEAST_SLOTS = 8
"""Slots in a cell from which dealing was faster on an H200: of fewer much of what is dealt only fills chunks up."""
_LEAST_GATHERED = 30
"""Bytes of sectors that are gathered an edge from which it was: hardly two edges of a step share one."""
_RANGE_COST = 500
"""What the values of a range cost to bring, in chunks that are dealt."""
_ALIGNED = 4
"""Chunks of which a bin's begin is a multiple."""
_LONG_CELL = 256
"""Slots in the cells of a full bin from which these are such multiples, too: what fills them up is little then."""
_AT_ONCE = 1 << 24
"""Slots that are sorted at once."""


@dataclass(frozen=True, eq=False)
class Deal:
    """Edges by the range of nodes that they begin at, and again in bins by the rows where they end.

    The edges from one range to one bin are a cell. Each has a value a slot, in chunks of eight; they lie by range, then
    by bin, as they are dealt, and by bin, then by range, as the bins read them.

    Parameters
    ----------
    places : device array of uint16, shape (8 chunks,)
        Of each slot's node in its range.
    targets : device array of uint32, shape (chunks // together,)
        Chunk of the dealt values that the first of so many becomes; the others follow it.
    begins : device array of uint32, shape (ranges + 1,)
        First chunk of each range, and behind the last.
    cuts : device array of uint32, shape (blocks + 1,)
        First chunk of each block, and behind the last.
    firsts : device array of uint32, shape (blocks,)
        Range of that chunk.
    together, range_nodes, nodes, value_bytes : int
        Chunks that go to one place, nodes in a range, and in all; bytes of a value, at most.
    strands : Strands
        Of the bins.
    dealt : device array of uint8
        Where values are dealt to.
    """

    places: Any
    targets: Any
    begins: Any
    cuts: Any
    firsts: Any
    together: int
    range_nodes: int
    nodes: int
    value_bytes: int
    strands: Strands
    dealt: Any

    @classmethod
    def of(cls, sources: Any, slots: padded_csr.PaddedCsr, nodes: int, blocks: int, value_bytes: int) -> Deal:
        """Sort slots, whose sources these are, into cells, for so many blocks."""
        cut = Cut.of(slots, value_bytes)
        sizes = blocking_sizes(value_bytes)
        ranges = -(-vector_length(nodes) // sizes.nodes)
        together = _ALIGNED if sizes.octets * GROUP_NODES >= _LONG_CELL * ranges else 1
        block_begins = cut.blocks(blocks)
        begins, counts = _cut(cut, sources, block_begins, ranges, sizes, together)
        cells = _Cells(cut.starts_at(begins), counts, together)
        packing = Packing(cut, block_begins, begins)
        places, dealt_places = cells.places(sources, cut, packing, sizes)
        cuts, firsts = _block_cuts(cells.range_begins, blocks, together)
        return cls(
            places=dealt_places,
            targets=cells.targets,
            begins=words(cells.range_begins),
            cuts=words(cuts),
            firsts=words(firsts),
            together=together,
            range_nodes=sizes.nodes,
            nodes=nodes,
            value_bytes=value_bytes,
            strands=packing.of(cells.bin_begins, places, sizes.octets),
            dealt=current().arrays.zeros(int(cells.bin_begins[-1]) * GROUP_NODES * value_bytes, np.uint8),
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        same = self.together.bit_length() - 1
        counts = np.uint32(same), np.uint32(self.range_nodes), np.uint32(vector_length(self.nodes))
        return *self._arrays, *counts, *self.strands.arguments, self.dealt

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.places, self.targets, self.begins, self.cuts, self.firsts

    def streamed_bytes(self, value_bytes: int) -> float:
        """Return the bytes that a sweep streams for its edges: each value is written and read once."""
        values = 2 * value_bytes * self.places.size
        return float(self.places.nbytes + self.targets.nbytes + values + self.strands.streamed_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in (*self._arrays, self.dealt)) + self.strands.nbytes


def has_long_cells(slots: int, nodes: int, value_bytes: int) -> bool:
    """Return whether little of what is dealt to so many slots only fills chunks up."""
    range_nodes, capacity = blocking_sizes(value_bytes)
    return slots >= _LEAST_SLOTS * -(-nodes // range_nodes) * -(-slots // (GROUP_NODES * capacity))


def is_scattered(sources: Any, edges: int) -> bool:
    """Return whether dealing values to the slots of these sources is faster than gathering them, by samples."""
    return access_sampling.gathered_bytes(sources, MAX_STAGED_BYTES) >= _LEAST_GATHERED * float(edges)


class _Cells:
    """Where cells lie.

    Parameters
    ----------
    begins : array of int, shape (bins + 1,)
        First slot of each bin, and behind the last.
    counts : device array of int, shape (bins, ranges)
        Slots in each cell.
    together : int
        Chunks of which that of a cell is a multiple.
    """

    def __init__(self, begins: Integers, counts: Any, together: int) -> None:
        arrays = current().arrays
        self._begins, self._counts, self._together = begins, counts, together
        chunks = _chunks(counts, together)
        in_bin = arrays.cumsum(chunks, axis=1)
        self._in_bin = in_bin - chunks
        of_bins = current().to_host(in_bin[:, -1])
        self.bin_begins: Integers = np.append(0, np.cumsum(-(-of_bins // _ALIGNED) * _ALIGNED))
        self._by_range = arrays.zeros(chunks.size + 1, np.int64)
        self._by_range[1:] = arrays.cumsum(chunks.T.ravel())
        self.range_begins: Integers = current().to_host(self._by_range[:: len(counts)])
        """First chunk of each range, and behind the last."""

    @property
    def targets(self) -> Any:
        """Where each chunk goes, or the first of some together."""
        arrays = current().arrays
        begins = arrays.asarray(self.bin_begins[:-1])[:, None] + self._in_bin
        chunk = arrays.arange(0, int(self.range_begins[-1]), self._together)
        cell = arrays.searchsorted(self._by_range[1:], chunk, side="right")
        return ((begins.T.ravel() - self._by_range[:-1])[cell] + chunk).astype(np.uint32)

    def places(self, sources: Any, cut: Cut, packing: Packing, sizes: BlockingSizes) -> tuple[Any, Any]:
        """Return by round the place of each slot's value in its bin, and by chunk that of its source in its range."""
        arrays = current().arrays
        ranges = self._counts.shape[1]
        of_rounds = arrays.full(packing.size, sizes.octets * GROUP_NODES - 1, np.uint16)
        of_chunks = arrays.zeros(int(self.range_begins[-1]) * GROUP_NODES, np.uint16)
        dealt_at = self._by_range[:-1].reshape(ranges, -1).T
        strand_of = marked(cut.starts.astype(np.int64), int(self._begins[-1]))
        for first, last in _parts(self._begins):
            mine = slice(int(self._begins[first]), int(self._begins[last]))
            key = _keys(sources[mine], self._begins[first : last + 1], sizes.nodes, ranges)
            order = arrays.argsort(key, kind="stable")
            key = key[order]
            counts = self._counts[first:last].ravel()
            nth = arrays.arange(key.size) - (arrays.cumsum(counts) - counts)[key]
            strand = strand_of[mine][order]
            into = packing.place(strand, mine.start + order - cut.starts[strand])
            of_rounds[into] = (GROUP_NODES * self._in_bin[first:last].ravel()[key] + nth).astype(np.uint16)
            at = GROUP_NODES * dealt_at[first:last].ravel()[key] + nth
            of_chunks[at] = (sources[mine][order] % np.uint32(sizes.nodes)).astype(np.uint16)
        return of_rounds, of_chunks


def _block_cuts(begins: Integers, blocks: int, together: int) -> tuple[Integers, Integers]:
    """Return the first chunk of each block, and behind the last, and the range of each: of about equal cost.

    Examples
    --------
    >>> _block_cuts(np.array([0, 5000, 5000, 6000]), 2, 1)
    (array([   0, 3000, 6000]), array([0, 0]))
    """
    loads = _RANGE_COST * (np.diff(begins) > 0)
    before = begins + np.append(0, np.cumsum(loads))
    wanted = before[-1] * np.arange(blocks + 1) // blocks
    of_range = np.searchsorted(before[:-1], wanted, side="right") - 1
    cuts = begins[of_range] + (wanted - before[of_range] - loads[of_range]).clip(0) // together * together
    return cuts, of_range[:-1]


def _chunks(counts: Any, together: int) -> Any:
    return -(-counts // (GROUP_NODES * together)) * together


def _cut(
    cut: Cut, sources: Any, block_begins: Integers, ranges: int, sizes: BlockingSizes, together: int
) -> tuple[Integers, Any]:
    """Return the first strand of each bin, and behind the last; and how many slots each has of each range.

    A block's bins are as long as each other. Each leaves `_ALIGNED` of its groups for places of nothing.
    """
    slots, capacity = np.diff(cut.starts_at(block_begins)), sizes.octets - _ALIGNED
    most = max(1, capacity * GROUP_NODES - GROUP_NODES // 2 * min(together * ranges, capacity))
    parts = -(-slots // most)
    while True:
        begins = cut.evenly(block_begins, parts)
        counts = _counted(sources, cut.starts_at(begins), sizes.nodes, ranges)
        chunks = current().to_host(_chunks(counts, together).sum(axis=1))
        full = (chunks > capacity) & (np.diff(begins) > 1)
        if not full.any():
            return begins, counts
        block = np.searchsorted(block_begins, begins[:-1][full], side="right") - 1
        more = np.unique(block)
        parts[more] += np.maximum(1, parts[more] // 8)


def _counted(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return how many slots of each bin begin in each range, on the device."""
    arrays, found = current().arrays, []
    for first, last in _parts(begins):
        mine = sources[int(begins[first]) : int(begins[last])]
        key = _keys(mine, begins[first : last + 1], range_nodes, ranges)
        found.append(arrays.bincount(key, minlength=(last - first) * ranges))
    return arrays.concatenate(found).reshape(-1, ranges)


def _parts(begins: Integers) -> Iterator[tuple[int, int]]:
    """Yield first and last of bins that are sorted at once."""
    number = begins[:-1] // _AT_ONCE
    cuts = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    yield from zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _keys(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return the cell of each slot, by bin, then by range, of bins that begin at these slots."""
    return sources // np.uint32(range_nodes) + marked(begins - begins[0], sources.size) * np.uint32(ranges)
