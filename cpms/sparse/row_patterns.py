"""A dictionary of rows: rows that grids and regular meshes repeat are stored once, and stay in a core's first cache.

Rows whose entries lie at the same distances from the diagonal share a pattern, of distances alone or of values too. A
matrix of few patterns is read as the number of each row's pattern, two bytes a row in place of four bytes an index and
the values (cf. pattern-based representations: Belgin, Back and Ribbens, ICS 2009). Threads find the patterns of ranges
of rows in one pass, in which most rows equal the one before; then the ranges are joined in their order, so that
patterns are numbered by their first rows. Matrices of many patterns are given up after a few thousand rows of each
range.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cpms.base import threads
from cpms.base.jit import compiled

_MOST_PATTERNS = 1024
_MOST_ENTRIES = 1 << 15
"""Most entries of all patterns together: 512 KiB with values, which fits in a core's second cache."""
_SLOTS = 4 * _MOST_PATTERNS
_LEAST_ROWS = 1 << 16
"""Least rows of a range, whose search takes about as long as a thread takes to start."""
_NO_VALUES = np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class RowPatterns:
    """The patterns of a matrix.

    Parameters
    ----------
    of_row : ndarray of uint16, shape (rows,)
    starts : ndarray of int64, shape (patterns + 1,)
    distances : ndarray of int64
        Column minus row of each pattern's entries.
    values : ndarray of float64
        Values of each pattern's entries; empty where rows have values of their own.
    """

    of_row: Any
    starts: Any
    distances: Any
    values: Any


def row_patterns(starts: Any, columns: Any, values: Any | None) -> RowPatterns | None:
    """Return the patterns of a matrix in CSR, of distances and values, or of distances alone; None if there are many.

    Examples
    --------
    >>> starts, columns = np.array([0, 2, 4, 5]), np.array([0, 1, 1, 2, 2])
    >>> found = row_patterns(starts, columns, np.array([2.0, -1.0, 2.0, -1.0, 2.0]))
    >>> found.of_row.tolist(), found.distances.tolist(), found.values.tolist()
    ([0, 0, 1], [0, 1, 0], [2.0, -1.0, 2.0])
    """
    rows = len(starts) - 1
    bits = _NO_VALUES if values is None else values.view(np.uint64)
    of_row = np.zeros(rows, np.uint16)
    bounds = np.linspace(0, rows, min(threads.available(), max(rows // _LEAST_ROWS, 1)) + 1).astype(np.int64).tolist()

    def search(part: tuple[int, int]) -> Any:
        firsts = np.zeros(_MOST_PATTERNS, np.int64)
        count = _find(starts, columns, bits, *part, of_row, firsts, np.full(_SLOTS, -1, np.int64))
        return None if count < 0 else firsts[:count].tolist()

    parts = list(pairwise(bounds))
    found = threads.each(search, parts)
    numbers: dict[tuple[bytes, bytes], int] = {}
    distances, held = [np.zeros(0, np.int64)], [np.zeros(0)]
    for (low, high), firsts in zip(parts, found, strict=True):
        if firsts is None:
            return None
        renumbered = []
        for row in firsts:
            entries = slice(int(starts[row]), int(starts[row + 1]))
            of_pattern = columns[entries].astype(np.int64) - row
            of_values = np.zeros(0) if values is None else values[entries]
            key = of_pattern.tobytes(), of_values.tobytes()
            if key not in numbers:
                numbers[key] = len(numbers)
                distances.append(of_pattern)
                held.append(of_values)
            renumbered.append(numbers[key])
        if renumbered != list(range(len(renumbered))):
            of_row[low:high] = np.array(renumbered, np.uint16)[of_row[low:high]]
    sizes = np.cumsum([len(each) for each in distances])
    if len(numbers) > _MOST_PATTERNS or sizes[-1] > _MOST_ENTRIES:
        return None
    return RowPatterns(of_row, sizes, np.concatenate(distances), np.concatenate(held))


@compiled()
def _equal(starts, columns, bits, row, first):  # type: ignore[no-untyped-def]
    """Return whether two rows have the same pattern."""
    begin, end, at = np.int64(starts[row]), np.int64(starts[row + 1]), np.int64(starts[first])
    if np.int64(starts[first + 1]) - at != end - begin:
        return False
    for k in range(end - begin):
        if np.int64(columns[begin + k]) - row != np.int64(columns[at + k]) - first:
            return False
        if len(bits) > 0 and bits[begin + k] != bits[at + k]:
            return False
    return True


@compiled()
def _find(starts, columns, bits, low, high, of_row, firsts, slots):  # type: ignore[no-untyped-def]
    """Write the number of each row's pattern, and the first row of each; return how many there are, or -1."""
    count = entries = 0
    mask = np.uint64(len(slots) - 1)
    for row in range(low, high):
        if row > low and _equal(starts, columns, bits, row, firsts[of_row[row - 1]]):
            of_row[row] = of_row[row - 1]
            continue
        begin, end = np.int64(starts[row]), np.int64(starts[row + 1])
        mixed = np.uint64(end - begin)
        for k in range(begin, end):
            mixed = (mixed ^ np.uint64(np.int64(columns[k]) - row)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            if len(bits) > 0:
                mixed = (mixed ^ bits[k]) * np.uint64(0xBF58476D1CE4E5B9)
                mixed ^= mixed >> np.uint64(32)
        slot = mixed & mask
        while slots[slot] >= 0 and not _equal(starts, columns, bits, row, firsts[slots[slot]]):
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            entries += int(end - begin)
            if count == len(firsts) or entries > _MOST_ENTRIES:
                return -1
            slots[slot], firsts[count] = count, row
            count += 1
        of_row[row] = slots[slot]
    return count
