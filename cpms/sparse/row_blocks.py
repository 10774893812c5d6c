"""Cuts a matrix in CSR into blocks of whole rows with about as many entries each, and long rows into parts.

That is the partition of CSR-Adaptive (Greathouse and Daga, SC 2014): a group of threads that takes one block at a time
reads its entries without gaps however uneven the rows are. It costs 4 indices a block beside the row starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.jit import compiled

_UNEVEN, _LEAST_UNEVEN = 8, 64
"""A block is uneven if a row has so many times the mean entries of its rows, and more than so many."""


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of a matrix in CSR: parts of long rows, then those of uneven rows, then all others.

    A device starts blocks in this order, so that those that take longest do not come last.

    Parameters
    ----------
    blocks : ndarray, shape (count, 4)
        First row, row behind the last, first entry, entry behind the last. A part of a long row has the number of that
        row in ``long_rows`` in place of both rows.
    long_rows : ndarray
        Rows that are cut, ascending.
    first_parts : ndarray, shape (len(long_rows) + 1,)
        Block of the first part of each, and the end.
    first_even : int
        Block behind those with rows far longer than the mean of their rows.
    """

    blocks: npt.NDArray[Any]
    long_rows: npt.NDArray[Any]
    first_parts: npt.NDArray[Any]
    first_even: int


def row_blocks(starts: npt.NDArray[Any], entries: int, rows: int, part: int) -> RowBlocks:
    """Cut rows into blocks of at most so many entries and rows; a row of more entries is cut into parts.

    Parameters
    ----------
    starts : ndarray of integers, shape (rows of the matrix + 1,)
    entries, rows : int
    part : int
        Entries of a part of a long row, at most.

    Examples
    --------
    >>> cut = row_blocks(np.array([0, 2, 3, 9, 9]), entries=4, rows=8, part=5)
    >>> cut.blocks.tolist(), cut.long_rows.tolist(), cut.first_parts.tolist(), cut.first_even
    ([[0, 0, 3, 6], [0, 0, 6, 9], [0, 2, 0, 3], [3, 4, 9, 9]], [2], [0, 2], 2)
    """
    starts = starts.astype(np.int64)
    lengths = np.diff(starts)
    whole = np.empty((len(lengths), 4), np.int64)
    whole = whole[: _cut(starts, entries, rows, whole)]
    is_long = lengths > entries
    first, behind, begin, end = whole.T
    longest = np.maximum.reduceat(np.where(is_long, 0, lengths), first) if len(whole) else first
    is_even = longest <= np.maximum(_LEAST_UNEVEN, _UNEVEN * (end - begin) / (behind - first))
    long_rows = np.flatnonzero(is_long)
    parts = -(-lengths[long_rows] // part)
    first_parts = np.concatenate([[0], np.cumsum(parts)]).astype(np.int64)
    number = np.repeat(np.arange(len(long_rows)), parts)
    row, place = long_rows[number], np.arange(len(number)) - first_parts[number]
    begin, end = (starts[row] + lengths[row] * each // parts[number] for each in (place, place + 1))
    cut = np.stack([number, number, begin, end], axis=1)
    blocks = np.concatenate([cut, whole[~is_even], whole[is_even]])
    return RowBlocks(blocks, long_rows, first_parts, len(blocks) - int(is_even.sum()))


@compiled()
def _cut(starts, entries, rows, blocks):  # type: ignore[no-untyped-def]
    """Put blocks of whole rows into ``blocks``; return how many there are."""
    count, last = 0, len(starts) - 1
    row = 0
    while row < last:
        if starts[row + 1] - starts[row] > entries:
            row += 1
            continue
        end = row + 1
        while end < last and end - row < rows and starts[end + 1] - starts[row] <= entries:
            end += 1
        blocks[count] = row, end, starts[row], starts[end]
        count += 1
        row = end
    return count
