"""Halo exchange by remote stores: every rank writes its values into the memory of the ranks that read them.

It needs GPUs of one host that map each other's memory; signals replace messages, so that a persistent kernel exchanges
without the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.structs import PEER_SIGNALS
from cpms.backends.cuda.kernels.template import REMOTE_STORES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.mpi.exchange.device_vectors import RANK_TOTALS, Gathered, Halos
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.exchange.windows import Windows


class DirectExchange(Halos):
    """Every rank writes halos into other ranks' memory, in a separate launch or within a persistent kernel.

    See ``multi_gpu/remote_store.cu`` and ``multi_gpu/rank_sweep.cu``.

    A rank may be one exchange ahead of another. Hence two consecutive exchanges must not use the same vector, since the
    second would overwrite values that other ranks still read.
    """

    name = "direct"
    kernels: ClassVar[dict[int, Variant]] = REMOTE_STORES

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
        to_values = (
            address + before + begin * each_bytes
            for address, begin in zip(window.addresses, self._expected, strict=True)
        )
        to_totals = (address + rank * totals_bytes for address in window.addresses)
        return replace(vector, window=window, routes=(_addresses(to_values), _addresses(to_totals)))

    def queue(self, vector: Gathered) -> None:
        """Write values and totals, and wait for those of others."""
        self._push(vector, with_values=True)
        self.count_received(vector)

    def queue_totals(self, vector: Gathered) -> None:
        """Write totals, and wait for those of others."""
        self._push(vector, with_values=False)
        self.count_totals(vector)

    @property
    def within(self) -> bool:
        """True: persistent kernels store remotely."""
        return True

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

    def made(self) -> Callable[[], int]:
        """Return a function that waits for the device's count."""
        noted = current().fetch_async(self._counts)
        return lambda: int(noted()[1])

    def count_received(self, vector: Gathered, times: int = 1) -> None:
        """Count values and totals."""
        self.transport.received_bytes += times * sum(count for _, count in self.receives) * vector.each_bytes
        self.count_totals(vector, times)

    def count_totals(self, vector: Gathered, times: int = 1) -> None:
        """Count totals."""
        ranks = self.transport.ranks
        self.transport.received_bytes += times * (vector.received_totals.nbytes // ranks * (ranks - 1))

    def _push(self, vector: Gathered, *, with_values: bool) -> None:
        count = self.sent_rows.size if with_values else 0
        blocks = current().grid_size(count, each=16 // vector.each_bytes, per_processor=2)
        to_values, to_totals = vector.routes
        totals = vector.own_totals, np.uint32(vector.own_totals.size), to_totals, np.uint32(with_values)
        current().run(
            self.kernels[8 * vector.each_bytes], blocks, (self.signal_argument, vector.own, to_values, *totals)
        )


def _addresses(numbers: Iterable[int]) -> Any:
    return current().arrays.asarray(np.array(list(numbers), np.uint64))
