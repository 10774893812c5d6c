"""Edges whose values are dealt to bins, so that no gather leaves a multiprocessor; see ``deal.cuh``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.cuda import arrange, bins, samples
from cpms.cuda.backend import current
from cpms.cuda.bins import GROUP_NODES, Bins, Integers, Values
from cpms.cuda.shape import BINNED_BYTES, dealt_sizes
from cpms.cuda.variants import WHOLE_VALUES
from cpms.cuda.vectors import vector_length

_LEAST_SLOTS = 8
"""Slots in a cell from which dealing was faster on an H200: of fewer much of what is dealt only fills chunks up."""
_LEAST_GATHERED = 30
"""Bytes of sectors that are gathered an edge from which it was: hardly two edges of a step share one."""
_RANGE_COST = 500
"""What the values of a range cost to bring, in chunks that are dealt."""
_ALIGNED = 4
"""Chunks of which a bin's begin is a multiple."""
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
    targets : device array of uint32, shape (chunks,)
        Chunk of the dealt values that each becomes.
    begins : device array of uint32, shape (ranges + 1,)
        First chunk of each range, and behind the last.
    cuts : device array of uint32, shape (blocks + 1,)
        First chunk of each block, and behind the last.
    firsts : device array of uint32, shape (blocks,)
        Range of that chunk.
    range_nodes, nodes, value_bytes : int
        Nodes in a range, and in all; bytes of a value, at most.
    bins : Bins
    dealt : device array of uint8
        Where values are dealt to.
    """

    places: Any
    targets: Any
    begins: Any
    cuts: Any
    firsts: Any
    range_nodes: int
    nodes: int
    value_bytes: int
    bins: Bins
    dealt: Any

    @classmethod
    def of(cls, sources: Any, marks: Any, slots: arrange.Slots, nodes: int, blocks: int, value_bytes: int) -> Deal:
        """Sort steps of 256 slots, whose sources these are, into cells."""
        range_nodes, capacity = dealt_sizes(value_bytes)
        ranges = -(-vector_length(nodes) // range_nodes)
        block_begins = bins.begins_of_blocks(slots, blocks)
        begins, counts = _cut(sources, block_begins, range_nodes, ranges, capacity)
        cells = _Cells(begins, counts)
        places, dealt_places = cells.places(sources, range_nodes)
        cuts, firsts = _block_cuts(cells.range_begins, blocks)
        return cls(
            places=dealt_places,
            targets=cells.targets,
            begins=bins.words(cells.range_begins),
            cuts=bins.words(cuts),
            firsts=bins.words(firsts),
            range_nodes=range_nodes,
            nodes=nodes,
            value_bytes=value_bytes,
            bins=Bins.cut(slots, marks, block_begins, begins, Values(cells.bin_begins, None, places, capacity)),
            dealt=current().arrays.zeros(int(cells.bin_begins[-1]) * GROUP_NODES * value_bytes, np.uint8),
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        counts = np.uint32(self.range_nodes), np.uint32(vector_length(self.nodes))
        return *self._arrays, *counts, *self.bins.arguments, self.dealt

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.places, self.targets, self.begins, self.cuts, self.firsts

    def streamed_bytes(self, value_bytes: int) -> float:
        """Return the bytes that a sweep streams for its edges: each value is written and read once."""
        values = 2 * value_bytes * self.places.size
        return float(self.places.nbytes + self.targets.nbytes + values + self.bins.streamed_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in (*self._arrays, self.dealt)) + self.bins.nbytes


def has_long_cells(slots: int, nodes: int, value_bytes: int) -> bool:
    """Return whether little of what is dealt to so many slots only fills chunks up."""
    range_nodes, capacity = dealt_sizes(value_bytes)
    return slots >= _LEAST_SLOTS * -(-nodes // range_nodes) * -(-slots // (GROUP_NODES * capacity))


def is_scattered(sources: Any, edges: int) -> bool:
    """Return whether dealing values to the slots of these sources is faster than gathering them, by samples."""
    return samples.gathered_bytes(sources, BINNED_BYTES) >= _LEAST_GATHERED * float(edges)


class _Cells:
    """Where cells lie.

    Parameters
    ----------
    begins : array of int, shape (bins + 1,)
        First step of each bin, and behind the last.
    counts : device array of int, shape (bins, ranges)
        Slots in each cell.
    """

    def __init__(self, begins: Integers, counts: Any) -> None:
        arrays = current().arrays
        self._begins, self._counts, chunks = begins, counts, _chunks(counts)
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
        """Where each chunk goes."""
        arrays = current().arrays
        begins = arrays.asarray(self.bin_begins[:-1])[:, None] + self._in_bin
        chunk = arrays.arange(int(self.range_begins[-1]))
        cell = arrays.searchsorted(self._by_range[1:], chunk, side="right")
        return ((begins.T.ravel() - self._by_range[:-1])[cell] + chunk).astype(np.uint32)

    def places(self, sources: Any, range_nodes: int) -> tuple[Any, Any]:
        """Return the place of each slot's value in its bin, and by chunk that of its source in its range."""
        arrays = current().arrays
        ranges = self._counts.shape[1]
        of_slots = arrays.empty(sources.size, np.uint16)
        of_chunks = arrays.zeros(int(self.range_begins[-1]) * GROUP_NODES, np.uint16)
        dealt_at = self._by_range[:-1].reshape(ranges, -1).T
        for first, last in _parts(self._begins):
            mine = slice(WHOLE_VALUES * self._begins[first], WHOLE_VALUES * self._begins[last])
            key = _keys(sources[mine], self._begins[first : last + 1], range_nodes, ranges)
            order = arrays.argsort(key, kind="stable")
            key = key[order]
            counts = self._counts[first:last].ravel()
            nth = arrays.arange(key.size) - (arrays.cumsum(counts) - counts)[key]
            of_slots[mine][order] = (GROUP_NODES * self._in_bin[first:last].ravel()[key] + nth).astype(np.uint16)
            at = GROUP_NODES * dealt_at[first:last].ravel()[key] + nth
            of_chunks[at] = (sources[mine][order] % np.uint32(range_nodes)).astype(np.uint16)
        return of_slots, of_chunks


