"""Rows put in order of their lengths, within blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads


def order_in_blocks(numbers: npt.NDArray[Any], block: int) -> npt.NDArray[np.uint16]:
    """Return which of each block of numbers come first, counted from its beginning: the smallest, then by place.

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
    # NumPy sorts 16 bits by their digits, in a tenth of the time.
    keys = numbers.astype(np.uint16) if numbers.max(initial=0) <= np.iinfo(np.uint16).max else numbers
    order, whole = np.empty(len(keys), np.uint16), len(keys) // block

    def sort(blocks: tuple[int, int]) -> None:
        here = slice(blocks[0] * block, blocks[1] * block)
        order[here] = np.argsort(keys[here].reshape(-1, block), axis=1, kind="stable").ravel()

    threads.each(sort, threads.stretches(whole, at_least=16, parts=64))
    order[whole * block :] = np.argsort(keys[whole * block :], kind="stable")
    return order
