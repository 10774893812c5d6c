"""Rounding of arrays in device memory to a format: `cpms.quantize` there, with the same bits, in one pass.

Formats that the package knows are rounded on the bits of float64 by a rule, OCP's groups of 32 numbers by a half or a
quarter of a warp, and formats of one's own by their codec in CUDA. Each value is read once and written once; a scaled
format needs one more read, for the largest size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import codec, launch_round
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.validation import shortened
from cpms.contracts.own_codecs import codec_refusal
from cpms.formats.formats import FloatFormat, Format, Rounding, SegmentFormat
from cpms.formats.oracle import bits_of
from cpms.formats.rounding_rules import RoundingRule, beyond_of, rule_of
from cpms.storage.array import SegmentedArray
from cpms.storage.ranges import Counts, Overflow, refuse_infinity, refuse_overflow
from cpms.storage.segment_layout import largest_finite

_MOST_EXPONENT = 1022


def quantize(
    values: Any, format: Format, rounding: Rounding, seed: int, overflow: Overflow | None = None
) -> tuple[Any, Counts | None]:
    """Return a device array rounded to a format, of its type and shape, and counts where overflow is treated.

    Parameters
    ----------
    values : device array of numbers, any shape
        All but float32 are read as float64.
    format, rounding, seed, overflow
        As in `cpms.quantize`.

    Raises
    ------
    InputError
        If there is a NaN and the format has none, or a value beyond the range is to be refused.
    UnsupportedError
        If the format has no code in CUDA.
    """
    given = _real(codec.as_device_array(values))
    if isinstance(format, SegmentFormat):
        return _segmented(given, format, overflow)
    rule = rule_of(format, rounding, seed)
    if rule is None and (reason := codec_refusal("cuda", "cuda", format)):
        raise UnsupportedError(reason)
    exponent = codec.array_exponent(given, format)
    if abs(exponent) > _MOST_EXPONENT or (rule is None and overflow is not None):
        return _by_codes(given, format, overflow)
    clipped = None if not isinstance(format, FloatFormat) else largest_finite(format, exponent)
    if rule is not None and clipped is not None:
        most = bits_of(float(np.ldexp(clipped, exponent)))
        rule = rule._replace(top=most, beyond=most)
    elif rule is not None and overflow is not None:
        rule = beyond_of(format, rule, overflow)
    counted = overflow is not None or not format.has_nan
    found, words = launch_round.round_values(given, format, rule, exponent=exponent, counted=counted)
    if words is None:
        return found, None
    over, under, nan, first = map(int, current().to_host(words))
    if nan and not format.has_nan:
        raise InputError(f"{shortened(format.name)} has no NaN, and one of the values is one")
    counts = Counts(0 if clipped is not None else over, under, nan)
    if counts.overflow:
        _refuse(format, rule, given, 2**64 - 1 - first, exponent, overflow)
    return found, counts if overflow is not None else None


def encode(values: Any, format: Format, segments: int | None, overflow: Overflow | None) -> SegmentedArray:
    """Return device values in a format; to treat overflow and count, rounded first, which encoding keeps."""
    if overflow is None:
        return codec.encode(values, format, segments=segments)
    if format.checked_read(segments) != format.levels:
        raise UnsupportedError(
            f"overflow= counts values in device memory where all {format.levels} segments are written, not {segments}; "
            "leave segments out, or copy the array to main memory"
        )
    given = codec.as_float64(values)
    rounding = format.rounding if isinstance(format, FloatFormat) else "nearest"
    seed = format.seed if isinstance(format, FloatFormat) else 0
    found, counts = quantize(given, format, rounding, seed, overflow)
    stored = codec.empty(len(given), format, codec.array_exponent(given, format), counts)
    codec.write(stored, found)
    return stored


def _real(given: Any) -> Any:
    if given.dtype.kind not in "fiub":
        raise InputError(f"values are {given.dtype}; they must be numbers that fit float64")
    dtype = np.float32 if given.dtype == np.float32 else np.float64
    return current().arrays.ascontiguousarray(given, dtype=dtype)


def _segmented(given: Any, format: SegmentFormat, overflow: Overflow | None) -> tuple[Any, Counts | None]:
    """Return a copy: all segments of a float64 hold its bits."""
    if not format.exact or overflow is not None:
        return _by_codes(given, format, overflow)
    return given.copy(), None


def _by_codes(given: Any, format: Format, overflow: Overflow | None) -> tuple[Any, None]:
    """Return values encoded and decoded."""
    if overflow is not None:
        raise UnsupportedError(
            f"overflow= cannot count values of {shortened(format.name)} in device memory; copy the array to main memory"
        )
    found = codec.decode(codec.encode(given.reshape(-1), format)).reshape(given.shape)
    return (found.astype(np.float32) if given.dtype == np.float32 else found), None


def _refuse(
    format: Format, rule: RoundingRule | None, given: Any, at: int, exponent: int, overflow: Overflow | None
) -> None:
    """Refuse a value beyond the range, where that is asked, or infinity of formats that have none."""
    if overflow == "raise":
        value = float(current().to_host(given.reshape(-1)[at : at + 1])[0])
        refuse_overflow(format, at, value, float(np.ldexp(format.max_finite, -exponent)))
    if overflow == "inf" and rule is not None:
        refuse_infinity(format)
