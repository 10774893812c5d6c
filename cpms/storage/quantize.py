"""Rounding of arrays to a format without storing them.

Values pass through codes a tile at a time, in a core's cache, so that an array is read once and written once. The
result equals ``encode(x, format).decode()``. Arrays in device memory are encoded and decoded there, in two passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.real_arrays import doubles, real_array
from cpms.base.types import Floats
from cpms.base.validation import described, shortened, whole
from cpms.formats.formats import FloatFormat, Format, Rounding, SegmentFormat, format_of
from cpms.storage.array import SegmentedArray, array_exponent, encode
from cpms.storage.codecs import compiled_loops
from cpms.storage.device import on_device
from cpms.storage.ranges import Counts as Counts
from cpms.storage.ranges import Overflow
from cpms.storage.segment_layout import ROUNDING_MODES, clip_to_range

_TILE = 1 << 13


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
    dtype = given.dtype if given.dtype == np.float32 else np.float64
    found = _by_tiles(doubles("x", values), chosen) if _tiles(chosen, values) else None
    if found is None:
        found = encode(values, chosen).decode()
    return found.astype(dtype, copy=False).reshape(given.shape)


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


def _tiles(format: Format, values: npt.NDArray[Any]) -> bool:
    """Return whether values can pass tile by tile: each depends on itself alone, and is a float."""
    if values.dtype not in (np.float64, np.float32) or isinstance(format, SegmentFormat) or not format.has_nan:
        return False
    if isinstance(format, FloatFormat):
        return format.rounding != "stochastic"
    return format.group == 1 and compiled_loops(format) is not None


def _by_tiles(values: Floats, format: Format) -> Floats:
    from cpms.storage import host_loops

    exponent = array_exponent(values, format)
    found = np.empty(len(values))
    loops = None if isinstance(format, FloatFormat) else compiled_loops(format)

    def round_tiles(part: tuple[int, int]) -> None:
        codes = np.empty(_TILE, format.code_type)
        for low in range(*part, _TILE):
            high = min(low + _TILE, part[1])
            here, out, count = values[low:high], found[low:high], high - low
            if exponent:
                here = clip_to_range(here, format, exponent) if isinstance(format, FloatFormat) else here
                here = np.ldexp(here, exponent)
            if isinstance(format, FloatFormat):
                split = format.exponent_bits, format.mantissa_bits
                mode, none = ROUNDING_MODES[format.rounding], np.uint64(0)
                host_loops.pack_floats(here.view(np.uint64), codes, *split, mode, none, 0, count)
                host_loops.unpack_floats(codes, out, *split, 0, count)
            elif loops is not None:
                loops.encode(here, codes, 0, count)
                loops.decode(codes, out, 1, 0, count)
            if exponent:
                np.ldexp(out, -exponent, out=out)

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
    stored = encode(values, format, overflow=overflow)
    assert stored.counts is not None  # noqa: S101  # As overflow is given.
    return stored, stored.counts
