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
        Device arrays, numbers of NumPy's types, and structs of 8-byte fields (`numpy.void`), which kernels take by
        value; later ones have the same types.

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
        codes = [f"{each.nbytes}s" if isinstance(each, np.void) else _CODES.get(type(each), "Q") for each in given]
        self._packed = struct.Struct("=" + "".join(codes))
        self._room = bytearray(self._packed.size)
        first = np.frombuffer(self._room, np.uint8).ctypes.data
        before = np.cumsum([0, *(struct.calcsize("=" + code) for code in codes[:-1])])
        self._places = (first + before[: len(given)]).astype(np.uint64)
        self.address = int(self._places.ctypes.data)

    def put(self, given: tuple[Any, ...]) -> None:
        """Write what the next launch takes; a device array by its address."""
        packed = [
            each if type(each) in _CODES else each.tobytes() if type(each) is np.void else each.data.ptr
            for each in given
        ]
        self._packed.pack_into(self._room, 0, *packed)
