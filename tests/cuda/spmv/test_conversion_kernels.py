"""Kernels that convert arrays: bits of the oracle, in place and out of place."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spmv_cases import ODD, as_bytes, upload

from cpms.backends.cuda.arrays import codec, inplace_permutation
from cpms.backends.cuda.kernels import streaming
from cpms.base.errors import InputError, UnsupportedError
from cpms.formats import oracle
from cpms.formats.formats import NAMED, FloatFormat, SegmentFormat, format_named
from cpms.storage.array import encode as encode_on_host
from cpms.storage.array import shared_exponent

EIGHTS = SegmentFormat("eights", (16, 32, 16), 8, "nearest")
TWO = SegmentFormat("two", (32, 32), 2)
LARGE = SegmentFormat("large", (16, 48 - 16, 16), 5000)
MORE = ("cpms2-nearest", "cpms4-nearest", "cpms4-planes-nearest", "seg16-16-32", "e5m2-zero", "fp16-scaled")
FORMATS = [*NAMED, *map(format_named, MORE), ODD, EIGHTS, TWO, LARGE]
SEGMENTED = [storage for storage in FORMATS if isinstance(storage, SegmentFormat)]

quickly = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
patterns = st.lists(st.integers(0, 2**64 - 1), max_size=40)
SPECIAL = [
    *(0x7FF0000000000001, 0x7FF0000000000000, 0xFFF0000000000000, 0x8000000000000000, 0, 1),
    *(0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FF0000000000000, 0x3FF8000000000000),
    *(0x3FF0000080000000, 0x3FF0800000000000, 0x3FF1800000000000, 0x3FFFFFFFFFFFFFFF, 0x40F0000000000000),
]


def of_bits(bits):
    return np.array(bits, np.uint64).view(np.float64)


# Storage: bytes as the scalar oracle lays them out.


@pytest.mark.parametrize("storage", SEGMENTED, ids=lambda storage: storage.name)
@quickly
@given(bits=patterns)
@example(bits=SPECIAL)
@example(bits=SPECIAL * 17)
def test_segments_are_the_oracles(backend, storage, bits):
    backend.compile(streaming.conversions(storage))
    values = of_bits(bits)
    block = storage.block
    for count in range(1, storage.segments + 1):
        kept = storage.bits(count)
        rounds = storage.rounding == "nearest" and 12 <= kept < 64
        written = [oracle.round_to_nearest(b, kept) if rounds else oracle.cut(b, kept) for b in bits]
        stored = codec.encode(upload(backend, values), storage, segments=count)
        expected = oracle.encode([oracle.value_of(b) for b in written], storage.widths, block)
        assert as_bytes(backend, stored) == expected
        full = encode_on_host(values, storage)
        whole = codec.encode(upload(backend, values), storage)
        read = backend.to_host(codec.decode(whole, count)).view(np.uint64).tolist()
        decoded = oracle.decode(full.memory.tobytes(), storage.widths, block, count)
        assert read == [oracle.bits_of(value) for value in decoded]


@pytest.mark.parametrize("storage", [f for f in FORMATS if isinstance(f, FloatFormat)], ids=lambda f: f.name)
@quickly
@given(bits=patterns)
@example(bits=SPECIAL)
def test_packed_floats_are_the_oracles(backend, storage, bits):
    backend.compile(streaming.conversions(storage))
    values = of_bits(bits)
    split = storage.exponent_bits, storage.mantissa_bits
    stored = codec.encode(upload(backend, values), storage)
    exponent = shared_exponent(values, storage) if storage.scaled else 0
    assert stored.exponent == exponent
    if storage.scaled and exponent == storage.bias - 1024:  # Rounded up, the largest doubles would be 2**1024.
        most = (2 - 2.0**-storage.mantissa_bits) * 2.0**1023
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    raw = np.frombuffer(as_bytes(backend, stored), f"u{storage.width // 8}").tolist()
    decoded = backend.to_host(codec.decode(stored))
    with np.errstate(all="ignore"):
        scaled = np.ldexp(values, exponent)
        expected = np.ldexp(np.array([oracle.unpack_float(r, *split) for r in raw]), -exponent)
    assert raw == [oracle.pack_float(float(v), *split, storage.rounding) for v in scaled]
    np.testing.assert_array_equal(decoded, expected)


@pytest.mark.parametrize("name", ["fp16-stochastic", "e5m2-stochastic", "fp32-stochastic"])
def test_stochastic_rounding_is_the_processors(backend, name):
    values = np.random.default_rng(5).random(1000)
    stored = codec.encode(upload(backend, values), format_named(name))
    assert as_bytes(backend, stored) == encode_on_host(values, format_named(name)).memory.tobytes()


LENGTHS = [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1027]
LONG = [4095, 4096, 4097, 5000, 8192, 13000]


@pytest.mark.parametrize("storage", SEGMENTED, ids=lambda storage: storage.name)
def test_in_place_is_out_of_place_and_its_own_inverse(backend, storage):
    backend.compile(streaming.conversions(storage))
    rng = np.random.default_rng(7)
    planar = storage.block is None or storage.block > 4096
    for length in LENGTHS + (LONG if planar else []):
        values = rng.integers(0, 2**64, length, np.uint64).view(np.float64)
        guarded = upload(backend, np.concatenate([np.full(2, 7.5), values, np.full(3, 9.25)]))
        inside = guarded[2 : length + 2]
        stored = codec.convert_inplace(inside, storage)
        assert as_bytes(backend, stored) == encode_on_host(values, storage).memory.tobytes()
        back = codec.restore_inplace(stored)
        np.testing.assert_array_equal(backend.to_host(back).view(np.uint64), values.view(np.uint64))
        around = backend.to_host(guarded)
        assert (around[:2] == 7.5).all()
        assert (around[length + 2 :] == 9.25).all()


def test_golden_bytes(backend):
    golden = Path(__file__).parents[2] / "golden"
    values = np.frombuffer((golden / "values.bin").read_bytes(), "<f8")
    for storage in NAMED:
        backend.compile(streaming.conversions(storage))
        stored = codec.encode(upload(backend, values), storage)
        assert as_bytes(backend, stored) == (golden / f"{storage.name}.bin").read_bytes()


def test_in_place_from_an_odd_address(backend):
    values = np.random.default_rng(8).random(1000)
    storage = format_named("cpms4")
    inside = upload(backend, np.concatenate([[0.0], values]))[1:]
    stored = codec.convert_inplace(inside, storage)
    assert as_bytes(backend, stored) == encode_on_host(values, storage).memory.tobytes()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 40), st.integers(1, 8))
def test_cycle_parts_move_every_chunk_to_its_position(sizes, count, parts):
    target = inplace_permutation.positions(sizes, count)
    assert sorted(target.tolist()) == list(range(count * sum(sizes)))
    content = np.arange(len(target))
    for batch in inplace_permutation.cycle_parts(target, parts):
        saved = [content[batch.path[begin]] for begin in batch.begins]
        for begin, moves, first in zip(batch.begins.tolist(), batch.counts.tolist(), saved, strict=True):
            for step in range(moves, 0, -1):
                held = first if step == 1 else content[batch.path[begin + step - 1]]
                content[batch.path[begin + step]] = held
    assert (content[target] == np.arange(len(target))).all()


def test_bad_arrays_are_refused(backend):
    values = upload(backend, np.arange(6.0))
    with pytest.raises(InputError, match="contiguous"):
        codec.convert_inplace(values[::2], format_named("cpms2"))
    with pytest.raises(InputError, match="float64"):
        codec.convert_inplace(upload(backend, np.zeros(4, np.float32)), format_named("cpms2"))
    with pytest.raises(InputError, match="packed float"):
        codec.convert_inplace(values, format_named("fp16"))
    with pytest.raises(InputError, match="dimensions"):
        codec.encode(values.reshape(2, 3), format_named("cpms2"))
    stored = codec.encode(values, format_named("cpms2"))
    with pytest.raises(InputError, match="6 values"):
        codec.write(stored, values[:5])
    with pytest.raises(InputError, match="segments"):
        codec.decode(stored, 3)


def test_segments_of_other_widths_than_those_of_devices_are_refused(device):
    for work in (codec.encode, codec.convert_inplace):
        with pytest.raises(UnsupportedError, match="no segments of 24 bits"):
            work(device.upload(np.ones(3)), format_named("seg24-40"))
