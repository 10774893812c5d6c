"""The Karp-Flatt metric: the share of work that seems not to run in parallel."""

from __future__ import annotations

import math


def karp_flatt(speedup: float, processes: int) -> float:
    """Return e = (1/speedup - 1/p) / (1 - 1/p); NaN for one process, where it is not defined.

    0 is a perfect speedup, 1 none at all, more a slowdown.

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
