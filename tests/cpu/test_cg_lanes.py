"""Fused conjugate gradients in main memory against the verbs, whatever rows, values and threads; patterns of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.backends.cpu.product import CpuProduct
from cpms.base import threads
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.codes import CODES8
from cpms.formats.formats import BF16, E4M3, FP16, FP32, FP64
from cpms.solvers.linear.cg import VectorIterations
from cpms.sources.matrices.elasticity import elasticity
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.sparse.row_patterns import row_patterns


def scattered(size):
    """Return a positive definite matrix of no two equal rows, some of them empty beside the diagonal."""
    upper = scipy.sparse.triu(scipy.sparse.random_array((size, size), density=6.0 / size, rng=3), 1)
    return scipy.sparse.csr_array(upper + upper.T + 10.0 * scipy.sparse.eye_array(size))


def bumpy(side):
    """Return a grid whose values differ from row to row and whose columns do not."""
    A = stencil(5, side)
    scale = scipy.sparse.diags_array(1.0 + np.random.default_rng(1).random(A.shape[0]))
    return scipy.sparse.csr_array(scale @ A @ scale)


CASES = {
    "grid": (stencil(7, 14), E4M3),
    "codes": (elasticity(side=8), CODES8),
    "distances": (bumpy(60), FP64),
    "distances of fp32": (bumpy(60), FP32),
    "scattered": (scattered(3000), FP64),
    "scattered fp16": (scattered(3000), FP16),
    "scattered bf16": (scattered(3000), BF16),
    "scattered bytes": (scattered(3000), E4M3),
    "pattern": (scipy.sparse.csr_array(scipy.sparse.eye_array(300)), None),
}

# Each is compiled, for seconds.
SLOW = ("distances of fp32", "scattered bf16", "scattered bytes")


def iterations(A, storage, vectors):
    matrix = Matrix.from_scipy(A)
    if storage is None:
        matrix = Matrix(matrix.rows, matrix.columns, matrix.indptr, matrix.indices, None)
    operator = CpuProduct.of(matrix, ProductRequest(storage))
    b = np.random.default_rng(2).standard_normal(A.shape[0])
    task = SolveTask(operator, operator, b, 1e-10, Recorder(100, 1.0, None, lambda: 0.0), (vectors,))
    return operator, task, np.zeros(A.shape[0])


@pytest.mark.representatives(name=("scattered",))
@pytest.mark.representatives(name=("codes", "scattered", "pattern"), vectors=("None",))
@pytest.mark.parametrize("vectors", [None, FP32])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_fused_iterations_do_what_the_verbs_do(name, vectors):
    found = []
    for fused in (True, False):
        operator, task, x = iterations(*CASES[name], vectors)
        each = operator.conjugate_gradients(task, x) if fused else VectorIterations(task, x)
        assert type(each).__name__ == ("CpuCg" if fused else "VectorIterations")
        each.replace_residual()
        found.append((np.array(each.run(4)), x))
    (steps, x), (others, y) = found
    assert name == "pattern" or len(steps) == len(others)
    tolerance = 1e-10 if vectors is None else 2e-5
    count = min(3, len(steps))
    np.testing.assert_allclose(steps[:count], others[:count], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(x, y, atol=tolerance * np.abs(y).max())


def test_threads_change_no_bit_and_a_target_ends_the_call():
    found = []
    for count in (1, 2, 3):
        operator, task, x = iterations(stencil(7, 24), E4M3, FP32)
        each = operator.conjugate_gradients(task, x)
        with threads.limited(count):
            size = each.replace_residual()
            steps = each.run(40, 0.1 * size)
        assert 1 < len(steps) < 40
        assert steps[-1].residual_square <= (0.1 * size) ** 2 < steps[-2].residual_square
        found.append((steps, x))
    assert all(steps == found[0][0] and (x == found[0][1]).all() for steps, x in found)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 10**6), st.booleans())
def test_patterns_are_the_rows(size, kinds, seed, with_values):
    rng = np.random.default_rng(seed)
    rows = [np.unique(rng.integers(-3, 4, rng.integers(0, 5))) for _ in range(kinds)]
    chosen = rng.integers(0, kinds, size)
    columns = [np.flatnonzero(np.isin(np.arange(size), rows[kind] + row)) for row, kind in enumerate(chosen)]
    starts = np.cumsum([0] + [len(each) for each in columns])
    values = rng.integers(1, 3, starts[-1]).astype(np.float64)
    found = row_patterns(starts, np.concatenate(columns), values if with_values else None)
    for row in range(size):
        of = slice(found.starts[found.of_row[row]], found.starts[found.of_row[row] + 1])
        assert (found.distances[of] + row).tolist() == columns[row].tolist()
        assert not with_values or found.values[of].tolist() == values[starts[row] : starts[row + 1]].tolist()
    keys = {(tuple(c - r), tuple(values[starts[r] : starts[r + 1]]) * with_values) for r, c in enumerate(columns)}
    assert len(found.starts) - 1 == len(keys)


def test_matrices_of_many_patterns_have_none():
    A = scattered(3000)
    assert row_patterns(A.indptr, A.indices, None) is None
