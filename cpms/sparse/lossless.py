"""The fewest bits in which every value of a matrix is exact, found by looking at all of them.

Values of stencils, graphs and many finite elements have few digits or are few: they fit packed floats of 8 or 16 bits,
times one power of two, or codes into a table. Where the first values fit neither, no other is looked at. A value fits a
packed float of m mantissa bits where it has at most m + 1 significant bits, its leading bit is not above the largest
exponent, and its last bit not below the last subnormal one.
"""

from __future__ import annotations

import numpy as np

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.formats.codes import CODES8, ValueFormat
from cpms.formats.formats import FP64, FloatFormat
from cpms.storage.array import shared_exponent
from cpms.storage.coded import LOOKED_AT, distinct_values

_SPLITS = {8: [(4, 3), (5, 2)], 16: [(5, 10), (8, 7)], 32: [(8, 23)]}
"""Exponent and mantissa bits that devices decode by an instruction or two, and that are tried first."""
_MOST_EXPONENT_BITS = 11
_MOST_MANTISSA_BITS = 29
"""Most mantissa bits of a packed float of 32 bits: sign and exponent take 3 or more."""
_BINADES = 2048
"""Values of the exponent field of float64."""
_FRACTION_BITS = 52
_AT_LEAST = 1 << 16
"""Least number of values in a task of a thread."""


def lossless_storage(values: Floats) -> ValueFormat:
    """Return the format of the fewest bits that holds all values exactly; fp64 where no other does.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Finite.

    Examples
    --------
    >>> lossless_storage(np.array([6.0, -1.0])).name, lossless_storage(np.array([0.1, 0.75])).name
    ('e4m3', 'codes8')
    >>> lossless_storage(np.arange(1000.0)).name, lossless_storage(np.random.default_rng(0).random(999)).name
    ('fp16', 'fp64')
    """
    tops, lows = outer_bits(values[:LOOKED_AT])
    if (tops - lows).max(initial=0) > _MOST_MANTISSA_BITS and distinct_values(values[:LOOKED_AT]) is None:
        return FP64
    tops, lows = outer_bits(values)
    for width in (8, 16, 32):
        found = _packed(values, tops, lows, width)
        if found is not None:
            return found
        if width == 8 and distinct_values(values) is not None:
            return CODES8
    return FP64


def outer_bits(values: Floats) -> tuple[np.ndarray, np.ndarray]:
    """Return the exponents of the leading and of the last bit in each binade that holds values; subnormals are one.

    The last bit of a binade is the lowest that is set in any of its values. One pass over the values finds all of them.
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    parts = threads.each(lambda part: _bits_by_exponent(bits, *part), threads.ranges(len(bits), at_least=_AT_LEAST))
    table = np.bitwise_or.reduce([np.zeros(_BINADES, np.uint64), *parts])
    exponents = np.flatnonzero(table)
    digits = table[exponents].astype(np.int64)
    least = np.maximum(exponents, 1) - 1023 - _FRACTION_BITS
    lows = least + np.frexp((digits & -digits).astype(np.float64))[1] - 1
    # Digits have 53 bits at most, so their float64 is exact.
    return least + np.frexp(digits.astype(np.float64))[1] - 1, lows


@compiled()
def _bits_by_exponent(bits, low, high):  # type: ignore[no-untyped-def]
    """Return, for each exponent field, the bitwise or of its values' mantissas, the implicit bit included."""
    found = np.zeros(_BINADES, np.uint64)
    fraction, first, sign_free = np.uint64((1 << 52) - 1), np.uint64(1 << 52), np.uint64((1 << 63) - 1)
    for i in range(low, high):
        size = bits[i] & sign_free
        field = size >> np.uint64(52)
        digits = size & fraction
        found[field] |= digits | first if field else digits
    return found


def _packed(values: Floats, tops: np.ndarray, lows: np.ndarray, width: int) -> FloatFormat | None:
    needed = max(1, int((tops - lows).max(initial=0)))
    exponent_bits = min(_MOST_EXPONENT_BITS, width - 1 - needed)
    splits = [*_SPLITS[width], (exponent_bits, width - 1 - exponent_bits)]
    for exponent, mantissa in splits:
        if exponent < 2 or mantissa < needed:
            continue
        for scaled in (False, True):
            # Values near the largest float32 would leave products in fp32 no room.
            if scaled and exponent >= 8:
                continue
            storage = _named(exponent, mantissa, scaled)
            shift = shared_exponent(values, storage) if scaled else 0
            fits = tops.max(initial=-(10**4)) + shift <= storage.bias
            if fits and lows.min(initial=10**4) + shift >= 1 - storage.bias - mantissa:
                return storage
    return None


def _named(exponent: int, mantissa: int, scaled: bool) -> FloatFormat:
    names = {(5, 10): "fp16", (8, 7): "bf16", (8, 23): "fp32"}
    name = names.get((exponent, mantissa), f"e{exponent}m{mantissa}")
    return FloatFormat(name + "-scaled" * scaled, exponent, mantissa, scaled=scaled)
