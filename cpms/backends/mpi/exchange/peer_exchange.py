"""Exchanges in which every rank writes what others read into their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.template import REMOTE_STORES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.exchange.device_vectors import TOLD, Gathered, Halos
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.exchange.windows import Windows


class DirectExchange(Halos):
    """Every rank writes what others read into their memory, in a launch of its own or within that of many sweeps.

    See ``multi_gpu/remote_store.cu`` and ``multi_gpu/rank_sweep.cu``.

    A rank may be one exchange ahead of another. So no vector may be in two exchanges that follow each other: what the
    first brought would be written over while others read it.
    """

    name = "direct"
    kernels: ClassVar[dict[int, Variant]] = REMOTE_STORES

    def __init__(self, transport: Transport, stretch: int, halo: Halo, windows: Windows) -> None:
        super().__init__(transport, stretch, halo)
        arrays, rank, ranks = current().arrays, transport.rank, transport.ranks
        begins = [begin for begin, _ in self.sends]
        self._begins = arrays.asarray(np.array([*begins, self.sent_places.size], np.uint32))
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

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int, told: int = TOLD) -> Gathered:
        """Lay it out in a window: what is told first."""
        rank, told_bytes = self.transport.rank, told * 8
        before = padded(self.transport.ranks * told_bytes)
        window = self._windows.window(before + nbytes)
        memory = window.memory[before : before + nbytes]
        heard = window.memory[: self.transport.ranks * told_bytes].view(np.float64)
        vector = self._gathered(memory, heard, dtype, each_bytes)
        to_values = (
            address + before + begin * each_bytes
            for address, begin in zip(window.addresses, self._expected, strict=True)
        )
        to_told = (address + rank * told_bytes for address in window.addresses)
        return replace(vector, window=window, routes=(_addresses(to_values), _addresses(to_told)))

    def queue(self, vector: Gathered) -> None:
        """Write, and wait for what others write."""
        self._push(vector, with_values=True)
        self.count_received(vector)

    def queue_told(self, vector: Gathered) -> None:
        """Write and wait for what ranks tell alone."""
        self._push(vector, with_values=False)
        self.count_told(vector)

    @property
    def within(self) -> bool:
        """Yes."""
        return True

    @property
    def talk(self) -> tuple[Any, ...]:
        """Places of values and those of ranks, signals and counts."""
        ranks = np.uint32(self.transport.ranks), np.uint32(self.transport.rank)
        return self.sent_places, self._begins, self._signals_to, self._signals.memory, self._counts, *ranks

    def made(self) -> Callable[[], int]:
        """Note what the device has counted."""
        noted = current().fetch_async(self._counts)
        return lambda: int(noted()[1])

    def count_received(self, vector: Gathered, times: int = 1) -> None:
        """Count values and what ranks told."""
        self.transport.received_bytes += times * sum(count for _, count in self.receives) * vector.each_bytes
        self.count_told(vector, times)

    def count_told(self, vector: Gathered, times: int = 1) -> None:
        """Count what ranks told."""
        ranks = self.transport.ranks
        self.transport.received_bytes += times * (vector.heard.nbytes // ranks * (ranks - 1))

    def _push(self, vector: Gathered, *, with_values: bool) -> None:
        count = self.sent_places.size if with_values else 0
        blocks = current().spread(count, each=16 // vector.each_bytes, per_processor=2)
        to_values, to_told = vector.routes
        told = vector.to, np.uint32(vector.to.size), to_told, np.uint32(with_values)
        current().run(self.kernels[8 * vector.each_bytes], blocks, (*self.talk, vector.own, to_values, *told))


def _addresses(numbers: Iterable[int]) -> Any:
    return current().arrays.asarray(np.array(list(numbers), np.uint64))
