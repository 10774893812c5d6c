"""How low sweeps of method ``refine`` scale what they store: the same rule in every engine."""

from __future__ import annotations

import math

from cpms.format import FloatFormat

WIDE_EXPONENT_BITS = 11
_MOST = 1000


def headroom(storage: FloatFormat) -> int:
    """Return by how many powers of two values may grow from one sweep to the next before they are cut.

    Examples
    --------
    >>> from cpms.format import E4M3, FP16
    >>> headroom(FP16), headroom(E4M3)
    (3, 1)
    """
    return 3 if storage.exponent_bits > 4 else 1


def shared_scale(storage: FloatFormat, largest: float) -> int:
    """Return the power of two by which values are stored, when the largest of the last sweep is known.

    Formats with the exponent of float64 need none. A value that has outgrown the headroom is stored
    as the largest finite number, and what it loses by that counts as lost mass like any rounding.

    Examples
    --------
    >>> from cpms.format import CPMS4, FP16
    >>> shared_scale(FP16, 2.0**-20)
    31
    """
    if storage.exponent_bits == WIDE_EXPONENT_BITS or not 0.0 < largest < math.inf:
        return 0
    exponent = storage.bias - headroom(storage) - math.frexp(largest)[1]
    return max(-_MOST, min(_MOST, exponent))
