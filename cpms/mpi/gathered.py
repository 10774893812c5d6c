"""Vectors in device memory in which values of other ranks lie beside a rank's own, and how they come there."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from cpms.cuda.backend import current
from cpms.cuda.variants import PACKS, PUSHES, WHOLE_VALUES, Variant
from cpms.cuda.vectors import padded
from cpms.errors import UnavailableError
from cpms.mpi.halo import Halo, Places
from cpms.mpi.rows import Bounds, GraphRows
from cpms.mpi.transport import Spans, Transport
from cpms.mpi.windows import Window, Windows

TOLD = 10
"""Numbers that a rank tells the others with its values; ``ranks.cu`` names them."""
Which = Literal["direct", "halo", "whole"]
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
    routes: tuple[Any, ...] = ()


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

    def numbers(self) -> Gathered:
        """Return room for what ranks tell, without values; every rank calls this."""
        return self._vector(0, np.float64, 8)

    def ready(self) -> None:  # noqa: B027
        """Wait until no rank has anything to read of exchanges before; every rank calls this."""

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int) -> Gathered:
        arrays = current().arrays
        heard = arrays.zeros(self.transport.ranks * TOLD, np.float64)
        return self._gathered(arrays.zeros(nbytes, np.uint8), heard, dtype, each_bytes)

    def _gathered(self, memory: Any, heard: Any, dtype: Any, each_bytes: int) -> Gathered:
        rank, items, memory = self.transport.rank, each_bytes // np.dtype(dtype).itemsize, memory.view(dtype)
        own = memory[self.begin * items : (self.begin + self.stretch) * items]
        return Gathered(memory, own, heard, heard[rank * TOLD : (rank + 1) * TOLD], each_bytes)

    def compile(self, bits: int, *others: Variant) -> None:
        """Make ready what exchanges of values of so many bits launch, and other kernels with it."""
        current().compile([*others, *(self.kernels[held] for held in self.kernels if held == bits)])

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

    name: Which = "halo"
    kernels: ClassVar[dict[int, Variant]] = PACKS

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

    def places(self, rows: GraphRows) -> Any:
        """Return places in the stretch of this rank and in the halos."""
        arrays, bounds = current().arrays, rows.bounds.tolist()
        place = arrays.zeros(rows.nodes, np.uint32)
        place[rows.low : rows.high] = arrays.arange(rows.high - rows.low, dtype=np.uint32)
        for low, read, (begin, count) in zip(bounds[:-1], self._halo.reads, self._receives, strict=True):
            if count:
                place[arrays.asarray(read + np.int64(low))] = arrays.arange(begin, begin + count, dtype=np.uint32)
        return place

    @cached_property
    def _sent(self) -> Any:
        return current().arrays.zeros(8 * self._places.size, np.uint8)

    def queue(self, vector: Gathered) -> None:
        """Pack what others read, and swap."""
        each_bytes, count = vector.each_bytes, self._places.size
        if count:
            blocks = current().spread(count, each=4)
            arguments = (self._places, np.uint32(count), vector.own, self._sent)
            current().run(self.kernels[8 * each_bytes], blocks, arguments)
        sends, receives = (
            [(begin * each_bytes, size * each_bytes) for begin, size in spans]
            for spans in (self._sends, self._receives)
        )
        self.transport.swap(self._sent, sends, vector.memory, receives, vector.heard)


class DirectExchange(HaloExchange):
    """As `HaloExchange`, but every rank writes what others read into their memory, in one launch; see ``push.cu``.

    A rank may be one exchange ahead of another. So no vector may be in two exchanges that follow each other: what the
    first brought would be written over while others read it.
    """

    name: Which = "direct"
    kernels: ClassVar[dict[int, Variant]] = PUSHES

    def __init__(self, transport: Transport, stretch: int, halo: Halo, windows: Windows) -> None:
        super().__init__(transport, stretch, halo)
        arrays, rank, ranks = current().arrays, transport.rank, transport.ranks
        begins = [begin for begin, _ in self._sends]
        self._begins = arrays.asarray(np.array([*begins, self._places.size], np.uint32))
        self._none = arrays.zeros(ranks + 1, np.uint32)
        # Where others expect this rank's values.
        self._expected = transport.communicator.alltoall([begin for begin, _ in self._receives])
        self._windows = windows
        self._signals = windows.window(4 * ranks)
        self._signals_to = _addresses(address + 4 * rank for address in self._signals.addresses)
        self._counts = arrays.zeros(2, np.uint32)

    def ready(self) -> None:
        """Wait for this rank's device, then for the others."""
        current().synchronize()
        self.transport.communicator.Barrier()

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int) -> Gathered:
        """Lay it out in a window: what is told first."""
        rank, told = self.transport.rank, self.transport.ranks * TOLD * 8
        before = padded(told)
        window = self._windows.window(before + nbytes)
        memory = window.memory[before : before + nbytes]
        vector = self._gathered(memory, window.memory[:told].view(np.float64), dtype, each_bytes)
        to_values = (
            address + before + begin * each_bytes
            for address, begin in zip(window.addresses, self._expected, strict=True)
        )
        to_told = (address + rank * TOLD * 8 for address in window.addresses)
        return replace(vector, window=window, routes=(_addresses(to_values), _addresses(to_told)))

    def queue(self, vector: Gathered) -> None:
        """Write, and wait for what others write."""
        self._push(vector, self._begins, self._places.size)
        self.transport.received_bytes += sum(count for _, count in self._receives) * vector.each_bytes

    def queue_told(self, vector: Gathered) -> None:
        """Write and wait for what ranks tell alone."""
        self._push(vector, self._none, 0)

    def _push(self, vector: Gathered, begins: Any, count: int) -> None:
        backend, transport = current(), self.transport
        blocks = backend.spread(count, each=16 // vector.each_bytes, per_processor=2)
        arguments = (
            *(self._places, begins, vector.own, vector.to, np.uint32(TOLD), *vector.routes, self._signals_to),
            *(np.uint32(transport.ranks), np.uint32(transport.rank), self._signals.memory, self._counts),
        )
        backend.run(self.kernels[8 * vector.each_bytes], blocks, arguments)
        transport.received_bytes += vector.heard.nbytes // transport.ranks * (transport.ranks - 1)


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


def exchange(which: Which | None, transport: Transport, halo: Halo, bounds: Bounds) -> Exchange:
    """Make ready what ranks exchange: directly where they can, unless told; every rank calls this."""
    windows = transport.windows if which in (None, "direct") else None
    if windows is not None:
        return DirectExchange(transport, _stretch(bounds), halo, windows)
    if which == "direct":
        raise UnavailableError("ranks cannot write into each other's memory; let them exchange another way")
    if (which or cheaper(halo, bounds)) == "halo":
        return HaloExchange(transport, _stretch(bounds), halo)
    return WholeExchange(transport, _stretch(bounds))


def _addresses(numbers: Iterable[int]) -> Any:
    return current().arrays.asarray(np.array(list(numbers), np.uint64))


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
