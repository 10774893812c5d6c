"""Preconditioners in any format: inverses near the exact ones, polynomials of the rounded matrix, widening."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import UnsupportedError
from cpms.api import product_engines
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16
from cpms.formats.formats import CPMS4, FP16, FP64, format_named
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear import chebyshev
from cpms.solvers.linear.chebyshev import Chebyshev, Spectrum
from cpms.solvers.linear.preconditioners import BlockJacobi
from cpms.solvers.linear.stationary import VectorSweeps
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.storage.block_float import encode_blocks

FORMATS = {
    name: format_named(name) for name in ("fp16", "bf16", "e4m3", "fp16-scaled", "cpms4", "posit16", "mxfp4", "int8")
} | {"bfp16": BFP16}
NARROW = ("e4m3", "mxfp4", "int8")


def operator(matrix, storage, engine="cpu"):
    return product_engines.prepare(engine, matrix, ProductRequest(storage))


def block_jacobi(dense, block, storage, engine="cpu"):
    def prepare(starts, columns, values, held_in):
        return operator(Matrix(len(dense), len(dense), starts, columns, values), held_in, engine)

    return BlockJacobi(LinearSystem(Matrix.from_dense(dense)), prepare, block, storage)


def columns_of(preconditioner, size):
    return np.stack([preconditioner.apply(column) for column in np.eye(size)], axis=1)


def positive_definite(seed, size, spread):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((size, size))
    scale = 10.0 ** rng.uniform(-spread, spread, size)
    return scale[:, None] * (half @ half.T / size + 0.3 * np.eye(size)) * scale


@pytest.mark.parametrize("narrowest", [16, 32])
def test_blocks_are_stored_by_their_conditions(narrowest):
    def prepare(starts, columns, values, storage):
        if storage.bits() < narrowest:
            raise UnsupportedError("too few bits")
        return operator(Matrix(14, 14, starts, columns, values), storage)

    blocks = [np.eye(4) * 2.0, np.diag([1.0, 1.0, 1.0, 1e-4]), np.diag([1.0, 1.0, 1.0, 1e-9]), np.full((2, 2), 3.0)]
    blocks[3][0, 0] = 4.0
    A = cpms.matrix(scipy.sparse.block_diag([scipy.sparse.coo_array(each) for each in blocks], format="csr"))
    held = BlockJacobi(LinearSystem(A.source), prepare, block=4)
    by_format = {"fp16": 2, "fp32": 1, "fp64": 1} if narrowest == 16 else {"fp32": 3, "fp64": 1}
    assert (held.blocks_by_format, held.note) == (by_format, "")
    np.testing.assert_allclose(held.apply(A @ np.ones(14)), np.ones(14), rtol=5e-3)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 9), st.sampled_from([0.0, 0.5, 3.0]))
def test_inverses_in_any_format_are_near_the_exact_ones(name, seed, size, block, spread):
    dense = positive_definite(seed, size, spread)
    held = block_jacobi(dense, block, FORMATS[name])
    stored, blocks = columns_of(held, size), [slice(low, low + block) for low in range(0, size, block)]
    for part in blocks:
        rest = np.eye(len(dense[part])) - dense[part, part] @ stored[part, part]
        assert np.abs(rest).sum(axis=1).max() <= 0.51
        stored[part, part] = 0.0
    assert not stored.any()
    refused = len(blocks) - held.blocks_by_format.get(name, 0)
    assert sum(held.blocks_by_format.values()) == len(blocks)
    # A format of fewer blocks is asked again without the others, which by their condition may be in the same format.
    assert bool(held.note) or refused == 0
    assert name in NARROW or spread > 0.0 or refused < len(blocks) or name in held.note


def test_inverses_are_rounded_as_arrays_are_and_their_bytes_are_counted():
    dense = positive_definite(1, 12, 0.0)
    for storage in (FP16, CPMS4, BFP16):
        held = block_jacobi(dense, 4, storage)
        inverse = np.linalg.inv(np.stack([dense[low : low + 4, low : low + 4] for low in (0, 4, 8)]))
        stored = columns_of(held, 12)
        found = np.stack([stored[low : low + 4, low : low + 4] for low in (0, 4, 8)])
        rounded = encode_blocks if storage is BFP16 else cpms.encode
        assert found.tolist() == rounded(inverse.ravel(), storage).decode().reshape(3, 4, 4).tolist()
        assert (held.storage, held.note) == (storage.name, "")
        assert held.nbytes == 13 * 4 + 48 * 4 + storage.nbytes(48)  # Starts of rows, columns and values.
        assert held.least == pytest.approx(1.0 / np.abs(stored).sum(axis=1).max(), rel=1e-12)


def test_blocks_beyond_the_range_or_the_digits_of_a_format_take_more_bits_and_say_so():
    blocks = [np.eye(2), 1e-9 * np.eye(2), np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-14]])]
    dense = scipy.linalg.block_diag(*blocks)
    held = block_jacobi(dense, 2, FP16)
    assert held.blocks_by_format == {"fp16": 1, "fp32": 2}
    assert held.note == ("preconditioner in fp16, fp32: fp16 has too few digits or too small a range for 2 of 3 blocks")
    none = block_jacobi(dense[2:4, 2:4], 2, FP16)
    assert (none.blocks_by_format, "for 1 of 1 blocks" in none.note) == ({"fp32": 1}, True)


def test_a_format_that_products_do_not_have_is_refused():
    def prepare(starts, columns, values, storage):
        raise UnsupportedError(f"no products in {storage.name}")

    with pytest.raises(UnsupportedError, match="no products in bf16"):
        BlockJacobi(LinearSystem(Matrix.from_dense(np.eye(4))), prepare, 2, format_named("bf16"))


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("kind", ["block_jacobi", "chebyshev"])
def test_engines_apply_the_same_preconditioner(engine, kind):
    dense = stencil(5, 4).toarray() + np.diag(np.linspace(0.0, 1.0, 16)) / 3.0
    r = np.random.default_rng(0).standard_normal(16)
    if kind == "block_jacobi":
        held = block_jacobi(dense, 4, FP16, engine)
        exact = cpms.encode(np.linalg.inv(dense.reshape(4, 4, 4, 4)[range(4), :, range(4)]).ravel(), FP16).decode()
        expected = (exact.reshape(4, 4, 4) @ r.reshape(4, 4, 1)).ravel()
    else:
        matrix = Matrix.from_dense(dense)
        full = operator(matrix, FP64, engine)
        task = SolveTask(full, full, None, 0.0, Recorder(1, 1.0, None, lambda: 0.0))
        held = Chebyshev(task, LinearSystem(matrix), rounded=partial(operator, matrix, FP16, engine))
        rounded = cpms.encode(dense.ravel(), FP16).decode().reshape(16, 16)
        values = np.linalg.eigvals(rounded / np.diag(dense)[:, None]).real
        interval = Spectrum(max(0.9 * values.min(), 1.05 * values.max() / 30.0), 1.05 * values.max())
        expected = polynomial(rounded, 1.0 / np.diag(dense), interval, r)
        exact = polynomial(dense, 1.0 / np.diag(dense), interval, r)
        assert np.abs(expected - exact).max() > 1e-6
    assert (held.storage, held.note) == ("fp16", "")
    np.testing.assert_allclose(held.apply(r), expected, rtol=1e-12, atol=1e-13)


def polynomial(dense, inverse, spectrum, r):
    """Return four steps from 0 of the three-term recurrence of Chebyshev's polynomials, Saad's equation 12.8."""
    middle, half = (spectrum.most + spectrum.least) / 2.0, (spectrum.most - spectrum.least) / 2.0
    of = [1.0, middle / half]  # Chebyshev's polynomials of the middle over the half width.
    before, x = np.zeros(len(r)), inverse * r / middle
    for _ in range(3):
        of.append(2.0 * of[1] * of[-1] - of[-2])
        rest = inverse * (r - dense @ x)
        before, x = x, 2.0 * of[-2] / of[-1] * (of[1] * x + rest / half) - of[-3] / of[-1] * before
    return x


@pytest.mark.parametrize("kind", ["block_jacobi", "chebyshev"])
@pytest.mark.parametrize("storage", ["fp16", "bf16", "bfp16", "posit16", "mxfp4"])
def test_solves_converge_with_a_preconditioner_in_any_format(kind, storage):
    A, b = stencil(5, 12), np.random.default_rng(0).standard_normal(144)
    for method in ("cg", "gmres"):
        options = {"method": method, "preconditioner": kind, "engine": "cpu"}
        found = cpms.solve(A, b, preconditioner_storage=storage, **options)
        assert found.converged, found.reason
        assert found.preconditioned_by == f"{kind} in {storage}"
        assert found.iterations <= 1.2 * cpms.solve(A, b, **options).iterations


@pytest.mark.parametrize(("kind", "chosen"), [("jacobi", "fp64"), ("block_jacobi", "fp16"), ("chebyshev", "e4m3")])
def test_a_preconditioner_is_in_float64_where_that_is_asked_for_and_in_fewer_bits_by_choice(kind, chosen):
    A, b = stencil(5, 12), np.random.default_rng(0).standard_normal(144)
    options = {"method": "cg", "preconditioner": kind, "engine": "cpu"}
    by_choice = [cpms.solve(A, b, **options), cpms.solve(A, b, preconditioner_storage="auto", **options)]
    assert [found.preconditioned_by for found in by_choice] == [f"{kind} in {chosen}"] * 2
    for storage in ("fp64", cpms.FP64):
        found = cpms.solve(A, b, preconditioner_storage=storage, **options)
        assert found.converged
        assert found.preconditioned_by == f"{kind} in fp64"


@pytest.mark.parametrize(
    ("storage", "why"),
    [("e4m3", "the matrix holds .*, too large for e4m3"), ("mxint8", "mxint8 rounds A to an indefinite matrix")],
)
def test_a_matrix_that_a_format_spoils_is_read_by_chebyshev_as_iterations_read_it(storage, why):
    scale = scipy.sparse.diags_array(10.0 ** np.random.default_rng(2).uniform(-1.5, 1.5, 256))
    A = scipy.sparse.csr_array(scale @ stencil(5, 16) @ scale)
    A = (A + A.T) / 2
    options = {"method": "cg", "preconditioner": "chebyshev", "engine": "cpu"}
    plain = cpms.solve(A, np.ones(256), **options)
    found = cpms.solve(A, np.ones(256), preconditioner_storage=storage, **options)
    assert found.converged
    assert (found.preconditioned_by, found.iterations) == (plain.preconditioned_by, plain.iterations)
    assert "preconditioner with A as it is stored" in found.reason
    assert re.search(why, found.reason)


def test_a_pattern_has_no_values_to_round():
    A = scipy.sparse.eye_array(20, format="csr")
    pattern = Matrix(20, 20, A.indptr, A.indices, None)
    found = cpms.solve(
        pattern, np.ones(20), method="cg", preconditioner="chebyshev", preconditioner_storage="fp16", engine="cpu"
    )
    assert (found.converged, found.preconditioned_by) == (True, "chebyshev in pattern")


@pytest.mark.parametrize("vectors", [None, "separate"])
def test_chebyshev_makes_its_sweeps_once_and_no_application_depends_on_others(vectors, monkeypatch):
    made, sweeps_of = [], chebyshev.sweeps_of

    def counted(*given):
        made.append(VectorSweeps(*given) if vectors == "separate" else sweeps_of(*given))
        return made[-1]

    monkeypatch.setattr(chebyshev, "sweeps_of", counted)
    matrix = Matrix.from_scipy(stencil(5, 6))
    full = operator(matrix, FP64)
    task = SolveTask(full, full, None, 0.0, Recorder(1, 1.0, None, lambda: 0.0))
    held = Chebyshev(task, LinearSystem(matrix))
    r = np.random.default_rng(0).standard_normal((3, 36))
    first = held.apply(r[0])
    kept, others = first.copy(), [held.apply(each) for each in r[1:]]
    assert (first.tolist(), held.apply(r[0]).tolist()) == (kept.tolist(), kept.tolist())
    assert not np.allclose(others[0], others[1])
    assert len(made) == 1
    with np.errstate(all="ignore"):
        assert not np.isfinite(held.apply(np.full(36, np.inf))).any()
    assert held.apply(r[0]).tolist() == kept.tolist()
    assert len(made) == 2


def test_threads_may_share_the_sweeps_of_chebyshev():
    matrix = Matrix.from_scipy(stencil(5, 60))
    full = operator(matrix, FP64)
    task = SolveTask(full, full, None, 0.0, Recorder(1, 1.0, None, lambda: 0.0))
    held = Chebyshev(task, LinearSystem(matrix))
    given_ones = np.random.default_rng(1).uniform(-1.0, 1.0, (64, matrix.rows))
    expected = [np.array(held.apply(r)) for r in given_ones]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(held.apply, given_ones))
    np.testing.assert_array_equal(found, expected)


def test_a_method_of_a_user_has_a_copy_of_the_matrix_for_a_preconditioner_of_its_own():
    A = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr() * (1 + 1 / 3000)

    def factorised(task, x):
        entries = task.to_scipy()
        assert abs(entries - A).max() == 0.0
        apply = scipy.sparse.linalg.splu(entries.tocsc()).solve
        entries.data[:] = 0.0  # The certificate is for the matrix as it was given.
        (r, size) = task.residual(x)
        while size > task.goal and task.recorder.left > 0:
            task.exact.combine([apply(r)], [1.0], x)
            r, size = task.residual(x)
            task.recorder.add(size, 64, task.bytes_read(vectors=4), exact=True)
        return cpms.SolveStatus.CONVERGED

    for storage in ("fp64", "fp16"):
        found = cpms.solve(A, np.ones(50), method=factorised, storage=storage, engine="cpu")
        assert found.converged
        assert found.iterations <= 2
        assert np.abs(A @ found.x - 1.0).max() < 1e-9
