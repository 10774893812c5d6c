"""SELL slices of the entries of each bin: row chunks of about the same length, one a lane.

See ``persistent/sell_slices.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.launch_shape import MAX_WINDOW_SUMS, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.persistent import tiled_gather
from cpms.backends.cuda.persistent.load_balance import Integers
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.padded_csr import words

_LANES, _ROUND_SLOTS = 32, 4
"""Lanes of a pack, and slots of each that a round adds up."""
LONGEST = 128
"""Slots of a strand at most."""
_LONGEST_WIDE, _LONG_ROW, _WIDE_BYTES = 24, 20, 8
"""The same of float64 values, of which bins hold too few for all warps to have such strands, where rows are longer than
so many slots on average, or some are cut anyhow."""
NO_STRAND = 0xFFFF
_EXPECTED = 12
"""Rounds, and packs, that caches are asked for behind those of a warp; as in ``persistent/sell_slices.cuh``."""
_MOST_EXPECTED = _EXPECTED + 16
"""Rounds behind the last that they are asked for, of packs of as many as lanes may ask for."""
_LAST_OF_SECTION = 1 << 31
_ROW_COST = 6
"""What a row's end costs in a sweep, in slots."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows, cut into strands.

    Parameters
    ----------
    starts : device array of uint32, shape (strands + 1,)
        First slot of each strand, and behind the last.
    rows : device array of uint32, shape (strands + 1,)
        Row of each; behind the last, how many there are.
    ends : device array of uint32, shape (rows,), or None
        Behind the last strand of each row; None where rows are strands.
    """

    starts: Any
    rows: Any
    ends: Any | None

    @classmethod
    def of(cls, slots: padded_csr.PaddedCsr, value_bytes: int) -> Cut:
        """Cut rows into as few strands as may be, of about the same length in a row."""
        arrays = current().arrays
        begins = slots.starts
        lengths = begins[1:] - begins[:-1]
        is_wide = value_bytes >= _WIDE_BYTES
        fit = int(current().to_host(lengths.max())) <= LONGEST
        if fit and not (is_wide and slots.count > _LONG_ROW * len(lengths)):
            return cls(begins, arrays.arange(len(begins), dtype=np.uint32), None)
        parts = _ceil(lengths, _LONGEST_WIDE if is_wide else LONGEST)
        ends = arrays.cumsum(parts, dtype=np.uint32)
        strand = arrays.arange(int(current().to_host(ends[-1:])[0]), dtype=np.uint32)
        rows = arrays.searchsorted(ends, strand, side="right")
        size = _ROUND_SLOTS * _ceil(_ceil(lengths, parts), _ROUND_SLOTS)
        nth = strand - (ends - parts)[rows]
        starts, of = arrays.zeros(len(strand) + 1, np.uint32), arrays.zeros(len(strand) + 1, np.uint32)
        starts[:-1], starts[-1:] = begins[rows] + size[rows] * nth, begins[-1:]
        of[:-1], of[-1:] = rows, len(lengths)
        return cls(starts, of, ends)

    @property
    def count(self) -> int:
        """Number of strands."""
        return len(self.starts) - 1

    def starts_at(self, strands: Integers) -> Integers:
        """Return the first slots of some strands, in main memory."""
        found: Integers = current().to_host(self.starts[current().arrays.asarray(strands)]).astype(np.int64)
        return found

    def blocks(self, blocks: int) -> Integers:
        """Return the first strand of each block, and behind the last: all have about as much to do."""
        arrays = current().arrays
        cost = self.starts.astype(np.int64) + _ROW_COST * self.rows.astype(np.int64)
        wanted = arrays.asarray(int(current().to_host(cost[-1:])[0]) * np.arange(blocks + 1) // blocks)
        found: Integers = current().to_host(arrays.searchsorted(cost, wanted)).astype(np.int64)
        return found

    def evenly(self, block_begins: Integers, parts: Integers) -> Integers:
        """Cut each block into so many bins of as many slots each, or fewer; return where these begin, and the end."""
        bounds = self.starts_at(block_begins)
        wanted, _ = tiled_gather.evenly(bounds[:-1], bounds[1:], parts)
        found = current().to_host(current().arrays.searchsorted(self.starts, words(wanted))).astype(np.int64)
        return np.unique(np.concatenate([found, block_begins]))


@dataclass(frozen=True, eq=False)
class Strands:
    """Strands, section by section, for a number of blocks; all but ``capacity`` are device arrays.

    Parameters
    ----------
    of_block : uint32, shape (blocks + 1,)
        First section of each block, and behind the last.
    bins : uint32, shape (sections + 1,)
        Bin of each section, and how many there are.
    value_begins : uint32, shape (bins + 1,)
        Where the values of each bin begin, in groups of eight, and behind the last.
    strand_begins, first_rows : uint32, shape (sections + 1,)
        First strand of each section, and the row of that; behind the last, how many there are.
    walks : uint32, shape (blocks * warps, 2)
        First pack of each warp, and its first round.
    packs : uint32, shape (packs + 2,)
        Rounds of each, in the order in which warps take them, and whether it is a warp's last of a section.
    lanes : uint16, shape ((packs + 2 + _EXPECTED) * 32,)
        Strand of each lane among those of its section, or `NO_STRAND`.
    places : uint16
        By round, then by lane, of four values among those of a bin.
    last_strands : uint16, shape (rows,), or None
        Last strand of each row among those of its section; None where rows are strands.
    first_blocks : uint32, shape (blocks,)
        Block in which the first row of each block begins.
    capacity : int
        Groups that a bin has at most, and one for places of nothing.
    pieces : uint64, shape (blocks,)
        What blocks leave of rows that go on in the next; all ones where there is nothing.
    """

    of_block: Any
    bins: Any
    value_begins: Any
    strand_begins: Any
    first_rows: Any
    walks: Any
    packs: Any
    lanes: Any
    places: Any
    last_strands: Any | None
    first_blocks: Any
    capacity: int
    pieces: Any

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        last = np.uint64(0) if self.last_strands is None else self.last_strands
        of_sections = self.of_block, self.bins, self.value_begins, self.strand_begins, self.first_rows
        of_packs = self.walks, self.packs, self.lanes, self.places
        return *of_sections, *of_packs, last, self.first_blocks, np.uint32(self.capacity), self.pieces

    @property
    def streamed_bytes(self) -> float:
        """Bytes that a sweep reads once."""
        last = 0 if self.last_strands is None else self.last_strands.nbytes
        return float(self.packs.nbytes + self.lanes.nbytes + self.places.nbytes + last)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.arguments)


class Packing:
    """Where the slots of strands go in packs.

    Parameters
    ----------
    cut : Cut
    block_begins, bin_begins : array of int
        First strand of each block, and of each bin, and behind the last.
    """

    def __init__(self, cut: Cut, block_begins: Integers, bin_begins: Integers) -> None:
        arrays = current().arrays
        self._cut, self._block_begins, self._bin_begins = cut, block_begins, bin_begins
        self._begins = sections(bin_begins)
        packs = np.maximum(-(-np.diff(self._begins) // _LANES), SHARED_MEMORY_SHAPE.warps)
        first_packs = np.cumsum(packs) - packs
        section = marked(self._begins, cut.count)
        lengths = (cut.starts[1:] - cut.starts[:-1]).astype(np.int64)
        # Within a section the longest come first.
        order = arrays.argsort(section.astype(np.int64) * (LONGEST + 1) + (LONGEST - lengths), kind="stable")
        section = section[order]
        first = arrays.asarray(self._begins)[section]
        rank = arrays.arange(cut.count) - first
        sequence, is_last, first_of_warp = self._sequence(packs, first_packs)
        place = arrays.empty(len(sequence), np.int64)
        place[sequence] = arrays.arange(len(sequence))
        pack, lane = place[arrays.asarray(first_packs)[section] + rank // _LANES], rank % _LANES
        rounds = arrays.zeros(len(sequence) + 2, np.int64)
        longest = lane == 0
        rounds[pack[longest]] = _ceil(lengths[order[longest]], _ROUND_SLOTS)
        begins = arrays.cumsum(rounds) - rounds
        self.size = _LANES * _ROUND_SLOTS * (int(current().to_host(begins[-1:])[0]) + _MOST_EXPECTED)
        """Of places by round, with those behind them that caches are asked for."""
        self._firsts = arrays.empty(cut.count, np.int64)
        self._firsts[order] = _LANES * _ROUND_SLOTS * begins[pack] + _ROUND_SLOTS * lane
        self._lanes = arrays.full((len(sequence) + 2 + _EXPECTED) * _LANES, NO_STRAND, np.uint16)
        self._lanes[_LANES * pack + lane] = (order - first).astype(np.uint16)
        self._packs = (rounds + arrays.asarray(_LAST_OF_SECTION * is_last)).astype(np.uint32)
        walks = arrays.asarray(first_of_warp)
        self._walks = arrays.zeros((len(walks), 2), np.uint32)
        self._walks[:, 0], self._walks[:, 1] = walks, begins[walks]

    def place(self, strand: Any, slot: Any) -> Any:
        """Return where slots of some strands go: four by four, and as many rounds further on each time."""
        return self._firsts[strand] + slot // _ROUND_SLOTS * (_LANES * _ROUND_SLOTS) + slot % _ROUND_SLOTS

    def _sequence(self, packs: Integers, first_packs: Integers) -> tuple[Any, Integers, Integers]:
        """Return packs in the order in which warps take them; those of a section go to warps to and fro.

        Then which are a warp's last of a section, 1 or 0, and two behind them; and the first one of each warp.
        """
        warps = SHARED_MEMORY_SHAPE.warps
        section = np.repeat(np.arange(len(packs)), packs)
        turn, warp = np.divmod(np.arange(len(section)) - first_packs[section], warps)
        warp = np.where(turn % 2, warps - 1 - warp, warp)
        block = np.searchsorted(self._block_begins, self._begins[:-1], side="right") - 1
        walk = block[section] * warps + warp
        order = current().arrays.argsort(current().arrays.asarray((walk << 32) + section), kind="stable")
        walk, section = (part[current().to_host(order)] for part in (walk, section))
        ends = np.append((np.diff(walk) != 0) | (np.diff(section) != 0), True)
        first_of_warp = np.searchsorted(walk, np.arange((len(self._block_begins) - 1) * warps))
        return order, np.append(ends, [False, False]).astype(np.int64), first_of_warp

    def of(self, value_begins: Integers, places: Any, capacity: int) -> Strands:
        """Return strands whose slots have these places in bins whose values begin there."""
        arrays, begins = current().arrays, self._begins
        which = np.searchsorted(self._bin_begins[:-1], begins, side="right") - 1
        which[-1] += 1
        return Strands(
            of_block=words(np.searchsorted(begins, self._block_begins)),
            bins=words(which),
            value_begins=words(value_begins),
            strand_begins=words(begins),
            first_rows=self._cut.rows[arrays.asarray(begins)],
            walks=self._walks,
            packs=self._packs,
            lanes=self._lanes,
            places=places,
            last_strands=self._last_strands,
            first_blocks=words(self._first_blocks),
            capacity=capacity,
            pieces=arrays.full(len(self._block_begins) - 1, np.uint64(2**64 - 1), np.uint64),
        )

    @property
    def _last_strands(self) -> Any | None:
        if self._cut.ends is None:
            return None
        last = self._cut.ends.astype(np.int64) - 1
        begins = current().arrays.asarray(self._begins)
        return (last - begins[current().arrays.searchsorted(begins, last, side="right") - 1]).astype(np.uint16)

    @property
    def _first_blocks(self) -> Integers:
        """Where rows are strands, none began before."""
        begins = self._block_begins[:-1]
        if self._cut.ends is None:
            return np.arange(len(begins))
        arrays = current().arrays
        behind = arrays.zeros(len(self._cut.ends) + 1, np.int64)
        behind[1:] = self._cut.ends
        first = current().to_host(behind[self._cut.rows[arrays.asarray(begins)].astype(np.int64)])
        return np.searchsorted(begins, first, side="right") - 1


def sections(bin_begins: Integers) -> Integers:
    """Return the first strand of each section of bins that begin at these, and the end.

    Sections of a bin are of about as many strands, but such that each warp of a block gets as many packs as the others,
    except in the last one.

    Examples
    --------
    >>> sections(np.array([0, 3000, 4000])).tolist()
    [0, 1536, 3000, 4000]
    """
    at_once = min(SHARED_MEMORY_SHAPE.warps * _LANES, MAX_WINDOW_SUMS)
    turns = -(-np.diff(bin_begins) // at_once)
    parts = -(-turns // (MAX_WINDOW_SUMS // at_once))
    first = np.repeat(bin_begins[:-1], parts)
    begins, _ = tiled_gather.evenly(np.zeros_like(turns), turns, parts)
    # The short turn comes last.
    found: Integers = np.append(first + at_once * begins, bin_begins[-1])
    return found


def marked(begins: Integers, count: int) -> Any:
    """Return which part each of so many things is in, of parts that begin at these, which all differ; on the device."""
    marks = current().arrays.zeros(count, np.uint32)
    marks[current().arrays.asarray(begins[1:-1])] = 1
    return current().arrays.cumsum(marks, dtype=np.uint32)


def _ceil(numbers: Any, by: Any) -> Any:
    return (numbers + by - 1) // by
