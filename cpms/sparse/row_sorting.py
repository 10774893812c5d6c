"""Stable sorting of rows by length within blocks.

The blocks are the sorting windows of SELL-C-sigma (Kreutzer et al., SIAM J. Sci. Comput. 36, 2014).
Sorting within blocks rather than globally keeps the locality of the numbering. Lengths of 16 bits are radix-sorted by
NumPy, in threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads


def order_in_blocks(numbers: npt.NDArray[Any], block: int) -> npt.NDArray[np.uint16]:
    """Return the order of the numbers of each block, smallest first and stable, as indices within the block.

    Parameters
    ----------
    numbers : ndarray of integers, shape (n,)
        At least 0.
    block : int
        At most 65,536.

    Returns
    -------
    ndarray of uint16, shape (n,)

    Examples
    --------
    >>> order_in_blocks(np.array([3, 1, 1, 0, 2]), 4).tolist()
    [3, 1, 2, 0, 0]
    """
    # NumPy has a radix sort for 16 bits alone.
    keys = numbers.astype(np.uint16) if numbers.max(initial=0) <= np.iinfo(np.uint16).max else numbers
    order, whole = np.empty(len(keys), np.uint16), len(keys) // block

    def sort(blocks: tuple[int, int]) -> None:
        here = slice(blocks[0] * block, blocks[1] * block)
        order[here] = np.argsort(keys[here].reshape(-1, block), axis=1, kind="stable").ravel()

    threads.each(sort, threads.ranges(whole, at_least=16, parts=64))
    order[whole * block :] = np.argsort(keys[whole * block :], kind="stable")
    return order
