"""Vectors in device memory in which values of other ranks lie beside a rank's own, and how they come there."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.template import PACKS, WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.exchange.halo import Halo, Places
from cpms.backends.mpi.exchange.transport import Spans, Transport
from cpms.backends.mpi.exchange.windows import Window
from cpms.backends.mpi.shares.rows import GraphRows

TOLD = 11
"""Numbers that a rank tells the others with its values; ``multi_gpu/rank_totals.cuh`` names them."""
Which = Literal["direct", "halo", "whole"]
_APART = 64
"""Values from one of which on a stretch begins, so that it is aligned as transports like it in any format."""


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
        What all ranks told, `TOLD` numbers each where values go with them, and those of this one.
    each_bytes : int
        Size of a value.
    window : Window, optional
        Where all of it lies, if other ranks write into it.
    routes : tuple of device arrays of uint64, shape (ranks,)
        Where this rank writes its values, and what it tells, into those of others.
    """

    memory: Any
    own: Any
    heard: Any
    to: Any
    each_bytes: int
    window: Window | None = None
    routes: tuple[Any, ...] = (np.uint64(0), np.uint64(0))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel of many sweeps takes, in its order."""
        return self.memory, self.own, self.heard, *self.routes


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
    kernels: ClassVar[dict[int, Variant]] = {}
    """What it launches, by the bits of a value."""

    def __init__(self, transport: Transport, *, stretch: int, values: int, begin: int) -> None:
        self.transport, self.stretch, self.values, self.begin = transport, stretch, values, begin

    def vector(self, dtype: Any = np.float64, *, each_bytes: int = 8) -> Gathered:
        """Return a vector of zeros, of ``each_bytes`` a value; every rank calls this."""
        return self._vector((self.values + WHOLE_VALUES) * each_bytes, dtype, each_bytes)

    def numbers(self, told: int = TOLD) -> Gathered:
        """Return room for so many numbers that each rank tells, without values; every rank calls this."""
        return self._vector(0, np.float64, 8, told)

    def ready(self) -> None:  # noqa: B027
        """Wait until no rank has anything to read of exchanges before; every rank calls this."""

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int, told: int = TOLD) -> Gathered:
        arrays = current().arrays
        heard = arrays.zeros(self.transport.ranks * told, np.float64)
        return self._gathered(arrays.zeros(nbytes, np.uint8), heard, dtype, each_bytes)

    def _gathered(self, memory: Any, heard: Any, dtype: Any, each_bytes: int) -> Gathered:
        rank, items, memory = self.transport.rank, each_bytes // np.dtype(dtype).itemsize, memory.view(dtype)
        own = memory[self.begin * items : (self.begin + self.stretch) * items]
        to = heard.reshape(self.transport.ranks, -1)[rank]
        return Gathered(memory, own, heard, to, each_bytes)

    def compile(self, bits: int, *others: Variant) -> None:
        """Make ready what exchanges of values of so many bits launch, and other kernels with it."""
        own = [self.kernels[bits]] if bits in self.kernels else []
        current().compile([*own, *others])

    @abstractmethod
    def places(self, rows: GraphRows) -> Any:
        """Return where each node's value lies, a device array of uint32, shape (nodes,); anything where none does."""

    @abstractmethod
    def queue(self, vector: Gathered) -> None:
        """Queue the exchange of a vector's values and of what ranks told."""

    def queue_told(self, vector: Gathered) -> None:
        """Queue the exchange of what ranks told."""
        self.transport.gather(vector.heard)

    @property
    def within(self) -> bool:
        """Whether a kernel may see to exchanges itself, and so stay for many sweeps."""
        return self.transport.ranks == 1

    @property
    def talk(self) -> tuple[Any, ...]:
        """What a kernel takes that does, in its order."""
        return *[np.uint64(0)] * 5, np.uint32(self.transport.ranks), np.uint32(self.transport.rank)

    def made(self) -> Callable[[], int]:
        """Return how to wait for how many exchanges kernels have seen to, of launches before."""
        return int

    def count_received(self, vector: Gathered, times: int = 1) -> None:  # noqa: B027
        """Count the bytes of so many exchanges that a kernel sees to."""

    def count_told(self, vector: Gathered, times: int = 1) -> None:  # noqa: B027
        """Count the bytes of so many exchanges of what ranks told alone."""


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


class Halos(Exchange):
    """Every rank receives what its rows read: its own stretch is followed by a halo of each other rank."""

    def __init__(self, transport: Transport, stretch: int, halo: Halo) -> None:
        arrays = current().arrays
        self._halo = halo
        self.receives = _spans(halo.reads, stretch)
        self.sends = _spans(halo.sends, 0)
        super().__init__(transport, stretch=stretch, values=padded(_end(self.receives, stretch)), begin=0)
        places = np.zeros(_end(self.sends, 0), np.uint32)
        for (begin, count), sent in zip(self.sends, halo.sends, strict=True):
            places[begin : begin + count] = sent
        self.sent_places = arrays.asarray(places)

    def places(self, rows: GraphRows) -> Any:
        """Return places in the stretch of this rank and in the halos."""
        arrays, bounds = current().arrays, rows.bounds.tolist()
        place = arrays.zeros(rows.nodes, np.uint32)
        place[rows.low : rows.high] = arrays.arange(rows.high - rows.low, dtype=np.uint32)
        for low, read, (begin, count) in zip(bounds[:-1], self._halo.reads, self.receives, strict=True):
            if count:
                place[arrays.asarray(read + np.int64(low))] = arrays.arange(begin, begin + count, dtype=np.uint32)
        return place


class HaloExchange(Halos):
    """Values that others read are packed and sent."""

    name = "halo"
    kernels: ClassVar[dict[int, Variant]] = PACKS

    def __init__(self, transport: Transport, stretch: int, halo: Halo) -> None:
        super().__init__(transport, stretch, halo)
        self._sent = current().arrays.zeros(8 * self.sent_places.size, np.uint8)

    def queue(self, vector: Gathered) -> None:
        """Pack what others read, and swap."""
        each_bytes, count = vector.each_bytes, self.sent_places.size
        if count:
            blocks = current().spread(count, each=4)
            arguments = (self.sent_places, np.uint32(count), vector.own, self._sent)
            current().run(self.kernels[8 * each_bytes], blocks, arguments)
        sends, receives = (
            [(begin * each_bytes, size * each_bytes) for begin, size in spans] for spans in (self.sends, self.receives)
        )
        self.transport.swap(self._sent, sends, vector.memory, receives, vector.heard)


def _spans(parts: list[Places], begin: int) -> Spans:
    """Return where each part lies, and how long it is, when they follow each other from ``begin`` on."""
    spans = []
    for part in parts:
        spans.append((begin, len(part)))
        begin += -(-len(part) // _APART) * _APART
    return spans


def _end(spans: Spans, begin: int) -> int:
    return max([begin, *(-(-(first + count) // _APART) * _APART for first, count in spans if count)])
