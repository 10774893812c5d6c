"""Formats are data: what is derived from their few fields, how they are spelled, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import FloatFormat, InputError, SegmentFormat, format_named
from cpms.formats.formats import NAMED, segment_format
from cpms.testing import float_formats, segment_formats

pytestmark = pytest.mark.quick


@given(segment_formats())
def test_segments_share_out_the_64_bits(format):
    reads = range(1, format.segments + 1)
    assert [format.bits(read) for read in reads] == [sum(format.widths[:read]) for read in reads]
    assert [format.bytes_read(read) * 8 for read in reads] == [format.bits(read) for read in reads]
    assert [format.mantissa_kept(read) for read in reads] == [max(0, format.bits(read) - 12) for read in reads]
    assert format.bits() == 64
    assert format.nbytes(7) == 56
    assert format.unit_roundoff() == 0.0
    assert format.exact
    assert all(before % format.unit == 0 for before in [format.bits(read) for read in reads])


@given(segment_formats())
def test_roundoff_is_halved_by_rounding_where_there_is_a_mantissa(format):
    for read in range(1, format.segments):
        m = format.mantissa_kept(read)
        halved = format.rounding == "nearest" and format.bits(read) >= 12
        assert format.unit_roundoff(read) == 2.0**-m / (2 if halved else 1)


@given(float_formats(roundings=("nearest", "zero", "stochastic")))
def test_packed_floats_fill_their_width(format):
    assert format.width in (8, 16, 32)
    assert format.bits() == format.bits(1) == format.width
    assert format.bytes_read() * 8 == format.width
    assert format.nbytes(5) * 8 == 5 * format.width
    assert format.mantissa_kept() == format.mantissa_bits
    assert format.unit_roundoff() == 2.0**-format.mantissa_bits / (2 if format.rounding == "nearest" else 1)
    assert (format.segments, format.exact) == (1, False)


def test_named_formats_are_those_of_the_paper_and_of_ieee():
    assert {known.name for known in NAMED} == {
        *("fp64", "cpms2", "cpms4", "cpms8", "cpms2-planes", "cpms4-planes", "cpms8-planes"),
        *("fp32", "fp16", "bf16", "e4m3", "e5m2"),
    }
    assert (cpms.CPMS2.widths, cpms.CPMS2.block) == ((32, 32), 32)
    assert (cpms.CPMS4.widths, cpms.CPMS4.block) == ((16,) * 4, 64)
    assert (cpms.CPMS8.widths, cpms.CPMS8.block) == ((8,) * 8, 128)
    assert all(known.block is None for known in (cpms.CPMS2_PLANES, cpms.CPMS4_PLANES, cpms.CPMS8_PLANES))
    assert [cpms.CPMS4.mantissa_kept(read) for read in (1, 2, 3)] == [4, 20, 36]
    limits = {known.name: (known.max_finite, known.min_normal, known.bias) for known in NAMED if not known.exact}
    assert limits == {
        "fp32": (3.4028234663852886e38, 1.1754943508222875e-38, 127),
        "fp16": (65504.0, 6.103515625e-05, 15),
        "bf16": (3.3895313892515355e38, 1.1754943508222875e-38, 127),
        "e4m3": (240.0, 2.0**-6, 7),
        "e5m2": (57344.0, 2.0**-14, 15),
    }


@pytest.mark.parametrize("known", NAMED, ids=lambda known: known.name)
def test_every_named_format_is_found_by_its_name(known):
    assert format_named(known.name) == known


@given(segment_formats())
def test_any_widths_can_be_spelled(format):
    spelled = format_named("seg" + "-".join(str(width) for width in format.widths))
    assert spelled.widths == format.widths
    assert spelled.block * spelled.unit == 128 * 8


@given(float_formats(scaled=False))
def test_any_packed_float_can_be_spelled(format):
    spelled = format_named(f"e{format.exponent_bits}m{format.mantissa_bits}")
    assert (spelled.exponent_bits, spelled.mantissa_bits) == (format.exponent_bits, format.mantissa_bits)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("cpms4-nearest", "rounding", "nearest"),
        ("cpms4-nearest-zero", "rounding", "zero"),
        ("cpms2-planes-nearest", "block", None),
        ("seg16-16-32-planes", "block", None),
        ("fp16-zero", "rounding", "zero"),
        ("bf16-stochastic", "rounding", "stochastic"),
        ("fp16-scaled-stochastic", "scaled", True),
        ("e6m9-scaled", "scaled", True),
    ],
)
def test_suffixes_change_one_field(name, field, value):
    assert getattr(format_named(name), field) == value


@pytest.mark.parametrize(
    "name",
    [
        *("cpms4-nearest", "cpms2-planes-nearest", "seg8-8-16-32-planes", "fp16-scaled", "fp16-stochastic-scaled"),
        *("e6m9-zero", "cpms4-planes", "seg64"),
    ],
)
def test_a_format_is_called_what_it_was_asked_for_by(name):
    assert format_named(format_named(name).name) == format_named(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "fp65",
            "CPMS4",
            "cpms3",
            "seg",
            "seg16-16",
            "seg16-16-16-24",
            "seg0-64",
            "seg-64",
            "seg64-",
            "e5",
            "m10",
        ),
        *("e5m9", "e1m6", "e12m19", "e15m0", "e5m-10", "fp16-planes", "cpms4-scaled", "cpms4-stochastic", "fp64-x"),
        *("-nearest", "cpms4 ", "seg99999999999999999999", "e5m10-scaled-planes"),
    ],
)
def test_names_that_mean_nothing_are_refused(name):
    with pytest.raises(InputError):
        format_named(name)


@pytest.mark.parametrize("name", ["bfp16", "bfp21", "bfp32"])
def test_a_block_float_is_refused_with_the_calls_that_take_it(name):
    with pytest.raises(InputError, match=r"cpms\.matrix and cpms\.solve"):
        format_named(name)


@pytest.mark.parametrize("widths", [(), (64, 0), (16, 16), (12, 52), (128,), (-8, 72), (32, 32, 8), (20, 44), (65,)])
def test_widths_must_be_bytes_and_sum_to_64(widths):
    with pytest.raises(InputError, match="64"):
        SegmentFormat("bad", widths, None)


@pytest.mark.parametrize("block", [0, -1])
def test_a_block_holds_at_least_one_value(block):
    with pytest.raises(InputError, match=str(block)):
        SegmentFormat("bad", (32, 32), block)


@pytest.mark.parametrize("rounding", ["stochastic", "up", "", None])
def test_segments_are_cut_or_rounded_to_nearest(rounding):
    with pytest.raises(InputError, match="nearest"):
        SegmentFormat("bad", (32, 32), 32, rounding)


@pytest.mark.parametrize("bits", [(1, 6), (12, 19), (5, 0), (5, 9), (11, 52), (8, -1), (0, 7)])
def test_packed_floats_need_a_width_of_8_16_or_32(bits):
    with pytest.raises(InputError, match="8, 16 or 32"):
        FloatFormat("bad", *bits)


@pytest.mark.parametrize("rounding", ["up", "", None])
def test_packed_floats_round_in_one_of_three_ways(rounding):
    with pytest.raises(InputError, match="stochastic"):
        FloatFormat("bad", 5, 10, rounding)


def test_the_range_of_float64_takes_no_scale():
    with pytest.raises(InputError, match="scale"):
        FloatFormat("bad", 11, 4, scaled=True)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_are_64_bits(seed):
    with pytest.raises(InputError, match="seed"):
        FloatFormat("bad", 5, 10, "stochastic", seed=seed)


@given(st.one_of(segment_formats(), float_formats()), st.one_of(st.integers(max_value=0), st.integers(9)))
def test_segments_that_do_not_exist_cannot_be_read(format, read):
    for ask in (format.bits, format.mantissa_kept, format.unit_roundoff, format.bytes_read, format.checked_read):
        with pytest.raises(InputError, match="cannot be read"):
            ask(read)


@pytest.mark.parametrize("planes", [False, True])
def test_blocks_are_128_bytes_of_the_unit(planes):
    for widths, block in (((8, 8, 16, 32), 128), ((24, 40), 128), ((48, 16), 64), ((32, 32), 32)):
        assert segment_format("mine", *widths, planes=planes).block == (None if planes else block)


def test_fields_are_pythons_own_numbers():
    right = SegmentFormat("m", (16, 16, 32), 64)
    for widths in ([16, 16, 32], np.array([16, 16, 32]), (16.0, 16, np.int8(32)), iter((16, 16, 32))):
        made = SegmentFormat("m", widths, np.int64(64))
        assert made == right
        assert hash(made) == hash(right)
        assert [type(width) for width in made.widths] == [int] * 3
    half = FloatFormat("half", np.int8(5), 10.0, seed=np.uint64(2**63))
    assert half == FloatFormat("half", 5, 10, seed=2**63)
    assert all(type(number) is int for number in (half.exponent_bits, half.mantissa_bits, half.seed))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SegmentFormat("m", 64, None),
        lambda: SegmentFormat("m", "64", None),
        lambda: SegmentFormat("m", (32.5, 31.5), 64),
        lambda: FloatFormat("m", "5", 10),
        lambda: FloatFormat("m", 5, None),
        lambda: FloatFormat("m", 5, 10, seed=1.5),
    ],
)
def test_fields_that_are_no_numbers_are_refused(make):
    with pytest.raises(InputError, match=r"whole number|give a tuple"):
        make()
