"""Encoding and decoding of arrays in device memory: the functions of `cpms.storage.array`, with the same bytes.

A conversion is one pass over the array, and costs its bytes once read and once written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import inplace_permutation, launch_convert, launch_round
from cpms.backends.cuda.arrays.launch_convert import MAX_STAGED
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError, UnsupportedError
from cpms.contracts.own_codecs import codec_refusal
from cpms.formats.formats import FloatFormat, Format, SegmentFormat
from cpms.storage import ranges
from cpms.storage.array import SegmentedArray
from cpms.storage.ranges import Counts
from cpms.storage.segment_layout import largest_finite


def as_device_array(values: Any) -> Any:
    """Return a device object (``__cuda_array_interface__`` or DLPack) as a CuPy array on the same memory."""
    arrays = current().arrays
    if isinstance(values, arrays.ndarray):
        return values
    return arrays.asarray(values) if hasattr(values, "__cuda_array_interface__") else arrays.from_dlpack(values)


def encode(values: Any, format: Format, *, segments: int | None = None) -> SegmentedArray:
    """Return device values in a storage format, in device memory of its own; see `cpms.encode`.

    Parameters
    ----------
    values : device array, shape (n,)
        Read as float64.

    Raises
    ------
    InputError
        If the values have more than one dimension.
    UnsupportedError
        If device memory runs out.
    """
    given = as_float64(values)
    stored = empty(len(given), format, array_exponent(given, format))
    write(stored, given, segments=segments)
    return stored


def empty(length: int, format: Format, exponent: int, counts: Counts | None = None) -> SegmentedArray:
    """Return a stored array of zeros in device memory."""
    backend = current()
    if reason := codec_refusal("cuda", "cuda", format):
        raise UnsupportedError(reason)
    with backend.memory_for(f"{length:,} values of {format.name}", format.nbytes(length)):
        memory = backend.arrays.zeros(format.nbytes(length), np.uint8)
    return SegmentedArray(memory, length, format, exponent, counts=counts)


def write(stored: SegmentedArray, values: Any, *, segments: int | None = None) -> None:
    """Overwrite the first ``segments`` segments of every value; see `SegmentedArray.write`."""
    given = as_float64(values)
    if given.shape != (stored.length,):
        raise InputError(f"the array holds {stored.length} values; {given.shape} cannot be written into it")
    launch_convert.encode(
        _clamped(given, stored),
        stored.memory,
        stored.format,
        length=stored.length,
        segments=stored.format.checked_read(segments),
        exponent=stored.exponent,
        seed=stored.format.seed if isinstance(stored.format, FloatFormat) else 0,
    )


def decode(stored: SegmentedArray, read: int | None = None) -> Any:
    """Return a device array of float64, shape (n,); see `SegmentedArray.decode`."""
    count = stored.format.checked_read(read)
    backend = current()
    with backend.memory_for(f"{stored.length:,} float64 values", 8 * stored.length):
        values = backend.arrays.empty(stored.length, np.float64)
    launch_convert.decode(
        stored.memory, values, stored.format, length=stored.length, read=count, exponent=-stored.exponent
    )
    return values


def convert_inplace(values: Any, format: SegmentFormat) -> SegmentedArray:
    """Re-order the segments of a device array within its own memory; see `cpms.convert_inplace`.

    Blocks of up to 4096 values are converted in shared memory. Larger ones, and planes, need up to 64 MiB of device
    memory besides, for any length.

    Parameters
    ----------
    values : device array of float64, shape (n,), contiguous

    Raises
    ------
    InputError
        If the array is not contiguous float64, or the format is a packed float.
    UnsupportedError
        If a segment has another width than those of devices.
    """
    if isinstance(format, FloatFormat):
        raise InputError(f"{format.name} is a packed float; only segment formats convert in place, use encode()")
    given = as_device_array(values)
    if given.dtype != np.float64 or given.ndim != 1:
        raise InputError(
            f"the array is {given.dtype} of shape {given.shape}; conversion in place needs one dimension of float64"
        )
    if not given.flags.c_contiguous:
        raise InputError("conversion in place needs a contiguous array; copy it first")
    if reason := codec_refusal("cuda", "cuda", format):
        raise UnsupportedError(reason)
    _convert(given.view(np.uint64), format, to_segments=True)
    return SegmentedArray(given.view(np.uint8), len(given), format)


def restore_inplace(stored: SegmentedArray) -> Any:
    """Turn device memory back into float64, in place; see `SegmentedArray.restore_inplace`."""
    if not isinstance(stored.format, SegmentFormat):
        raise InputError(f"{stored.format.name} is a packed float; it has no room for float64 in place; use decode()")
    _convert(stored.memory.view(np.uint64), stored.format, to_segments=False)
    return stored.memory.view(np.float64)


def _convert(bits: Any, format: SegmentFormat, *, to_segments: bool) -> None:
    if format.segments == 1 or len(bits) == 0:
        return
    block = min(format.block or len(bits), len(bits))
    if block > MAX_STAGED:
        for begin in range(0, len(bits), block):
            inplace_permutation.convert(bits[begin : begin + block], format, to_segments=to_segments)
        return
    done = launch_convert.convert_tiles(bits, format, to_segments=to_segments)
    launch_convert.convert_spans(bits[done:], format, to_segments=to_segments)


def as_float64(values: Any) -> Any:
    """Return a device object of one dimension as a contiguous CuPy array of float64; no copy if it is one.

    Raises
    ------
    InputError
        If it has other dimensions, or holds no numbers.
    """
    given = as_device_array(values)
    if given.ndim != 1:
        raise InputError(f"values have {given.ndim} dimensions; give one")
    if given.dtype.kind not in "fiub":
        raise InputError(f"values are {given.dtype}; they must be numbers that fit float64")
    return current().arrays.ascontiguousarray(given, dtype=np.float64)


def _clamped(values: Any, stored: SegmentedArray) -> Any:
    """Return values clamped to the largest finite one; see `cpms.storage.segment_layout.clip_to_range`."""
    largest = largest_finite(stored.format, stored.exponent) if isinstance(stored.format, FloatFormat) else None
    if largest is None:
        return values
    arrays = current().arrays
    clamped = arrays.minimum(arrays.maximum(values, -largest), largest)
    return arrays.where(arrays.isfinite(values), clamped, values)


def array_exponent(values: Any, format: Format) -> int:
    """Return `cpms.storage.ranges.array_exponent`, which depends on the largest size alone."""
    own = type(format).exponent_of is not Format.exponent_of
    if not getattr(format, "scaled", own):
        return 0
    return ranges.array_exponent(np.array([launch_round.largest_size(values)]), format)
