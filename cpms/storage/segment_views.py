"""Places in a stored array: units and blocks, views of a segment, and the bytes that hold a range of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.validation import whole
from cpms.formats.formats import Format, SegmentFormat


def segment_units(format: SegmentFormat) -> tuple[int, ...]:
    """Return the number of units in each segment of a value."""
    return tuple(width // format.unit for width in format.widths)


def block_values(format: SegmentFormat, length: int) -> int:
    """Return the number of values in a block of an array of ``length`` values, at least 1."""
    return max(1, length if format.block is None else min(format.block, length))


def segment_view(units: Any, format: Format, length: int, k: int) -> Any:
    """Return segment k, from 0 on, of each value: a view where one array can be one, else a copy.

    A plane, or the codes of a packed float, have shape (length,); blocks have shape (blocks, values of a block). If the
    last block is shorter than the others, segments are copied into shape (length,). Segments of several units have one
    more axis, of these units. Formats that store numbers in groups return what their own ``segment_of`` returns for
    whole groups; see `cpms.Format.segment_of`.

    Examples
    --------
    >>> import cpms
    >>> segment_view(cpms.encode([1.0, 2.0], "cpms2").units, cpms.CPMS2, 2, 0).tolist()
    [[1072693248, 1073741824]]
    """
    k = whole("segment", k)
    if not 0 <= k < format.levels:
        raise InputError(f"segment is {k}; {format.name} has segments 0 to {format.levels - 1}")
    if not isinstance(format, SegmentFormat):
        return format.segment_of(units.reshape(-1, format.group_bytes) if format.group > 1 else units, k)
    counts, block = segment_units(format), block_values(format, length)
    before, count, a_value = sum(counts[:k]), counts[k], sum(counts)
    full_blocks = length // block

    def part(begin: int, blocks: int, size: int) -> Any:
        held = units[begin : begin + blocks * size * a_value].reshape(blocks, size * a_value)
        found = held[:, size * before : size * (before + count)].reshape(blocks, size, count)
        return found[..., 0] if count == 1 else found

    if full_blocks * block == length:
        found = part(0, full_blocks, block)
        return found[0] if format.block is None and full_blocks else found
    full = part(0, full_blocks, block)
    last = part(full_blocks * block * a_value, 1, length - full_blocks * block)
    return np.concatenate([full.reshape(full_blocks * block, *full.shape[2:]), last[0]])


def segment_parts(format: SegmentFormat, length: int, read: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of bytes that hold the first ``read`` segments of an array's values.

    Examples
    --------
    >>> import cpms
    >>> list(segment_parts(cpms.CPMS2_PLANES, 10, 1)), list(segment_parts(cpms.CPMS2, 40, 1))
    ([(0, 40)], [(0, 128), (256, 288)])
    """
    block = block_values(format, length)
    for begin in range(0, length, block):
        size = min(block, length - begin)
        yield 8 * begin, 8 * begin + size * format.bits(read) // 8


def covering(format: Format, length: int, low: int, high: int) -> tuple[int, int, int, int] | None:
    """Return the blocks that contain a range of values: bytes from, bytes to, first value, and number of values.

    None is returned where a block is the whole array, as a plane is.
    """
    block = (format.block or length) if isinstance(format, SegmentFormat) and format.levels > 1 else format.group
    if block >= length:
        return None
    first, last = low // block * block, min(length, -(-high // block) * block)
    return format.nbytes(first), format.nbytes(last), first, last - first
