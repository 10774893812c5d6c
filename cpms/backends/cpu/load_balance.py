"""Static load balance: rows are cut into ranges of about equal cost, at bounds of blocks.

The cost of a range counts its entries and its rows, as in the partition of CSR by Merrill and Garland (2016). A
partition takes one binary search for each range.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


def row_ranges(
    entries_before: npt.NDArray[Any], *, row_cost: int, least: int, most: int, block: int = 1
) -> tuple[Counts, Counts]:
    """Return the bounds of ranges, and the cost before each, in entries.

    Parameters
    ----------
    entries_before : ndarray of integers, shape (rows + 1,)
        Number of entries before each row, and of all entries.
    row_cost : int
        Cost of a row besides its entries, in entries.
    least : int
        Least cost of a range.
    most : int
        Most ranges.
    block : int
        Rows of a block; a range has whole blocks.

    Examples
    --------
    >>> bounds, before = row_ranges(np.array([0, 6, 7, 8, 14]), row_cost=1, least=4, most=3)
    >>> bounds.tolist(), before.tolist()
    ([0, 1, 4], [0, 7, 18])
    """
    rows = len(entries_before) - 1
    blocks = -(-rows // block)

    def cost(at: int) -> int:
        bound = min(at * block, rows)
        return int(entries_before.item(bound)) + row_cost * bound

    count = min(max(cost(blocks) // least, 1), most)
    targets = np.linspace(0, cost(blocks), count + 1).tolist()
    chosen = sorted({bisect_left(range(blocks + 1), target, key=cost) for target in targets})
    bounds = np.minimum(np.array(chosen, np.int64) * block, rows)
    return bounds, np.array([cost(at) for at in chosen], np.int64)


def first_ranges(before: Counts, lanes: int) -> Counts:
    """Return the first range of each lane, and then the number of ranges, for about equal costs of lanes.

    Examples
    --------
    >>> first_ranges(np.array([0, 7, 18, 20]), 2).tolist()
    [0, 2, 3]
    """
    inner = np.searchsorted(before, np.linspace(0, before[-1], lanes + 1)[1:-1])
    return np.concatenate([[0], inner, [len(before) - 1]]).astype(np.int64)
