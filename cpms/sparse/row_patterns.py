"""A dictionary of rows: rows that grids and regular meshes repeat are stored once, and stay in a core's first cache.

Rows whose entries lie at the same distances from the diagonal share a pattern, of distances alone or of values too. A
matrix of few patterns is read as the number of each row's pattern, two bytes a row in place of four bytes an index and
the values (cf. pattern-based representations: Belgin, Back and Ribbens, ICS 2009). Finding the patterns takes one pass;
matrices of many patterns are given up after the first few thousand rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.base.jit import compiled

_MOST_PATTERNS = 1024
_MOST_ENTRIES = 1 << 15
"""Most entries of all patterns together: 512 KiB with values, which fits in a core's second cache."""
_SLOTS = 4 * _MOST_PATTERNS
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
    bits = _NO_VALUES if values is None else values.view(np.uint64)
    of_row, firsts = np.zeros(len(starts) - 1, np.uint16), np.zeros(_MOST_PATTERNS, np.int64)
    count = _find(starts, columns, bits, of_row, firsts, np.full(_SLOTS, -1, np.int64))
    if count < 0:
        return None
    spans = [(row, int(starts[row]), int(starts[row + 1])) for row in firsts[:count].tolist()]
    sizes = np.cumsum([0] + [end - begin for _, begin, end in spans])
    distances = [columns[begin:end].astype(np.int64) - row for row, begin, end in spans]
    held = [] if values is None else [values[begin:end] for _, begin, end in spans]
    nothing = [np.zeros(0)]
    return RowPatterns(
        of_row, sizes, np.concatenate([*distances, np.zeros(0, np.int64)]), np.concatenate(held or nothing)
    )


@compiled()
def _find(starts, columns, bits, of_row, firsts, slots):  # type: ignore[no-untyped-def]
    """Write the number of each row's pattern, and the first row of each; return how many there are, or -1."""
    count = entries = 0
    mask = np.uint64(len(slots) - 1)
    for row in range(len(of_row)):
        begin, end = np.int64(starts[row]), np.int64(starts[row + 1])
        mixed = np.uint64(end - begin)
        for k in range(begin, end):
            mixed = (mixed ^ np.uint64(np.int64(columns[k]) - row)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            if len(bits) > 0:
                mixed = (mixed ^ bits[k]) * np.uint64(0xBF58476D1CE4E5B9)
                mixed ^= mixed >> np.uint64(32)
        slot = mixed & mask
        while slots[slot] >= 0:
            first = firsts[slots[slot]]
            at = np.int64(starts[first])
            equal = np.int64(starts[first + 1]) - at == end - begin
            for k in range(begin, end):
                if not equal:
                    break
                other = at + k - begin
                equal = np.int64(columns[k]) - row == np.int64(columns[other]) - first
                if equal and len(bits) > 0:
                    equal = bits[k] == bits[other]
            if equal:
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            entries += int(end - begin)
            if count == len(firsts) or entries > _MOST_ENTRIES:
                return -1
            slots[slot], firsts[count] = count, row
            count += 1
        of_row[row] = slots[slot]
    return count
