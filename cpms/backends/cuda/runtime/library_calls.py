"""Direct calls of CUDA libraries that CuPy has loaded, through ctypes.

CuPy refuses their functions while a CUDA graph is captured, though the libraries allow it; a direct call also costs
less.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

from cpms.base.errors import UnavailableError

_TYPES = {"i": ctypes.c_int, "p": ctypes.c_void_p}


class Library:
    """A library's functions on handles of our own, one a device, with the stream set to CuPy's current one.

    A thread keeps the others out from the choice of its stream to the end of its call, since they share the handle.

    Parameters
    ----------
    name : str
        Such as ``libcublas``; CuPy must have loaded it.
    create, set_stream : str
        Its functions that create a handle and set its stream.
    parameters : dict of str to str
        Types of each function's arguments after the handle: ``i`` an int, ``p`` a pointer.
    settings : dict of str to int, optional
        Functions that set an option of each handle, and its value.

    Raises
    ------
    UnavailableError
        If the library has not been loaded.
    """

    def __init__(
        self,
        name: str,
        *,
        create: str,
        set_stream: str,
        parameters: dict[str, str],
        settings: dict[str, int] | None = None,
    ) -> None:
        import cupy

        self._cupy = cupy
        self._library = ctypes.CDLL(loaded(name))
        self._create, self._set_stream, self._settings = create, set_stream, settings or {}
        for function, types in {set_stream: "p", **dict.fromkeys(self._settings, "i"), **parameters}.items():
            if self.has(function):
                getattr(self._library, function).argtypes = [ctypes.c_void_p, *(_TYPES[letter] for letter in types)]
        self._handles: dict[int, ctypes.c_void_p] = {}
        self._streams: dict[int, int] = {}
        self._lock = threading.Lock()

    def has(self, function: str) -> bool:
        """Return whether this version of the library has a function."""
        return hasattr(self._library, function)

    def call(self, function: str, *arguments: int) -> None:
        """Call a function on the current device and stream.

        Raises
        ------
        RuntimeError
            If it returns another status than 0.
        """
        with self._lock:
            self._check(function, self._handle(), *arguments)

    def _check(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} returned status {status}")

    def _handle(self) -> ctypes.c_void_p:
        device = int(self._cupy.cuda.runtime.getDevice())
        if device not in self._handles:
            made = ctypes.c_void_p()
            self._check(self._create, ctypes.byref(made))
            for function, value in self._settings.items():
                self._check(function, made, value)
            self._handles[device] = made
        stream = int(self._cupy.cuda.get_current_stream().ptr)
        if self._streams.get(device) != stream:
            self._check(self._set_stream, self._handles[device], stream)
            self._streams[device] = stream
        return self._handles[device]


def loaded(name: str, maps: Path = Path("/proc/self/maps")) -> str:
    """Return the file of a library that this process has loaded.

    Raises
    ------
    UnavailableError
        If it has loaded none of that name, or the system does not list loaded files.

    Examples
    --------
    >>> loaded("libnone")
    Traceback (most recent call last):
        ...
    cpms.base.errors.UnavailableError: libnone is not loaded; engine cusparse needs it, on Linux
    """
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = (line.split(maxsplit=5)[-1] for line in lines if f"/{name}.so" in line)
    for path in paths:
        return path
    raise UnavailableError(f"{name} is not loaded; engine cusparse needs it, on Linux")
