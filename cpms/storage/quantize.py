"""Rounding of arrays to a format without storing them.

The result equals ``encode(x, format).decode()``, but an array is read once and written once. Packed floats are rounded
on the bits of float64, as in CPFloat (Fasi and Mikaitis, ACM Trans. Math. Softw. 49, 2023). Formats with a codec of
their own are rounded by their compiled codec, value by value. Arrays in device memory are rounded there, also in one
pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.real_arrays import real_array
from cpms.base.text.keywords import checked_keywords
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats
from cpms.base.validation import shortened, whole
from cpms.formats.formats import FloatFormat, Format, Rounding, SegmentFormat, format_of
from cpms.formats.minifloats import MiniFloatFormat
from cpms.formats.oracle import bits_of
from cpms.formats.rounding_rules import RoundingRule, beyond_of, constants, rule_of
from cpms.formats.segments import DOUBLE_EXPONENT_BITS
from cpms.storage.array import SegmentedArray, array_exponent, encode
from cpms.storage.codecs import compiled_loops
from cpms.storage.device import on_device
from cpms.storage.device import rounding as rounding_on_device
from cpms.storage.ranges import Counts as Counts
from cpms.storage.ranges import Overflow, refuse_infinity, refuse_overflow, require_overflow
from cpms.storage.segment_layout import largest_finite

Rounded = Callable[[Floats, Floats, int], None]
"""A function that rounds values into another array; its last argument is the index of the first value."""
_TILE = 1 << 13
_MOST_EXPONENT = 1022
"""Largest e for which 2**e and 2**-e are normal float64 numbers."""
_INFINITE = 0x7FF0000000000000


@checked_keywords
def quantize(
    x: Any,
    format: Format | str,
    *,
    rounding: Rounding | None = None,
    seed: int = 0,
    overflow: Overflow | None = None,
) -> Any:
    """Return values rounded to a format, as an array of the same shape, type and memory.

    Parameters
    ----------
    x : array of float64 or float32, any shape, of NumPy or CuPy
        Or a sequence of numbers, for an array of float64.
    format : Format or str
        As in `cpms.encode`.
    rounding : {"nearest", "zero", "stochastic"}, optional
        Rounding in place of the format's own.
    seed : int
        Seed of stochastic rounding; results depend on it and on a value's index alone, in main memory and on a GPU.
    overflow : {"raise", "saturate", "inf"}, optional
        As in `cpms.encode`; `cpms.encode_counted` returns counts, too.

    Raises
    ------
    InputError
        If the values are not real numbers, or one is beyond the range and is to be refused.
    UnsupportedError
        If the format has no such rounding.

    Examples
    --------
    >>> import cpms
    >>> cpms.quantize([0.1, -1e9], "fp16").tolist(), cpms.quantize([[0.1]], "mxfp4").tolist()
    ([0.0999755859375, -inf], [[0.09375]])
    """
    chosen, mode, seed = _rounded(format_of(format), rounding, whole("seed", seed))
    if overflow is not None:
        require_overflow(overflow)
    if on_device(x):
        return rounding_on_device().quantize(x, chosen, mode, seed, overflow)[0]
    given = real_array("x", x)
    values = given.reshape(-1)
    dtype = given.dtype if given.dtype == np.float32 else np.dtype(np.float64)
    found: Any = _on_host(values, chosen, mode, seed, overflow)
    return found.astype(dtype, copy=False).reshape(given.shape)


def _rounded(format: Format, rounding: Rounding | None, seed: int) -> tuple[Format, Rounding, int]:
    """Return a format, its rounding mode, and the seed; refuse a mode that it does not have."""
    if rounding is None:
        own: Rounding = format.rounding if isinstance(format, FloatFormat | SegmentFormat) else "nearest"
        return format, own, format.seed if isinstance(format, FloatFormat) else seed
    require_one_of("rounding", rounding, get_args(Rounding))
    if isinstance(format, FloatFormat):
        return replace(format, rounding=rounding, seed=seed), rounding, seed
    if isinstance(format, SegmentFormat) and rounding != "stochastic":
        return replace(format, rounding=rounding), rounding, seed
    if (rounding == "nearest" and not isinstance(format, SegmentFormat)) or isinstance(format, MiniFloatFormat):
        return format, rounding, seed
    raise UnsupportedError(f"{shortened(format.name)} does not round {rounding!r}; use a float such as e5m10 or e4m3fn")


def _on_host(
    values: npt.NDArray[Any], format: Format, rounding: Rounding, seed: int, overflow: Overflow | None
) -> npt.NDArray[Any]:
    """Return values of one dimension, rounded."""
    if isinstance(format, MiniFloatFormat) and rounding != "nearest":
        rule = rule_of(format, rounding, seed)
        assert rule is not None  # noqa: S101  # It is of a float.
        return _by_rule(values if values.dtype == np.float32 else values.astype(np.float64), format, rule, overflow)
    if overflow is not None:
        return encode(values, format, overflow=overflow).decode()
    rounded = None if values.dtype not in (np.float64, np.float32) else _rounding(format, values)
    return encode(values, format).decode() if rounded is None else _by_tiles(values, rounded)


def _rounding(format: Format, values: npt.NDArray[Any]) -> Rounded | None:
    """Return a function that rounds values into another array, value by value; None if the format has none."""
    if isinstance(format, FloatFormat):
        return _float_rounding(format, values)
    if isinstance(format, SegmentFormat):
        return (lambda given, out, first: np.copyto(out, given)) if format.exact else None  # noqa: ARG005
    loops = compiled_loops(format) if format.group == 1 else None
    if loops is None or (factor := _factor(format, values)) is None:
        return None

    def by_codec(given: Floats, out: Floats, first: int) -> None:  # noqa: ARG001
        if not format.has_nan and np.isnan(given).any():
            raise InputError(f"{shortened(format.name)} has no NaN, and one of the values is one")
        loops.rounded(given, out, factor)

    return by_codec


def _float_rounding(format: FloatFormat, values: npt.NDArray[Any]) -> Rounded | None:
    from cpms.storage import host_loops

    exponent, nearest = array_exponent(values, format), format.rounding == "nearest"
    clipped = exponent != 0 and largest_finite(format, exponent) is not None
    if clipped or abs(exponent) > _MOST_EXPONENT:
        return None
    if format.rounding == "stochastic":
        rule = rule_of(format, format.rounding, format.seed)
        assert rule is not None  # noqa: S101  # It is of a float.
        return _rule_rounding(rule, 2.0**exponent)
    top, least = (bits_of(number) for number in (format.max_finite, format.min_normal))
    # A format with the exponents of float64 needs no other step for subnormal numbers.
    step = format.min_normal * 2.0**-format.mantissa_bits if format.exponent_bits < DOUBLE_EXPONENT_BITS else 0.0
    bits = np.array([least if step else 0, top, _INFINITE if nearest else top], np.uint64)
    known = 2.0**exponent, 52 - format.mantissa_bits, bits[0], step * 2.0**52, bits[1], bits[2], nearest
    return lambda given, out, first: host_loops.round_floats(given, out, *known)  # noqa: ARG005


def _rule_rounding(rule: RoundingRule, factor: float) -> Rounded:
    from cpms.storage import host_loops

    known = constants(rule)
    return lambda given, out, first: host_loops.round_by_rule(given, out, np.int64(first), factor, known)


def _by_rule(
    values: npt.NDArray[Any], format: Format, rule: RoundingRule, overflow: Overflow | None
) -> npt.NDArray[Any]:
    """Return values rounded by a rule; those beyond the range are treated as asked."""
    if overflow == "saturate" or (overflow == "inf" and format.has_nan):
        return _by_tiles(values, _rule_rounding(beyond_of(format, rule, overflow), 1.0))
    rule = rule if overflow is None else rule._replace(beyond=_INFINITE)
    found = _by_tiles(values, _rule_rounding(rule, 1.0))
    beyond = np.isinf(found) & np.isfinite(values) if overflow is not None else np.zeros(0, bool)
    if beyond.any():
        at = int(np.argmax(beyond))
        if overflow == "raise":
            refuse_overflow(format, at, float(values[at]), format.max_finite)
        refuse_infinity(format)
    return found


def _factor(format: Format, values: npt.NDArray[Any]) -> float | None:
    """Return the power of two by which an array is scaled; None if it, or its inverse, is not a normal number."""
    exponent = array_exponent(values, format)
    return 2.0**exponent if abs(exponent) <= _MOST_EXPONENT else None


def _by_tiles(values: npt.NDArray[Any], rounded: Rounded) -> npt.NDArray[Any]:
    """Return values rounded in threads; float32 values are converted to float64 by tiles in a core's cache."""
    found = np.empty(len(values), values.dtype)
    rounded(np.zeros(0), np.zeros(0), 0)  # Compile before threads begin.

    def round_tiles(part: tuple[int, int]) -> None:
        if values.dtype == np.float64:
            rounded(values[slice(*part)], found[slice(*part)], part[0])
            return
        out = np.empty(_TILE)
        for low in range(*part, _TILE):
            high = min(low + _TILE, part[1])
            rounded(values[low:high].astype(np.float64), out[: high - low], low)
            with np.errstate(over="ignore"):  # Threads do not have the state of their caller.
                found[low:high] = out[: high - low]

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        threads.each(round_tiles, threads.ranges(len(values), at_least=8 * _TILE, parts=64))
    return found


def encode_counted(values: npt.ArrayLike, format: Format | str, *, overflow: Overflow) -> tuple[SegmentedArray, Counts]:
    """Return ``cpms.encode(values, format, overflow=overflow)``, and its counts.

    Parameters
    ----------
    values, format, overflow
        As in `cpms.encode`.

    Examples
    --------
    >>> import cpms
    >>> stored, counts = cpms.encode_counted([1e9, 1e-9, 2.0], "fp16", overflow="saturate")
    >>> stored.decode().tolist(), counts
    ([65504.0, 0.0, 2.0], Counts(overflow=1, underflow=1, nan=0))
    """
    require_overflow(overflow)
    stored = encode(values, format, overflow=overflow)
    assert stored.counts is not None  # noqa: S101  # As overflow is given.
    return stored, stored.counts
