"""Memory of each rank that all ranks may write: between GPUs of one host, and in main memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.runtime.current import current

Opened = tuple[Any, tuple[int, ...]]
_WHOLE_BYTES = 2 << 20
"""Every part is a multiple of so many: smaller ones may share what is mapped, and nothing is mapped twice."""


class Window:
    """Memory of a rank, filled with zeros, and where that of the others is.

    Parameters
    ----------
    memory : array of uint8, of the current backend
    addresses : tuple of int
        Where each rank's part begins, for kernels of this one.
    """

    def __init__(self, memory: Any, addresses: tuple[int, ...]) -> None:
        self.memory, self.addresses = memory, addresses


class _Kept(NamedTuple):
    nbytes: int
    opened: Opened


class Windows:
    """Windows of a communicator. Ranks would have to close them before their owners free them: none is ever freed.

    A window that nobody has any more, on any rank, is lent again.

    Parameters
    ----------
    communicator : mpi4py communicator
    open_new : callable
        Takes bytes; returns memory of this rank and the addresses of all ranks' parts. Every rank calls it.
    """

    def __init__(self, communicator: Any, open_new: Callable[[int], Opened]) -> None:
        self._communicator, self._open_new = communicator, open_new
        self._free: dict[int, _Kept] = {}
        self._made = 0

    def opens(self, refused: type[Exception]) -> bool:
        """Return whether this rank can open a window, or raises ``refused``; every rank calls this."""
        try:
            self._make(_WHOLE_BYTES)
        except refused:
            return False
        return True

    def window(self, nbytes: int) -> Window:
        """Return a window with at least so many bytes for this rank; every rank calls this."""
        nbytes = -(-nbytes // _WHOLE_BYTES) * _WHOLE_BYTES
        # A window that goes meanwhile is added to these.
        fitting = {number for number, kept in list(self._free.items()) if kept.nbytes >= nbytes}
        common = set.intersection(*self._communicator.allgather(fitting))
        number = min(common) if common else self._make(nbytes)
        kept = self._free.pop(number)
        memory, addresses = kept.opened
        memory[:] = 0
        # Nobody writes into it before everybody has cleared it.
        current().synchronize()
        self._communicator.Barrier()
        lent = Window(memory, addresses)
        weakref.finalize(lent, self._free.__setitem__, number, kept).atexit = False
        return lent

    def _make(self, nbytes: int) -> int:
        """Open one that nobody has yet, and return its number, the same on all ranks."""
        number = self._made
        self._free[number] = _Kept(nbytes, self._open_new(nbytes))
        self._made += 1
        return number


def to_host(communicator: Any) -> Callable[[int], Opened]:
    """Return how to open windows that processes of one host share."""
    from mpi4py import MPI

    def open_new(nbytes: int) -> Opened:
        shared = MPI.Win.Allocate_shared(nbytes, 1, comm=communicator)
        buffers: list[Any] = [shared.Shared_query(rank)[0] for rank in range(communicator.size)]
        parts = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
        return parts[communicator.rank], tuple(part.ctypes.data for part in parts)

    return open_new


def between_gpus(communicator: Any) -> Callable[[int], Opened]:
    """Return how to open windows that GPUs of one host share; opening one fails where they cannot."""
    import cupy

    runtime, rank = cupy.cuda.runtime, communicator.rank

    def open_new(nbytes: int) -> Opened:
        # What others open is a whole allocation, so it is none of CuPy's pool, which lets go of what it keeps.
        cupy.get_default_memory_pool().free_all_blocks()
        try:
            memory = cupy.cuda.Memory(nbytes)
        except runtime.CUDARuntimeError:
            raise current().out_of_memory(nbytes, nbytes) from None
        handles = communicator.allgather(runtime.ipcGetMemHandle(memory.ptr))
        addresses = tuple(
            memory.ptr if other == rank else runtime.ipcOpenMemHandle(handle) for other, handle in enumerate(handles)
        )
        return cupy.ndarray(nbytes, np.uint8, cupy.cuda.MemoryPointer(memory, 0)), addresses

    return open_new
