"""Windows: memory of each rank that all ranks of a host can write, on GPUs or in main memory.

Windows are pooled and never freed, since a rank must not free memory that others have mapped.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.runtime.compile import CudaBackend
from cpms.backends.cuda.runtime.current import current

Opened = tuple[Any, tuple[int, ...]]
_WHOLE_BYTES = 2 << 20
"""The granularity of parts: smaller allocations may share a mapping, and no memory may be mapped twice."""
_ALIGNED = 256
"""Bytes of which parts in main memory begin at a multiple, as device memory does; Open MPI's do not."""


class Window:
    """Memory of a rank, filled with zeros, and the addresses of the other ranks' parts.

    Parameters
    ----------
    memory : array of uint8, of the current backend
    addresses : tuple of int
        The address of each rank's part, for kernels of this rank.
    """

    def __init__(self, memory: Any, addresses: tuple[int, ...]) -> None:
        self.memory, self.addresses = memory, addresses


class _FreeWindow(NamedTuple):
    nbytes: int
    opened: Opened


class Windows:
    """A pool of windows of a communicator.

    A window is reused after all ranks have dropped it.

    Parameters
    ----------
    communicator : mpi4py communicator
    open_new : callable
        Takes bytes; returns memory of this rank and the addresses of all ranks' parts. Every rank calls it.
    """

    def __init__(self, communicator: Any, open_new: Callable[[int], Opened]) -> None:
        self._communicator, self._open_new = communicator, open_new
        self._free: dict[int, _FreeWindow] = {}
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
        # A window that is dropped meanwhile joins the pool.
        fitting = {number for number, free in list(self._free.items()) if free.nbytes >= nbytes}
        common = set.intersection(*self._communicator.allgather(fitting))
        number = min(common) if common else self._make(nbytes)
        free = self._free.pop(number)
        memory, addresses = free.opened
        memory[:] = 0
        # No rank writes into the window before all ranks have cleared it.
        current().synchronize()
        self._communicator.Barrier()
        reused = Window(memory, addresses)
        weakref.finalize(reused, self._free.__setitem__, number, free).atexit = False
        return reused

    def _make(self, nbytes: int) -> int:
        """Open a new window, and return its number, which is the same on all ranks."""
        number = self._made
        self._free[number] = _FreeWindow(nbytes, self._open_new(nbytes))
        self._made += 1
        return number


def copy_to(address: int, source: Any) -> None:
    """Copy an array to an address of another rank's part; on a GPU it is queued in the current stream."""
    if isinstance(current(), CudaBackend):
        import cupy

        runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream()
        runtime.memcpyAsync(address, source.data.ptr, source.nbytes, runtime.memcpyDeviceToDevice, stream.ptr)
    else:
        ctypes.memmove(address, source.ctypes.data, source.nbytes)


def to_host(communicator: Any) -> Callable[[int], Opened]:
    """Return a function that opens windows in main memory, shared by processes of one host."""
    from mpi4py import MPI

    def open_new(nbytes: int) -> Opened:
        shared = MPI.Win.Allocate_shared(nbytes + _ALIGNED, 1, comm=communicator)
        buffers: list[Any] = [shared.Shared_query(rank)[0] for rank in range(communicator.size)]
        # Pages are aligned in every process, so all of them leave out as many bytes of a part.
        whole = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
        parts = [part[-part.ctypes.data % _ALIGNED :][:nbytes] for part in whole]
        return parts[communicator.rank], tuple(part.ctypes.data for part in parts)

    return open_new


def between_gpus(communicator: Any) -> Callable[[int], Opened]:
    """Return a function that opens windows on GPUs of one host; it fails where they cannot map each other's memory."""
    import cupy

    runtime, rank = cupy.cuda.runtime, communicator.rank

    def open_new(nbytes: int) -> Opened:
        # Others open a whole allocation, so this one is outside CuPy's pool, which may free its memory.
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
