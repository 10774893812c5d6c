"""Kernel arguments packed as the driver reads them, and the array of their addresses.

CuPy would make an object of each argument at each launch. Packing writes one buffer, which costs less than the launches
of a small sweep.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

_CODES = {np.uint32: "I4x", np.int32: "i4x", np.uint64: "Q", np.float64: "d"}


class Struct(NamedTuple):
    """A struct that a kernel takes by value.

    Parameters
    ----------
    packed : bytes
        Its fields, with C's alignment.
    held : tuple of device arrays
        Arrays whose addresses it holds, so that they outlive the launch.
    """

    packed: bytes
    held: tuple[Any, ...]


class KernelArguments:
    """Buffer of a kernel's arguments, and the address of each.

    Parameters
    ----------
    given : tuple
        Device arrays, numbers of NumPy's types, and structs (`Struct`, or `numpy.void`), which are passed by value;
        later arguments must have the same types.

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
        codes = [_code(each) for each in given]
        self._packed = struct.Struct("=" + "".join(codes))
        self._buffer = bytearray(self._packed.size)
        first = np.frombuffer(self._buffer, np.uint8).ctypes.data
        offsets = np.cumsum([0, *(struct.calcsize("=" + code) for code in codes[:-1])])[: len(given)]
        self._addresses = (first + offsets).astype(np.uint64)
        self.address = int(self._addresses.ctypes.data)

    def put(self, given: tuple[Any, ...]) -> None:
        """Write the arguments of the next launch; a device array by its address."""
        self._packed.pack_into(self._buffer, 0, *map(_bare, given))


def _code(argument: Any) -> str:
    """Return the format of an argument."""
    bare = _bare(argument) if isinstance(argument, (Struct, np.void)) else None
    return _CODES.get(type(argument), "Q") if bare is None else f"{len(bare)}s"


def _bare(argument: Any) -> Any:
    """Return an argument as its format takes it."""
    kind = type(argument)
    if kind in _CODES:
        return argument
    if kind is Struct:
        return argument.packed
    return argument.tobytes() if kind is np.void else argument.data.ptr
