"""Large arrays on their way to a device and back, in parts: threads copy some while others are under way.

What a driver copies itself from memory that may be paged out, it copies by one thread first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads

LEAST_BYTES = 1 << 20
"""From which parts pay."""
_ROOM_BYTES, _ROOMS = 1 << 22, 16


class Staging:
    """Rooms in page-locked memory, of one thread and those that help it.

    Parameters
    ----------
    cupy : module
    pinned : callable
        `cupyx.empty_pinned`.
    """

    def __init__(self, cupy: Any, pinned: Any) -> None:
        self._cupy = cupy
        self._rooms: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        for _ in range(_ROOMS):
            self._rooms.put((pinned(_ROOM_BYTES, np.uint8), cupy.cuda.Event(disable_timing=True)))

    def to_device(self, values: npt.NDArray[Any]) -> Any:
        """Return a copy on the device, which later work of the current stream finds there."""
        made, stream, device = self._cupy.empty(values.shape, values.dtype), *self._here()
        given = np.ascontiguousarray(values).reshape(-1).view(np.uint8)

        def send(part: tuple[int, int]) -> None:
            here = given[slice(*part)]
            with self._room(device) as (room, copied):
                room[: len(here)] = here
                self._move(made.data.ptr + part[0], room.ctypes.data, len(here), stream, to_device=True)
                copied.record(stream)

        threads.each(send, threads.ranges(len(given), at_least=_ROOM_BYTES))
        return made

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy in main memory, of what the current stream's work before has left."""
        given, stream, device = self._cupy.ascontiguousarray(array), *self._here()
        made = np.empty(given.shape, given.dtype)
        taken = made.reshape(-1).view(np.uint8)

        def bring(part: tuple[int, int]) -> None:
            here = taken[slice(*part)]
            with self._room(device) as (room, copied):
                self._move(room.ctypes.data, given.data.ptr + part[0], len(here), stream, to_device=False)
                copied.record(stream)
                copied.synchronize()
                here[:] = room[: len(here)]

        threads.each(bring, threads.ranges(len(taken), at_least=_ROOM_BYTES))
        return made

    def _here(self) -> tuple[Any, Any]:
        return self._cupy.cuda.get_current_stream(), self._cupy.cuda.Device()

    @contextmanager
    def _room(self, device: Any) -> Iterator[tuple[Any, Any]]:
        """Lend a room that nothing is on its way to or from, and an event for what is going to be."""
        room, copied = self._rooms.get()
        try:
            with device:
                copied.synchronize()
                yield room, copied
        finally:
            self._rooms.put((room, copied))

    def _move(self, to: int, given: int, size: int, stream: Any, *, to_device: bool) -> None:
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
        runtime.memcpyAsync(to, given, size, kind, stream.ptr)
