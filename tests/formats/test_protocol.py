"""Formats of the protocol: those of the package against independent oracles, and one's own, used and refused."""

# ruff: noqa: ARG002, ARG005, RUF043
from __future__ import annotations

import textwrap
from fractions import Fraction

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat.formats import (
    format_info_mxfp4_e2m1,
    format_info_mxfp6_e2m3,
    format_info_mxfp6_e3m2,
    format_info_mxfp8_e4m3,
    format_info_mxfp8_e5m2,
)

import cpms
from cpms import InputError, UnsupportedError, format_named
from cpms.base import plugins
from cpms.formats import minifloats as mini
from cpms.formats.fixed_point import FixedPointFormat
from cpms.precision.controller_specs import controller_of

OF_ML_DTYPES = {
    mini.E4M3FN: ml_dtypes.float8_e4m3fn,
    mini.E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    mini.E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    mini.E4M3B11FNUZ: ml_dtypes.float8_e4m3b11fnuz,
    mini.E3M4: ml_dtypes.float8_e3m4,
    mini.E2M3FN: ml_dtypes.float6_e2m3fn,
    mini.E3M2FN: ml_dtypes.float6_e3m2fn,
    mini.E2M1FN: ml_dtypes.float4_e2m1fn,
}


def numbers(count=20_000):
    rng = np.random.default_rng(0)
    wild = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    near = rng.standard_normal(count) * np.exp(rng.uniform(-30, 30, count))
    return np.concatenate([wild, near, [0.0, -0.0, np.inf, -np.inf, np.nan]])


@pytest.mark.parametrize("format", OF_ML_DTYPES, ids=lambda format: format.name)
def test_minifloats_have_the_bits_of_ml_dtypes(format):
    dtype, values = OF_ML_DTYPES[format], numbers()
    values = values if format.has_nan else values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        right = values.astype(dtype)
    stored = cpms.encode(values, dtype)
    assert stored.format.name == format.name
    same = stored.units == right.view(np.uint8)
    assert (same | (np.isnan(values) | np.isnan(right.astype(np.float64)) & np.isnan(stored.decode()))).all()
    codes = np.arange(2 ** format.bits(), dtype=np.uint8)
    np.testing.assert_array_equal(format.decode(codes), codes.view(dtype).astype(np.float64))


@pytest.mark.parametrize(
    ("name", "info"),
    [
        ("mxfp8-e5m2", format_info_mxfp8_e5m2),
        ("mxfp8-e4m3", format_info_mxfp8_e4m3),
        ("mxfp6-e3m2", format_info_mxfp6_e3m2),
        ("mxfp6-e2m3", format_info_mxfp6_e2m3),
        ("mxfp4", format_info_mxfp4_e2m1),
    ],
)
def test_microscaling_is_that_of_gfloat(name, info):
    values = np.random.default_rng(1).standard_normal((20, 32)) * np.exp2(np.arange(-10, 10))[:, None]
    right = [gfloat.quantize_block(info, row, gfloat.compute_scale_amax) for row in values]
    np.testing.assert_array_equal(cpms.encode(values.ravel(), name).decode(), np.concatenate(right))


def posit_value(code, n):
    """Return the value of a posit by its definition, bit by bit, as a fraction."""
    if code in (0, 1 << (n - 1)):
        return Fraction(0) if code == 0 else None
    sign = code >> (n - 1)
    bits = f"{(1 << n) - code if sign else code:0{n}b}"[1:]
    run = len(bits) - len(bits.lstrip(bits[0]))
    k = run - 1 if bits[0] == "1" else -run
    rest = bits[run + 1 :]
    exponent = int((rest[:2] + "00")[:2], 2)
    fraction = Fraction(int(rest[2:] or "0", 2), 2 ** len(rest[2:]))
    value = Fraction(2) ** (4 * k + exponent) * (1 + fraction)
    return -value if sign else value


@pytest.mark.parametrize("n", [8, 16])
def test_all_posits_are_read_by_definition_and_written_to_the_nearest(n):
    format = format_named(f"posit{n}")
    codes = np.arange(2**n).astype(f"uint{n}")
    got = format.decode(codes)
    right = [posit_value(code, n) for code in codes.tolist()]
    assert all(
        (v is None and np.isnan(g)) or Fraction(g) == v
        for g, v in zip(got.tolist(), right, strict=True)
        if v is not None
    )
    assert cpms.encode(got, format).units.tolist() == codes.tolist()
    # Between two neighbours the bound of rounding is the posit of one bit more (Posit Standard, section 4.1).
    wider = [posit_value(2 * code + 1, n + 1) for code in range(1, 2 ** (n - 1) - 1)]
    for step, up in ((-1e-15, 0), (0.0, None), (1e-15, 1)):
        values = np.array([float(v) for v in wider]) * (1.0 + step)
        expected = [code + (code % 2 if up is None else up) for code in range(1, 2 ** (n - 1) - 1)]
        assert cpms.encode(values, format).units.tolist() == expected


