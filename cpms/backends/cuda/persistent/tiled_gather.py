"""Edges in bins, whose values lie in shared memory while a block sums them; see ``persistent/tiled_gather.cuh``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.kernels.launch_shape import PANEL_OCTETS, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.persistent.load_balance import Integers, equal_cuts, streamed_costs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

GROUP_NODES = 8
_MOST_GROUPS = 0.08
"""Groups an edge up to which bins were faster on an H200."""
_SAMPLES, _SAMPLED_STEPS = 16, 256
"""Runs of steps looked at, and how long they are: about what a bin holds."""
_AT_ONCE = 1 << 24
"""Slots that are sorted at once."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Edges in bins, for a number of blocks.

    Parameters
    ----------
    of_block : device array of uint32, shape (blocks + 1,)
        First bin of each block, and behind the last.
    stretches : device array of uint32, shape (bins, warps, 4)
        First step, how many, and row of the first slot, of each warp.
    list_begins : device array of uint32, shape (bins + 1,)
        Where the list of each bin begins, and behind the last.
    lists : device array of uint32
        Groups of `GROUP_NODES` nodes that the edges of a bin begin at.
    places : device array of uint16
        Place of each slot's value among those of its bin.
    marks : device array of uint16
        Those of the edges; see `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.place`.
    first_blocks : device array of uint32, shape (blocks,)
        Block in which the first row of each block begins.
    capacity : int
        Groups that a list may have.
    pieces : device array of uint64
        What blocks leave of rows that go on in the next; all ones where there is nothing.
    """

    of_block: Any
    stretches: Any
    list_begins: Any
    lists: Any
    places: Any
    marks: Any
    first_blocks: Any
    capacity: int
    pieces: Any

    @classmethod
    def of(cls, sources: Any, marks: Any, slots: padded_csr.PaddedCsr, blocks: int) -> Bins:
        """Cut steps of 256 slots, whose sources these are, into bins for so many blocks, with lists."""
        block_begins = begins_of_blocks(slots, blocks)
        begins = _bounds(sources, block_begins, PANEL_OCTETS)
        list_begins, lists, places = _listed(sources, begins)
        stretch_begins = equal_cuts(streamed_costs(slots), begins[:-1], begins[1:], SHARED_MEMORY_SHAPE.warps)
        steps = np.diff(np.column_stack([stretch_begins, begins[1:]]), axis=1)
        first_rows = _rows_of(slots, stretch_begins.ravel())
        of_block = np.searchsorted(begins, np.append(block_begins, slots.tiles))
        block_rows = _rows_of(slots, block_begins)
        row_starts = slots.starts_of(block_rows)
        return cls(
            of_block=words(of_block),
            stretches=words(np.column_stack([stretch_begins.ravel(), steps.ravel(), first_rows, 0 * first_rows])),
            list_begins=words(list_begins),
            lists=lists,
            places=places,
            marks=marks,
            first_blocks=words(np.searchsorted(block_begins * WHOLE_VALUES, row_starts, side="right") - 1),
            capacity=PANEL_OCTETS,
            pieces=current().arrays.full(len(block_begins), np.uint64(2**64 - 1), np.uint64),
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        lists = self.list_begins, self.lists, self.places
        counts = np.uint32(self.capacity), np.uint32(self.places.size // WHOLE_VALUES)
        return self.of_block, self.stretches, *lists, self.marks, self.first_blocks, *counts, self.pieces

    @property
    def streamed_bytes(self) -> float:
        """Bytes of places, marks and lists, which a sweep reads once."""
        return float(self.places.nbytes + padded_csr.FLAG_BYTES * self.places.size + self.lists.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, but for the marks, which are those of the edges."""
        return sum(int(part.nbytes) for part in self.arguments) - int(self.marks.nbytes)


def pay(sources: Any) -> bool:
    """Return whether bins of steps with these sources have few groups an edge, by samples."""
    steps = sources.reshape(-1, WHOLE_VALUES)
    length = min(_SAMPLED_STEPS, len(steps))
    picked = np.linspace(0, len(steps) - length, _SAMPLES).astype(np.int64)[:, None] + np.arange(length)
    groups = steps[current().arrays.asarray(picked.ravel())].reshape(_SAMPLES, -1) // np.uint32(GROUP_NODES)
    return access_sampling.mean_distinct(groups) <= _MOST_GROUPS * int(groups.shape[1])


def begins_of_blocks(slots: padded_csr.PaddedCsr, blocks: int) -> Integers:
    """Return the first step of each block, shape (blocks,): all have about the same to do."""
    (begins,) = equal_cuts(streamed_costs(slots), np.array([0]), np.array([slots.tiles]), blocks)
    return np.asarray(begins)


