"""Times of sweeps by the device's clock, which a persistent kernel reads at the end of each sweep."""

from __future__ import annotations

_WRAP_NS = 2.0**50
"""Nanoseconds after which the clock wraps around; as in ``persistent/grid_sync.cuh``."""


def seconds_since(began_ns: float, ended_ns: list[float]) -> list[float]:
    """Return the end of each sweep in seconds since the beginning of the launch.

    Examples
    --------
    >>> seconds_since(1e9, [2e9, 4e9])
    [1.0, 3.0]
    >>> seconds_since(2.0**50 - 1e9, [1e9])
    [2.0]
    """
    if ended_ns and ended_ns[-1] < began_ns:
        ended_ns = [ended + _WRAP_NS if ended < began_ns else ended for ended in ended_ns]
    return [(ended - began_ns) * 1e-9 for ended in ended_ns]
