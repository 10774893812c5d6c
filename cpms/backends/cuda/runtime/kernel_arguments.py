"""What a kernel takes, side by side as the driver reads it; CuPy would make an object of each, launch by launch."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_CODES = {np.uint32: "I4x", np.int32: "i4x", np.uint64: "Q", np.float64: "d"}
_BYTES = 8


class Parameters:
    """Room for what a kernel takes, and where in it each lies.

    Parameters
    ----------
    given : tuple
        Device arrays, and numbers of NumPy's types, all of which later ones have, too.

    Attributes
    ----------
    address : int
        Of as many addresses.

    Examples
    --------
    >>> import ctypes
    >>> parameters = Parameters((np.uint32(0), np.float64(0.0)))
    >>> parameters.put((np.uint32(7), np.float64(0.5)))
    >>> where = (ctypes.c_void_p * 2).from_address(parameters.address)
    >>> ctypes.c_uint32.from_address(where[0]).value, ctypes.c_double.from_address(where[1]).value
    (7, 0.5)
    """

    def __init__(self, given: tuple[Any, ...]) -> None:
        self._packed = struct.Struct("=" + "".join(_CODES.get(type(each), "Q") for each in given))
        self._room = bytearray(_BYTES * len(given))
        first = np.frombuffer(self._room, np.uint8).ctypes.data
        self._places = first + _BYTES * np.arange(len(given), dtype=np.uint64)
        self.address = int(self._places.ctypes.data)

    def put(self, given: tuple[Any, ...]) -> None:
        """Write what the next launch takes; a device array by its address."""
        self._packed.pack_into(self._room, 0, *[each if type(each) in _CODES else each.data.ptr for each in given])
