"""Fused conjugate gradients in main memory against the verbs, whatever rows, values and threads; patterns of rows."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.backends.cpu.krylov.cg_loops import lanes_kernel
from cpms.backends.cpu.product import CpuProduct
from cpms.backends.reference.product import ReferenceProduct
from cpms.base import threads
from cpms.base.jit import _sources
from cpms.contracts.linear_solve import Preconditioner, Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16, BFP21, BFP32
from cpms.formats.codes import CODES8
from cpms.formats.formats import BF16, E4M3, E5M2, FP16, FP32, FP64
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

WIDER = [(BFP21, 13), (BFP32, 13), (BF16, 8), (E5M2, 3)]

# Each is compiled, for seconds.
SLOW = ("distances of fp32", "scattered bf16", "scattered bytes")


class Weighted(Preconditioner):
    """Multiplies value by value."""

    def __init__(self, weights):
        self.weights = weights

    def apply(self, r):
        """Multiply."""
        return self.weights * r


def iterations(A, storage, vectors, weights=None):
    matrix = Matrix.from_scipy(A)
    if storage is None:
        matrix = Matrix(matrix.rows, matrix.columns, matrix.indptr, matrix.indices, None)
    operator = CpuProduct.of(matrix, ProductRequest(storage))
    b = np.random.default_rng(2).standard_normal(A.shape[0])
    preconditioner = None if weights is None else Weighted(weights)
    recorder = Recorder(100, 1.0, None, lambda: 0.0)
    task = SolveTask(operator, operator, b, 1e-10, recorder, (vectors,), None, preconditioner)
    return operator, task, np.zeros(A.shape[0])


@pytest.mark.representatives(name=("scattered",))
@pytest.mark.representatives(name=("codes", "scattered", "pattern"), vectors=("None",))
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alone", "preconditioned"])
@pytest.mark.parametrize("vectors", [None, FP32])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_fused_iterations_do_what_the_verbs_do(name, vectors, is_weighted):
    found = []
    weights = 0.5 + np.random.default_rng(7).random(CASES[name][0].shape[0]) if is_weighted else None
    for fused in (True, False):
        operator, task, x = iterations(*CASES[name], vectors, weights)
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


def pairs(numbers, storage):
    """Return products with blocks of 4 and 3, and b of numbers and zeros; the first step's alpha is 1/4, beta 9/16.

    All sums of the first iteration are exact in float64 where numbers have few bits, and p is none of the format.
    """
    A = scipy.sparse.kron(scipy.sparse.eye_array(len(numbers)), np.array([[4.0, 3.0], [3.0, 4.0]]), format="csr")
    b = np.ravel(np.column_stack([numbers, np.zeros(len(numbers))]))
    for make in (CpuProduct.of, ReferenceProduct.of):
        operator = make(Matrix.from_scipy(scipy.sparse.csr_array(A)), ProductRequest(E4M3))
        yield operator, SolveTask(operator, operator, b, 1e-10, Recorder(9, 1.0, None, lambda: 0.0), (storage,))


@pytest.mark.representatives(storage=("bfp16", "fp16"))
@pytest.mark.parametrize(
    ("storage", "bits"),
    [(BFP16, 13), (FP16, 11), *(pytest.param(*each, marks=pytest.mark.slow) for each in WIDER)],
    ids=lambda given: getattr(given, "name", ""),
)
def test_an_iteration_in_few_bits_is_the_references_to_the_last_bit(storage, bits):
    rng = np.random.default_rng(5)
    scales = 2.0 ** (rng.integers(-4, 1, 69) - 9)
    numbers = rng.integers(-(2**bits) + 1, 2**bits, 1100) * scales.repeat(16)[:1100]
    found = []
    for operator, task in pairs(numbers, storage):
        x = np.zeros(task.size)
        each = operator.conjugate_gradients(task, x) or VectorIterations(task, x)
        each.replace_residual()
        (step,) = each.run(1)
        size = np.sqrt(step.residual_square)  # The verbs' square is that of a rounded root.
        sums = size, step.curvature, step.next_product
        found.append((type(each).__name__, sums, x.tobytes(), each._r.memory.tobytes(), each._p.memory.tobytes()))
    assert [each[0] for each in found] == ["CpuCg", "VectorIterations"]
    assert found[0][1:] == found[1][1:]


def test_loops_in_few_bits_are_out_of_date_with_their_codecs():
    files = {Path(file).name for file in _sources(lanes_kernel(0, (1, 0, 0), (5, 16, 0, 0)).py_func, set())}
    assert {"cg_loops.py", "row_products.py", "stored_cg_loops.py", "host_loops.py"} <= files


@pytest.mark.parametrize("where", ["r", "p"])
def test_values_beyond_the_range_of_a_format_end_the_iterations(where):
    A = [[1.0, 10.0], [10.0, 128.0]] if where == "r" else [[1.0, 7.0], [7.0, 64.0]]
    operator = CpuProduct.of(Matrix.from_dense(np.array(A)), ProductRequest(E4M3))
    b = np.array([8192.0, 0.0])
    task = SolveTask(operator, operator, b, 1e-10, Recorder(9, 1.0, None, lambda: 0.0), (FP16,))
    for each in (operator.conjugate_gradients(task, np.zeros(2)), VectorIterations(task, np.zeros(2))):
        each.replace_residual()
        steps = each.run(2)
        assert not np.isfinite(steps[-1]).all(), type(each).__name__


@pytest.mark.parametrize("vectors", [FP32, BFP16], ids=lambda given: given.name)
def test_threads_change_no_bit_and_a_target_ends_the_call(vectors):
    found = []
    for count in (1, 2, 3):
        operator, task, x = iterations(stencil(7, 24), E4M3, vectors)
        each = operator.conjugate_gradients(task, x)
        with threads.limited(count):
            size = each.replace_residual()
            steps = each.run(40, 0.1 * size)
        assert 1 < len(steps) < 40
        assert steps[-1].residual_square <= (0.1 * size) ** 2 < steps[-2].residual_square
        found.append((steps, x))
    assert all(steps == found[0][0] and (x == found[0][1]).all() for steps, x in found)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 10**6), st.booleans(), st.integers(1, 4))
def test_patterns_are_the_rows_and_numbered_by_their_first(size, kinds, seed, with_values, ranges):
    rng = np.random.default_rng(seed)
    rows = [np.unique(rng.integers(-3, 4, rng.integers(0, 5))) for _ in range(kinds)]
    chosen = rng.integers(0, kinds, size)
    columns = [np.flatnonzero(np.isin(np.arange(size), rows[kind] + row)) for row, kind in enumerate(chosen)]
    starts = np.cumsum([0] + [len(each) for each in columns])
    values = rng.integers(1, 3, starts[-1]).astype(np.float64)
    with threads.limited(ranges), patch("cpms.sparse.row_patterns._LEAST_ROWS", 1):
        found = row_patterns(starts, np.concatenate(columns), values if with_values else None)
    assert list(dict.fromkeys(found.of_row.tolist())) == list(range(len(found.starts) - 1))
    for row in range(size):
        of = slice(found.starts[found.of_row[row]], found.starts[found.of_row[row] + 1])
        assert (found.distances[of] + row).tolist() == columns[row].tolist()
        assert not with_values or found.values[of].tolist() == values[starts[row] : starts[row + 1]].tolist()
    keys = {(tuple(c - r), tuple(values[starts[r] : starts[r + 1]]) * with_values) for r, c in enumerate(columns)}
    assert len(found.starts) - 1 == len(keys)


def test_matrices_of_many_patterns_have_none():
    A = scattered(3000)
    assert row_patterns(A.indptr, A.indices, None) is None
    with threads.limited(4), patch("cpms.sparse.row_patterns._LEAST_ROWS", 1):
        assert row_patterns(A.indptr, A.indices, None) is None  # Each range has few.
