"""Laws of formats: those of the package keep them, and each of ten broken formats is caught by the field it spoils."""

# ruff: noqa: ARG002, ARG005
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import cpms
from cpms.check import check_format
from cpms.cli.main import main
from cpms.formats.microscaling import MicroscalingFormat
from cpms.formats.minifloats import E2M1FN, E4M3FN, E4M3FNUZ, MiniFloatFormat
from cpms.formats.posits import PositFormat
from cpms.storage.corner_patterns import corner_arrays

BASE = MiniFloatFormat("base", 5, 10)


class Broken(cpms.Format):
    """A float of 16 bits whose decoded values are altered; a codec on NumPy arrays alone."""

    min_normal, max_finite = BASE.min_normal, BASE.max_finite

    def __init__(self, name, encode=None, decode=None, **claims):
        self.name, self._encode, self._decode = name, encode, decode
        for claim, value in claims.items():
            setattr(type(self), claim, value)

    def bits(self, read=None):
        return 16

    def unit_roundoff(self, read=None):
        return 2.0**-11

    def encode(self, values):
        return BASE.encode(self._encode(values) if self._encode else values)

    def decode(self, codes, read=None):
        values = BASE.decode(codes)
        return self._decode(values) if self._decode else values


def off_by_one_ulp(values):
    ulp = np.spacing(np.abs(values).astype(np.float16)).astype(np.float64)
    return np.where((np.abs(values) > 1.0) & (np.abs(values) < 3e4), values + ulp, values)


def with_small_scale(block):
    """Return microscaling whose scales are too small by one power of two."""

    class Small(MicroscalingFormat):
        def encode(self, values):
            codes = super().encode(values)
            codes[:, 0] = np.maximum(codes[:, 0], 1) - (codes[:, 0] < 255)
            return codes

        def numba_codec(self):
            return None

    return Small("small scale", block)


class DisagreesInNumba(PositFormat):
    def encode(self, values):
        return super().encode(values) ^ (np.abs(values) > 2.0)

    def numba_codec(self):
        return PositFormat("posit16", 16).numba_codec()

    def cuda_codec(self):
        return None


class Halves(cpms.Format):
    """The bits of float32 in two segments of 16, the second of which may be read wrongly."""

    name, levels, max_finite, min_normal = "halves", 2, float(np.finfo(np.float32).max), 2.0**-126

    def __init__(self, spoil):
        self._spoil = spoil

    def bits(self, read=None):
        return (16, 32)[self.checked_read(read) - 1]

    def unit_roundoff(self, read=None):
        return (2.0**-7, 2.0**-24)[self.checked_read(read) - 1]

    def encode(self, values):
        return values.astype(np.float32).view(np.uint32)

    def decode(self, codes, read=None):
        return (codes & 0xFFFF0000 if read == 1 else self._spoil(codes)).view(np.float32).astype(np.float64)


class SignsOfZeroLost(MiniFloatFormat):
    has_negative_zero = True


BROKEN = {
    "off by one ulp": (lambda: Broken("ulp", decode=off_by_one_ulp), "relative_error", "mantissa"),
    "wrong bias": (lambda: Broken("bias", decode=lambda v: 2.0 * v), "relative_error", "exponent"),
    "sign of zero": (lambda: Broken("zero", encode=lambda v: np.where(v == 0.0, 0.0, v)), "specials_are_kept", "sign"),
    "NaN becomes a number": (lambda: Broken("nan", encode=np.nan_to_num), "specials_are_kept", "exponent"),
    "infinity saturates": (
        lambda: Broken("inf", encode=lambda v: np.clip(v, -65504.0, 65504.0)),
        "specials_are_kept",
        "exponent",
    ),
    "sign lost": (lambda: Broken("abs", decode=np.abs), "specials_are_kept", "sign"),
    "cuts where it says it rounds": (
        lambda: Broken("cut", encode=lambda v: np.where(np.isfinite(v), np.ldexp(np.trunc(np.ldexp(
            np.frexp(v)[0], 11)), np.frexp(v)[1] - 11), v)),
        "relative_error",
        "mantissa",
    ),
    "block exponent too small": (lambda: with_small_scale(E2M1FN), "relative_error", "exponent"),
    "codecs disagree": (lambda: DisagreesInNumba("twin", 16), "codecs_agree", "mantissa"),
    "a segment dropped": (lambda: Halves(lambda c: c & 0xFFFF0000), "relative_error", "segment 1"),
    "bytes of a segment swapped": (lambda: Halves(lambda c: c & 0xFFFF0000 | c << 8 & 0xFF00 | c >> 8 & 0xFF),
        "relative_error", "segment 1"),
    "exponent shared by rounding up": (lambda: Broken("up", encode=lambda v: np.where(
        np.abs(np.frexp(v)[0]) > 0.99, np.ldexp(v, 1), v)), "relative_error", "exponent"),
    "claims a sign of zero": (lambda: SignsOfZeroLost("fnuz", 4, 3, "fnuz"), "specials_are_kept", "sign"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BROKEN)
def test_broken_formats_are_caught_by_the_field_they_spoil(name):
    make, law, field = BROKEN[name]
    report = check_format(make(), patterns=20_000)
    failures = {failure.law: failure for failure in report.failures}
    assert law in failures, report.lines()
    assert field in failures[law].wrong, report.lines()


def test_a_counterexample_is_shrunk_and_shown_field_by_field():
    found = check_format(Broken("bias", decode=lambda v: 2.0 * v), patterns=5000, laws=["relative_error"])
    [failure] = found.as_dict()["failures"]
    assert (failure["value"]["number"], failure["got"]["number"], failure["wrong"]) == ("1.0", "2.0", ["exponent"])
    assert failure["stored"] == "0011110000000000"
    text = "\n".join(found.lines())
    assert "value                          1.0  0 01111111111 0000" in text
    assert "wrong: exponent" in text
    with pytest.raises(cpms.InputError, match="unit_roundoff of halves returns None; it must be a number from 0 on"):
        check_format(type("NoBound", (Halves,), {"unit_roundoff": lambda self, read=None: None})(None))


class HighBitsOfFloat32(cpms.Format):
    """A sign, 8 bits of exponent and 11 of mantissa; it rounds twice, and a NaN's payload carries into the sign."""

    name, min_normal, max_finite = "f20", 2.0**-126, float(np.array(0x7F7FF000, np.uint32).view(np.float32))

    def bits(self, read=None):
        return 20

    def unit_roundoff(self, read=None):
        return 2.0**-12

    def encode(self, values):
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FF + (bits >> 12 & 1)) >> 12).astype(np.uint32)

    def decode(self, codes, read=None):
        return (codes << np.uint32(12)).view(np.float32).astype(np.float64)


