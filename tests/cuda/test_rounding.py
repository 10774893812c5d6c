"""`cpms.quantize` in device memory: the bits of main memory, in every rounding, on this machine and on a GPU."""

from __future__ import annotations

import kernel_catalogue
import ml_dtypes
import numpy as np
import pytest

import cpms
from cpms import InputError, UnsupportedError
from cpms.backends.cuda.arrays import rounding
from cpms.formats.formats import format_named
from cpms.storage.device import to_device
from cpms.storage.quantize import _rounded

SIXTEEN_BITS = np.arange(2**16, dtype=np.uint16)
FLOATS = ["fp16", "e5m2", "fp32", "e11m20", "e2m29", "e4m3-scaled", "e4m3fn", "e5m2fnuz", "e2m1fn", "tf32"]
OTHERS = ["posit8", "posit16", "posit32", "int8", "int16", "mxfp8-e5m2", "mxfp6-e2m3", "mxfp4", "mxint8"]


@pytest.fixture
def rounded(device):
    """Round an array on the device; all kernels are compiled at once."""
    device.compile(kernel_catalogue.roundings())

    def call(values, name, mode="nearest", overflow=None):
        found, counts = rounding.quantize(to_device(values), *_rounded(format_named(name), mode, 7), overflow)
        return device.to_host(found), counts

    return call


def numbers(storage, count):
    """Return all numbers of 16 bits of two kinds, where there is time, random ones and those at the ends."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        all_of_16 = [SIXTEEN_BITS.view(kind).astype(np.float64) for kind in (np.float16, ml_dtypes.bfloat16)]
        ends = np.outer(
            [storage.max_finite, storage.min_normal], [-2.0, -1.0, 0.5, 0.99, 1.0, 1.01, 1.03125, 1.5]
        ).ravel()
    wild = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    near = rng.standard_normal(count) * np.exp2(rng.uniform(-40, 40, count))
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1e-310, 1.7e308]
    values = np.concatenate([*(all_of_16 if count > 1000 else []), wild, near, ends, odd])
    return values if storage.has_nan else values[~np.isnan(values)]


def same_bits(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(f"uint{8 * a.itemsize}"), b.view(f"uint{8 * b.itemsize}"))


@pytest.mark.parametrize("name", FLOATS + OTHERS)
def test_bits_are_those_of_main_memory(rounded, device, name):
    storage = format_named(name)
    values = numbers(storage, 200 if "Host" in type(device).__name__ else 10**6)
    modes = ("nearest", "zero", "stochastic") if name in FLOATS else ("nearest",)
    with np.errstate(all="ignore"):
        for mode in modes:
            # Words of 16 bytes, a start beside them, another type, an end within a group.
            for x in (values, values[1:], values.astype(np.float32), values[:7].reshape(7, 1)):
                same_bits(rounded(x, name, mode)[0], cpms.quantize(x, name, rounding=mode, seed=7))


@pytest.mark.parametrize("name", ["fp16", "e4m3fn", "e2m1fn", "posit8", "int8", "mxfp8-e5m2"])
def test_overflow_is_counted_and_treated_as_in_main_memory(rounded, name):
    storage = format_named(name)
    values = numbers(storage, 300)
    with np.errstate(all="ignore"):
        for overflow in ("saturate", "inf"):
            if overflow == "inf" and not (storage.has_infinity or storage.has_nan):
                with pytest.raises(InputError, match="no infinity and no NaN"):
                    rounded(values, name, overflow=overflow)
                continue
            stored = cpms.encode(values, name, overflow=overflow)
            found, counts = rounded(values, name, overflow=overflow)
            np.testing.assert_array_equal(found, stored.decode())
            assert counts == stored.counts
        with pytest.raises(InputError) as there:
            cpms.encode(values, name, overflow="raise")
        with pytest.raises(InputError) as here:
            rounded(values, name, overflow="raise")
    assert str(here.value) == str(there.value)


def test_encoding_counts_in_device_memory(rounded, device):
    values = np.array([1e9, 1e-9, np.nan, -2.0])
    for name in ("fp16", "e4m3fn", "posit8"):
        stored, twin = (
            rounding.encode(to_device(values), format_named(name), None, "saturate"),
            cpms.encode(values, name, overflow="saturate"),
        )
        assert (stored.counts, np.asarray(device.to_host(stored.memory)).tobytes()) == (
            twin.counts,
            twin.memory.tobytes(),
        )


def test_what_it_lacks_is_said(rounded):
    with pytest.raises(InputError, match="int8 has no NaN"):
        rounded(np.array([np.nan]), "int8")
    with pytest.raises(UnsupportedError, match="no groups of numbers as gse has; use cpu"):
        rounded(np.ones(3), "gse")
