"""Compiled loops that count; see `cpms.counting`."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def count_each(numbers, counts):  # type: ignore[no-untyped-def]
    """Add how often each number occurs to its count; return how many have none."""
    outside = 0
    for number in numbers:
        if 0 <= number < len(counts):
            counts[number] += 1
        else:
            outside += 1
    return outside