def evenly(begins: Integers, ends: Integers, parts: Integers) -> tuple[Integers, Integers]:
    """Cut some stretches of steps into so many parts each, as long as each other; return where these begin and end.

    Examples
    --------
    >>> [found.tolist() for found in evenly(np.array([0, 4]), np.array([4, 9]), np.array([1, 2]))]
    [[0, 4, 6], [4, 6, 9]]
    """
    which = np.repeat(np.arange(len(parts)), parts)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
    length, of = (ends - begins)[which], parts[which]
    return begins[which] + length * nth // of, begins[which] + length * (nth + 1) // of


def _rows_of(slots: padded_csr.PaddedCsr, steps: Integers) -> Integers:
    """Return the row of the first slot of each step; behind the last step, the last row."""
    first_slots = current().arrays.asarray(np.minimum(steps * WHOLE_VALUES, slots.count - 1).astype(np.uint32))
    return current().to_host(slots.rows_at(first_slots)).astype(np.int64)


def _bounds(sources: Any, block_begins: Integers, capacity: int) -> Integers:
    """Return the first step of each bin, and behind the last: of as many steps each of a block's as lists hold."""
    steps = sources.size // WHOLE_VALUES
    ends = np.append(block_begins[1:], steps)
    kept = block_begins < ends
    begins, ends = block_begins[kept], ends[kept]
    done: list[Integers] = []
    most = capacity - 3  # lists are filled up to a multiple of 4
    while len(begins):
        groups = np.concatenate([_counted(keys, count) for keys, _, count in _keys(sources, begins, ends)])
        fits = (groups <= most) | (ends - begins <= 1)
        done.append(begins[fits])
        begins, ends, groups = begins[~fits], ends[~fits], groups[~fits]
        # Parts that do not fit either are cut again.
        parts = np.minimum(-(-groups * 33 // (32 * most)), ends - begins)
        begins, ends = evenly(begins, ends, parts)
    return np.append(np.sort(np.concatenate(done)), steps)


def _keys(sources: Any, begins: Integers, ends: Integers, *, inverse: bool = False) -> Iterator[tuple[Any, Any, int]]:
    """Yield, for some bins at a time, their number and each of their groups, as ``number << 32 | group`` in order.

    Then the place of each slot's group among these, if asked for, and the number of bins.
    """
    arrays = current().arrays
    steps = sources.reshape(-1, WHOLE_VALUES)
    chunk = (np.cumsum(ends - begins) * WHOLE_VALUES) // _AT_ONCE
    for number in np.unique(chunk):
        mine = chunk == number
        lengths = (ends - begins)[mine]
        bin_of = np.repeat(np.arange(len(lengths)), lengths)
        step_of = np.repeat(begins[mine] - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(bin_of))
        groups = (steps[arrays.asarray(step_of)] // np.uint32(GROUP_NODES)).astype(np.uint64)
        keys = (groups | arrays.asarray(bin_of.astype(np.uint64) << np.uint64(32))[:, None]).ravel()
        found = arrays.unique(keys, return_inverse=inverse)
        unique, places = found if inverse else (found, None)
        yield unique.astype(np.int64), places, len(lengths)


def _counted(keys: Any, count: int) -> Integers:
    """Return how many groups each bin has."""
    groups = current().arrays.bincount(keys >> 32, minlength=count)
    return current().to_host(groups).astype(np.int64)


def _listed(sources: Any, begins: Integers) -> tuple[Integers, Any, Any]:
    """Return where lists begin, the lists, and the place of each slot's value in its bin's."""
    arrays = current().arrays
    list_begins, lists, places, done = [np.zeros(1, np.int64)], [], [], 0
    for keys, inverse, count in _keys(sources, begins[:-1], begins[1:], inverse=True):
        number, groups = keys >> 32, _counted(keys, count)
        firsts = np.cumsum(groups) - groups
        filled = -(-groups // 4) * 4
        shift = np.cumsum(filled) - filled - firsts
        made = arrays.zeros(int(filled.sum()), np.uint32)
        made[arrays.asarray(shift)[number] + arrays.arange(len(keys))] = keys & (2**32 - 1)
        lists.append(made)
        list_begins.append(list_begins[-1][-1] + np.cumsum(filled))
        slots = sources[done : done + inverse.size]
        place = (inverse.reshape(-1) - arrays.asarray(firsts)[number[inverse.reshape(-1)]]) * GROUP_NODES
        places.append((place + slots % np.uint32(GROUP_NODES)).astype(np.uint16))
        done += inverse.size
    return np.concatenate(list_begins), arrays.concatenate(lists), arrays.concatenate(places)
