"""Distributed vectors in device memory: a rank's own values, copies of other ranks' values, and their exchange.

Ranks exchange whole vectors, or halos as in the distributed sparse matrix-vector product: the values that a rank's rows
read of others. The totals of a sweep, such as norms, travel with the values.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.structs import RANK_VECTOR
from cpms.backends.cuda.kernels.template import PACKS, WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.mpi.exchange.halo import Halo, RowIndices
from cpms.backends.mpi.exchange.transport import Spans, Transport
from cpms.backends.mpi.exchange.windows import Window
from cpms.backends.mpi.shares.rows import GraphRows

RANK_TOTALS = 11
"""The number of a rank's totals in an exchange; ``multi_gpu/rank_totals.cuh`` names them."""
Which = Literal["direct", "halo", "whole"]
_APART = 64
"""Parts begin at a multiple of this number of values, which aligns them in any format."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """The values that a rank reads, and the totals of all ranks, in device memory.

    Parameters
    ----------
    memory : device array
        Values of this rank and of others, at the positions of an `Exchange`, followed by zeros.
    own : device array
        The part of this rank.
    received_totals, own_totals : device arrays of float64
        The totals of all ranks, `RANK_TOTALS` of each in an exchange with values, and those of this rank.
    each_bytes : int
        Size of a value.
    window : Window, optional
        The memory of the vector, if other ranks write into it.
    routes : tuple of device arrays of uint64, shape (ranks,)
        The addresses in other ranks' memory of this rank's values and totals.
    """

    memory: Any
    own: Any
    received_totals: Any
    own_totals: Any
    each_bytes: int
    window: Window | None = None
    routes: tuple[Any, ...] = (None, None)

    @cached_property
    def argument(self) -> Struct:
        """The kernel argument."""
        return pack(RANK_VECTOR, all=self.memory, own=self.own, received=self.received_totals)


class Exchange(ABC):
    """An exchange of the values that rows of other ranks read.

    Parameters
    ----------
    transport : Transport
    part_length : int
        Values in the part of each rank: its rows, and zeros after them.
    values : int
        Values in a vector, which zeros follow.
    begin : int
        The position of this rank's part.
    """

    name: Which
    kernels: ClassVar[dict[int, Variant]] = {}
    """The kernels of an exchange, by the bits of a value."""
    within: ClassVar[bool] = False
    """Whether persistent kernels exchange values themselves."""

    def __init__(self, transport: Transport, *, part_length: int, values: int, begin: int) -> None:
        self.transport, self.part_length, self.values, self.begin = transport, part_length, values, begin

    def vector(self, dtype: Any = np.float64, *, each_bytes: int = 8) -> Gathered:
        """Return a vector of zeros, of ``each_bytes`` a value; every rank calls this."""
        return self._vector((self.values + WHOLE_VALUES) * each_bytes, dtype, each_bytes)

    def rank_totals(self, totals: int = RANK_TOTALS) -> Gathered:
        """Return buffers for the totals of each rank, without values; every rank calls this."""
        return self._vector(0, np.float64, 8, totals)

    def ready(self) -> None:  # noqa: B027
        """Wait until all ranks have read the previous exchanges; every rank calls this."""

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int, totals: int = RANK_TOTALS) -> Gathered:
        arrays = current().arrays
        received_totals = arrays.zeros(self.transport.ranks * totals, np.float64)
        return self._gathered(arrays.zeros(nbytes, np.uint8), received_totals, dtype, each_bytes)

    def _gathered(self, memory: Any, received_totals: Any, dtype: Any, each_bytes: int) -> Gathered:
        rank, items, memory = self.transport.rank, each_bytes // np.dtype(dtype).itemsize, memory.view(dtype)
        own = memory[self.begin * items : (self.begin + self.part_length) * items]
        own_totals = received_totals.reshape(self.transport.ranks, -1)[rank]
        return Gathered(memory, own, received_totals, own_totals, each_bytes)

    def compile(self, bits: int, *others: Variant) -> None:
        """Compile the kernels of exchanges of values of this number of bits, with other kernels."""
        own = [self.kernels[bits]] if bits in self.kernels else []
        current().compile([*own, *others])

    @abstractmethod
    def positions(self, rows: GraphRows) -> Any:
        """Return the position of each node's value, a device array of uint32, shape (nodes,).

        Nodes without a value have an arbitrary position.
        """

    @abstractmethod
    def queue(self, vector: Gathered) -> None:
        """Queue the exchange of a vector's values and totals."""

    def queue_totals(self, vector: Gathered) -> None:
        """Queue the exchange of totals alone."""
        self.transport.gather(vector.received_totals)


