"""Loops over several stored vectors at once against the same vectors decoded, in NumPy's sums."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cpms.api.linear.choice import BYTES
from cpms.backends.cpu import stored_vectors
from cpms.backends.cpu.krylov import basis_loops
from cpms.backends.cpu.product import CpuProduct
from cpms.backends.cpu.stored_vectors import kernel_spec, native
from cpms.base import threads
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16, BLOCK_FLOATS
from cpms.formats.formats import CPMS4, E5M2, FP32, FP64
from cpms.sparse.matrix import Matrix
from cpms.storage.block_float import encode_blocks

FORMATS = (None, FP32, *BLOCK_FLOATS, BYTES, CPMS4, E5M2)
LONG = 2 * (1 << 15) + 4097
"""Three ranges of values, of which the last ends inside a block of a second tile."""


def vectors_of(storage, count, length):
    operator = CpuProduct.of(Matrix.from_dense(np.eye(2)), ProductRequest(FP64))
    given = np.random.default_rng(count).standard_normal((count, length))
    stored = [operator.convert(v, storage) for v in given]
    return operator, stored, np.array([operator.convert(v, None) for v in stored])


@pytest.mark.representatives(storage=("bfp16", BYTES.name), count=("7",))
@pytest.mark.representatives(storage=("None", "fp32", "e5m2"), count=("4",))
@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: getattr(storage, "name", "fp64"))
@pytest.mark.parametrize(("count", "length"), [(1, 3), (4, 1000), (7, LONG)])
def test_sums_are_those_of_decoded_vectors(storage, count, length):
    operator, stored, decoded = vectors_of(storage, count, length)
    w = np.random.default_rng(9).standard_normal(length)
    bound = length * 2.0**-53 * np.abs(decoded) @ np.abs(w)
    assert (np.abs(operator.dots(stored, w) - decoded @ w) <= bound).all()
    factors, out = np.arange(1.0, count + 1.0), w.copy()
    operator.combine(stored, factors, out)
    np.testing.assert_allclose(out, w + factors @ decoded, rtol=0, atol=1e-14 * (count + 1) ** 2)


def test_vectors_of_several_formats_keep_their_places_and_levels():
    w, stored, decoded, levels = np.random.default_rng(1).standard_normal(500), [], [], []
    for place, (storage, level) in enumerate([(BYTES, 2), (None, None), (BFP16, None), (BYTES, 5), (FP32, None)] * 3):
        operator, (v,), _ = vectors_of(storage, 1, 500)
        operator.scale(v, place + 1.0)
        stored.append(v)
        levels.append(level)
        decoded.append(operator.convert(v, None, level))
    stored.append(w[::-1])  # Of no memory that is read as it is.
    levels.append(None)
    decoded.append(w[::-1])
    np.testing.assert_allclose(operator.dots(stored, w, levels), np.array(decoded) @ w, rtol=1e-12)
    out, factors = np.zeros(500, np.float32), np.linspace(0.5, 2.0, len(stored))
    operator.combine(stored, factors, out, levels)
    np.testing.assert_allclose(out, factors @ np.array(decoded), rtol=1e-5, atol=1e-5)


def test_a_vector_that_was_overwritten_is_read_as_it_is_now():
    operator, stored, _ = vectors_of(None, 3, 200)
    before = operator.dots(stored, np.ones(200))
    stored[1][...] = 2.0
    found = operator.dots(stored, np.ones(200))
    assert (found[[0, 2]] == before[[0, 2]]).all()
    assert found[1] == 400.0
    del stored  # Memory of the same address may belong to another vector, of another type.
    for kind in (np.float32, np.float64):
        assert operator.dots([np.full(200, 3.0, kind)], np.ones(200)).tolist() == [600.0]


@pytest.mark.parametrize("storage", [None, BFP16, BYTES], ids=lambda storage: getattr(storage, "name", "fp64"))
def test_results_do_not_depend_on_threads(storage):
    operator, stored, _ = vectors_of(storage, 6, LONG)
    w, found = np.random.default_rng(3).standard_normal(LONG), []
    for count in (1, 2, 3):
        with threads.limited(count):
            out = w.copy()
            operator.combine(stored, np.ones(6), out)
            found.append((operator.dots(stored, w).tobytes(), out.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.representatives(low=("5", "31", "3"))
@pytest.mark.parametrize("storage", BLOCK_FLOATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize(("low", "high"), [(0, 1000), (5, 20), (31, 97), (64, 999), (3, 3)])
def test_values_from_any_place_on_are_those_that_were_stored(storage, low, high):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(1000) * np.exp(8.0 * rng.standard_normal(1000))
    values[[7, 40, 99]] = 0.0, -0.0, -1e-300
    stored = encode_blocks(values, storage)
    held, expected = native(stored), stored.decode()
    read = np.array([held.__array_interface__["data"][0]], np.uint64), held.size, np.zeros(0, np.uint8), 1000
    sums = np.zeros(1000)
    spec = kernel_spec(storage, None)
    basis_loops.combine_kernel(*spec)(read[0], np.ones(1), *read[1:], sums, low, high)
    np.testing.assert_array_equal(sums[low:high], expected[low:high])
    assert not sums[:low].any()
    assert not sums[high:].any()
    (found,) = basis_loops.dots_kernel(*spec)(*read, values, low, high)
    assert found == pytest.approx(expected[low:high] @ values[low:high], rel=1e-12)


def test_a_vector_that_two_threads_prepared_is_dropped_in_silence(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    v = np.ones(8)
    for _ in range(2):
        stored_vectors._readable(v, None, 8)
        known = stored_vectors._prepared.pop((id(v), None))
    stored_vectors._prepared[id(v), None] = known
    del v, known
    assert not ignored
