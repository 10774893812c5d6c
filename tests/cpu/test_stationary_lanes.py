"""Fused sweeps of stationary methods in main memory against the verbs, whatever rows, values and threads."""

from __future__ import annotations

from itertools import islice, repeat
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.backends.cpu.krylov.stationary_loops import lanes_kernel
from cpms.backends.cpu.product import CpuProduct
from cpms.base import threads
from cpms.base.jit import _sources
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.codes import CODES8
from cpms.formats.formats import BF16, E4M3, FP16, FP32, FP64
from cpms.solvers.linear.chebyshev import Spectrum, _coefficients
from cpms.solvers.linear.stationary import VectorSweeps, sweeps_of
from cpms.sources.matrices.elasticity import elasticity
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix

JACOBI = list(islice(repeat((0.0, 1.0)), 6))
CHEBYSHEV = list(islice(_coefficients(Spectrum(0.1, 1.9)), 6))


def dominant(size, density=6.0):
    """Return a matrix without symmetry or equal rows, whose diagonal dominates."""
    beside = scipy.sparse.random_array((size, size), density=density / size, rng=3)
    return scipy.sparse.csr_array(beside + 2.0 * density * scipy.sparse.eye_array(size))


CASES = {
    "grid": (stencil(7, 14), E4M3),
    "codes": (elasticity(side=8), CODES8),
    "scattered": (dominant(3000), FP64),
    "scattered fp16": (dominant(3000), FP16),
    "scattered bf16": (dominant(3000), BF16),
}
SLOW = ("scattered bf16",)
"""Compiled for seconds."""


def task_of(A, storage, vectors):
    operator = CpuProduct.of(Matrix.from_scipy(A), ProductRequest(storage))
    r = np.random.default_rng(2).standard_normal(A.shape[0])
    task = SolveTask(operator, operator, r, 1e-10, Recorder(100, 1.0, None, lambda: 0.0), (vectors,))
    return task, 1.0 / A.diagonal(), r, np.zeros(A.shape[0])


@pytest.mark.representatives(name=("grid", "scattered"), vectors=("None",))
@pytest.mark.parametrize("pairs", [JACOBI, CHEBYSHEV], ids=["jacobi", "chebyshev"])
@pytest.mark.parametrize("vectors", [None, FP32])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_fused_sweeps_do_what_the_verbs_do(name, vectors, pairs):
    found = []
    for fused in (True, False):
        task, inverse, r, c = task_of(*CASES[name], vectors)
        each = sweeps_of(task, inverse, r, c) if fused else VectorSweeps(task, inverse, r, c)
        assert type(each).__name__ == ("CpuSweeps" if fused else "VectorSweeps")
        # In two calls: the step of the first one goes on in the second.
        found.append((each.run(pairs[:2], 0.0, np.inf) + each.run(pairs[2:], 0.0, np.inf), r, c))
    tolerance = 1e-12 if vectors is None else 1e-6
    assert len(found[0][0]) == len(pairs)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10**6), st.integers(1, 3))
def test_the_residual_by_recurrence_is_that_of_the_correction(size, seed, count):
    rng = np.random.default_rng(seed)
    A = scipy.sparse.csr_array(scipy.sparse.random_array((size, size), density=0.2, rng=rng))
    A = scipy.sparse.csr_array(A + (1.0 + A.sum(axis=1).max()) * scipy.sparse.eye_array(size))
    task, inverse, r, c = task_of(A, FP64, None)
    b = r.copy()
    with threads.limited(count):
        sizes = sweeps_of(task, inverse, r, c).run(CHEBYSHEV, 0.0, np.inf)
    assert sizes[-1] == pytest.approx(np.linalg.norm(r), rel=1e-12)
    np.testing.assert_allclose(r, b - A @ c, rtol=0, atol=1e-12 * np.abs(b).max() * (1.0 + abs(A).max()))


def test_threads_change_no_bit_and_a_target_ends_the_call():
    found = []
    for count in (1, 2, 3):
        task, inverse, r, c = task_of(stencil(7, 24) + 2.0 * scipy.sparse.eye_array(24**3, format="csr"), E4M3, FP32)
        target = 0.1 * np.linalg.norm(r)
        with threads.limited(count):
            sizes = sweeps_of(task, inverse, r, c).run([(0.0, 1.0)] * 50, target, np.inf)
        assert 1 < len(sizes) < 50
        assert sizes[-1] <= target < sizes[-2]
        found.append((sizes, r.tobytes(), c.tobytes()))
    assert all(each == found[0] for each in found)


def test_a_residual_that_grows_beyond_the_limit_ends_the_call():
    task, inverse, r, c = task_of(scipy.sparse.csr_array([[1.0, 3.0], [3.0, 1.0]]), FP64, None)
    for each in (sweeps_of, VectorSweeps):
        sizes = each(task, inverse, r.copy(), c.copy()).run([(0.0, 1.0)] * 50, 0.0, 1000.0)
        assert sizes[-2] < 1000.0 <= sizes[-1]


def test_loops_are_out_of_date_with_their_products():
    files = {Path(file).name for file in _sources(lanes_kernel(0, (1, 0, 0)).py_func, set())}
    assert {"stationary_loops.py", "row_products.py", "lane_barrier.py"} <= files
