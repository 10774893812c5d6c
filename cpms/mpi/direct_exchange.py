"""Exchanges in which every rank writes what others read into their memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cpms.cuda.backend import current
from cpms.cuda.variants import PUSHES, Variant
from cpms.cuda.vectors import padded
from cpms.mpi.gathered import TOLD, Gathered, Halos
from cpms.mpi.halo import Halo
from cpms.mpi.transport import Transport
from cpms.mpi.windows import Windows


class DirectExchange(Halos):
    """Every rank writes what others read into their memory, in one launch; see ``push.cu``.

    A rank may be one exchange ahead of another. So no vector may be in two exchanges that follow each other: what the
    first brought would be written over while others read it.
    """

    name = "direct"
    kernels: ClassVar[dict[int, Variant]] = PUSHES

    def __init__(self, transport: Transport, stretch: int, halo: Halo, windows: Windows) -> None:
        super().__init__(transport, stretch, halo)
        arrays, rank, ranks = current().arrays, transport.rank, transport.ranks
        begins = [begin for begin, _ in self.sends]
        self._begins = arrays.asarray(np.array([*begins, self.sent_places.size], np.uint32))
        self._none = arrays.zeros(ranks + 1, np.uint32)
        # Where others expect this rank's values.
        self._expected = transport.communicator.alltoall([begin for begin, _ in self.receives])
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
        self._push(vector, self._begins, self.sent_places.size)
        self.transport.received_bytes += sum(count for _, count in self.receives) * vector.each_bytes

    def queue_told(self, vector: Gathered) -> None:
        """Write and wait for what ranks tell alone."""
        self._push(vector, self._none, 0)

    def _push(self, vector: Gathered, begins: Any, count: int) -> None:
        backend, transport = current(), self.transport
        blocks = backend.spread(count, each=16 // vector.each_bytes, per_processor=2)
        arguments = (
            *(self.sent_places, begins, vector.own, vector.to, np.uint32(TOLD), *vector.routes, self._signals_to),
            *(np.uint32(transport.ranks), np.uint32(transport.rank), self._signals.memory, self._counts),
        )
        backend.run(self.kernels[8 * vector.each_bytes], blocks, arguments)
        transport.received_bytes += vector.heard.nbytes // transport.ranks * (transport.ranks - 1)


def _addresses(numbers: Iterable[int]) -> Any:
    return current().arrays.asarray(np.array(list(numbers), np.uint64))