def test_names_of_data_types_are_those_of_formats():
    assert cpms.encode([0.1], np.float16).format == cpms.FP16
    assert cpms.encode([0.1], "bfloat16").format == cpms.BF16
    assert isinstance(cpms.FP16, cpms.Format)
    assert isinstance(format_named("gse"), cpms.Format)
    with pytest.raises(InputError, match="data type complex128; it can be one of float64"):
        cpms.encode([0.1], np.complex128)


def test_quantize_is_encode_and_decode():
    values = numbers(3000).reshape(-1, 5)
    names = "fp16 fp16-scaled fp16-zero fp16-zero-scaled bf16-zero e11m20 e11m20-zero e2m5 fp32 cpms4-nearest e4m3fn "
    for name in (names + "posit16 tf32 bf16-stochastic mxfp4").split():
        given = np.nan_to_num(values, nan=1.0) if "scaled" in name else values
        with np.errstate(all="ignore"):
            several = given, given * 1e-30, given.astype(np.float32)
        for x in several:
            expected = cpms.encode(x.ravel(), name).decode().reshape(x.shape).astype(x.dtype)
            assert cpms.quantize(x, name).tobytes() == expected.tobytes(), name
    fixed = FixedPointFormat("q", 16, 9)
    given = np.concatenate([np.arange(-70000, 70000) / 1024, [np.inf, -np.inf, 1e300, -0.0]])
    np.testing.assert_array_equal(cpms.quantize(given, fixed), cpms.encode(given, fixed).decode())
    np.testing.assert_array_equal(cpms.encode(given, fixed).units, fixed.encode(given))
    with pytest.raises(InputError, match="int8 has no NaN"):
        cpms.quantize([np.nan], "int8")
    assert cpms.quantize(np.float32([[0.1]]), "fp16").dtype == np.float32
    assert cpms.quantize([1.0 + 2.0**-12], "fp16", rounding="zero").tolist() == [1.0]
    with pytest.raises(UnsupportedError, match="posit16 does not round 'zero'"):
        cpms.quantize([1.0], "posit16", rounding="zero")


@pytest.mark.parametrize(
    ("name", "values", "saturated", "infinite", "counts"),
    [
        ("fp16", [65505.0, 65520.0, -1e9, 1e-9], [65504.0, 65504.0, -65504.0, 0.0], [65504.0, np.inf, -np.inf, 0.0], 2),
        ("fp16-zero", [65505.0, 2.0], [65504.0, 2.0], [np.inf, 2.0], 1),
        ("e4m3fn", [448.0, 465.0, 2.0], [448.0, 448.0, 2.0], [448.0, np.nan, 2.0], 1),
        ("posit8", [2.0**24, -(2.0**30)], [2.0**24, -(2.0**24)], [2.0**24, np.nan], 1),
        ("int8", [-128.4, -129.0, 200.0], [-128.0, -128.0, 127.0], None, 2),
        ("mxfp8-e4m3", [1e300, 2.0], [448.0 * 2.0**127, 0.0], [np.nan, np.nan], 1),
        ("gse", [1e300, -1e-300], [1e300, -1e-300], [1e300, -1e-300], 0),
        ("cpms4-nearest", [1e308, 2.0], [1e308, 2.0], [1e308, 2.0], 0),
    ],
)
def test_overflow_saturates_or_is_infinite_or_refused(name, values, saturated, infinite, counts):
    stored = cpms.encode(values, name, overflow="saturate")
    np.testing.assert_array_equal(stored.decode(), saturated)
    assert stored.counts.overflow == counts
    assert stored.counts.underflow == sum(a != 0.0 and b == 0.0 for a, b in zip(values, saturated, strict=True))
    if infinite is None:
        with pytest.raises(InputError, match="no infinity and no NaN"):
            cpms.encode(values, name, overflow="inf")
    else:
        np.testing.assert_array_equal(cpms.encode(values, name, overflow="inf").decode(), infinite)
    if counts:
        with pytest.raises(InputError, match=f"is beyond {name}, which ends at"):
            cpms.encode(values, name, overflow="raise")
    else:
        assert cpms.encode(values, name, overflow="raise").equals(cpms.encode(values, name))
    assert cpms.encode(values, name).counts is None


