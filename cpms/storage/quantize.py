"""Rounding of arrays to a format without storing them.

An array is read once and written once: packed floats are rounded on the bits of float64, as CPFloat does it (Fasi and
Mikaitis, ACM Trans. Math. Softw. 49, 2023), and formats of the protocol by their compiled codec, value by value. The
result equals ``encode(x, format).decode()``. Arrays in device memory are encoded and decoded there, in two passes.
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
from cpms.base.types import Floats
from cpms.base.validation import described, shortened, whole
from cpms.formats.formats import FloatFormat, Format, Rounding, SegmentFormat, format_of
from cpms.formats.oracle import bits_of
from cpms.storage.array import SegmentedArray, array_exponent, encode
from cpms.storage.codecs import compiled_loops
from cpms.storage.device import on_device
from cpms.storage.ranges import Counts as Counts
from cpms.storage.ranges import Overflow, require_overflow
from cpms.storage.segment_layout import largest_finite

_TILE = 1 << 13
_DOUBLE_EXPONENT_BITS = 11
_MOST_EXPONENT = 1022
"""Powers of two with exponents up to it are normal numbers, as their reciprocals are."""
_INFINITE = 0x7FF0000000000000


def quantize(x: Any, format: Format | str, *, rounding: Rounding | None = None, seed: int = 0) -> Any:
    """Return values rounded to a format, as an array of the same shape, type and memory.

    Parameters
    ----------
    x : array of float64 or float32, any shape, of NumPy or CuPy
        Or a sequence of numbers, for an array of float64.
    format : Format or str
        As in `cpms.encode`.
    rounding : {"nearest", "zero", "stochastic"}, optional
        In place of the format's own.
    seed : int
        Of stochastic rounding.

    Raises
    ------
    InputError
        If the values are no real numbers.
    UnsupportedError
        If the format does not round so.

    Examples
    --------
    >>> quantize([0.1, -1e9], "fp16").tolist(), quantize([[0.1]], "mxfp4").tolist()
    ([0.0999755859375, -inf], [[0.09375]])
    """
    chosen = _rounded(format_of(format), rounding, whole("seed", seed))
    if on_device(x):
        found: Any = encode(x.reshape(-1), chosen).decode().reshape(x.shape)
        return found.astype(x.dtype) if x.dtype == np.float32 else found
    given = real_array("x", x)
    values = given.reshape(-1)
    dtype = given.dtype if given.dtype == np.float32 else np.dtype(np.float64)
    rounded = None if values.dtype not in (np.float64, np.float32) else _rounding(chosen, values)
    if rounded is not None:
        return _by_tiles(values, np.empty(len(values), dtype), rounded).reshape(given.shape)
    return encode(values, chosen).decode().astype(dtype, copy=False).reshape(given.shape)


def _rounded(format: Format, rounding: Rounding | None, seed: int) -> Format:
    if rounding is None:
        return format
    if not isinstance(rounding, str) or rounding not in get_args(Rounding):
        raise InputError(f"rounding is {described(rounding)}; it can be one of {get_args(Rounding)}")
    if isinstance(format, FloatFormat):
        return replace(format, rounding=rounding, seed=seed)
    if isinstance(format, SegmentFormat) and rounding != "stochastic":
        return replace(format, rounding=rounding)
    if rounding == "nearest" and not isinstance(format, SegmentFormat):
        return format
    raise UnsupportedError(f"{shortened(format.name)} does not round {rounding!r}; use a packed float such as e5m10")


def _rounding(format: Format, values: npt.NDArray[Any]) -> Callable[[Floats, Floats], None] | None:
    """Return the compiled rounding of values, each by itself, into another array; None if the format has none."""
    if isinstance(format, FloatFormat):
        return _float_rounding(format, values) if format.rounding != "stochastic" else None
    if isinstance(format, SegmentFormat):
        return (lambda given, out: np.copyto(out, given)) if format.exact else None
    loops = compiled_loops(format) if format.group == 1 else None
    if loops is None or (factor := _factor(format, values)) is None:
        return None
    if format.has_nan:
        return lambda given, out: loops.rounded(given, out, factor)

    def without_nan(given: Floats, out: Floats) -> None:
        if np.isnan(given).any():
            raise InputError(f"{shortened(format.name)} has no NaN, and one of the values is one")
        loops.rounded(given, out, factor)

    return without_nan


def _float_rounding(format: FloatFormat, values: npt.NDArray[Any]) -> Callable[[Floats, Floats], None] | None:
    from cpms.storage import host_loops

    exponent, nearest = array_exponent(values, format), format.rounding == "nearest"
    clipped = exponent != 0 and largest_finite(format, exponent) is not None
    if clipped or abs(exponent) > _MOST_EXPONENT:
        return None
    top, least = (bits_of(number) for number in (format.max_finite, format.min_normal))
    # With the exponents of float64, subnormal numbers are rounded as the others are.
    step = format.min_normal * 2.0**-format.mantissa_bits if format.exponent_bits < _DOUBLE_EXPONENT_BITS else 0.0
    bits = np.array([least if step else 0, top, _INFINITE if nearest else top], np.uint64)
    constants = 2.0**exponent, 52 - format.mantissa_bits, bits[0], step * 2.0**52, bits[1], bits[2], nearest
    return lambda given, out: host_loops.round_floats(given, out, *constants)


def _factor(format: Format, values: npt.NDArray[Any]) -> float | None:
    """Return the power of two with which an array is stored; None for one that is no normal number."""
    exponent = array_exponent(values, format)
    return 2.0**exponent if abs(exponent) <= _MOST_EXPONENT else None


def _by_tiles(
    values: npt.NDArray[Any], found: npt.NDArray[Any], rounded: Callable[[Floats, Floats], None]
) -> npt.NDArray[Any]:
    """Round values into ``found`` in threads; those of float32 pass through tiles of float64 in a core's cache."""
    rounded(np.zeros(0), np.zeros(0))  # Compiles before threads begin.

    def round_tiles(part: tuple[int, int]) -> None:
        if values.dtype == np.float64:
            rounded(values[slice(*part)], found[slice(*part)])
            return
        out = np.empty(_TILE)
        for low in range(*part, _TILE):
            high = min(low + _TILE, part[1])
            rounded(values[low:high].astype(np.float64), out[: high - low])
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
    >>> stored, counts = encode_counted([1e9, 1e-9, 2.0], "fp16", overflow="saturate")
    >>> stored.decode().tolist(), counts
    ([65504.0, 0.0, 2.0], Counts(overflow=1, underflow=1, nan=0))
    """
    require_overflow(overflow)
    stored = encode(values, format, overflow=overflow)
    assert stored.counts is not None  # noqa: S101  # As overflow is given.
    return stored, stored.counts
