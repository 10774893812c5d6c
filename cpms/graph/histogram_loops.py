"""Compiled loops of a histogram with one-byte counters; see `cpms.graph.histogram`."""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled


@compiled()
def count_each(numbers, counts, overflows):  # type: ignore[no-untyped-def]
    """Count each number in its counter of one byte; return how many are out of range, and how many counters overflowed.

    A counter that overflows begins at 0 again, and its number is appended to ``overflows``.
    """
    outside = overflow_count = 0
    for number in numbers:
        if 0 <= number < len(counts):
            counts[number] = np.uint8(counts[number] + 1)
            if counts[number] == 0:
                overflows[overflow_count] = number
                overflow_count += 1
        else:
            outside += 1
    return outside, overflow_count


@compiled()
def add_counts(counts, sums, low, high):  # type: ignore[no-untyped-def]
    """Write the sums of the rows of counters of numbers ``low`` to ``high`` into ``sums``."""
    sums[low:high] = 0
    for row in counts:
        for number in range(low, high):
            sums[number] += row[number]


@compiled()
def add_overflows(overflows, sums):  # type: ignore[no-untyped-def]
    """Add 256 to the sum of a number for each overflow of its counter."""
    for number in overflows:
        sums[number] += 256