def test_what_does_not_fit_is_counted_or_refused():
    values = [1e9, -1e-9, np.nan, 2.0]
    assert tuple(cpms.encode_counted(values, "fp16", overflow="inf")[1]) == (1, 1, 1)
    few = cpms.encode(np.array([[1.79e308], [1.0]]), "cpms4-nearest", segments=1, overflow="saturate")
    assert (few.counts.overflow, few.shape, np.isfinite(few.decode(1)).all()) == (1, (2, 1), True)
    with pytest.raises(InputError, match="overflow 'wrap' is not known; it can be one of raise, saturate, inf"):
        cpms.encode(values, "fp16", overflow="wrap")
    assert cpms.encode_counted(values, "e4m3fn", overflow="saturate")[0].decode()[0] == 448.0
    with pytest.raises(InputError, match="value 0, 1000000000.0, is beyond fp16, which ends at 65504.0"):
        cpms.encode_counted(values, "fp16", overflow="raise")


class Bytes(cpms.Format):
    name = "bytes"

    def bits(self, read=None):
        return 8

    def unit_roundoff(self, read=None):
        return 0.5

    def encode(self, values):
        return np.zeros(len(values), np.uint8)

    def decode(self, codes, read=None):
        return np.zeros(len(codes) - 1)


def test_codecs_that_return_other_shapes_are_refused_by_name():
    with pytest.raises(InputError, match=r"decode of bytes returns float64 of shape \(2,\); it must return float64 of"):
        cpms.encode([1.0, 2.0, 3.0], Bytes()).decode()
    with pytest.raises(InputError, match="storage is the class Bytes; give an instance of it"):
        cpms.encode([1.0], Bytes)


def test_overrides_that_would_be_ignored_are_refused():
    with pytest.raises(InputError, match="class Mine overrides bits of FloatFormat, whose compiled codec would ignore"):
        type("Mine", (cpms.FloatFormat,), {"bits": lambda self: 4})
    with pytest.raises(InputError, match="without bits, unit_roundoff, encode, decode"):
        type("Mine", (cpms.Format,), {})
    with pytest.raises(InputError, match="overrides encode, but engines would use numba_codec of PositFormat"):
        type("Mine", (type(format_named("posit8")),), {"encode": lambda self, values: values})


def test_engines_without_code_for_a_format_say_so():
    graph = cpms.generate("uniform:nodes=20,edges=60,seed=1")
    with pytest.raises(UnsupportedError, match="engine cpu needs the codec of bytes in Numba"):
        cpms.pagerank(graph, method="power", storage=Bytes(), engine="cpu")
    with pytest.raises(UnsupportedError, match="engine scipy stores fp64, not posit16|no code for posit16"):
        cpms.pagerank(graph, method="power", storage="posit16", engine="scipy")


def test_plug_ins_are_loaded_and_faults_name_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "from cpms import Fixed\nimport cpms\nmine = cpms.format_named('posit8')\nlate = Fixed()\n"
    )
    (tmp_path / "bad.py").write_text("import nothing_of_this_name\n")
    assert format_named("own.py:mine").name == "posit8"
    assert controller_of("own.py:late") == cpms.Fixed()
    assert {"own.py:mine", "own.py:late"} <= {one["name"] for one in plugins.used()}
    for name, text in {
        "own.py:late": "plug-in own.py:late of cpms.formats is Fixed; it must be a Format",
        "own.py:none": "there is no attribute 'none'",
        "bad.py:mine": "cannot be imported .ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "gone.py:mine": "there is no file",
    }.items():
        with pytest.raises(InputError, match=text):
            format_named(name)
    with plugins.allowed(False), pytest.raises(InputError, match="--no-plugins refuses"):
        format_named("own.py:mine")


def test_a_wheel_declares_plug_ins_by_entry_points(tmp_path, monkeypatch):
    """The files that installing a wheel of two modules writes."""
    (tmp_path / "wheel_of_mine.py").write_text("import cpms\nFORMAT = cpms.format_named('e4m3fn')\nNUMBER = 3\n")
    info = tmp_path / "wheel_of_mine-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wheel-of-mine\nVersion: 1.5\n")
    points = "[cpms.formats]\nof-a-wheel = wheel_of_mine:FORMAT\nno-format = wheel_of_mine:NUMBER\n"
    (info / "entry_points.txt").write_text(textwrap.dedent(points))
    monkeypatch.syspath_prepend(tmp_path)
    plugins.declared.cache_clear()
    try:
        assert format_named("of-a-wheel").name == "e4m3fn"
        assert next(one for one in plugins.used() if one["name"] == "of-a-wheel")["version"] == "1.5"
        with pytest.raises(InputError, match="plug-in no-format of cpms.formats is int; it must be a Format"):
            format_named("no-format")
    finally:
        plugins.declared.cache_clear()
