"""Conversion of arrays between float64 and segments or packed floats, split over threads.

Blocks that fit into a buffer are converted through it, so conversion may be in place. A larger block, such as the whole
of a long array in planes, is first converted in blocks of the buffer's size. These are then permuted in place along the
cycles of the permutation (Knuth, The Art of Computer Programming 1, section 1.3.3), which needs one index for each
chunk of memory and no second array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.real_arrays import rounded_to_odd, vector
from cpms.base.types import Floats
from cpms.base.validation import described
from cpms.formats.formats import DOUBLE_BITS, DOUBLE_HEAD_BITS, FloatFormat, Format, SegmentFormat
from cpms.storage.segment_views import block_values, segment_units

BUFFER_VALUES = 16384
"""Values in the buffer of conversion in place: 128 KiB, which fits a core's second-level cache."""
_PART_VALUES = 1 << 16
_DOUBLE_EXPONENTS = 1024
"""Exponent of a power of two above all finite float64."""
ROUNDING_MODES = {"zero": 0, "nearest": 1, "stochastic": 2}


def within_buffer(format: SegmentFormat) -> SegmentFormat:
    """Return the format with blocks of at most `BUFFER_VALUES` values."""
    if format.block is not None and format.block <= BUFFER_VALUES:
        return format
    return SegmentFormat(format.name, format.widths, BUFFER_VALUES, format.rounding)


