"""Slices of SELL with columns in groups: entries of a row in neighbouring columns lie side by side.

A thread of a GPU then loads up to eight values or offsets at once, where SELL-C-sigma (Kreutzer et al., SIAM J. Sci.
Comput. 36, 2014) has one load for each: for values of one or two bytes the number of loads is what limits a product.
A slice of w columns is divided into groups of g, then of g/2, and so on: 7 columns into 4, 2 and 1. Entry c of a row in
a group of s columns is s * lane + c slots behind the group's first. Cost: one pass over the slots.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.sparse.arrangement import SLICE_ROWS, Arrangement
from cpms.sparse.compressed_indices import CompressedIndices


@dataclass(frozen=True, eq=False)
class GroupedArrangement(Arrangement):
    """An arrangement in ``sell`` whose columns, and values by `spread`, lie in groups of ``group`` columns."""

    group: int = 1

    @classmethod
    def of(cls, plain: Arrangement, group: int) -> GroupedArrangement:
        """Return an arrangement with its columns in groups."""
        given = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return cls(**given | {"columns": in_groups(plain.columns, plain.starts, group)}, group=group)

    def spread(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the matrix's entries by slots, 0 in padding."""
        return in_groups(super().spread(entries), self.starts, self.group)


def grouped_indices(found: CompressedIndices, starts: npt.NDArray[Any], group: int) -> CompressedIndices:
    """Return compressed indices of an arrangement, whose slices begin at ``starts``, with columns in groups."""
    of_far = np.zeros(1, np.int64)
    if found.far is not None:
        of_far = np.append(of_far, np.cumsum(np.diff(starts.astype(np.int64))[found.far > 0]))
    offsets, far_columns = in_groups(found.offsets, starts, group), in_groups(found.far_columns, of_far, group)
    return replace(found, offsets=offsets, far_columns=far_columns)


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
