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


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of a matrix in CSR; those of long rows come last.

    Parameters
    ----------
    blocks : ndarray, shape (count, 4)
        First row, row behind the last, first entry, entry behind the last. A part of a long row has the same row twice.
    long_rows : ndarray
        Rows that are cut, ascending.
    first_parts : ndarray, shape (len(long_rows) + 1,)
        Block of the first part of each, and the end.
    """

    blocks: npt.NDArray[Any]
    long_rows: npt.NDArray[Any]
    first_parts: npt.NDArray[Any]


def row_blocks(starts: npt.NDArray[Any], entries: int, rows: int) -> RowBlocks:
    """Cut rows into blocks of at most so many entries and rows; a row of more entries is cut into parts.

    Parameters
    ----------
    starts : ndarray of integers, shape (rows of the matrix + 1,)
    entries, rows : int

    Examples
    --------
    >>> cut = row_blocks(np.array([0, 2, 3, 9, 9]), entries=4, rows=8)
    >>> cut.blocks.tolist(), cut.long_rows.tolist(), cut.first_parts.tolist()
    ([[0, 2, 0, 3], [3, 4, 9, 9], [2, 2, 3, 7], [2, 2, 7, 9]], [2], [2, 4])
    """
    starts = starts.astype(np.int64)
    lengths = np.diff(starts)
    long_rows = np.flatnonzero(lengths > entries)
    whole = np.empty((len(lengths), 4), np.int64)
    whole = whole[: _cut(starts, entries, rows, whole)]
    parts = -(-lengths[long_rows] // entries)
    first_parts = len(whole) + np.concatenate([[0], np.cumsum(parts)])
    of_row = np.repeat(long_rows, parts)
    begins = starts[of_row] + entries * (np.arange(len(of_row)) - np.repeat(first_parts[:-1] - len(whole), parts))
    cut = np.stack([of_row, of_row, begins, np.minimum(begins + entries, starts[of_row + 1])], axis=1)
    return RowBlocks(np.concatenate([whole, cut]), long_rows, first_parts.astype(np.int64))


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
