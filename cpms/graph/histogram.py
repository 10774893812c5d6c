"""Histogram of integers, such as out-degrees from the sources of edges, with a private histogram a thread.

Each thread counts in bytes of its own and lists overflows. The histograms take at most the memory of the numbers
themselves, and no thread waits for another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError

_SMALLEST_THREADED = 1 << 20
"""Length from which compiled loops are faster than NumPy's, which converts the numbers first."""
_PART_COUNTERS = 1 << 18
"""Counters that a thread reduces at a time."""


def occurrences(numbers: npt.NDArray[np.integer], below: int) -> npt.NDArray[np.int64]:
    """Return how often each number from 0 on occurs, int64, shape (below,).

    Each thread counts a range of the numbers; there are as many threads as need no more memory than the numbers have.

    Parameters
    ----------
    numbers : ndarray of int
        From 0 to ``below - 1``.
    below : int

    Raises
    ------
    InputError
        If a number is below 0, or ``below`` or more.

    Examples
    --------
    >>> occurrences(np.array([2, 0, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    if len(numbers) < _SMALLEST_THREADED:
        within = numbers[(numbers >= 0) & (numbers < below)]
        return _checked(np.bincount(within, minlength=below), len(numbers) - len(within), below)
    from cpms.graph.histogram_loops import add_counts, add_overflows, count_each

    thread_count = max(1, min(threads.available(), numbers.nbytes // max(1, below)))
    counts, sums = np.zeros((thread_count, below), np.uint8), np.empty(below, np.int64)

    def count(thread: int, part: tuple[int, int]) -> tuple[int, npt.NDArray[np.int64]]:
        overflows = np.empty((part[1] - part[0]) // 256, np.int64)
        outside, overflow_count = count_each(numbers[slice(*part)], counts[thread], overflows)
        return outside, overflows[:overflow_count]

    parts = threads.ranges(len(numbers), at_least=1, parts=thread_count)
    found = threads.each(lambda each: count(*each), list(enumerate(parts)))
    threads.each(lambda part: add_counts(counts, sums, *part), threads.ranges(below, at_least=_PART_COUNTERS))
    for _, overflows in found:
        add_overflows(overflows, sums)
    return _checked(sums, sum(outside for outside, _ in found), below)


def _checked(counts: npt.NDArray[np.int64], outside: int, below: int) -> npt.NDArray[np.int64]:
    if outside:
        raise InputError(f"a number is not among 0 to {below - 1}; each must be one of these")
    return counts
