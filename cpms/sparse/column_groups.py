"""Slices of SELL with columns in groups: entries of a row in neighbouring columns lie side by side.

A thread of a GPU then loads up to eight values or offsets at once, where SELL-C-sigma (Kreutzer et al., SIAM J. Sci.
Comput. 36, 2014) has one load for each: for values of one or two bytes the number of loads is what limits a product.
A slice of w columns is divided into groups of g, then of g/2, and so on: 7 columns into 4, 2 and 1. Entry c of a row in
a group of s columns is s * lane + c slots behind the group's first. Cost: one pass over the slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.jit import compiled

SLICE_ROWS = 32
"""Rows in a slice: a warp of a GPU, four vectors of 8 float64 on a processor."""


def in_groups(entries: npt.NDArray[Any], starts: npt.NDArray[Any], group: int) -> npt.NDArray[Any]:
    """Return what slots of ``sell`` hold with columns in groups of a power of two; of 1, the array itself.

    Parameters
    ----------
    entries : ndarray, shape (slots,)
        Column by column in each slice.
    starts : ndarray of integers, shape (slices + 1,)
    group : int

    Examples
    --------
    A slice of three columns, in groups of 2 and 1:

    >>> in_groups(np.arange(96), np.array([0, 96]), 2)[[0, 1, 2, 3, 63, 64, 95]].tolist()
    [0, 32, 1, 33, 63, 64, 95]
    """
    if group == 1:
        return entries
    out = np.empty_like(entries)
    cuts = threads.ranges(len(starts) - 1, at_least=256, parts=64)
    threads.each(lambda part: _group_slices(entries, starts, group, out, *part), cuts)
    return out


def four_bases(bases: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Return bases of slices of one width, those of each slice followed by zeros up to a multiple of four.

    Examples
    --------
    >>> four_bases(np.array([5, 6, 7, 8, 9, 10]), 3).tolist()
    [5, 6, 7, 0, 8, 9, 10, 0]
    """
    return np.pad(bases.reshape(-1, width), ((0, 0), (0, -width % 4))).reshape(-1)


@compiled()
def _group_slices(entries, starts, group, out, low, high):  # type: ignore[no-untyped-def]
    for here in range(low, high):
        first, end = np.int64(starts[here]), np.int64(starts[here + 1])
        size = group
        while first < end:
            while size * SLICE_ROWS > end - first:
                size //= 2
            for lane in range(SLICE_ROWS):
                for column in range(size):
                    out[first + lane * size + column] = entries[first + column * SLICE_ROWS + lane]
            first += size * SLICE_ROWS
