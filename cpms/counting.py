"""How often each number occurs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.errors import InputError

_LEAST = 1 << 20
"""Numbers from which compiled loops are faster than NumPy's, which copies them first."""
_PART = 1 << 18
"""Counts that a thread adds up at a time."""


def occurrences(numbers: npt.NDArray[np.integer], below: int) -> npt.NDArray[np.int64]:
    """Return how often each number from 0 on occurs, int64, shape (below,).

    Threads count a part of the numbers each, as many as need no more memory than the numbers have.

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
    from cpms.counting_kernels import count_each

    word = np.int32 if len(numbers) < 1 << 31 else np.int64
    most = max(1, min(threads.available(), len(numbers) // max(1, below)))

    def counted(part: tuple[int, int]) -> tuple[npt.NDArray[Any], int]:
        counts: npt.NDArray[Any] = np.zeros(below, word)
        return counts, count_each(numbers[slice(*part)], counts)

    found = threads.each(counted, threads.stretches(len(numbers), at_least=1, parts=most))
    all_counts = np.empty(below, np.int64)

    def add(part: tuple[int, int]) -> None:
        here = slice(*part)
        np.sum([counts[here] for counts, _ in found], axis=0, dtype=np.int64, out=all_counts[here])

    threads.each(add, threads.stretches(below, at_least=_PART, parts=below))
    return _checked(all_counts, sum(outside for _, outside in found), below)


def _checked(counts: npt.NDArray[np.int64], outside: int, below: int) -> npt.NDArray[np.int64]:
    if outside:
        raise InputError(f"a number is not among 0 to {below - 1}; each must be one of these")
    return counts
