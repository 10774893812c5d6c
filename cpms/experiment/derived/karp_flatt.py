"""The Karp-Flatt metric: the serial fraction of a program, estimated from its measured speedup."""

from __future__ import annotations

import math


def karp_flatt(speedup: float, processes: int) -> float:
    """Return e = (1/speedup - 1/p) / (1 - 1/p); NaN for one process, where it is not defined.

    The value is 0 for a linear speedup, 1 for none, and above 1 for a slowdown.

    Notes
    -----
    Source: Karp and Flatt, "Measuring parallel processor performance", Comm. ACM 33, 1990.

    Examples
    --------
    >>> karp_flatt(2.0, 2), karp_flatt(1.0, 2), karp_flatt(0.5, 2)
    (0.0, 1.0, 3.0)
    """
    if processes == 1:
        return math.nan
    return (1.0 / speedup - 1.0 / processes) / (1.0 - 1.0 / processes)
