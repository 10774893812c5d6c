"""Codes of 8 bits into a table of at most 256 float64 values: exact for arrays of few distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cpms.formats.block_float import BlockFloatFormat, OneSegment
from cpms.formats.formats import Format

TABLE_VALUES = 256


@dataclass(frozen=True)
class CodeFormat(OneSegment):
    """A value is a code of 8 bits; the table of values belongs to the array (`cpms.storage.coded`).

    Examples
    --------
    >>> CODES8.nbytes(1000), CODES8.bits()
    (3048, 8)
    """

    name: str
    exact = True

    def bits(self, read: int | None = None) -> int:
        """Bits of a code."""
        self.checked_read(read)
        return 8

    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values, its table included."""
        return 8 * TABLE_VALUES + length


CODES8 = CodeFormat("codes8")
VectorFormat: TypeAlias = Format | BlockFloatFormat
"""A format that vectors can be stored in."""
ValueFormat: TypeAlias = Format | CodeFormat | BlockFloatFormat
"""A format that values of a matrix can be stored in."""
