"""Kernel arguments packed as the driver reads them, and the array of their addresses.

CuPy would make an object of each argument at each launch. Packing writes one buffer, which costs less than the launches
of a small sweep.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_CODES = {np.uint32: "I4x", np.int32: "i4x", np.uint64: "Q", np.float64: "d"}


class KernelArguments:
    """Buffer of a kernel's arguments, and the address of each.

    Parameters
    ----------
    given : tuple
        Device arrays, numbers of NumPy's types, and structs of 8-byte fields (`numpy.void`), which are passed by
        value; later arguments must have the same types.

    Attributes
    ----------
    address : int
        Of the array of addresses.

    Examples
    --------
    >>> import ctypes
    >>> arguments = KernelArguments((np.uint32(0), np.float64(0.0)))
    >>> arguments.put((np.uint32(7), np.float64(0.5)))
    >>> where = (ctypes.c_void_p * 2).from_address(arguments.address)
    >>> ctypes.c_uint32.from_address(where[0]).value, ctypes.c_double.from_address(where[1]).value
    (7, 0.5)
    """

    def __init__(self, given: tuple[Any, ...]) -> None:
        codes = [f"{each.nbytes}s" if isinstance(each, np.void) else _CODES.get(type(each), "Q") for each in given]
        self._packed = struct.Struct("=" + "".join(codes))
        self._buffer = bytearray(self._packed.size)
        first = np.frombuffer(self._buffer, np.uint8).ctypes.data
        offsets = np.cumsum([0, *(struct.calcsize("=" + code) for code in codes[:-1])])[: len(given)]
        self._addresses = (first + offsets).astype(np.uint64)
        self.address = int(self._addresses.ctypes.data)

    def put(self, given: tuple[Any, ...]) -> None:
        """Write the arguments of the next launch; a device array by its address."""
        packed = [
            each if type(each) in _CODES else each.tobytes() if type(each) is np.void else each.data.ptr
            for each in given
        ]
        self._packed.pack_into(self._buffer, 0, *packed)