def test_corner_patterns_find_what_random_ones_miss():
    report = check_format(HighBitsOfFloat32(), patterns=1000)
    failures = {failure.law: failure for failure in report.failures}
    assert set(failures) == {"specials_are_kept", "relative_error"}
    assert failures["specials_are_kept"].value["number"] == "nan"
    assert 0.0 < float(failures["relative_error"].value["number"]) < 2.0**-126
    assert f"1,011 patterns, {report.corners:,} corner patterns" in report.lines()[0]


def test_corner_patterns_are_ties_and_their_neighbours():
    for name, tie in (("fp32", 1 + 2.0**-24), ("fp16-scaled", 1 + 2.0**-11), ("cpms4-nearest", 1 + 2.0**-5)):
        found = np.concatenate(list(corner_arrays(cpms.format_named(name))))
        assert np.isin([tie, -tie, np.nextafter(tie, 2.0), np.nextafter(tie, 0.0)], found).any(), name
    least = cpms.FP16.min_normal * 2.0**-11
    found = np.concatenate(list(corner_arrays(cpms.FP16)))
    assert np.isin([least, np.nextafter(least, 1.0), np.nextafter(least, 0.0), 65520.0], found).all()
    groups = [array.reshape(-1, 32) for array in corner_arrays(cpms.format_named("mxfp4"))]
    assert sum(np.isnan(group).sum() for group in groups[0]) == sum(np.isnan(groups[0]).any(axis=1))


@pytest.mark.parametrize(
    "name",
    [
        *("posit16", "e4m3fn", "tf32", "mxfp4", "gse", "int16", "fp16", "cpms4"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("posit8", "posit32", "e4m3fnuz", "mxfp6-e2m3", "mxint8")
        ),
    ],
)
def test_formats_of_the_package_keep_all_laws(name):
    report = check_format(name, patterns=30_000)
    assert report.holds, report.lines()


def test_an_order_that_is_not_kept_names_both_values():
    class Swapped(cpms.Format):
        name, has_nan, has_infinity, has_negative_zero = "swapped", False, False, False
        min_normal, max_finite = 0.5, 127.0

        def bits(self, read=None):
            return 8

        def unit_roundoff(self, read=None):
            return 1.0

        def encode(self, values):
            return np.clip(np.rint(values), 0, 127).astype(np.uint8)

        def decode(self, codes, read=None):
            whole = codes.astype(float)
            return np.where(codes == 5, 6.0, np.where(codes == 6, 5.0, whole))

    with pytest.raises(cpms.check.LawError) as error:
        cpms.check.order_is_kept(Swapped(), [9.0, 6.25, 5.25, 1.0])
    assert "of two values the less, 5.25, as 6.0, and the larger, 6.25, as 5.0" in str(error.value)
    assert (error.value.value, error.value.got, error.value.expected) == (5.25, 6.0, None)
    (found,) = check_format(Swapped(), patterns=10, laws=["order_is_kept"]).failures
    assert "the less, 5" in found.text
    assert found.expected is None


def test_laws_may_be_named_by_any_iterable():
    found = check_format("bf16", patterns=100, laws=(name for name in ["round_trip", "order_is_kept"]))
    assert found.laws == ["round_trip", "order_is_kept"]
    for wrong in ({"laws": "round_trip"}, {"laws": 3}, {"laws": ["no_law"]}, {"seed": -1}, {"patterns": -1}):
        with pytest.raises(cpms.InputError):
            check_format("bf16", **wrong)


def test_the_command_line_reports_and_refuses(capsys):
    assert main(["check", "e4m3fn", "--patterns", "1000", "--json"]) == 0
    assert '"holds": true' in capsys.readouterr().out
    assert main(["check", "e4m3fn", "--law", "no_law"]) == 2
    assert "law 'no_law' is not known" in capsys.readouterr().err
    assert main(["check", "tests/none.py:F", "--no-plugins"]) == 2
    assert "--no-plugins refuses" in capsys.readouterr().err
    assert (E4M3FN.has_negative_zero, E4M3FNUZ.has_negative_zero) == (True, False)


def test_the_page_of_laws_names_each_with_its_meaning():
    page = (Path(__file__).parents[2] / "docs" / "laws.md").read_text()
    named = re.findall(r"^\| `(\w+)` \| \w", page, re.MULTILINE)
    of_formats = [law.__name__ for law in cpms.check.FORMAT_LAWS]
    of_products = [law.__name__ for law in cpms.check.PRODUCT_LAWS]
    assert named[: len(of_formats)] == of_formats
    no_laws = {"FORMAT_LAWS", "PRODUCT_LAWS", "LawError", "check_format"}
    assert sorted(named[len(of_formats) :]) == sorted({*cpms.check.__all__} - {*of_formats, *of_products} - no_laws)
