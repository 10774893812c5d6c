"""How values lie in memory in a storage format: the loops over blocks and planes, split over threads."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.formats.formats import DOUBLE_BITS, DOUBLE_HEAD_BITS, FloatFormat, SegmentFormat

Floats = npt.NDArray[np.float64]

BUFFERED = 16384
"""Values that conversion in place buffers: 128 KiB, which stays in a core's cache."""
_STRETCH = 1 << 16
_DOUBLE_EXPONENTS = 1024
"""Float64 ends below 2 to the power of this."""
ROUNDING_MODES = {"zero": 0, "nearest": 1, "stochastic": 2}


def _pieces(format: SegmentFormat) -> npt.NDArray[np.int64]:
    return np.array([width // format.unit for width in format.widths], dtype=np.int64)


def _block(format: SegmentFormat, length: int) -> int:
    return max(1, length if format.block is None else min(format.block, length))


def buffered(format: SegmentFormat) -> SegmentFormat:
    """Return the format with its blocks cut to what conversion in place buffers."""
    if format.block is not None and format.block <= BUFFERED:
        return format
    return SegmentFormat(format.name, format.widths, BUFFERED, format.rounding)


def converted_apart(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> list[tuple[npt.NDArray[np.uint64], bool]]:
    """Return each block that is too large for the buffer, and True; or all of the array, and False."""
    block = _block(format, len(bits))
    if block <= BUFFERED or format.segments == 1:
        return [(bits, False)]
    return [(bits[begin : begin + block], True) for begin in range(0, len(bits), block)]


def write_segments(bits: npt.NDArray[np.uint64], units: npt.NDArray[Any], format: SegmentFormat, written: int) -> None:
    """Write the first segments of float64 values, given by their bits; both may be the same memory."""
    from cpms.storage import host_loops

    kept = format.bits(written)
    rounds = format.rounding == "nearest" and DOUBLE_HEAD_BITS <= kept < DOUBLE_BITS
    dropped = DOUBLE_BITS - kept if rounds else 0
    block, pieces = _block(format, len(bits)), _pieces(format)
    if block <= BUFFERED:
        threads.each(
            lambda part: host_loops.encode_blocks(bits, units, pieces, written, dropped, block, *part),
            _block_stretches(len(bits), block),
        )
        return
    for begin in range(0, len(bits), block):
        size = min(block, len(bits) - begin)
        threads.each(
            lambda part, begin=begin, size=size: host_loops.encode_stretch(  # type: ignore[misc]
                bits, units, pieces, written, dropped, begin, size, begin + part[0], begin + part[1]
            ),
            threads.stretches(size, at_least=_STRETCH, parts=64),
        )


def read_segments(units: npt.NDArray[Any], bits: npt.NDArray[np.uint64], format: SegmentFormat, read: int) -> None:
    """Read the first segments of values as the bits of float64."""
    from cpms.storage import host_loops

    block, pieces = _block(format, len(bits)), _pieces(format)
    if block <= BUFFERED:
        threads.each(
            lambda part: host_loops.decode_blocks(units, bits, pieces, read, block, *part),
            _block_stretches(len(bits), block),
        )
        return
    for begin in range(0, len(bits), block):
        size = min(block, len(bits) - begin)
        threads.each(
            lambda part, begin=begin, size=size: host_loops.decode_stretch(  # type: ignore[misc]
                units, bits, pieces, read, begin, size, begin + part[0], begin + part[1]
            ),
            threads.stretches(size, at_least=_STRETCH, parts=64),
        )


def _block_stretches(length: int, block: int) -> list[tuple[int, int]]:
    blocks = threads.stretches(-(-length // block), at_least=max(1, _STRETCH // block), parts=64)
    return [(low * block, min(high * block, length)) for low, high in blocks]


def pack(values: Floats, units: npt.NDArray[Any], format: FloatFormat, exponent: int) -> None:
    """Write values times a power of two as packed floats."""
    from cpms.storage import host_loops

    scaled = times_power_of_two(within_reach(values, format, exponent), exponent)
    mode = ROUNDING_MODES[format.rounding]
    threads.each(
        lambda part: host_loops.pack_floats(
            scaled.view(np.uint64),
            units,
            format.exponent_bits,
            format.mantissa_bits,
            mode,
            np.uint64(format.seed),
            *part,
        ),
        threads.stretches(len(values), at_least=_STRETCH, parts=64),
    )


def unpack(units: npt.NDArray[Any], values: Floats, format: FloatFormat) -> None:
    """Read packed floats, still times their power of two."""
    from cpms.storage import host_loops

    split = format.exponent_bits, format.mantissa_bits
    threads.each(
        lambda part: host_loops.unpack_floats(units, values, *split, *part),
        threads.stretches(len(values), at_least=_STRETCH, parts=64),
    )


def largest_finite(format: FloatFormat, exponent: int) -> float | None:
    """Return the largest value that a scaled format stores at this exponent, where float64 ends before the format does.

    None where the format ends first. Rounded up, the largest doubles would be 2**1024 in the format.

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


def within_reach(values: Floats, format: FloatFormat, exponent: int) -> Floats:
    """Return values with finite ones cut to `largest_finite`."""
    most = largest_finite(format, exponent)
    if most is None:
        return values
    return np.where(np.isfinite(values), np.clip(values, -most, most), values)


def times_power_of_two(values: Floats, exponent: int) -> Floats:
    """Return values times a power of two; the same array for 1."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # Infinities and NaN are values like others.
        return np.ldexp(values, exponent) if exponent else values


def blocks_to_planes(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Turn one large block, converted in blocks of `BUFFERED`, into planes."""
    from cpms.storage import host_loops

    pieces, unit_bytes = _pieces(format), format.unit // 8
    whole = len(bits) // BUFFERED
    main, rest = whole * BUFFERED, len(bits) % BUFFERED
    units = bits.view(f"uint{format.unit}")
    tail = bits[main:].copy().view(units.dtype)
    host_loops.permute_chunks(units, BUFFERED, pieces, whole, False)
    before = int(pieces.sum())
    for count in pieces[::-1].tolist():
        before -= count
        _move(bits, before * main * unit_bytes, before * len(bits) * unit_bytes, count * main * unit_bytes)
        at = before * len(bits) + count * main
        units[at : at + count * rest] = tail[before * rest : (before + count) * rest]


def planes_to_blocks(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Undo `blocks_to_planes`."""
    from cpms.storage import host_loops

    pieces, unit_bytes = _pieces(format), format.unit // 8
    whole = len(bits) // BUFFERED
    main, rest = whole * BUFFERED, len(bits) % BUFFERED
    units = bits.view(f"uint{format.unit}")
    tail = np.empty(rest, np.uint64).view(units.dtype)
    before = 0
    for count in pieces.tolist():
        at = before * len(bits) + count * main
        tail[before * rest : (before + count) * rest] = units[at : at + count * rest]
        _move(bits, before * len(bits) * unit_bytes, before * main * unit_bytes, count * main * unit_bytes)
        before += count
    host_loops.permute_chunks(units, BUFFERED, pieces, whole, True)
    bits[main:] = tail.view(np.uint64)


def _move(array: npt.NDArray[Any], source: int, target: int, count: int) -> None:
    """Move ``count`` bytes within an array; the stretches may overlap."""
    if source != target:
        ctypes.memmove(array.ctypes.data + target, array.ctypes.data + source, count)
