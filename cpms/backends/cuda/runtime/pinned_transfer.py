"""Transfers of large arrays between pageable memory and a device, in parts through pinned buffers.

The driver copies pageable memory into a buffer of its own by one thread. Here parts are copied while others are in
flight: by several threads, so that a large transfer takes about as long as the bus needs, and by the calling thread
alone where waking another one takes longer than it saves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads

MIN_BYTES = 1 << 20
"""Size from which transfer in parts is faster."""
_BUFFER_BYTES, _BUFFERS = 1 << 22, 16
_SMALL_BUFFERS = 2
"""Transfers of fewer than so many buffers are the caller's alone."""
_PARTS_OF_BUFFER = 8
"""The caller alone sends parts of this fraction of a buffer: the bus begins early, and little is left at the end."""
_STREAM_PER_THREAD = 2
"""``cudaStreamPerThread``, which is another stream in each thread."""


class PinnedTransfer:
    """Pinned buffers of one thread and its helpers.

    Parameters
    ----------
    cupy : module
    pinned : callable
        `cupyx.empty_pinned`.
    """

    def __init__(self, cupy: Any, pinned: Any) -> None:
        self._cupy = cupy
        self._buffers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        for _ in range(_BUFFERS):
            self._buffers.put((pinned(_BUFFER_BYTES, np.uint8), cupy.cuda.Event(disable_timing=True)))

    def to_device(self, values: npt.NDArray[Any]) -> Any:
        """Return a copy on the device, in the order of the current stream."""
        made, stream, device = self._cupy.empty(values.shape, values.dtype), *self._here()
        given = np.ascontiguousarray(values).reshape(-1).view(np.uint8)

        def send(part: tuple[int, int]) -> None:
            here = given[slice(*part)]
            with self._buffer(device) as (buffer, copied):
                buffer[: len(here)] = here
                self._move(made.data.ptr + part[0], buffer.ctypes.data, len(here), stream, to_device=True)
                copied.record(stream)

        self._each_part(send, len(given), stream, alone_bytes=_BUFFER_BYTES // _PARTS_OF_BUFFER)
        return made

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy in main memory, after the current stream's earlier work."""
        given, stream, device = self._cupy.ascontiguousarray(array), *self._here()
        made = np.empty(given.shape, given.dtype)
        taken = made.reshape(-1).view(np.uint8)

        def receive(part: tuple[int, int]) -> None:
            here = taken[slice(*part)]
            with self._buffer(device) as (buffer, copied):
                self._move(buffer.ctypes.data, given.data.ptr + part[0], len(here), stream, to_device=False)
                copied.record(stream)
                copied.synchronize()
                here[:] = buffer[: len(here)]

        self._each_part(receive, len(taken), stream, alone_bytes=_BUFFER_BYTES)
        return made

    def _each_part(self, move: Callable[[tuple[int, int]], None], size: int, stream: Any, *, alone_bytes: int) -> None:
        """Move all parts of so many bytes; in parts of ``alone_bytes`` where the caller alone moves them.

        Other threads do not help where the stream is another one in each of them.
        """
        alone = size < _SMALL_BUFFERS * _BUFFER_BYTES or stream.ptr == _STREAM_PER_THREAD
        parts = threads.ranges(size, at_least=alone_bytes if alone else _BUFFER_BYTES)
        threads.each_beside_caller(move, parts, helpers=0 if alone else len(parts))

    def _here(self) -> tuple[Any, Any]:
        return self._cupy.cuda.get_current_stream(), self._cupy.cuda.Device()

    @contextmanager
    def _buffer(self, device: Any) -> Iterator[tuple[Any, Any]]:
        """Yield a buffer without a copy in flight, and an event for the next copy."""
        buffer, copied = self._buffers.get()
        try:
            with device:
                copied.synchronize()
                yield buffer, copied
        finally:
            self._buffers.put((buffer, copied))

    def _move(self, to: int, given: int, size: int, stream: Any, *, to_device: bool) -> None:
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
        runtime.memcpyAsync(to, given, size, kind, stream.ptr)
