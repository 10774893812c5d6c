"""Published formats against oracles that share no code with them, on all 8- and 16-bit patterns and random float64.

Formats whose numbers stand for themselves are held to a table of all their numbers, by definition, and of the exact
boundaries between neighbours; OCP's blocks to the data types of ml_dtypes; shared exponents to Python's integers.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import cpms
from cpms import format_named
from cpms.formats.fixed_point import FixedPointFormat

SIXTEEN_BITS = np.arange(2**16, dtype=np.uint16)
Q7_8 = FixedPointFormat("q7.8", 16, 8)


def posit_value(code, n):
    """Return the value of a positive posit by its definition, bit by bit."""
    bits = f"{code:0{n}b}"[1:]
    run = len(bits) - len(bits.lstrip(bits[0]))
    k, rest = (run - 1 if bits[0] == "1" else -run), bits[run + 1 :]
    fraction = Fraction(int(rest[2:] or "0", 2), 2 ** len(rest[2:]))
    return float(Fraction(2) ** (4 * k + int((rest[:2] + "00")[:2], 2)) * (1 + fraction))


def float_value(code, m, bias):
    exponent, mantissa = divmod(code, 2**m)
    return math.ldexp(mantissa + 2**m * (exponent > 0), max(exponent, 1) - bias - m)


def posit_table(n):
    numbers = [0.0, *(posit_value(code, n) for code in range(1, 2 ** (n - 1)))]
    # Posits round on their bits: the boundary is the posit of one bit more, and nothing becomes 0 or ends at NaR.
    between = [posit_value(2 * code + 1, n + 1) for code in range(1, 2 ** (n - 1) - 1)]
    return numbers, [5e-324, *between]


def float_table(m, bias, top):
    """Return the numbers of codes 0 to ``top``, and boundaries half way to the next, that after the top included."""
    numbers = [float_value(code, m, bias) for code in range(top + 2)]
    return numbers[:-1], [(a + b) / 2 for a, b in itertools.pairwise(numbers)]


def fixed_table(width, fraction):
    numbers = [k / 2**fraction for k in range(2 ** (width - 1))]
    return numbers, [number + 0.5 / 2**fraction for number in numbers[:-1]]


TABLES = {
    "e4m3fn": lambda: float_table(3, 7, 126),
    "tf32": lambda: float_table(10, 127, 255 * 1024 - 1),
    "posit8": lambda: posit_table(8),
    "posit16": lambda: posit_table(16),
    "int8": lambda: fixed_table(8, 0),
    "q7.8": lambda: fixed_table(16, 8),
}


def by_table(name, table, values):
    """Return codes of sizes, by searching the boundaries: at one of them the even code, of posits never that of 0."""
    numbers, between = (np.array(part) for part in table)
    sizes = np.abs(values)
    below = np.searchsorted(between, sizes, "left")
    tie = between[np.minimum(below, len(between) - 1)] == sizes
    code = np.where(tie, below + below % 2, below)
    return numbers, np.maximum(code, sizes > 0.0) if "posit" in name else code


def expected_codes(name, table, values):
    """Return the codes of values with their signs, infinities and NaN, by the definition of each format."""
    numbers, code = by_table(name, table, values)
    negative = np.signbit(values)
    if name == "e4m3fn":
        code = np.where(np.isnan(values) | (code >= len(numbers)), 127, code) | negative * 128
        return np.where(np.isnan(values), -1, code)
    if name == "tf32":
        code = np.where(code >= len(numbers), len(numbers), code) | negative * 2**18
        return np.where(np.isnan(values), -1, code << 13)
    if "posit" in name:
        width = int(name[5:])
        signed = np.where(negative, -code, code) % 2**width
        return np.where(np.isfinite(values), signed, 2 ** (width - 1))
    width, step = {"int8": (8, 1.0), "q7.8": (16, 2.0**-8)}[name]
    # Two's complement has a negative number more, which takes all that lies half a step beyond the others.
    lowest = values <= -(numbers[-1] + step / 2)
    return np.where(lowest, 2 ** (width - 1), np.where(negative, -code, code) % 2**width)


def random_values(rng, count):
    wild = rng.integers(0, 2**64, count // 2, dtype=np.uint64).view(np.float64)
    return np.concatenate([wild, rng.standard_normal(count - count // 2) * np.exp2(rng.integers(-20, 20, count // 2))])


def sixteen_bit_numbers():
    """Return all numbers of float16 and bfloat16."""
    with np.errstate(invalid="ignore"):  # Signalling NaN.
        return np.concatenate([SIXTEEN_BITS.view(kind).astype(np.float64) for kind in (np.float16, ml_dtypes.bfloat16)])


def chunks(count):
    """Yield values: all numbers of 16 bits, then random ones."""
    yield sixteen_bit_numbers()
    rng = np.random.default_rng(5)
    for begin in range(0, count, 1 << 20):
        yield random_values(rng, min(1 << 20, count - begin))


def odd_float32(values):
    """Return float32 rounded to odd, from which ml_dtypes rounds once more as from the values themselves.

    From float64 it rounds to float32 to the nearest first.
    """
    near = values.astype(np.float32)
    below = np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near).astype(np.float32)
    return (below.view(np.uint32) | (below != values)).astype(np.uint32).view(np.float32)


def rounded_elements(values, element):
    """Return values rounded to an element of OCP's blocks; its integers count 64ths, and leave out the lowest."""
    if element is np.int8:
        return np.clip(np.rint(64 * values), -127, 127) / 64
    most = float(ml_dtypes.finfo(element).max)
    return odd_float32(np.clip(values, -most, most)).astype(element).astype(float)


