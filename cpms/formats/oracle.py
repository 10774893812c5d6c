"""Scalar reference implementation of all formats in Python integers and fractions.

It follows section IV.A of the CPMS paper and IEEE 754 literally, is never optimised, and shares no code with the fast
implementations: tests compare each of them with it. It costs microseconds a value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction


def bits_of(value: float) -> int:
    """Return the 64 bits of a float64 as an integer.

    Examples
    --------
    >>> hex(bits_of(1.0))
    '0x3ff0000000000000'
    """
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(bits)


def value_of(bits: int) -> float:
    """Return the float64 that has these 64 bits.

    Examples
    --------
    >>> value_of(0x3FF8000000000000)
    1.5
    """
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)


def split(bits: int, widths: Sequence[int]) -> list[int]:
    """Cut 64 bits into segments, most significant first.

    Examples
    --------
    >>> [hex(segment) for segment in split(0x0123456789ABCDEF, (16, 16, 32))]
    ['0x123', '0x4567', '0x89abcdef']
    """
    segments = []
    shift = 64
    for width in widths:
        shift -= width
        segments.append((bits >> shift) % (1 << width))
    return segments


def join(segments: Sequence[int], widths: Sequence[int]) -> int:
    """Concatenate the first ``len(segments)`` segments; the others are zero.

    Examples
    --------
    >>> hex(join([0x0123, 0x4567], (16, 16, 32)))
    '0x123456700000000'
    """
    bits = 0
    shift = 64
    for segment, width in zip(segments, widths, strict=False):
        shift -= width
        bits += segment << shift
    return bits


def cut(bits: int, leading: int) -> int:
    """Clear all but the ``leading`` first bits."""
    return bits // (1 << (64 - leading)) * (1 << (64 - leading))


def round_to_nearest(bits: int, leading: int) -> int:
    """Round a finite float64 to ``leading`` bits, ties to even; cut numbers that are not finite.

    Examples
    --------
    >>> value_of(round_to_nearest(bits_of(1.0 + 3 / 32), 16))
    1.125
    """
    if leading < 12 or not math.isfinite(value_of(bits)):
        return cut(bits, leading)
    step = 1 << (64 - leading)
    low = cut(bits, leading)
    above = Fraction(bits - low, step)
    odd = low // step % 2 == 1
    return low + step if above > Fraction(1, 2) or (above == Fraction(1, 2) and odd) else low


def byte_offset(index: int, length: int, widths: Sequence[int], block: int | None, segment: int) -> int:
    """Return where segment ``segment`` of value ``index`` begins in an array of ``length`` values.

    Examples
    --------
    >>> byte_offset(1, 3, (32, 32), 2, 1)
    12
    >>> byte_offset(2, 3, (32, 32), 2, 1)
    20
    """
    size = length if block is None else block
    first = index // size * size
    in_block = min(size, length - first)
    bits_before = sum(widths[:segment]) * in_block
    return first * 8 + bits_before // 8 + (index - first) * widths[segment] // 8


def encode(values: Sequence[float], widths: Sequence[int], block: int | None) -> bytes:
    """Lay out an array of float64 in segments, one byte at a time.

    Examples
    --------
    >>> encode([1.0, 2.0], (32, 32), 2).hex()
    '0000f03f000000400000000000000000'
    """
    memory = bytearray(8 * len(values))
    for index, value in enumerate(values):
        for k, segment in enumerate(split(bits_of(value), widths)):
            at = byte_offset(index, len(values), widths, block, k)
            memory[at : at + widths[k] // 8] = segment.to_bytes(widths[k] // 8, "little")
    return bytes(memory)


def decode(memory: bytes, widths: Sequence[int], block: int | None, read: int) -> list[float]:
    """Read the first ``read`` segments of every value."""
    length = len(memory) // 8
    values = []
    for index in range(length):
        segments = []
        for k in range(read):
            at = byte_offset(index, length, widths, block, k)
            segments.append(int.from_bytes(memory[at : at + widths[k] // 8], "little"))
        values.append(value_of(join(segments, widths)))
    return values


def pack_float(value: float, exponent_bits: int, mantissa_bits: int, rounding: str) -> int:
    """Return the bits of ``value`` in a packed float, rounded to 'nearest' (ties to even) or 'zero'.

    Examples
    --------
    >>> hex(pack_float(1.0, 5, 10, "nearest")), hex(pack_float(1e9, 5, 10, "zero"))
    ('0x3c00', '0x7bff')
    """
    bias = (1 << (exponent_bits - 1)) - 1
    top = ((1 << exponent_bits) - 1) << mantissa_bits
    sign = (bits_of(value) >> 63) << (exponent_bits + mantissa_bits)
    if math.isnan(value):
        return sign | top | 1 << (mantissa_bits - 1)
    if math.isinf(value):
        return sign | top
    size = abs(Fraction(value))
    exponent = max(_binade(size), 1 - bias)
    steps = size / Fraction(2) ** (exponent - mantissa_bits)
    count = math.floor(steps)
    rest = steps - count
    if rounding == "nearest" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and count % 2 == 1)):
        count += 1
    # A count of 2^mantissa_bits or more carries into the exponent field by plain addition.
    magnitude = ((exponent + bias - 1) << mantissa_bits) + count
    if magnitude >= top:
        return sign | (top if rounding == "nearest" else top - 1)
    return sign | magnitude


def unpack_float(bits: int, exponent_bits: int, mantissa_bits: int) -> float:
    """Return the value of a packed float's bits.

    Examples
    --------
    >>> unpack_float(0x3C00, 5, 10), unpack_float(1, 5, 10) == 2.0**-24
    (1.0, True)
    """
    bias = (1 << (exponent_bits - 1)) - 1
    negative = bits >> (exponent_bits + mantissa_bits)
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = bits % (1 << mantissa_bits)
    if exponent == (1 << exponent_bits) - 1:
        size = math.nan if mantissa else math.inf
    elif exponent == 0:
        size = math.ldexp(mantissa, 1 - bias - mantissa_bits)
    else:
        size = math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)
    return -size if negative else size


def _binade(size: Fraction) -> int:
    """Return floor(log2(size)); far below every format for 0."""
    if size == 0:
        return -(10**6)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= size else exponent - 1


def encode_block_floats(values: Sequence[float], width: int) -> bytes:
    """Lay out finite values in block floating point: 32 values share an exponent, of at least -900.

    Examples
    --------
    >>> encode_block_floats([1.0, -0.5], 16)[:8].hex()
    '01000000004000a0'
    """
    blocks = [[Fraction(value) for value in values[i : i + 32]] for i in range(0, len(values), 32)]
    exponents, words = bytearray(), bytearray()
    for begin, block in enumerate(blocks):
        exponent = max(-900, *(_binade(abs(value)) + 1 for value in block))
        exponents += exponent.to_bytes(2, "little", signed=True)
        bits = 0
        for lane, value in enumerate(block):
            size = abs(value) * Fraction(2) ** (width - 1 - exponent)
            count = min(round(size), 2 ** (width - 1) - 1)
            sign = bits_of(values[32 * begin + lane]) >> 63
            bits |= (sign << (width - 1) | count) << (lane * width)
        words += bits.to_bytes(4 * width, "little")
    return bytes(exponents + bytes(-len(exponents) % 4) + words)
