"""Arrays brought to main memory from wherever they are."""

from __future__ import annotations

from typing import Any

from cpms.engine import Floats
from cpms.segmented import on_device


def in_main_memory(values: Any) -> Any:
    """Return what is there already as it is, and a device array's copy.

    Examples
    --------
    >>> in_main_memory([1, 2])
    [1, 2]
    """
    if not on_device(values):
        return values
    from cpms.cuda import segmented

    return to_host(segmented.doubles(values))


def to_host(values: Any) -> Floats:
    """Return a copy of a device array."""
    from cpms.cuda.backend import current

    return current().to_host(values)
