"""Arrays of codes with their table of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.formats.codes import CODES8, TABLE_VALUES, CodeFormat

_LOOKED_AT = 1 << 16
"""Values that are looked at first: most arrays of many distinct values have too many among these."""


@dataclass(frozen=True, eq=False)
class CodedArray:
    """Values as codes, in memory that begins with the table: 256 float64, then a byte a value.

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
        """Return the values, of an array in main memory."""
        self.format.checked_read(read)
        table = self.memory[: 8 * TABLE_VALUES].view(np.float64)
        decoded: Floats = table[self.memory[8 * TABLE_VALUES :]]
        return decoded


def distinct_values(values: Floats) -> npt.NDArray[np.uint64] | None:
    """Return the bits of the distinct values and of 0, ascending, or None if these are more than a table holds.

    Examples
    --------
    >>> distinct_values(np.arange(300.0)) is None
    True
    """
    bits = values.view(np.uint64)
    if len(np.unique(bits[:_LOOKED_AT])) > TABLE_VALUES:
        return None
    found = np.union1d(bits, np.zeros(1, np.uint64))
    return found if len(found) <= TABLE_VALUES else None


def encode_codes(values: Floats) -> CodedArray:
    """Return float64 values as codes; 0 has one in every table.

    Raises
    ------
    InputError
        If the values and 0 are more than 256 distinct ones.
    """
    found = distinct_values(values)
    if found is None:
        raise InputError("the values and 0 are more than 256 distinct ones, too many for codes8; use 'lossless'")
    memory = np.zeros(CODES8.nbytes(len(values)), np.uint8)
    memory[: 8 * len(found)].view(np.uint64)[:] = found
    memory[8 * TABLE_VALUES :] = np.searchsorted(found, values.view(np.uint64))
    return CodedArray(memory, len(values))