def conversion_parts(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> list[tuple[npt.NDArray[np.uint64], bool]]:
    """Return the parts of an array that are converted one by one, each with whether it exceeds the buffer.

    If blocks fit into the buffer, the only part is the whole array; otherwise each block is a part.
    """
    block = block_values(format, len(bits))
    if block <= BUFFER_VALUES or format.segments == 1:
        return [(bits, False)]
    return [(bits[begin : begin + block], True) for begin in range(0, len(bits), block)]


def write_segments(bits: npt.NDArray[np.uint64], units: npt.NDArray[Any], format: SegmentFormat, written: int) -> None:
    """Write the first segments of float64 values, which are given by their bits; both may be the same memory."""
    if format.segments == 1:
        _copy(bits, units.view(np.uint64))
        return
    from cpms.storage import host_loops

    written_bits = format.bits(written)
    rounds = format.rounding == "nearest" and DOUBLE_HEAD_BITS <= written_bits < DOUBLE_BITS
    dropped = DOUBLE_BITS - written_bits if rounds else 0
    given = bits, units, np.array(segment_units(format), np.int64), written, dropped
    _each_block(
        len(bits),
        block_values(format, len(bits)),
        partial(host_loops.encode_blocks, *given),
        partial(host_loops.encode_range, *given),
    )


def read_segments(units: npt.NDArray[Any], bits: npt.NDArray[np.uint64], format: SegmentFormat, read: int) -> None:
    """Read the first segments of values as the bits of float64."""
    if format.segments == 1:
        _copy(units.view(np.uint64), bits)
        return
    from cpms.storage import host_loops

    given = units, bits, np.array(segment_units(format), np.int64), read
    _each_block(
        len(bits),
        block_values(format, len(bits)),
        partial(host_loops.decode_blocks, *given),
        partial(host_loops.decode_range, *given),
    )


def _each_block(length: int, block: int, whole: Callable[..., object], part: Callable[..., object]) -> None:
    """Call ``whole(block, low, high)`` for ranges of blocks, or ``part(begin, size, low, high)`` within large ones."""
    if block <= BUFFER_VALUES:
        blocks = threads.ranges(-(-length // block), at_least=max(1, _PART_VALUES // block), parts=64)
        threads.each(lambda own: whole(block, own[0] * block, min(own[1] * block, length)), blocks)
        return
    for begin in range(0, length, block):
        size = min(block, length - begin)
        parts = threads.ranges(size, at_least=_PART_VALUES, parts=64)
        threads.each(lambda own: part(*own), [(begin, size, begin + low, begin + high) for low, high in parts])


def _each_part(work: Callable[[int, int], object], length: int) -> None:
    """Call ``work(low, high)`` for ranges of values, by all threads."""
    threads.each(lambda own: work(*own), threads.ranges(length, at_least=_PART_VALUES, parts=64))


def _copy(given: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> None:
    """Copy by all threads; a single segment is float64 itself, so that no loop has to be compiled."""
    _each_part(lambda low, high: np.copyto(out[low:high], given[low:high]), len(given))


def pack(values: Floats, units: npt.NDArray[Any], format: FloatFormat, exponent: int) -> None:
    """Write values times 2**exponent as packed floats, in threads."""
    from cpms.storage import host_loops

    scaled = times_power_of_two(clip_to_range(values, format, exponent), exponent)
    split = format.exponent_bits, format.mantissa_bits
    how = *split, ROUNDING_MODES[format.rounding], np.uint64(format.seed)
    _each_part(partial(host_loops.pack_floats, scaled.view(np.uint64), units, *how), len(values))


def unpack(units: npt.NDArray[Any], values: Floats, format: FloatFormat) -> None:
    """Read packed floats, without dividing by the array's power of two."""
    from cpms.storage import host_loops

    split = format.exponent_bits, format.mantissa_bits
    _each_part(partial(host_loops.unpack_floats, units, values, *split), len(values))


def largest_finite(format: FloatFormat, exponent: int) -> float | None:
    """Return the largest value that a scaled format may store at an exponent; None if the format's range is the limit.

    Otherwise the range of float64 is the limit, as the format would round the largest float64 up to 2**1024.

    Examples
    --------
    >>> from cpms.formats.formats import format_named
    >>> e5m2 = format_named("e5m2-scaled")
    >>> largest_finite(e5m2, 15 - 1024) == 1.75 * 2.0**1023, largest_finite(e5m2, 15 - 1023)
    (True, None)
    """
    if not format.scaled or format.bias - exponent < _DOUBLE_EXPONENTS:
        return None
    return (2.0 - 2.0**-format.mantissa_bits) * 2.0 ** (_DOUBLE_EXPONENTS - 1)


def clip_to_range(values: Floats, format: FloatFormat, exponent: int) -> Floats:
    """Return values with finite ones clipped to `largest_finite`."""
    most = largest_finite(format, exponent)
    if most is None:
        return values
    return np.where(np.isfinite(values), np.clip(values, -most, most), values)


def times_power_of_two(values: Floats, exponent: int) -> Floats:
    """Return values times a power of two; the same array for 1."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # Infinities and NaN are values like others.
        return np.ldexp(values, exponent) if exponent else values


def blocks_to_planes(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Permute one large block, converted in blocks of `BUFFER_VALUES` values, into planes, in place."""
    from cpms.storage import host_loops

    counts, unit_bytes = segment_units(format), format.unit // 8
    whole = len(bits) // BUFFER_VALUES
    main, rest = whole * BUFFER_VALUES, len(bits) % BUFFER_VALUES
    units = bits.view(f"uint{format.unit}")
    tail = bits[main:].copy().view(units.dtype)
    host_loops.permute_chunks(units, BUFFER_VALUES, np.array(counts, np.int64), whole, False)
    offset = sum(counts)
    for count in counts[::-1]:
        offset -= count
        _move_bytes(bits, offset * main * unit_bytes, offset * len(bits) * unit_bytes, count * main * unit_bytes)
        at = offset * len(bits) + count * main
        units[at : at + count * rest] = tail[offset * rest : (offset + count) * rest]


def planes_to_blocks(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Permute planes back into blocks, the inverse of `blocks_to_planes`."""
    from cpms.storage import host_loops

    counts, unit_bytes = segment_units(format), format.unit // 8
    whole = len(bits) // BUFFER_VALUES
    main, rest = whole * BUFFER_VALUES, len(bits) % BUFFER_VALUES
    units = bits.view(f"uint{format.unit}")
    tail = np.empty(rest, np.uint64).view(units.dtype)
    offset = 0
    for count in counts:
        at = offset * len(bits) + count * main
        tail[offset * rest : (offset + count) * rest] = units[at : at + count * rest]
        _move_bytes(bits, offset * len(bits) * unit_bytes, offset * main * unit_bytes, count * main * unit_bytes)
        offset += count
    host_loops.permute_chunks(units, BUFFER_VALUES, np.array(counts, np.int64), whole, True)
    bits[main:] = tail.view(np.uint64)


def _move_bytes(array: npt.NDArray[Any], source: int, target: int, count: int) -> None:
    """Move ``count`` bytes within an array; source and target may overlap."""
    if source != target:
        ctypes.memmove(array.ctypes.data + target, array.ctypes.data + source, count)


def to_be_rounded(values: Any, format: Format, written: int) -> Floats:
    """Return float64 values that round to the same numbers of the format as the given values do.

    Long doubles and 64-bit integers are rounded to odd, so that the second rounding does no harm.
    """
    if isinstance(format, FloatFormat):
        return rounded_to_odd(values, overflows=format.rounding != "zero")
    if not isinstance(format, SegmentFormat):
        return rounded_to_odd(values, overflows=True)
    written_bits = format.bits(written)
    if written_bits == DOUBLE_BITS:
        return vector("values", values)
    nearest = format.rounding == "nearest" and written_bits >= DOUBLE_HEAD_BITS
    return rounded_to_odd(values, overflows=nearest)


def flat(values: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of this shape with one dimension, and anything else as it is."""
    if len(shape) > 1 and np.shape(values) == shape:
        return np.asarray(values).reshape(-1)
    return values


def bytes_of(memory: Any) -> int:
    """Return the bytes of an array of uint8 of one dimension; refuse anything else."""
    if not isinstance(memory, np.ndarray) or memory.dtype != np.uint8 or memory.ndim != 1:
        raise InputError(f"memory is {described(memory)}; it must be a one-dimensional array of uint8")
    return int(memory.nbytes)


def takes_values(out: Any, shape: tuple[int, ...]) -> bool:
    """Return whether decoded values can be written into an array, in main or device memory.

    Examples
    --------
    >>> takes_values(np.empty(3), (3,)), takes_values([0.0], (1,)), takes_values(np.broadcast_to(0.0, 3), (3,))
    (True, False, False)
    """
    alike = getattr(out, "shape", None) == shape and getattr(out, "dtype", None) == np.float64
    return alike and bool(getattr(getattr(out, "flags", None), "writeable", True))
