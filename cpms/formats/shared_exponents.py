"""Group-shared exponents with a segmented mantissa (GSE-SEM): numbers name one of 8 exponents of their group.

After Gao et al., "Precision-Aware Iterative Algorithms Based on Group-Shared Exponents of Floating-Point Numbers"
(2024): the exponents that occur most often are stored once, in a table. Each number is a sign, the index of the
smallest exponent in the table that is large enough, and a mantissa without an implicit one. These are in segments of
16, 16 and 32 bits, of which a read takes the first ones. There the table belongs to a matrix; here it belongs to a
group of 1024 numbers, so that a vector is written in one pass. The largest exponent of a group is always in its table,
so nothing overflows; a number far below every exponent in the table loses digits, as in block floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats
from cpms.formats.protocol import Codec, Format, require_name

GROUP = 1024
EXPONENTS = 8
_MANTISSA = 60
_TABLE_BYTES = 2 * EXPONENTS
_HEAD, _MIDDLE, _TAIL = _TABLE_BYTES, _TABLE_BYTES + 2 * GROUP, _TABLE_BYTES + 4 * GROUP
_BITS = (16, 32, 64)
_LEAST = -1021
"""Exponent of a group of zeros; sizes in a group lie below 2 to its exponent."""


@dataclass(frozen=True)
class SharedExponentFormat(Format):
    """Sign, index of 3 bits and mantissa of 12, 28 or 60 bits, read in one, two or three segments.

    Examples
    --------
    >>> import cpms
    >>> stored = cpms.encode([0.1, -3.0], GSE)
    >>> stored.decode(1).tolist(), stored.decode().tolist()
    ([0.0999755859375, -3.0], [0.1, -3.0])
    """

    name: str
    has_nan = has_infinity = False
    levels, group, group_bytes = len(_BITS), GROUP, _TABLE_BYTES + 8 * GROUP

    def __post_init__(self) -> None:
        require_name(self.name)

    def bits(self, read: int | None = None) -> int:
        """Bits of a number that are read."""
        return _BITS[self.checked_read(read) - 1]

    def bytes_read(self, read: int | None = None) -> int:
        """Bytes of a number that are read."""
        return self.bits(read) // 8

    def traffic(self, length: int, read: int | None = None) -> int:
        """Bytes of tables, and of the segments that are read, in whole groups."""
        return -(-length // GROUP) * (_TABLE_BYTES + GROUP * self.bytes_read(read))

    def unit_roundoff(self, read: int | None = None) -> float:
        """Relative to the largest number of a group: reads cut."""
        return 2.0 ** -(self.bits(read) - 5)

    def encode(self, values: Floats) -> npt.NDArray[Any]:
        """Return tables and segments, shape (groups, group_bytes)."""
        out = np.zeros((len(values), self.group_bytes), np.uint8)
        for row, group in zip(out, values, strict=True):
            exponents = np.frexp(group[group != 0.0])[1]
            found, counts = np.unique(np.maximum(exponents, _LEAST), return_counts=True)
            found, counts = (found, counts) if len(found) else (np.array([_LEAST]), np.array([1]))
            # The largest exponent first, then the most frequent ones, larger ones first among equals.
            order = np.lexsort((-found, -counts))
            order = order[found[order] != found[-1]][: EXPONENTS - 1]
            table = np.full(EXPONENTS, found[-1])
            table[: 1 + len(order)] = np.sort(np.append(found[order], found[-1]))
            own = np.maximum(np.frexp(group)[1], _LEAST)
            index = np.searchsorted(table, np.where(group == 0.0, table[0], own))
            size = np.trunc(np.ldexp(np.abs(group), _MANTISSA - table[index])).astype(np.uint64)
            index = np.where(size == 0, 0, index)
            code = (
                np.signbit(group).astype(np.uint64) << np.uint64(63) | index.astype(np.uint64) << np.uint64(60) | size
            )
            row[:_TABLE_BYTES] = table.astype("<i2").view(np.uint8)
            row[_HEAD:_MIDDLE] = (code >> np.uint64(48)).astype("<u2").view(np.uint8)
            row[_MIDDLE:_TAIL] = (code >> np.uint64(32)).astype("<u2").view(np.uint8)
            row[_TAIL:] = code.astype("<u4").view(np.uint8)
        return out

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:
        """Return values, shape (groups, 1024)."""
        count = self.checked_read(read)
        codes = np.ascontiguousarray(codes)
        table = codes[:, :_TABLE_BYTES].copy().view("<i2").astype(np.int64)
        code = codes[:, _HEAD:_MIDDLE].copy().view("<u2").astype(np.uint64) << np.uint64(48)
        if count > 1:
            code |= codes[:, _MIDDLE:_TAIL].copy().view("<u2").astype(np.uint64) << np.uint64(32)
        if count > 2:
            code |= codes[:, _TAIL:].copy().view("<u4").astype(np.uint64)
        index = (code >> np.uint64(60) & np.uint64(7)).astype(np.int64)
        size = (code & np.uint64(2**60 - 1)).astype(np.float64)
        value = np.ldexp(size, np.take_along_axis(table, index, axis=1) - _MANTISSA)
        return np.where(code >> np.uint64(63) != 0, -value, value)

    def segment_of(self, codes: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
        """Return segment k of all numbers: 16, 16 and 32 bits, shape (groups, 1024)."""
        begin, end, unit = ((_HEAD, _MIDDLE, "<u2"), (_MIDDLE, _TAIL, "<u2"), (_TAIL, self.group_bytes, "<u4"))[k]
        return codes[:, begin:end].view(unit)

    def numba_codec(self) -> Codec:
        """Return load and store."""

        def load(group: Any, place: Any, read: Any) -> Any:
            at = 16 + 2 * place
            code = (np.int64(group[at]) << 48) | (np.int64(group[at + 1]) << 56)
            if read > 1:
                code |= (np.int64(group[at + 2048]) << 32) | (np.int64(group[at + 2049]) << 40)
            if read > 2:
                low = 4112 + 4 * place
                code |= np.int64(group[low]) | (np.int64(group[low + 1]) << 8)
                code |= (np.int64(group[low + 2]) << 16) | (np.int64(group[low + 3]) << 24)
            entry = 2 * ((code >> 60) & 7)
            exponent = np.int64(group[entry]) | (np.int64(group[entry + 1]) << 8)
            exponent = exponent - 65536 if exponent > 32767 else exponent
            value = np.float64(code & 0xFFFFFFFFFFFFFFF)
            # In two steps: either factor is a normal number.
            half = (exponent - 60) >> 1
            value *= np.int64((1023 + half) << 52).view(np.float64)
            value *= np.int64((1023 + exponent - 60 - half) << 52).view(np.float64)
            return -value if code < 0 else value

        def store(values: Any, group: Any) -> None:
            field: Any
            k: Any
            size: Any
            counts = np.zeros(2047, np.int64)
            for i in range(1024):
                size = np.float64(values[i]).view(np.int64) & 0x7FFFFFFFFFFFFFFF
                if size > 0:
                    field = max(size >> 52, 1)
                    counts[field] += 1
            last = 1
            for field in range(2047):
                last = field if counts[field] > 0 else last
            table = np.full(8, last)
            chosen = 1
            counts[last] = 0
            while chosen < 8:
                best = 0
                for field in range(2047):
                    if counts[field] > 0 and counts[field] >= counts[best]:
                        best = field
                if best == 0:
                    break
                counts[best] = 0
                place = 0
                while place < chosen - 1 and table[place] < best:
                    place += 1
                for later in range(chosen - 1, place, -1):
                    table[later] = table[later - 1]
                table[place] = best
                chosen += 1
            for k in range(8):
                exponent = table[k] - 1022
                group[2 * k] = exponent & 255
                group[2 * k + 1] = (exponent >> 8) & 255
            for i in range(1024):
                bits = np.float64(values[i]).view(np.int64)
                size = bits & 0x7FFFFFFFFFFFFFFF
                field = max(size >> 52, 1)
                k = 0
                while size > 0 and table[k] < field:
                    k += 1
                digits = size & 0xFFFFFFFFFFFFF
                digits |= (1 << 52) if size >> 52 > 0 else 0
                distance = table[k] - field
                code = (digits << 7) >> min(distance, 62)
                code |= np.int64(k) << 60 if code > 0 else 0
                at, low = 16 + 2 * i, 4112 + 4 * i
                group[at] = (code >> 48) & 255
                group[at + 1] = ((code >> 56) & 127) | (128 if bits < 0 else 0)
                group[at + 2048] = (code >> 32) & 255
                group[at + 2049] = (code >> 40) & 255
                for byte in range(4):
                    group[low + byte] = (code >> (8 * byte)) & 255

        return load, store


GSE = SharedExponentFormat("gse")
