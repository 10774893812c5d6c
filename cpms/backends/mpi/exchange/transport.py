"""Transport of device arrays between ranks: NCCL between GPUs, MPI for kernels emulated on processors."""

from __future__ import annotations

import atexit
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias
from weakref import WeakSet

from cpms.backends.cuda.runtime.compile import CudaBackend
from cpms.backends.cuda.runtime.cuda_graphs import CudaGraphs
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.exchange import device, windows, world
from cpms.backends.mpi.exchange.windows import Opened, Windows
from cpms.base.errors import UnavailableError

Spans: TypeAlias = list[tuple[int, int]]
"""The begin and the length of a part of an array, for each rank."""


class Transport(ABC):
    """Exchanges between the ranks of a communicator; all are collective, in the same order on every rank.

    Parameters
    ----------
    communicator : mpi4py communicator
    """

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator
        self.rank, self.ranks = int(communicator.rank), int(communicator.size)
        self.received_bytes = 0
        """The bytes that this rank has received so far."""
        self.repeated: WeakSet[Repeated] = WeakSet()
        """Objects that may hold CUDA graphs of these exchanges."""

    @cached_property
    def windows(self) -> Windows | None:
        """Memory that all ranks may write; None where they cannot. Every rank asks at the same time."""
        if self.ranks == 1 or world.count_here(self.communicator) < self.ranks:
            return None
        open_new, refused = self._opening()
        made = Windows(self.communicator, open_new)
        return made if self.agreed(made.opens(refused)) else None

    @abstractmethod
    def _opening(self) -> tuple[Callable[[int], Opened], type[Exception]]:
        """Return the function that opens a window, and the error that it raises where none can be opened."""

    def gather(self, *wholes: Any) -> None:
        """All-gather arrays in place: each rank has one part of each, of equal lengths in the order of ranks.

        On a GPU, it is queued in the current stream.
        """
        nothing = [(0, 0)] * self.ranks
        self.swap(None, nothing, None, nothing, *wholes)

    def swap(self, sent: Any, sends: Spans, received: Any, receives: Spans, *wholes: Any) -> None:
        """Send each rank a part of ``sent``, receive a part of ``received`` from each, and all-gather arrays.

        Spans are in bytes. A rank receives as many bytes from another as that sends, and the span of a rank itself is
        empty. All of this is one exchange, queued as in `gather`.
        """
        if self.ranks == 1:
            return
        self._swap(sent, sends, received, receives, wholes)
        self.received_bytes += sum(count for _, count in receives)
        self.received_bytes += sum(whole.nbytes // self.ranks * (self.ranks - 1) for whole in wholes)

    @abstractmethod
    def _swap(self, sent: Any, sends: Spans, received: Any, receives: Spans, wholes: tuple[Any, ...]) -> None:
        """Exchange, between at least two ranks."""

    def agreed(self, mine: bool) -> bool:
        """Return whether a condition holds on all ranks; collective."""
        return all(self.communicator.allgather(mine))


class ThroughMpi(Transport):
    """Arrays in main memory."""

    def _opening(self) -> tuple[Callable[[int], Opened], type[Exception]]:
        from mpi4py import MPI

        return windows.to_host(self.communicator), MPI.Exception

    def _swap(self, sent: Any, sends: Spans, received: Any, receives: Spans, wholes: tuple[Any, ...]) -> None:
        from mpi4py import MPI

        if received is not None:
            send_begins, send_counts = zip(*sends, strict=True)
            begins, counts = zip(*receives, strict=True)
            self.communicator.Alltoallv(
                [sent, (send_counts, send_begins), MPI.BYTE], [received, (counts, begins), MPI.BYTE]
            )
        for whole in wholes:
            each = whole.nbytes // self.ranks
            self.communicator.Allgather(MPI.IN_PLACE, [whole, each, MPI.BYTE])


class Nccl(Transport):
    """Arrays in the memory of one GPU a rank.

    Raises
    ------
    UnavailableError
        If NCCL is missing, or cannot join the ranks' GPUs.
    """

    def __init__(self, communicator: Any) -> None:
        super().__init__(communicator)
        if self.ranks == 1:
            return
        import cupy

        nccl = library()
        if nccl is None:
            major = cupy.cuda.runtime.runtimeGetVersion() // 1000
            raise UnavailableError(
                "CuPy finds no NCCL library, which GPUs of several ranks exchange vectors by; "
                f"pip install nvidia-nccl-cu{major}"
            )
        self._nccl = nccl
        self._stream = cupy.cuda.get_current_stream
        try:
            joined = communicator.bcast(nccl.get_unique_id() if self.rank == 0 else None)
            self._joined = nccl.NcclCommunicator(self.ranks, joined, self.rank)
        except nccl.NcclError as error:
            raise UnavailableError(
                f"NCCL cannot join the GPUs of {self.ranks} ranks ({error}); NCCL_DEBUG=WARN tells more"
            ) from None
        # A communicator waits for graphs with its exchanges; at the end of a process, it would wait for ever.
        atexit.register(self._release_graphs)

    def _opening(self) -> tuple[Callable[[int], Opened], type[Exception]]:
        import cupy

        return windows.between_gpus(self.communicator), cupy.cuda.runtime.CUDARuntimeError

    def _release_graphs(self) -> None:
        for repeated in self.repeated:
            repeated.clear()

    def _swap(self, sent: Any, sends: Spans, received: Any, receives: Spans, wholes: tuple[Any, ...]) -> None:
        stream, kind = self._stream().ptr, self._nccl.NCCL_UINT8
        self._nccl.groupStart()
        for away in range(1, self.ranks):
            to, by = (self.rank + away) % self.ranks, (self.rank - away) % self.ranks
            begin, count = sends[to]
            if count:
                self._joined.send(sent.data.ptr + begin, count, kind, to, stream)
            begin, count = receives[by]
            if count:
                self._joined.recv(received.data.ptr + begin, count, kind, by, stream)
        for whole in wholes:
            each, begin = whole.nbytes // self.ranks, whole.data.ptr
            self._joined.allGather(begin + self.rank * each, begin, each, kind, stream)
        self._nccl.groupEnd()


class Repeated:
    """Repeated launches and exchanges, as one CUDA graph if all ranks could capture it.

    Parameters
    ----------
    transport : Transport
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._cuda_graphs = CudaGraphs(transport.agreed)
        self._received_bytes: dict[tuple[float, ...], int] = {}
        transport.repeated.add(self)

    def run(self, vectors: tuple[Any, ...], what: tuple[float, ...], launch: Callable[[], None]) -> None:
        """Replay a CUDA graph as `CudaGraphs.run` does; ``what`` distinguishes exchanges of other sizes, too."""
        transport, before = self._transport, self._transport.received_bytes
        self._cuda_graphs.run(vectors, what, launch)
        # Replays of a graph do not count their bytes, so they are counted here.
        each = self._received_bytes.setdefault(what, transport.received_bytes - before)
        transport.received_bytes = before + each

    def clear(self) -> None:
        """Drop vectors and graphs."""
        self._cuda_graphs.clear()


def library() -> Any | None:
    """Return CuPy's module of NCCL, or None where there is no such library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The caller reports a missing library.
        try:
            from cupy.cuda import nccl
        except ImportError:
            return None
    return nccl if nccl.available else None


_joined: dict[tuple[type[Transport], int], Transport] = {}


def between(communicator: Any) -> Transport:
    """Return the transport of the current backend's arrays between ranks; collective.

    Ranks are joined once, since that takes GPUs as long as many solves. The communicator must not be freed.
    """
    device.take(communicator)
    kind = Nccl if isinstance(current(), CudaBackend) else ThroughMpi
    key = kind, communicator.py2f()
    if key not in _joined:
        _joined[key] = kind(communicator)
    return _joined[key]
