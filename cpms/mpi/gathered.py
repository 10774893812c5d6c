"""Vectors in device memory in which values of other ranks lie beside a rank's own, and how they come there."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cpms.cuda.backend import current
from cpms.cuda.variants import PACKS, WHOLE_VALUES
from cpms.cuda.vectors import padded
from cpms.mpi.halo import Halo, Places
from cpms.mpi.rows import Bounds, GraphRows
from cpms.mpi.transport import Spans, Transport

TOLD = 10
"""Numbers that a rank tells the others with its values; ``ranks.cu`` names them."""
Which = Literal["halo", "whole"]
_APART = 64
"""Values from one of which on a stretch begins, so that it is aligned as transports like it in any format."""
_WORTH = 0.75
"""Share of the bytes of a whole exchange up to which a halo is chosen: it has to be packed, too."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """Values that a rank reads, and what ranks told each other with them, in device memory.

    Parameters
    ----------
    memory : device array
        Values of this rank and of others, where an `Exchange` has them, and zeros behind all.
    own : device array
        The stretch of this rank.
    heard, to : device arrays of float64
        What all ranks told, `TOLD` numbers each, and those of this one.
    each_bytes : int
        Size of a value.
    """

    memory: Any
    own: Any
    heard: Any
    to: Any
    each_bytes: int


class Exchange(ABC):
    """How ranks come to know the values that their rows read.

    Parameters
    ----------
    transport : Transport
    stretch : int
        Values in the stretch of each rank, its rows and zeros behind them.
    values : int
        Values in a vector, behind which zeros lie.
    begin : int
        Where this rank's stretch begins.
    """

    name: Which

    def __init__(self, transport: Transport, *, stretch: int, values: int, begin: int) -> None:
        self.transport, self.stretch, self.values, self.begin = transport, stretch, values, begin

    def vector(self, dtype: Any = np.float64, *, each_bytes: int = 8) -> Gathered:
        """Return a vector of zeros, of ``each_bytes`` a value."""
        arrays, rank = current().arrays, self.transport.rank
        items = each_bytes // np.dtype(dtype).itemsize
        memory = arrays.zeros((self.values + WHOLE_VALUES) * items, dtype)
        own = memory[self.begin * items : (self.begin + self.stretch) * items]
        heard = arrays.zeros(self.transport.ranks * TOLD, np.float64)
        return Gathered(memory, own, heard, heard[rank * TOLD : (rank + 1) * TOLD], each_bytes)

    @abstractmethod
    def places(self, rows: GraphRows) -> Any:
        """Return where each node's value lies, a device array of uint32, shape (nodes,); anything where none does."""

    @abstractmethod
    def queue(self, vector: Gathered) -> None:
        """Queue the exchange of a vector's values and of what ranks told."""

    def queue_told(self, vector: Gathered) -> None:
        """Queue the exchange of what ranks told."""
        self.transport.gather(vector.heard)


class WholeExchange(Exchange):
    """Every rank receives all values, in stretches of ranks."""

    name = "whole"

    def __init__(self, transport: Transport, stretch: int) -> None:
        super().__init__(transport, stretch=stretch, values=stretch * transport.ranks, begin=stretch * transport.rank)

    def places(self, rows: GraphRows) -> Any:
        """Return places in the stretches of all ranks."""
        arrays = current().arrays
        place = arrays.empty(rows.nodes, np.uint32)
        for rank, (low, high) in enumerate(itertools.pairwise(rows.bounds.tolist())):
            begin = rank * self.stretch
            place[low:high] = arrays.arange(begin, begin + high - low, dtype=np.uint32)
        return place

    def queue(self, vector: Gathered) -> None:
        """Gather."""
        whole = vector.memory[: vector.own.size * self.transport.ranks]
        self.transport.gather(whole, vector.heard)


class HaloExchange(Exchange):
    """Every rank receives what its rows read: its own stretch is followed by a halo of each other rank."""

    name = "halo"

    def __init__(self, transport: Transport, stretch: int, halo: Halo) -> None:
        arrays = current().arrays
        self._halo = halo
        self._receives = _spans(halo.reads, stretch)
        self._sends = _spans(halo.sends, 0)
        super().__init__(transport, stretch=stretch, values=padded(_end(self._receives, stretch)), begin=0)
        places = np.zeros(_end(self._sends, 0), np.uint32)
        for (begin, count), sent in zip(self._sends, halo.sends, strict=True):
            places[begin : begin + count] = sent
        self._places = arrays.asarray(places)
        self._sent = arrays.zeros(8 * len(places), np.uint8)

    def places(self, rows: GraphRows) -> Any:
        """Return places in the stretch of this rank and in the halos."""
        arrays, bounds = current().arrays, rows.bounds.tolist()
        place = arrays.zeros(rows.nodes, np.uint32)
        place[rows.low : rows.high] = arrays.arange(rows.high - rows.low, dtype=np.uint32)
        for low, read, (begin, count) in zip(bounds[:-1], self._halo.reads, self._receives, strict=True):
            if count:
                place[arrays.asarray(read + np.int64(low))] = arrays.arange(begin, begin + count, dtype=np.uint32)
        return place

    def queue(self, vector: Gathered) -> None:
        """Pack what others read, and swap."""
        each_bytes, count = vector.each_bytes, self._places.size
        if count:
            blocks = current().spread(count, each=4)
            arguments = (self._places, np.uint32(count), vector.own, self._sent)
            current().run(PACKS[8 * each_bytes], blocks, arguments)
        sends, receives = (
            [(begin * each_bytes, size * each_bytes) for begin, size in spans]
            for spans in (self._sends, self._receives)
        )
        self.transport.swap(self._sent, sends, vector.memory, receives, vector.heard)


def cheaper(halo: Halo, bounds: Bounds) -> Which:
    """Return the exchange in which the busiest rank receives or sends fewer bytes; the same on every rank.

    Examples
    --------
    >>> bounds = np.array([0, 2048, 4096])
    >>> [cheaper(Halo([], [], most), bounds) for most in (100, 2000)]
    ['halo', 'whole']
    """
    others = len(bounds) - 2
    return "halo" if halo.most <= _WORTH * _stretch(bounds) * others else "whole"


def exchange(which: Which, transport: Transport, halo: Halo, bounds: Bounds) -> Exchange:
    """Make ready what ranks exchange."""
    if which == "halo":
        return HaloExchange(transport, _stretch(bounds), halo)
    return WholeExchange(transport, _stretch(bounds))


def _stretch(bounds: Bounds) -> int:
    return padded(int(np.diff(bounds).max()))


def _spans(parts: list[Places], begin: int) -> Spans:
    """Return where each part lies, and how long it is, when they follow each other from ``begin`` on."""
    spans = []
    for part in parts:
        spans.append((begin, len(part)))
        begin += -(-len(part) // _APART) * _APART
    return spans


def _end(spans: Spans, begin: int) -> int:
    return max([begin, *(-(-(first + count) // _APART) * _APART for first, count in spans if count)])
