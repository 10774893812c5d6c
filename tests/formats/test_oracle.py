"""The scalar oracle against exact arithmetic, against gfloat, and against what the paper draws."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import gfloat
import numpy as np
import pytest
from gfloat.types import Domain
from hypothesis import example, given
from hypothesis import strategies as st

from cpms.formats import oracle
from cpms.testing import NAN_THAT_BECOMES_INF, bit_patterns, float_formats, segment_formats

pytestmark = pytest.mark.quick


def exact(value: float) -> Fraction:
    """Value of a float64, with 2^1024 for the infinity that follows the largest number."""
    return Fraction(2) ** 1024 * int(math.copysign(1, value)) if math.isinf(value) else Fraction(value)


def gfloat_format(exponent_bits: int, mantissa_bits: int) -> gfloat.FormatInfo:
    width = 1 + exponent_bits + mantissa_bits
    return gfloat.FormatInfo(
        "packed",
        width,
        mantissa_bits + 1,
        bias=2 ** (exponent_bits - 1) - 1,
        is_signed=True,
        domain=Domain.Extended,
        has_nz=True,
        num_high_nans=2**mantissa_bits - 1,
        has_subnormals=True,
        is_twos_complement=False,
    )


@given(bit_patterns())
@example(NAN_THAT_BECOMES_INF)
def test_bits_and_values_are_two_names_of_one_thing(bits):
    assert oracle.bits_of(oracle.value_of(bits)) == bits
    assert struct.pack("<d", oracle.value_of(bits)) == bits.to_bytes(8, "little")


@given(bit_patterns(), segment_formats())
def test_segments_joined_are_the_bits_again_and_the_first_ones_a_mask(bits, format):
    segments = oracle.split(bits, format.widths)
    assert all(segment < 1 << width for segment, width in zip(segments, format.widths, strict=True))
    assert oracle.join(segments, format.widths) == bits
    for read in range(1, format.segments + 1):
        low = 64 - format.bits(read)
        assert oracle.join(segments[:read], format.widths) == bits >> low << low == oracle.cut(bits, 64 - low)


@given(bit_patterns(), st.sampled_from([8, 16, 24, 32, 40, 48, 56, 64]))
@example(NAN_THAT_BECOMES_INF, 16)
def test_rounding_goes_to_the_nearer_neighbour_and_ties_to_even(bits, kept):
    rounded = oracle.round_to_nearest(bits, kept)
    value = oracle.value_of(bits)
    if kept < 12 or not math.isfinite(value):
        assert rounded == oracle.cut(bits, kept)
        return
    low = oracle.cut(bits, kept)
    high = low + (1 << (64 - kept))
    below, above = (abs(exact(oracle.value_of(neighbour)) - exact(value)) for neighbour in (low, high))
    even = low if (low >> (64 - kept)) % 2 == 0 else high
    assert rounded == (low if below < above or kept == 64 else high if above < below else even)


@given(segment_formats(max_block=20), st.integers(0, 60))
def test_every_byte_of_an_array_belongs_to_one_segment_of_one_value(format, length):
    taken = []
    for index in range(length):
        for k, width in enumerate(format.widths):
            begin = oracle.byte_offset(index, length, format.widths, format.block, k)
            taken += range(begin, begin + width // 8)
    assert sorted(taken) == list(range(8 * length))


def test_blocks_lie_as_the_paper_draws_them():
    # Two values a block, two segments: heads of the first two values, their tails, then the rest.
    values = [oracle.value_of(0xAAAAAAAA_00000001 + 0x11111111_00000001 * k) for k in range(3)]
    assert oracle.encode(values, (32, 32), 2).hex(" ", 4) == ("aaaaaaaa bbbbbbbb 01000000 02000000 cccccccc 03000000")
    assert oracle.encode(values, (32, 32), None).hex(" ", 4) == (
        "aaaaaaaa bbbbbbbb cccccccc 01000000 02000000 03000000"
    )


@given(st.lists(bit_patterns(), max_size=30), segment_formats(max_block=20))
def test_memory_decodes_to_the_masked_values(bits, format):
    memory = oracle.encode([oracle.value_of(one) for one in bits], format.widths, format.block)
    for read in range(1, format.segments + 1):
        decoded = oracle.decode(memory, format.widths, format.block, read)
        assert [oracle.bits_of(value) for value in decoded] == [oracle.cut(one, format.bits(read)) for one in bits]


@given(bit_patterns(), float_formats(scaled=False))
def test_packed_floats_are_those_of_gfloat(bits, format):
    value = oracle.value_of(bits)
    twin = gfloat_format(format.exponent_bits, format.mantissa_bits)
    mode = gfloat.RoundMode.TiesToEven if format.rounding == "nearest" else gfloat.RoundMode.TowardZero
    rounded = gfloat.round_float(twin, value, mode)
    packed = oracle.pack_float(value, format.exponent_bits, format.mantissa_bits, format.rounding)
    unpacked = oracle.unpack_float(packed, format.exponent_bits, format.mantissa_bits)
    if math.isnan(value):
        assert math.isnan(unpacked)
        assert packed >> (format.width - 1) == bits >> 63
    else:
        assert packed == gfloat.encode_float(twin, rounded)
        assert oracle.bits_of(unpacked) == oracle.bits_of(rounded)


@given(bit_patterns())
def test_a_16_bit_head_is_a_packed_float_with_the_exponent_of_float64(bits):
    value = oracle.value_of(bits)
    if not math.isnan(value):
        assert oracle.pack_float(value, 11, 4, "zero") == oracle.split(bits, (16, 16, 16, 16))[0]
        nearest = oracle.round_to_nearest(bits, 16)
        assert oracle.pack_float(value, 11, 4, "nearest") == nearest >> 48


@pytest.mark.parametrize(("dtype", "exponent_bits", "mantissa_bits"), [(np.float16, 5, 10), (np.float32, 8, 23)])
@given(bits=bit_patterns())
def test_numpy_rounds_to_the_same_bits(dtype, exponent_bits, mantissa_bits, bits):
    value = oracle.value_of(bits)
    if not math.isnan(value):
        with np.errstate(over="ignore"):
            expected = np.float64(value).astype(dtype)
        packed = oracle.pack_float(value, exponent_bits, mantissa_bits, "nearest")
        assert packed == int.from_bytes(expected.tobytes(), "little")


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(4, 3), (5, 2), (2, 5), (6, 1), (5, 10), (8, 7), (11, 4)])
def test_every_stored_pattern_comes_back(exponent_bits, mantissa_bits):
    for packed in range(1 << (1 + exponent_bits + mantissa_bits)):
        value = oracle.unpack_float(packed, exponent_bits, mantissa_bits)
        if not math.isnan(value):
            assert oracle.pack_float(value, exponent_bits, mantissa_bits, "zero") == packed
