"""Stored arrays against the oracle: bytes, reads, writes, rounding and golden files."""

from __future__ import annotations

import math
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import check, convert_inplace, encode, format_named
from cpms.base import threads
from cpms.formats import oracle
from cpms.formats.formats import NAMED, FloatFormat, SegmentFormat
from cpms.storage import array, segment_layout
from cpms.storage.array import shared_exponent
from cpms.testing import NAN_THAT_BECOMES_INF, float_arrays, float_formats, segment_formats

GOLDEN = Path(__file__).parents[1] / "golden"
SEGMENTED = [known for known in NAMED if isinstance(known, SegmentFormat)]
AWKWARD = np.array(
    [
        *(NAN_THAT_BECOMES_INF, 0xFFF0000000000001, 0x7FF0000000010000, 0x7FEFFFFFFFFFFFFF, 1, 1 << 63),
        *(0x3FF0F00000000000, 0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x000FFFFFFFFFFFFF),
        *(0x0010000000000000, 0),
    ],
    dtype=np.uint64,
).view(np.float64)
formats = st.one_of(segment_formats(), float_formats())


def bits(values):
    return np.asarray(values).view(np.uint64).tolist()


# Laws


@pytest.mark.parametrize("law", check.FORMAT_LAWS, ids=lambda law: law.__name__)
@given(format=formats, values=float_arrays())
@example(cpms.CPMS4, AWKWARD)
@example(cpms.CPMS8, AWKWARD)
@example(cpms.FP16, AWKWARD)
def test_laws_hold_for_random_formats(law, format, values):
    law(format, values)


@pytest.mark.parametrize("name", [*(known.name for known in NAMED), "cpms4-nearest", "cpms8-planes-nearest", "e11m4"])
@given(values=float_arrays(max_size=200))
@example(AWKWARD)
@settings(max_examples=30)
def test_laws_hold_for_named_formats(name, values):
    format = format_named(name)
    for law in check.FORMAT_LAWS:
        law(format, values)
    if isinstance(format, SegmentFormat):
        check.inplace_equals_out_of_place(format, values)


@given(segment_formats(), float_arrays(max_size=400), st.sampled_from([1, 2, 7, 16, 64, segment_layout.BUFFER_VALUES]))
@example(SegmentFormat("crosses", (32, 32), 5), np.arange(12.0), 4)
@settings(max_examples=50)
def test_conversion_in_place_gives_the_bytes_of_encode_and_writes_no_other(format, values, buffered):
    with patch.object(segment_layout, "BUFFER_VALUES", buffered):
        check.inplace_equals_out_of_place(format, values)


@pytest.mark.parametrize("name", ["cpms2", "cpms4-planes", "cpms8-planes", "seg16-16-32-planes"])
@pytest.mark.parametrize("length", [segment_layout.BUFFER_VALUES, 3 * segment_layout.BUFFER_VALUES + 777])
def test_conversion_in_place_of_long_arrays(name, length):
    values = np.random.default_rng(1).integers(0, 2**64, length, dtype=np.uint64).view(np.float64)
    check.inplace_equals_out_of_place(format_named(name), values)


def test_blocks_beyond_the_buffer_that_are_no_multiple_of_it():
    values = np.random.default_rng(2).random(2 * 20000 + 17000)
    check.inplace_equals_out_of_place(SegmentFormat("large", (16, 48 - 16, 16), 20000), values)


@given(segment_formats(), float_arrays(max_size=300))
def test_conversion_in_place_is_undone_by_its_inverse_alone(format, values):
    stored = convert_inplace(values.copy(), format)
    assert bits(stored.decode()) == bits(values)
    assert bits(stored.restore_inplace()) == bits(values)


# Twins: the scalar oracle, gfloat (through it: test_reference.py), NumPy


@pytest.mark.quick
@given(segment_formats(), float_arrays(max_size=120))
@example(cpms.CPMS4, AWKWARD)
def test_bytes_are_those_of_the_oracle(format, values):
    assert encode(values, format).memory.tobytes() == oracle.encode(values, format.widths, format.block)


@given(segment_formats(), float_arrays(max_size=120))
@example(cpms.CPMS4, AWKWARD)
def test_reads_are_those_of_the_oracle(format, values):
    stored = encode(values, format)
    for read in range(1, format.segments + 1):
        expected = oracle.decode(stored.memory.tobytes(), format.widths, format.block, read)
        assert bits(stored.decode(read)) == [oracle.bits_of(value) for value in expected]