def posit_values(code, n):
    """Return what `posit_value` does, of an array."""
    first, run, going = code >> (n - 2) & 1, np.zeros_like(code), np.ones(code.shape, bool)
    for place in range(n - 2, -1, -1):
        going &= (code >> place & 1) == first
        run += going
    left = np.maximum(n - 2 - run, 0)
    rest = (code & (1 << left) - 1) << 2  # As many zeros follow as an exponent lacks.
    exponent, fraction = rest >> left, rest & (1 << left) - 1
    k = np.where(first == 1, run - 1, -run)
    return np.ldexp(1 + np.ldexp(fraction.astype(float), -left), 4 * k + exponent)


MANY = pytest.mark.parametrize("count", [20_000, pytest.param(10**7, marks=pytest.mark.slow)])


@MANY
@pytest.mark.parametrize("name", TABLES)
def test_numbers_for_themselves_are_those_of_a_table(name, count):
    storage = Q7_8 if name == "q7.8" else format_named(name)
    table = TABLES[name]()
    for values in chunks(count):
        values = values if storage.has_nan else values[~np.isnan(values)]
        codes = cpms.encode(values, storage).units.astype(np.int64)
        right = expected_codes(name, table, values)
        same = np.where(right < 0, np.isnan(storage.decode(codes.astype(storage.code_type))), codes == right)
        assert same.all(), values[~same][:5]
    numbers = np.array(table[0])
    low = np.arange(len(numbers)) << (13 if name == "tf32" else 0)
    np.testing.assert_array_equal(storage.decode(low.astype(storage.code_type)), numbers)