class WholeExchange(Exchange):
    """An all-gather: every rank receives all values, in the order of ranks."""

    name = "whole"

    def __init__(self, transport: Transport, part_length: int) -> None:
        super().__init__(
            transport, part_length=part_length, values=part_length * transport.ranks, begin=part_length * transport.rank
        )

    def positions(self, rows: GraphRows) -> Any:
        """Return positions in the parts of all ranks."""
        arrays = current().arrays
        position = arrays.empty(rows.nodes, np.uint32)
        for rank, (low, high) in enumerate(itertools.pairwise(rows.bounds.tolist())):
            begin = rank * self.part_length
            position[low:high] = arrays.arange(begin, begin + high - low, dtype=np.uint32)
        return position

    def queue(self, vector: Gathered) -> None:
        """Gather the parts of all ranks."""
        whole = vector.memory[: vector.own.size * self.transport.ranks]
        self.transport.gather(whole, vector.received_totals)


class Halos(Exchange):
    """Halos: the part of a rank is followed by the values that its rows read of each other rank."""

    def __init__(self, transport: Transport, part_length: int, halo: Halo) -> None:
        arrays = current().arrays
        self._halo = halo
        self.receives = _spans(halo.reads, part_length)
        self.sends = _spans(halo.sends, 0)
        super().__init__(transport, part_length=part_length, values=padded(_end(self.receives, part_length)), begin=0)
        positions = np.zeros(_end(self.sends, 0), np.uint32)
        for (begin, count), sent in zip(self.sends, halo.sends, strict=True):
            positions[begin : begin + count] = sent
        self.sent_rows = arrays.asarray(positions)

    def positions(self, rows: GraphRows) -> Any:
        """Return positions in the part of this rank and in its halos."""
        arrays, bounds = current().arrays, rows.bounds.tolist()
        position = arrays.zeros(rows.nodes, np.uint32)
        position[rows.low : rows.high] = arrays.arange(rows.high - rows.low, dtype=np.uint32)
        for low, read, (begin, count) in zip(bounds[:-1], self._halo.reads, self.receives, strict=True):
            if count:
                position[arrays.asarray(read + np.int64(low))] = arrays.arange(begin, begin + count, dtype=np.uint32)
        return position


class HaloExchange(Halos):
    """Halos that are packed and sent through the transport."""

    name = "halo"
    kernels: ClassVar[dict[int, Variant]] = PACKS

    def __init__(self, transport: Transport, part_length: int, halo: Halo) -> None:
        super().__init__(transport, part_length, halo)
        self._sent = current().arrays.zeros(8 * self.sent_rows.size, np.uint8)

    def queue(self, vector: Gathered) -> None:
        """Pack the values that others read, and swap them."""
        each_bytes, count = vector.each_bytes, self.sent_rows.size
        if count:
            blocks = current().grid_size(count, each=4)
            arguments = (self.sent_rows, np.uint32(count), vector.own, self._sent)
            current().run(self.kernels[8 * each_bytes], blocks, arguments)
        sends, receives = (
            [(begin * each_bytes, size * each_bytes) for begin, size in spans] for spans in (self.sends, self.receives)
        )
        self.transport.swap(self._sent, sends, vector.memory, receives, vector.received_totals)


def _spans(parts: list[RowIndices], begin: int) -> Spans:
    """Return begin and length of each part, aligned and consecutive from ``begin`` on."""
    spans = []
    for part in parts:
        spans.append((begin, len(part)))
        begin += -(-len(part) // _APART) * _APART
    return spans


def _end(spans: Spans, begin: int) -> int:
    return max([begin, *(-(-(first + count) // _APART) * _APART for first, count in spans if count)])
