"""Halo exchange by remote stores: every rank writes its values into the memory of the ranks that read them.

It needs GPUs of one host that map each other's memory; signals replace messages, so that a persistent kernel exchanges
without the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.structs import PEER_SIGNALS, RANKS, SHARED_VECTOR
from cpms.backends.cuda.kernels.template import REMOTE_STORES, WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.mpi.exchange.device_vectors import RANK_TOTALS, Gathered, Halos
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.exchange.windows import Window, Windows
from cpms.precision.anderson import PRODUCTS


class DirectExchange(Halos):
    """Every rank writes halos into other ranks' memory, in a separate launch or within a persistent kernel.

    See ``multi_gpu/remote_store.cu`` and ``pagerank/ranks.cuh``.

    A rank may be one exchange ahead of another. Hence two consecutive exchanges must not use the same vector, since the
    second would overwrite values that other ranks still read.
    """

    name = "direct"
    kernels: ClassVar[dict[int, Variant]] = REMOTE_STORES
    within = True

    def __init__(self, transport: Transport, part_length: int, halo: Halo, windows: Windows) -> None:
        super().__init__(transport, part_length, halo)
        arrays, rank, ranks = current().arrays, transport.rank, transport.ranks
        begins = [begin for begin, _ in self.sends]
        self._begins = arrays.asarray(np.array([*begins, self.sent_rows.size], np.uint32))
        # Positions of this rank's values in the vectors of others.
        self._expected = transport.communicator.alltoall([begin for begin, _ in self.receives])
        self._windows = windows
        self._signals = windows.window(4 * ranks)
        self._signals_to = _addresses(address + 4 * rank for address in self._signals.addresses)
        self._counts = arrays.zeros(2, np.uint32)
        self._spent = arrays.zeros(2, np.float64)
        self.longest = max(transport.communicator.allgather(self.values)) + WHOLE_VALUES
        self._totals = self.rank_totals(2 * PRODUCTS)

    def ready(self) -> None:
        """Wait for this rank's device, then for the other ranks."""
        current().synchronize()
        self.transport.communicator.Barrier()

    def _vector(self, nbytes: int, dtype: Any, each_bytes: int, totals: int = RANK_TOTALS) -> Gathered:
        """Place the vector in a window, after the totals."""
        rank, totals_bytes = self.transport.rank, totals * 8
        before = padded(self.transport.ranks * totals_bytes)
        window = self._windows.window(before + nbytes)
        memory = window.memory[before : before + nbytes]
        received_totals = window.memory[: self.transport.ranks * totals_bytes].view(np.float64)
        vector = self._gathered(memory, received_totals, dtype, each_bytes)
        to_totals = (address + rank * totals_bytes for address in window.addresses)
        return replace(vector, window=window, routes=(self._routes(window, before, each_bytes), _addresses(to_totals)))

    def queue(self, vector: Gathered) -> None:
        """Write values and totals, and wait for those of others."""
        blocks = current().grid_size(self.sent_rows.size, each=16 // vector.each_bytes, per_processor=2)
        to_values, to_totals = vector.routes
        totals = vector.own_totals, np.uint32(vector.own_totals.size), to_totals
        kernel = self.kernels[8 * vector.each_bytes]
        current().run(kernel, blocks, (self.signal_argument, vector.own, to_values, *totals))
        self.count_within(vector.each_bytes, 1, vector.own_totals.size)

    @property
    def signal_argument(self) -> Struct:
        """Rows that are sent and their ranges by rank, signals and counts."""
        return pack(
            PEER_SIGNALS,
            sent_indices=self.sent_rows,
            begins=self._begins,
            signals_to=self._signals_to,
            signals=self._signals.memory,
            counts=self._counts,
            ranks=self.transport.ranks,
            rank=self.transport.rank,
        )

    def count_within(self, each_bytes: int, times: int, totals: int = 0) -> None:
        """Count exchanges of values of a size, with so many totals a rank."""
        values = sum(count for _, count in self.receives)
        self.transport.received_bytes += times * (values * each_bytes + 8 * totals * (self.transport.ranks - 1))

    def spent(self) -> tuple[float, int]:
        """Wait for the device; return the last launch's seconds in exchanges, and its exchanges of the history."""
        nanoseconds, of_history = current().fetch_async(self._spent)().tolist()
        return nanoseconds * 1e-9, int(of_history)

    def rank_argument(self, x: tuple[Gathered, Gathered], history: tuple[Any, Any] | None = None) -> Struct:
        """Return the kernel argument of exchanges of the iterate and its successor, and of a history and its routes."""
        shared = [pack(SHARED_VECTOR, memory=vector.memory, values_to=vector.routes[0]) for vector in x]
        sent, routes = history or (None, None)
        return pack(
            RANKS,
            peers=self.signal_argument,
            x=shared,
            history=pack(SHARED_VECTOR, memory=sent, values_to=routes),
            received=self._totals.received_totals,
            totals_to=self._totals.routes[1],
            spent=self._spent,
            halo_begin=self.part_length,
            halo_end=self.values,
        )

    def history(self, vectors: int, each_bytes: int) -> tuple[Window, Any, Any]:
        """Return a window, its zeros for vectors as far apart on every rank, and where others hold them; collective."""
        nbytes = vectors * self.longest * each_bytes
        window = self._windows.window(nbytes)
        return window, window.memory[:nbytes], self._routes(window, 0, each_bytes)

    def _routes(self, window: Window, before: int, each_bytes: int) -> Any:
        """Return the addresses of this rank's values in the others' windows, ``before`` bytes after their begin."""
        return _addresses(
            address + before + begin * each_bytes
            for address, begin in zip(window.addresses, self._expected, strict=True)
        )


def _addresses(numbers: Iterable[int]) -> Any:
    return current().arrays.asarray(np.array(list(numbers), np.uint64))
