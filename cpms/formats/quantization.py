"""Quantisation of residuals in mixed-precision iterative refinement: format and scale, the same in every engine.

Inner sweeps read the residual in few bits, scaled by a power of two so that it keeps its bits as it decreases. This is
a scalar scaling as in Higham, Pranesh and Zounon ("Squeezing a matrix into half precision", SIAM J. Sci. Comput. 41,
2019). The scale follows from the largest value of the sweep before, so it costs no additional pass over the values.
"""

from __future__ import annotations

import math

from cpms.base.errors import UnsupportedError
from cpms.formats.formats import FloatFormat, Format, SegmentFormat, format_of
from cpms.formats.segments import DOUBLE_EXPONENT_BITS

HEAD_BITS = (16, 32)
"""Widths of a first segment that has an exponent and some of the mantissa."""
_SEEDS = 0xBF58476D1CE4E5B9
"""Distance of seeds, odd. Draws of a seed lie 0x9E3779B97F4A7C15 apart, sweeps 0xD1B54A32D192ED03: were seeds one of
these apart, each would repeat the draws of the one before it, moved by one."""
_LARGEST_EXPONENT = 1000
_WIDE = 2.0**64
"""Largest number to which values are scaled in formats that hold larger ones."""


def quantiser(storage: Format) -> FloatFormat:
    """Return the format of quantised residuals: the packed float itself, or the first segment of a segment format.

    Raises
    ------
    UnsupportedError
        If the first segment has no mantissa bits, or all.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> quantiser(CPMS4).mantissa_bits
    4
    """
    if isinstance(storage, FloatFormat):
        return storage
    if not isinstance(storage, SegmentFormat):
        raise UnsupportedError(
            f"inner sweeps read the residual in segments or a packed float here, not in {storage.name}; use a single "
            "solve of engine cpu or reference, or method 'power'"
        )
    width = storage.widths[0]
    if width not in HEAD_BITS:
        raise UnsupportedError(
            f"of a segment format method 'refine' reads the first segment, 16 or 32 bits, and that of {storage.name} "
            f"has {width}; use cpms2, cpms4, a packed float such as fp16, or on engine cpu any other format"
        )
    return FloatFormat(storage.name, DOUBLE_EXPONENT_BITS, width - 1 - DOUBLE_EXPONENT_BITS, storage.rounding)


def residual_format(given: Format | str) -> Format:
    """Return the format of quantised residuals: that of `quantiser`, or a format of the protocol as it is.

    Of a format of the protocol in several levels, inner sweeps read the first.

    Examples
    --------
    >>> residual_format("cpms4").bits(), residual_format("posit16").name
    (16, 'posit16')
    """
    storage = format_of(given)
    return quantiser(storage) if isinstance(storage, SegmentFormat | FloatFormat) else storage


def codec_scale(storage: Format, largest: float) -> int:
    """Return the binary exponent of the scale of values in a format of the protocol, from their largest size.

    It brings the largest size to at most the largest number for which the unit roundoff holds, and near it.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT16
    >>> codec_scale(POSIT16, 2.0**-20)
    35
    """
    if not 0.0 < largest < math.inf:
        return 0
    most = min(storage.max_normal, storage.max_finite, _WIDE)
    exponent = math.frexp(most)[1] - 1 - math.frexp(largest)[1]
    return max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, exponent))


def headroom(storage: FloatFormat) -> int:
    """Return by how many powers of two values may grow from one sweep to the next before they saturate.

    Examples
    --------
    >>> from cpms.formats.formats import E4M3, FP16
    >>> headroom(FP16), headroom(E4M3)
    (3, 1)
    """
    return 3 if storage.exponent_bits > 4 else 1


def shared_scale(storage: FloatFormat, largest: float) -> int:
    """Return the binary exponent of the scale of a sweep, from the largest value of the sweep before.

    Formats with the exponent range of float64 need no scale. A value beyond the headroom is stored as the largest
    finite number, and its error counts as a rounding error.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4, FP16
    >>> shared_scale(FP16, 2.0**-20)
    31
    """
    if storage.exponent_bits == DOUBLE_EXPONENT_BITS or not 0.0 < largest < math.inf:
        return 0
    exponent = storage.bias - headroom(storage) - math.frexp(largest)[1]
    return max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, exponent))


def step_seed(seed: int, step: int) -> int:
    """Return the seed of a sweep's stochastic rounding, from the format's seed and the number of the sweep.

    Examples
    --------
    >>> step_seed(1, 0) != step_seed(1, 1) != step_seed(0, 1) < 2**64
    True
    """
    return (seed * _SEEDS + step * 0xD1B54A32D192ED03) % 2**64


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank's stochastic rounding, from the format's seed.

    Examples
    --------
    >>> rank_seed(7, 0), rank_seed(7, 1) != rank_seed(8, 0)
    (7, True)
    """
    return (seed + rank * _SEEDS) % 2**64