def _block_cuts(begins: Integers, blocks: int) -> tuple[Integers, Integers]:
    """Return the first chunk of each block, and behind the last, and the range of each: of about equal cost.

    Examples
    --------
    >>> _block_cuts(np.array([0, 5000, 5000, 6000]), 2)
    (array([   0, 3000, 6000]), array([0, 0]))
    """
    loads = _RANGE_COST * (np.diff(begins) > 0)
    before = begins + np.append(0, np.cumsum(loads))
    wanted = before[-1] * np.arange(blocks + 1) // blocks
    of_range = np.searchsorted(before[:-1], wanted, side="right") - 1
    cuts = begins[of_range] + (wanted - before[of_range] - loads[of_range]).clip(0)
    return cuts, of_range[:-1]


def _chunks(counts: Any) -> Any:
    return -(-counts // GROUP_NODES)


def _cut(sources: Any, block_begins: Integers, range_nodes: int, ranges: int, capacity: int) -> tuple[Integers, Any]:
    """Return the first step of each bin, and behind the last; and how many slots each has of each range.

    A block's bins are as long as each other, and hold at most ``capacity`` chunks.
    """
    steps = sources.size // WHOLE_VALUES
    block_ends = np.append(block_begins[1:], steps)
    most = max(1, (capacity * GROUP_NODES - GROUP_NODES // 2 * min(ranges, capacity)) // WHOLE_VALUES)
    while True:
        begins, _ = bins.evenly(block_begins, block_ends, -(-(block_ends - block_begins) // most))
        begins = np.append(begins, steps)
        counts = _counted(sources, begins, range_nodes, ranges)
        largest = int(current().to_host(_chunks(counts).sum(axis=1)).max()) + _ALIGNED - 1
        if largest <= capacity or most == 1:
            return begins, counts
        most = max(1, min(most - 1, most * capacity // largest))


def _counted(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return how many slots of each bin begin in each range, on the device."""
    arrays, found = current().arrays, []
    for first, last in _parts(begins):
        mine = sources[WHOLE_VALUES * begins[first] : WHOLE_VALUES * begins[last]]
        key = _keys(mine, begins[first : last + 1], range_nodes, ranges)
        found.append(arrays.bincount(key, minlength=(last - first) * ranges))
    return arrays.concatenate(found).reshape(-1, ranges)


def _parts(begins: Integers) -> Iterator[tuple[int, int]]:
    """Yield first and last of bins that are sorted at once."""
    number = begins[:-1] * WHOLE_VALUES // _AT_ONCE
    cuts = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    yield from zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _keys(sources: Any, begins: Integers, range_nodes: int, ranges: int) -> Any:
    """Return the cell of each slot, by bin, then by range, of bins that begin at these steps."""
    arrays = current().arrays
    of_step = np.repeat(np.arange(len(begins) - 1), np.diff(begins)) * ranges
    first_cells = arrays.asarray(of_step.astype(np.uint32))[:, None]
    return (sources.reshape(-1, WHOLE_VALUES) // np.uint32(range_nodes) + first_cells).ravel()
