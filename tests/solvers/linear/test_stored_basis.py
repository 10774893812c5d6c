"""The basis of GMRES: digits that are kept and read, the relation that holds for them, and when a pass is repeated."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms.api.linear.choice import BLOCKS, BYTES
from cpms.backends.cpu.product import CpuProduct
from cpms.contracts.arnoldi import ArnoldiCycle
from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16
from cpms.formats.formats import FP32, FP64, format_named
from cpms.solvers.linear.gmres import choice, gmres
from cpms.solvers.linear.stored_basis import StoredBasis
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix

FLOOR = 2.0**-30
LADDERS = {"bytes": (BYTES,), "blocks": BLOCKS, "bfp16": (BFP16,), "fp32": (FP32,), "fp64": (None,)}


def operator_of(dense):
    return CpuProduct.of(Matrix.from_dense(dense), ProductRequest(FP64))


def a_basis(size, formats):
    cycle = ArnoldiCycle(0.0, size, lambda rho: choice(formats, int(np.ceil(np.log2(rho / FLOOR)))), FLOOR)
    return StoredBasis(operator_of(np.eye(size)), formats, cycle)


def stored(basis, place, digits):
    """Return a vector of the basis as the first reading of so many digits has it, in float64."""
    readings = basis.vectors[place]
    chosen = next((each for each in readings if each.digits >= digits), readings[-1])
    return sum(basis._operator.convert(array, None, level) for array, level in chosen.parts)


def orthonormal(rows, count, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, count)))[0].T.copy()


@pytest.mark.parametrize("ladder", ["bytes", "blocks"])
@pytest.mark.parametrize("digits", [1, 6, 14, 23, 31, 37])
def test_a_vector_keeps_its_digits_and_is_read_in_fewer(ladder, digits):
    basis, (v,) = a_basis(640, LADDERS[ladder]), orthonormal(640, 1)
    basis.keep(v.copy(), FLOOR * 2.0**digits)
    read = basis._operator.convert(basis.last[0], None, basis.last[1])
    np.testing.assert_array_equal(stored(basis, 0, 99), read)
    assert np.linalg.norm(read - v) <= 2.0 ** (1 - digits)
    bits = [reading.bits for reading in basis.vectors[0]]
    assert bits == sorted(bits)
    assert bits[-1] == basis.bits[0] <= digits + 8 + (20 if ladder == "bytes" else 16)
    for fewer in range(1, digits + 1, 3):
        assert np.linalg.norm(stored(basis, 0, fewer) - v) <= 2.0 ** (1 - fewer)


def test_reads_of_fewer_segments_than_were_written_cut_and_keep_a_digit_less():
    basis = a_basis(64, LADDERS["bytes"])
    basis.keep(orthonormal(64, 1)[0], FLOOR * 2.0**12)
    assert [(reading.digits, reading.bits) for reading in basis.vectors[0]] == [(-1, 8), (3, 16), (11, 24), (20, 32)]


@pytest.mark.representatives(ladder=("bytes", "blocks"), rho=("1.0", "1e-08"))
@pytest.mark.representatives(rho=("0.0001",))
@pytest.mark.parametrize("ladder", LADDERS)
@pytest.mark.parametrize("rho", [1.0, 1e-4, 1e-8])
def test_the_relation_holds_as_far_as_the_residual_asks(ladder, rho):
    count, size = 12, 500
    basis, vectors = a_basis(size, LADDERS[ladder]), orthonormal(size, count)
    for v in vectors:
        basis.keep(v.copy(), 1.0)
    given = 3.0 * vectors.T @ np.random.default_rng(1).standard_normal(count) + orthonormal(size, 1, 2)[0]
    w = given.copy()
    entries, passes, bits = basis.orthogonalise(w, rho)
    whole = np.array([stored(basis, place, 99) for place in range(count)])
    missed = np.linalg.norm(w + entries[:count] @ whole - given) / np.linalg.norm(given)
    layered = ladder in ("bytes", "blocks")
    assert missed <= (FLOOR / rho if layered else 1e-14)
    assert entries[count] == pytest.approx(np.linalg.norm(w))
    assert np.abs(whole @ w).max() <= max(FLOOR / rho, 1e-12) * np.linalg.norm(given)
    of_whole_reads = 2 * passes * sum(basis.bits)
    assert bits == of_whole_reads if not layered else bits < of_whole_reads or rho == 1.0


@pytest.mark.parametrize("ladder", LADDERS)
@pytest.mark.parametrize(("left", "passes"), [(1.0, 1), (1e-9, 2)])
def test_a_vector_is_projected_again_where_the_first_pass_cancels_most_of_it(ladder, left, passes):
    basis, (v,) = a_basis(400, LADDERS[ladder]), orthonormal(400, 1)
    basis.keep(v, 1.0)
    whole = stored(basis, 0, 99)
    w = whole + left * np.random.default_rng(3).standard_normal(400) / 20.0
    entries, found, _ = basis.orthogonalise(w, 1.0)
    assert (found, entries[1]) == (passes, pytest.approx(np.linalg.norm(w)))
    assert abs(whole @ w) <= 1e-6 * entries[1]


@pytest.mark.parametrize("ladder", ["bytes", "blocks"])
def test_a_basis_that_is_read_in_few_bits_takes_the_iterations_of_float64(ladder):
    operator = operator_of(stencil(5, 14).toarray())
    counts, bytes_read = {}, {}
    for name in ("fp64", ladder):
        recorder = Recorder(500, 1.0, None, lambda: 0.0)
        task = SolveTask(operator, operator, np.ones(196), 1e-9, recorder, LADDERS[name])
        assert gmres(task, task.zeros()) is SolveStatus.CONVERGED
        counts[name] = len(recorder.steps)
        bytes_read[name] = sum(step.bytes_read - operator.bytes_read() for step in recorder.steps)
    assert counts[ladder] == counts["fp64"]
    assert bytes_read[ladder] < 0.45 * bytes_read["fp64"]


def test_a_basis_is_stored_in_the_format_that_was_asked_for():
    for name in ("posit16", "mxfp8-e4m3", "tf32", "fp16"):
        found = cpms.solve(stencil(5, 12), np.ones(144), method="gmres", vectors=name, tol=1e-8, engine="cpu")
        bits = format_named(name).bits()
        assert found.converged
        assert found.history[0].bits == bits, name
        assert list(found.iterations_by_bits) == [bits] or "widened to 64 bits" in found.reason, name


def test_vectors_of_zeros_and_infinities_are_projected_without_a_warning():
    for ladder in LADDERS.values():
        basis, (v,) = a_basis(64, ladder), orthonormal(64, 1)
        basis.keep(v, 1.0)
        entries, _, _ = basis.orthogonalise(np.zeros(64), 1e-3)
        assert entries.tolist() == [0.0, 0.0]
