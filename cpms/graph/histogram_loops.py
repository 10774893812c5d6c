"""Compiled loops that count; see `cpms.graph.histogram`."""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled


@compiled()
def count_each(numbers, counts, full):  # type: ignore[no-untyped-def]
    """Add how often each number occurs to its count, a byte; return how many have none, and how often one was full.

    A full one begins at 0 again, and its number is put into ``full``.
    """
    outside = times_full = 0
    for number in numbers:
        if 0 <= number < len(counts):
            counts[number] = np.uint8(counts[number] + 1)
            if counts[number] == 0:
                full[times_full] = number
                times_full += 1
        else:
            outside += 1
    return outside, times_full


@compiled()
def add_counts(counts, sums, low, high):  # type: ignore[no-untyped-def]
    """Put the sums of counts of numbers ``low`` to ``high``, of which there is a row each time, into ``sums``."""
    sums[low:high] = 0
    for row in counts:
        for number in range(low, high):
            sums[number] += row[number]


@compiled()
def add_full(full, sums):  # type: ignore[no-untyped-def]
    """Add what a byte does not hold, for each time it was full."""
    for number in full:
        sums[number] += 256
