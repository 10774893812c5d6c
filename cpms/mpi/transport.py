"""How ranks exchange device arrays: NCCL between GPUs, MPI where kernels run on this machine's processor."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from cpms.cuda.backend import current
from cpms.cuda.compile import CudaBackend
from cpms.errors import UnavailableError
from cpms.mpi import device


class Transport(ABC):
    """Exchanges between the ranks of a communicator; every rank asks for the same ones, in the same order.

    Parameters
    ----------
    communicator : mpi4py communicator
    """

    def __init__(self, communicator: Any) -> None:
        self.rank, self.ranks = int(communicator.rank), int(communicator.size)
        self.received_bytes = 0
        """What this rank has been sent so far."""

    def gather(self, *wholes: Any) -> None:
        """Make arrays whole of which each rank has a stretch, all as long, in the order of ranks.

        On a GPU this is queued behind what the current stream has to do.
        """
        if self.ranks == 1:
            return
        self._gather(wholes)
        self.received_bytes += sum(whole.nbytes // self.ranks * (self.ranks - 1) for whole in wholes)

    @abstractmethod
    def _gather(self, wholes: tuple[Any, ...]) -> None:
        """Gather, between at least two ranks."""


class ThroughMpi(Transport):
    """Arrays in main memory."""

    def __init__(self, communicator: Any) -> None:
        super().__init__(communicator)
        self._communicator = communicator

    def _gather(self, wholes: tuple[Any, ...]) -> None:
        from mpi4py import MPI

        for whole in wholes:
            each = whole.nbytes // self.ranks
            self._communicator.Allgather(MPI.IN_PLACE, [whole, each, MPI.BYTE])


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

    def _gather(self, wholes: tuple[Any, ...]) -> None:
        stream = self._stream().ptr
        self._nccl.groupStart()
        for whole in wholes:
            each, begin = whole.nbytes // self.ranks, whole.data.ptr
            self._joined.allGather(begin + self.rank * each, begin, each, self._nccl.NCCL_UINT8, stream)
        self._nccl.groupEnd()


def library() -> Any | None:
    """Return CuPy's module of NCCL, or None where there is no such library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What is missing is for us to say.
        try:
            from cupy.cuda import nccl
        except ImportError:
            return None
    return nccl if nccl.available else None


_joined: dict[int, Nccl] = {}


def between(communicator: Any) -> Transport:
    """Return what carries arrays of the current backend between ranks; every rank calls this.

    GPUs are joined once, which takes about as long as many solves; the communicator must not be freed.
    """
    device.take(communicator)
    if not isinstance(current(), CudaBackend):
        return ThroughMpi(communicator)
    key = communicator.py2f()
    if key not in _joined:
        _joined[key] = Nccl(communicator)
    return _joined[key]
