"""Arrays of codes: a byte a value, which is an index into a table of up to 256 distinct float64.

This is dictionary coding. It is lossless, and a hash table of the distinct values makes the codes in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.jit import compiled, numba
from cpms.base.types import Floats
from cpms.formats.codes import CODES8, TABLE_VALUES, CodeFormat

LOOKED_AT = 1 << 16
"""Number of first values among which most arrays that a table cannot hold already have too many distinct ones."""
_HASH, _HASH_BITS = 0x9E3779B97F4A7C15, 10
"""Factor of Fibonacci hashing, 2**64 over the golden ratio, and bits of an index; a table is at most a quarter full."""
inlined: Any = numba.njit(inline="always")


@dataclass(frozen=True, eq=False)
class CodedArray:
    """Values as codes. Memory begins with the table of 256 float64, and has a byte for each value after it.

    Make one with `encode_codes`.

    Parameters
    ----------
    memory : array of uint8, shape (2048 + length,)
    length : int
    format : CodeFormat

    Examples
    --------
    >>> encode_codes(np.array([2.5, -1.0, 2.5])).decode().tolist()
    [2.5, -1.0, 2.5]
    """

    memory: Any
    length: int
    format: CodeFormat = CODES8
    exponent: ClassVar[int] = 0

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.format.nbytes(self.length)

    def decode(self, read: int | None = None) -> Floats:
        """Return the values of an array in main memory."""
        self.format.checked_read(read)
        table = self.memory[: 8 * TABLE_VALUES].view(np.float64)
        decoded: Floats = table[self.memory[8 * TABLE_VALUES :]]
        return decoded


def distinct_values(values: Floats) -> npt.NDArray[np.uint64] | None:
    """Return the bits of 0 and of all distinct values, ascending; None if there are more than a table holds.

    Examples
    --------
    >>> distinct_values(np.arange(300.0)) is None
    True
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    if len(_distinct_in(bits, 0, min(LOOKED_AT, len(bits)))) > TABLE_VALUES:
        return None
    parts = threads.each(lambda part: _distinct_in(bits, *part), threads.ranges(len(bits), at_least=LOOKED_AT))
    if any(len(part) > TABLE_VALUES for part in parts):
        return None
    found = np.unique(np.concatenate([*parts, np.zeros(1, np.uint64)]))
    return found if len(found) <= TABLE_VALUES else None


def encode_codes(values: Floats) -> CodedArray:
    """Return float64 values as codes; every table has a code of 0, with which layouts pad rows.

    Raises
    ------
    InputError
        If there are more than 256 distinct values, 0 included.
    """
    found = distinct_values(values)
    if found is None:
        raise InputError("the values have more than 256 distinct ones, 0 included, too many for codes8; use 'lossless'")
    memory = np.zeros(CODES8.nbytes(len(values)), np.uint8)
    memory[: 8 * len(found)].view(np.uint64)[:] = found
    bits, codes = np.ascontiguousarray(values).view(np.uint64), memory[8 * TABLE_VALUES :]
    threads.each(lambda part: _encode(bits, found, codes, *part), threads.ranges(len(bits), at_least=LOOKED_AT))
    return CodedArray(memory, len(values))


@inlined
def _place(keys, taken, key):  # type: ignore[no-untyped-def]
    """Return the index of a key in a hash table with free places, or the free index where it is to be put."""
    place = (key * np.uint64(_HASH)) >> np.uint64(64 - _HASH_BITS)
    while taken[place] >= 0 and keys[place] != key:
        place = (place + np.uint64(1)) & np.uint64((1 << _HASH_BITS) - 1)
    return place


@compiled()
def _distinct_in(bits, low, high):  # type: ignore[no-untyped-def]
    """Return the distinct numbers of a part in the order in which they first occur, at most 257 of them."""
    keys, taken = np.zeros(1 << _HASH_BITS, np.uint64), np.full(1 << _HASH_BITS, -1, np.int16)
    found, count = np.zeros(TABLE_VALUES + 1, np.uint64), 0
    for i in range(low, high):
        place = _place(keys, taken, bits[i])
        if taken[place] < 0:
            keys[place], taken[place], found[count] = bits[i], count, bits[i]
            count += 1
            if count > TABLE_VALUES:
                break
    return found[:count]


@compiled()
def _encode(bits, table, codes, low, high):  # type: ignore[no-untyped-def]
    """Write the code of each number of a part, which is its index in a table that has all of them."""
    keys, taken = np.zeros(1 << _HASH_BITS, np.uint64), np.full(1 << _HASH_BITS, -1, np.int16)
    for code in range(len(table)):
        place = _place(keys, taken, table[code])
        keys[place], taken[place] = table[code], code
    for i in range(low, high):
        codes[i] = taken[_place(keys, taken, bits[i])]
