"""Large arrays on their way to a device and back, in parts: threads copy one while another is under way.

What a driver copies itself from memory that may be paged out, it copies by one thread first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms import threads

Bytes = npt.NDArray[np.uint8]

LEAST_BYTES = 1 << 20
"""From which parts pay."""
_ROOM_BYTES = 1 << 24
_THREAD_BYTES = 1 << 20


class Staging:
    """Two rooms in page-locked memory, in turn; of one thread.

    Parameters
    ----------
    cupy : module
    pinned : callable
        `cupyx.empty_pinned`.
    """

    def __init__(self, cupy: Any, pinned: Any) -> None:
        self._cupy = cupy
        self._rooms = [(pinned(_ROOM_BYTES, np.uint8), cupy.cuda.Event(disable_timing=True)) for _ in range(2)]

    def to_device(self, values: npt.NDArray[Any]) -> Any:
        """Return a copy on the device, which later work of the current stream finds there."""
        made = self._cupy.empty(values.shape, values.dtype)
        given = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        for part, (room, copied) in self._parts(len(given)):
            here = given[part]
            _copy(here, room[: len(here)])
            self._move(made.data.ptr + part.start, room.ctypes.data, len(here), to_device=True)
            copied.record(self._cupy.cuda.get_current_stream())
        return made

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy in main memory, of what the current stream's work before has left."""
        given = self._cupy.ascontiguousarray(array)
        made = np.empty(given.shape, given.dtype)
        taken = made.reshape(-1).view(np.uint8)
        under_way: list[tuple[slice, tuple[Any, Any]]] = []
        for part, (room, copied) in self._parts(len(taken)):
            self._move(room.ctypes.data, given.data.ptr + part.start, part.stop - part.start, to_device=False)
            copied.record(self._cupy.cuda.get_current_stream())
            under_way.append((part, (room, copied)))
            if len(under_way) > 1:
                _arrive(taken, *under_way.pop(0))
        for part, room in under_way:
            _arrive(taken, part, room)
        return made

    def _parts(self, size: int) -> Iterator[tuple[slice, tuple[Any, Any]]]:
        """Yield what to copy next, and a room that is free for it."""
        for number, low in enumerate(range(0, size, _ROOM_BYTES)):
            room, copied = self._rooms[number % 2]
            copied.synchronize()
            yield slice(low, min(low + _ROOM_BYTES, size)), (room, copied)

    def _move(self, to: int, given: int, size: int, *, to_device: bool) -> None:
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
        runtime.memcpyAsync(to, given, size, kind, self._cupy.cuda.get_current_stream().ptr)


def _arrive(taken: Bytes, part: slice, room: tuple[Any, Any]) -> None:
    values, copied = room
    copied.synchronize()
    _copy(values[: part.stop - part.start], taken[part])


def _copy(values: Bytes, to: Bytes) -> None:
    def copy(part: tuple[int, int]) -> None:
        to[slice(*part)] = values[slice(*part)]

    threads.each(copy, threads.stretches(len(values), at_least=_THREAD_BYTES, parts=threads.available()))