@given(segment_formats(), float_arrays(min_size=1, max_size=120), st.integers(1, 8), st.randoms())
@example(format_named("cpms4-nearest"), AWKWARD, 1, None)
def test_a_write_of_the_first_segments_leaves_the_others(format, values, written, random):
    written = min(written, format.segments)
    new = values[::-1].copy()
    kept = format.bits(written)
    rounder = oracle.round_to_nearest if format.rounding == "nearest" else oracle.cut
    expected = [
        oracle.join(
            oracle.split(rounder(after, kept), format.widths)[:written] + oracle.split(before, format.widths)[written:],
            format.widths,
        )
        for before, after in zip(bits(values), bits(new), strict=True)
    ]
    stored = encode(values, format)
    stored.write(new, segments=written)
    assert bits(stored.decode()) == expected
    fresh = encode(new, format, segments=written)
    assert bits(fresh.decode()) == [rounder(after, kept) for after in bits(new)]


@given(float_formats(), float_arrays(max_size=60))
@example(cpms.FP16, AWKWARD)
@example(format_named("fp16-scaled"), AWKWARD)
def test_packed_floats_are_those_of_the_oracle(format, values):
    stored = encode(values, format)
    split = format.exponent_bits, format.mantissa_bits
    if format.scaled and stored.exponent == format.bias - 1024:  # Rounded up, the largest doubles would be 2**1024.
        most = (2 - 2.0**-format.mantissa_bits) * 2.0**1023
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(values, stored.exponent)
    expected = [oracle.pack_float(value, *split, format.rounding) for value in scaled.tolist()]
    same = zip(stored.units.tolist(), expected, values.tolist(), strict=True)
    assert all(got == right for got, right, value in same if not math.isnan(value))
    with np.errstate(over="ignore"):
        stored_values = [oracle.unpack_float(one, *split) for one in stored.units.tolist()]
        unpacked = np.ldexp(stored_values, -stored.exponent)
    np.testing.assert_array_equal(stored.decode(), unpacked)
    np.testing.assert_array_equal(np.signbit(stored.decode()), np.signbit(unpacked))


@pytest.mark.parametrize("split", [(4, 3), (5, 2), (2, 5), (6, 1), (5, 10), (8, 7), (11, 4), (2, 13)])
def test_every_stored_pattern_is_read_as_the_oracle_reads_it(split):
    format = FloatFormat("all", *split)
    patterns = np.arange(1 << format.width, dtype=f"uint{format.width}")
    stored = array.SegmentedArray(patterns.view(np.uint8), len(patterns), format)
    expected = np.array([oracle.unpack_float(one, *split) for one in patterns.tolist()])
    np.testing.assert_array_equal(stored.decode(), expected)
    np.testing.assert_array_equal(np.signbit(stored.decode()), np.signbit(expected))


@pytest.mark.parametrize(("name", "dtype"), [("fp16", np.float16), ("fp32", np.float32)])
@given(values=float_arrays())
def test_ieee_formats_are_those_of_numpy(name, dtype, values):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(dtype)
    stored = encode(values, format_named(name))
    number = ~np.isnan(values)
    assert (stored.units[number] == expected.view(stored.units.dtype)[number]).all()
    assert np.isnan(stored.decode()[~number]).all()


@given(values=float_arrays())
def test_bf16_cut_is_the_upper_half_of_float32_cut(values):
    number = values[~np.isnan(values)]
    heads = encode(number, FloatFormat("fp32-zero", 8, 23, "zero")).units >> 16
    assert (encode(number, format_named("bf16-zero")).units == heads).all()


@given(values=float_arrays())
def test_a_16_bit_head_is_a_packed_float_with_the_exponent_of_float64(values):
    number = values[~np.isnan(values)]
    head = encode(number, cpms.CPMS4_PLANES).units[: len(number)]
    assert (encode(number, format_named("e11m4-zero")).units == head).all()


# Scaled and stochastic packed floats


@given(float_formats(scaled=True), float_arrays())
def test_the_shared_scale_brings_the_largest_value_into_the_binade_below_the_top(format, values):
    exponent = shared_exponent(values, format)
    finite = np.abs(values[np.isfinite(values)])
    if finite.max(initial=0.0) > 0:
        largest = Fraction(finite.max()) * Fraction(2) ** exponent
        assert Fraction(2) ** (format.bias - 1) <= largest < Fraction(2) ** format.bias
    else:
        assert exponent == 0


