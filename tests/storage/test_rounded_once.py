"""What float64 cannot hold is rounded once: long doubles and 64-bit integers, against exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cpms
from cpms import InputError, encode
from cpms.base.real_arrays import rounded_to_odd
from cpms.testing import float_formats, segment_formats

needs_long_double = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is float64 here")
LARGEST = float(np.finfo(np.float64).max)


@st.composite
def mantissas(draw):
    """Return a 64-bit mantissa, mostly one that lies near where a format of fewer bits changes its mind."""
    kept = draw(st.integers(2, 54))
    head = (1 << (kept - 1)) | draw(st.integers(0, (1 << (kept - 1)) - 1))
    left = 64 - kept
    tie = 1 << (left - 1)
    tail = draw(st.sampled_from([0, 1, tie - 1, tie, tie + 1, 2 * tie - 1]) | st.integers(0, 2 * tie - 1))
    return (head << left) + tail


def rounded(exact, exponent_bits, mantissa_bits, rounding):
    """Return a number in a binary format, by its definition."""
    if exact == 0:
        return 0.0
    size, bias = abs(exact), 2 ** (exponent_bits - 1) - 1
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, 1 - bias) - mantissa_bits)
    units, rest = divmod(size, unit)
    if rounding == "nearest" and (rest > unit / 2 or (rest == unit / 2 and units % 2)):
        units += 1
    found = units * unit
    most = (2 - Fraction(1, 2**mantissa_bits)) * Fraction(2) ** bias
    if found > most:
        found = most if rounding == "zero" else math.inf
    return float(found) if exact > 0 else -float(found)


def same(got, expected):
    return np.array(got).tobytes() == np.array(expected, np.float64).tobytes()


@needs_long_double
@given(float_formats(scaled=False), mantissas(), st.integers(-1140, 1030), st.booleans())
def test_packed_floats_round_a_long_double_once(format, mantissa, exponent, negative):
    exact = Fraction(-mantissa if negative else mantissa) * Fraction(2) ** (exponent - 63)
    value = np.ldexp(np.longdouble(mantissa), exponent - 63) * (-1 if negative else 1)
    got = encode(np.array([value]), format).decode()
    expected = rounded(exact, format.exponent_bits, format.mantissa_bits, format.rounding)
    assert same(got, [math.copysign(expected, -1.0 if negative else 1.0)])


@needs_long_double
@given(segment_formats(), mantissas(), st.integers(-1000, 1030), st.data())
def test_segments_round_a_long_double_once(format, mantissa, exponent, data):
    exact = Fraction(mantissa) * Fraction(2) ** (exponent - 63)
    segments = data.draw(st.integers(1, format.segments))
    kept = format.bits(segments)
    if kept < 12:
        return
    whole = kept == 64
    got = encode(np.array([np.ldexp(np.longdouble(mantissa), exponent - 63)]), format, segments=segments)
    assert same(got.decode(segments), [rounded(exact, 11, kept - 12, "nearest" if whole else format.rounding)])


@given(float_formats(scaled=False), mantissas(), st.booleans())
def test_packed_floats_round_an_integer_once(format, number, unsigned):
    number = number if unsigned else number // 2 - 2**62
    given_ = np.array([number], np.uint64 if unsigned else np.int64)
    expected = rounded(Fraction(number), format.exponent_bits, format.mantissa_bits, format.rounding)
    assert same(encode(given_, format).decode(), [expected])


def test_rounding_twice_would_have_been_seen():
    # To float64 first both would be a tie, which goes to the even neighbour below.
    above = np.array([2**60 + 2**49 + 1], np.int64)
    assert encode(above, "fp16").decode().tolist() == [math.inf]
    assert encode(above, "bf16").decode().tolist() == [2.0**60]
    head = np.array([2**60 + 2**52 + 1], np.int64)
    assert encode(head, "bf16").decode().tolist() == [2.0**60 * (1 + 2.0**-7)]
    assert encode(head.astype(np.float64), "bf16").decode().tolist() == [2.0**60]


def test_what_float64_holds_stays_as_it_is():
    for values in ([0.1, -0.0, math.inf, math.nan], np.array([1, 2**53], np.int64), np.ones(3, np.float16)):
        assert same(rounded_to_odd(values, overflows=True), np.asarray(values, np.float64))


@needs_long_double
def test_beyond_float64_is_infinite_or_the_largest_as_the_format_rounds():
    beyond = np.array(["1e4000", "-1e4000", "inf", "nan"], np.longdouble)
    assert same(encode(beyond, "fp64").decode(), [math.inf, -math.inf, math.inf, math.nan])
    assert encode(beyond, "e11m4-nearest").decode().tolist()[:3] == [math.inf, -math.inf, math.inf]
    most = (2 - 2**-4) * 2.0**1023
    assert encode(beyond, "e11m4-zero").decode().tolist()[:3] == [most, -most, math.inf]


# Scaled formats at the ends of float64's range

SCALED = [
    "fp16-scaled",
    "e5m2-scaled",
    "e4m3-scaled",
    "bf16-scaled",
    "fp32-scaled",
    "fp16-zero-scaled",
    "e5m2-stochastic-scaled",
]


@pytest.mark.parametrize("name", SCALED)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([LARGEST, -LARGEST, 5e-324])))
def test_what_is_finite_stays_finite_in_scaled_formats(name, values):
    assert np.isfinite(encode(values, name).decode()).all()


@given(float_formats(scaled=True, roundings=("nearest", "zero", "stochastic")), st.booleans())
def test_the_largest_doubles_are_stored_to_the_formats_precision(format, negative):
    assume(format.scaled)  # Those with the exponent of float64 are not.
    value = -LARGEST if negative else LARGEST
    stored = encode([value, 1.0, math.inf], format)
    got = stored.decode()
    assert abs(got[0] - value) <= 2.0**-format.mantissa_bits * LARGEST
    assert got[2] == math.inf
    stored.write(got)
    assert same(stored.decode(), got)


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("value", [5e-324, 2.0**-1040, 2.0**-1022])
def test_the_smallest_numbers_are_stored_to_the_formats_precision(name, value):
    got = encode([value, 0.0, -value], name).decode()
    assert got[0] == pytest.approx(value, rel=2.0 ** -cpms.format_named(name).mantissa_bits, abs=0.0)
    assert got.tolist() == [got[0], 0.0, -got[0]]


@pytest.mark.parametrize("name", SCALED)
def test_zeros_and_nothing_are_stored_as_they_are(name):
    assert same(encode([0.0, -0.0], name).decode(), [0.0, -0.0])
    assert encode([], name).decode().tolist() == []


# What is no number

NO_NUMBERS = {
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "times": np.array([3], "m8[s]"),
    "text": ["1.5"],
    "bytes": [b"1"],
    "none": None,
    "a none": [1.0, None],
    "objects": np.array([1.0, 2], object),
    "complex": [1 + 0j],
    "records": np.zeros(2, [("a", "f8")]),
    "long integers": [10**5000, 1],
    "a masked value": [1.0, np.ma.masked],
}


@pytest.mark.parametrize("values", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.parametrize("format", ["cpms4", "fp16-scaled"])
def test_what_is_no_number_is_not_encoded(values, format):
    with pytest.raises(InputError, match=r"^values "):
        encode(values, format)
    stored = encode([1.0], format)
    with pytest.raises(InputError, match=r"^values "):
        stored.write(values)
