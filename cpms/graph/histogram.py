"""How often each number occurs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError

_LEAST = 1 << 20
"""Numbers from which compiled loops are faster than NumPy's, which copies them first."""
_PART = 1 << 18
"""Counts that a thread adds up at a time."""


def occurrences(numbers: npt.NDArray[np.integer], below: int) -> npt.NDArray[np.int64]:
    """Return how often each number from 0 on occurs, int64, shape (below,).

    Threads count a part of the numbers each, in bytes: as many as need no more memory than the numbers have.

    Parameters
    ----------
    numbers : ndarray of int
        From 0 to ``below - 1``.
    below : int

    Raises
    ------
    InputError
        If a number is ``below`` or more.

    Examples
    --------
    >>> occurrences(np.array([2, 0, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    if len(numbers) < _LEAST:
        few = np.bincount(numbers, minlength=below)
        return _checked(few, len(few) - below, below)
    from cpms.graph.histogram_loops import add_counts, add_full, count_each

    lanes = max(1, min(threads.available(), numbers.nbytes // max(1, below)))
    counts, sums = np.zeros((lanes, below), np.uint8), np.empty(below, np.int64)

    def counted(lane: int, part: tuple[int, int]) -> tuple[int, npt.NDArray[np.int64]]:
        full = np.empty((part[1] - part[0]) // 256, np.int64)
        outside, times_full = count_each(numbers[slice(*part)], counts[lane], full)
        return outside, full[:times_full]

    parts = threads.stretches(len(numbers), at_least=1, parts=lanes)
    found = threads.each(lambda each: counted(*each), list(enumerate(parts)))
    threads.each(lambda part: add_counts(counts, sums, *part), threads.stretches(below, at_least=_PART))
    for _, full in found:
        add_full(full, sums)
    return _checked(sums, sum(outside for outside, _ in found), below)


def _checked(counts: npt.NDArray[np.int64], outside: int, below: int) -> npt.NDArray[np.int64]:
    if outside:
        raise InputError(f"a number is not among 0 to {below - 1}; each must be one of these")
    return counts