def noise(seed, index):
    """The published splitmix64 generator at a position of its stream."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_stochastic_rounding_goes_up_when_noise_and_the_part_cut_off_make_a_whole(seed):
    format = FloatFormat("noisy", 5, 10, "stochastic", seed=seed)
    values = np.random.default_rng(3).random(300) + 1.0
    for index, (value, got) in enumerate(zip(values, encode(values, format).units.tolist(), strict=True)):
        cut = oracle.pack_float(value, 5, 10, "zero")
        rest = oracle.bits_of(value) % 2**42
        assert got == cut + (rest + noise(seed, index) % 2**42 >= 2**42)


@pytest.mark.parametrize(
    ("name", "value"),
    [("fp16", 1 + 0.3 * 2**-10), ("bf16", -(1 / 3)), ("e4m3", 0.7), ("fp16", 2.7 * 2**-24), ("fp16", 0.05 * 2**-24)],
)
def test_stochastic_rounding_is_unbiased(name, value):
    format = format_named(name + "-stochastic")
    count = 1 << 18
    got = encode(np.full(count, value), format).decode()
    step = np.ptp(got)
    assert len(np.unique(got)) == 2
    # The mean of `count` draws of 0 or 1 deviates by at most 1 / (2 sqrt(count)); five times that.
    assert abs(got.mean() - value) <= 5 * step / (2 * math.sqrt(count))


def test_stochastic_rounding_keeps_what_the_format_can_hold():
    values = np.array([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, 2.0**-24, 65504.0])
    assert bits(encode(values, format_named("fp16-stochastic")).decode()) == bits(values)


def test_stochastic_rounding_depends_on_seed_and_index_alone():
    values = np.random.default_rng(4).random(200)
    one, other = (FloatFormat("noisy", 5, 10, "stochastic", seed=seed) for seed in (1, 2))
    first = encode(values, one).units
    assert (encode(values, one).units == first).all()
    assert (encode(values[:50], one).units == first[:50]).all()
    assert (encode(values, other).units != first).any()
    assert (encode(np.full(200, values[0]), one).units != first[0]).any()


# Threads


@pytest.mark.parametrize("name", ["cpms4", "cpms4-planes", "cpms2-planes", "cpms8", "fp16-stochastic", "fp16-scaled"])
@given(values=float_arrays(min_size=1, max_size=300), count=st.integers(2, 5))
@settings(max_examples=15)
def test_bytes_do_not_depend_on_the_number_of_threads(name, values, count):
    format = format_named(name)

    def everything(threads_used, patched):
        with threads.limited(threads_used), patched:
            stored = encode(values, format)
            in_place = stored
            if format.exact:
                in_place = convert_inplace(values.copy(), format)
            return stored.memory.tobytes(), bits(stored.decode()), in_place.memory.tobytes()

    assert everything(1, nullcontext()) == everything(count, patch.object(segment_layout, "_PART_VALUES", 7))


# Golden bytes: see golden/README.md


def golden(name):
    return (GOLDEN / f"{name}.bin").read_bytes()


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.bin") if path.stem != "values"))
def test_stored_bytes_never_change(name):
    values = np.frombuffer(golden("values"), dtype="<f8")
    format = format_named(name)
    if isinstance(format, FloatFormat) and format.scaled:
        values = values[70:]
    assert encode(values, format).memory.tobytes() == golden(name)


def test_every_named_format_has_golden_bytes():
    assert {known.name for known in NAMED} <= {path.stem for path in GOLDEN.glob("*.bin")}


# What is false, and documented as such


def test_a_nan_whose_payload_is_not_read_becomes_an_infinity():
    value = oracle.value_of(NAN_THAT_BECOMES_INF)
    stored = encode([value, -value], cpms.CPMS4)
    assert np.isnan(stored.decode()).all()
    assert all(np.isinf(stored.decode(read)).all() for read in (1, 2, 3))
    assert np.isinf(encode([value], format_named("cpms4-nearest"), segments=2).decode()).all()


def test_a_subnormal_number_can_lose_everything():
    value = 1.5 * 2.0**-1060
    stored = encode([value], cpms.CPMS4)
    assert stored.decode(1) == 0.0
    assert abs(stored.decode(1)[0] - value) > cpms.CPMS4.unit_roundoff(1) * value


def test_the_largest_numbers_round_to_infinity():
    value = np.finfo(np.float64).max
    assert encode([value], format_named("cpms4-nearest"), segments=1).decode() == math.inf
    assert encode([value], cpms.CPMS4, segments=1).decode() < value


# Bad input


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("known", NAMED, ids=lambda known: known.name)
def test_the_shortest_arrays(known, length):
    values = np.full(length, 0.5)
    stored = encode(values, known)
    assert (len(stored), stored.nbytes, stored.memory.nbytes) == (length, known.nbytes(length), known.nbytes(length))
    assert stored.decode().tolist() == values.tolist()
    if known.exact:
        assert convert_inplace(values.copy(), known).restore_inplace().tolist() == values.tolist()