@MANY
def test_posits_of_32_bits_lie_between_their_boundaries(count):
    """Too many for a table: the boundaries of a code are the posits of 33 bits beside it, as in `posit_table`."""
    some = np.random.default_rng(2).integers(1, 2**32, 300)
    np.testing.assert_array_equal(posit_values(some, 33), [posit_value(code, 33) for code in some.tolist()])
    storage, top = format_named("posit32"), 2**31 - 1
    for values in chunks(count):
        codes = cpms.encode(values, storage).units
        signed, size = codes.view(np.int32).astype(np.int64), np.abs(values)
        assert (signed[~np.isfinite(values)] == -top - 1).all()
        assert (signed[size == 0.0] == 0).all()
        held = np.isfinite(values) & (size > 0.0)
        code, size = np.abs(signed[held]), size[held]
        assert ((signed[held] < 0) == (values[held] < 0)).all()
        assert ((code >= 1) & (code <= top)).all()
        low = np.where(code == 1, 0.0, posit_values(2 * code - 1, 33))
        high = np.where(code == top, np.inf, posit_values(2 * code + 1, 33))
        even = code % 2 == 0
        same = np.where(even, (low <= size) & (size <= high), (low < size) & (size < high))
        assert same.all(), values[held][~same][:5]
        np.testing.assert_array_equal(np.abs(storage.decode(codes)[held]), posit_values(code, 32))


@MANY
@pytest.mark.parametrize(
    ("name", "element", "top"),
    [
        ("mxfp8-e4m3", ml_dtypes.float8_e4m3fn, 8),
        ("mxfp8-e5m2", ml_dtypes.float8_e5m2, 15),
        ("mxfp6-e2m3", ml_dtypes.float6_e2m3fn, 2),
        ("mxfp4", ml_dtypes.float4_e2m1fn, 2),
        ("mxint8", np.int8, 0),
    ],
)
def test_blocks_are_scales_and_elements_of_ml_dtypes(name, element, top, count):
    for values in chunks(count):
        blocks = values[: len(values) // 32 * 32].reshape(-1, 32)
        with np.errstate(all="ignore"):
            largest = np.abs(blocks).max(axis=1, keepdims=True)
            scale = np.clip(np.frexp(largest)[1] - 1 - top, -127, 127)
            right = np.ldexp(rounded_elements(np.ldexp(blocks, -scale), element), scale)
        right = np.where(np.isfinite(largest), np.where(largest > 0, right, blocks), np.nan)
        np.testing.assert_array_equal(cpms.encode(blocks.ravel(), name).decode().reshape(blocks.shape), right)
    codes = np.arange(2 ** format_named(name).bits(), dtype=np.uint8)
    unit = 1 / 64 if element is np.int8 else 1.0
    np.testing.assert_array_equal(format_named(name).element.decode(codes), codes.view(element).astype(float) * unit)


def shared_exponents(group):
    """Return what a group of 1024 numbers is stored as, and reads as in one segment, in Python's integers."""
    parts = [math.frexp(value) for value in group]
    exponents = [max(e, -1021) for _, e in parts]
    counted = Counter(e for e, value in zip(exponents, group, strict=True) if value) or Counter({-1021: 1})
    largest = max(counted)
    frequent = sorted((e for e in counted if e != largest), key=lambda e: (-counted[e], -e))[:7]
    table = sorted([*frequent, largest])
    whole, first = [], []
    for value, (fraction, exponent) in zip(group, parts, strict=True):
        shared = table[0] if value == 0.0 else next(e for e in table if e >= max(exponent, -1021))
        size = int(abs(fraction) * 2**53)
        shift = 7 + exponent - shared
        digits = size << shift if shift >= 0 else size >> -shift
        for kept, out in ((digits, whole), (digits >> 48 << 48, first)):
            out.append(math.copysign(math.ldexp(float(kept), shared - 60), value))
    return whole, first


@MANY
def test_shared_exponents_are_those_of_integers(count):
    for values in chunks(min(count, 2048) if count < 10**7 else count):
        finite = values[np.isfinite(values)]
        groups = finite[: len(finite) // 1024 * 1024].reshape(-1, 1024)[:: 4 if count == 10**7 else 16]
        stored = cpms.encode(groups.ravel(), "gse")
        right = [shared_exponents(group) for group in groups.tolist()]
        for read, part in ((3, 0), (1, 1)):
            expected = np.array([each[part] for each in right]).ravel()
            assert (stored.decode(read).view(np.uint64) == expected.view(np.uint64)).all()
