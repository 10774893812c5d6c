"""Fused passes of conjugate gradients: kernels on this machine's processor and on a GPU, against vector operations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from cpms.backends.cuda.krylov.cg import RING, CudaCg
from cpms.backends.cuda.krylov.pattern_matrix import row_stride
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.backends.cuda.runtime.backend import ASYNC_COPIES
from cpms.contracts.linear_solve import Preconditioner, Recorder, SolveStatus, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16
from cpms.formats.codes import CODES8
from cpms.formats.formats import FP16, FP32, FP64
from cpms.solvers.linear.cg import VectorIterations, cg
from cpms.sources.matrices.elasticity import elasticity
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.sparse.row_patterns import RowPatterns, row_patterns
from cpms.storage.device import copy_to_host, to_device

FORMATS = [pytest.param(None, marks=pytest.mark.slow), FP32, pytest.param(BFP16, marks=pytest.mark.slow)]


def a_task(storage, side=13, goal=1e-10):
    """Return the task of a Laplacian whose size is no multiple of a block, and its matrix."""
    matrix = Matrix.from_scipy(stencil(5, side))
    operator = CudaProduct.of(matrix, ProductRequest(CODES8, "sell"))
    b = np.random.default_rng(3).standard_normal(matrix.rows)
    b /= np.linalg.norm(b)
    recorder = Recorder(3000, 1.0, None, lambda: 0.0)
    return SolveTask(operator, operator, to_device(b), goal, recorder, (storage,)), matrix, b


@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_fused_iterations_are_those_of_vector_operations(device, storage):
    task, _, _ = a_task(storage)
    ours, theirs = task.zeros(), task.zeros()
    fused, plain = CudaCg(task.stored, task, ours), VectorIterations(task, theirs)
    assert fused.replace_residual() == plain.replace_residual()
    precision = {None: 1e-12, FP32: 1e-4, BFP16: 2e-2}[storage]
    for count in (1, 3, 8):
        for mine, its in zip(fused.run(count), plain.run(count), strict=True):
            np.testing.assert_allclose(mine[:2], its[:2], rtol=precision)
        np.testing.assert_allclose(copy_to_host(ours), copy_to_host(theirs), rtol=precision, atol=precision)
        assert abs(fused.replace_residual() / plain.replace_residual() - 1.0) < 10.0 * precision


@pytest.mark.parametrize("count", [RING + 1, 3 * RING, 5 * RING - 3])
def test_a_run_of_several_parts_is_that_of_one_part_after_the_other(device, count):
    task, _, _ = a_task(FP32)
    whole, parts = (CudaCg(task.stored, task, task.zeros()) for _ in range(2))
    assert whole.together == ASYNC_COPIES * RING  # An iteration of so small a system moves few bytes.
    assert whole.replace_residual() == parts.replace_residual()
    for _ in range(2):
        one_after_the_other = [step for begun in range(0, count, RING) for step in parts.run(min(RING, count - begun))]
        assert whole.run(count) == one_after_the_other
        assert whole.replace_residual() == parts.replace_residual()


class Weights(Preconditioner):
    """Multiplies by uneven numbers; as a diagonal that is known to be one, or without saying so."""

    def __init__(self, size, *, says_so):
        self._numbers = to_device(np.random.default_rng(8).uniform(0.25, 4.0, size))
        self.weights = self._numbers if says_so else None

    def apply(self, r):
        return self._numbers * r


@pytest.mark.parametrize("says_so", [True, False], ids=["diagonal", "applied"])
@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_preconditioned_iterations_are_those_of_vector_operations(device, storage, says_so):
    task = a_task(storage)[0]
    task = replace(task, preconditioner=Weights(task.size, says_so=says_so))
    ours, theirs = task.zeros(), task.zeros()
    fused, plain = task.stored.conjugate_gradients(task, ours), VectorIterations(task, theirs)
    assert fused.replace_residual() == plain.replace_residual()
    precision = {None: 1e-11, FP32: 1e-4, BFP16: 2e-2}[storage]
    np.testing.assert_allclose(fused.product, plain.product, rtol=precision)
    for count in (1, 4, 4, 4):
        for mine, its in zip(fused.run(count), plain.run(count), strict=True):
            np.testing.assert_allclose(mine, its, rtol=10.0 * precision)
        np.testing.assert_allclose(copy_to_host(ours), copy_to_host(theirs), rtol=precision, atol=precision)
        assert abs(fused.replace_residual() / plain.replace_residual() - 1.0) < 10.0 * precision


@pytest.mark.parametrize("says_so", [True, False], ids=["diagonal", "applied"])
def test_preconditioned_numbers_are_fetched_once_in_several_iterations(device, monkeypatch, says_so):
    task, matrix, b = a_task(FP32, side=40)
    task = replace(task, preconditioner=Weights(task.size, says_so=says_so))
    fetched, x = [], task.zeros()
    fetch = type(device).fetch_async
    monkeypatch.setattr(type(device), "fetch_async", lambda self, numbers: fetched.append(1) or fetch(self, numbers))
    assert cg(task, x) is SolveStatus.CONVERGED
    assert np.linalg.norm(b - matrix.to_scipy() @ copy_to_host(x)) <= 1.01e-10
    assert 0 < len(fetched) <= len(task.recorder.steps) / 2


def test_patterns_of_rows_do_what_products_do(device):
    task, _, _ = a_task(FP32)
    patterns = task.stored.patterns
    assert patterns.nbytes == 2 * task.size
    steps = []
    for each in (patterns, None):
        iterations = CudaCg(task.stored, task, task.zeros(), each)
        iterations.replace_residual()
        steps.append(iterations.run(5))
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-4)


@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_threads_with_several_rows_do_what_one_row_at_a_time_does(device, storage):
    task, matrix, _ = a_task(storage, side=41)
    found = task.stored.patterns
    assert found.stride == 41
    alone, x = replace(found, stride=row_stride_of_none()), task.zeros()
    expected = products(task, x, alone)
    exact = matrix.to_scipy() @ expected[0]
    np.testing.assert_allclose(expected[1], exact, rtol=1e-12 if storage is None else 1e-5, atol=1e-6)
    # Rows of a thread have other patterns on the grid's sides, for other strides nearly everywhere; some rows are left.
    for stride in (1, 5, 32, 41, 42, 100):
        p, q, curvature = products(task, x, replace(found, stride=stride))
        np.testing.assert_array_equal(p, expected[0])
        np.testing.assert_array_equal(q, expected[1])
        np.testing.assert_allclose(curvature, expected[2], rtol=1e-6)


def row_stride_of_none():
    """Return the stride of a matrix without entries: more rows than there are."""
    return row_stride(RowPatterns(np.zeros(0, np.uint16), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)))


def products(task, x, patterns):
    """Return p, q = A p and p.q of the first pass over a matrix of patterns."""
    iterations = CudaCg(task.stored, task, x, patterns)
    iterations.replace_residual()
    iterations._launch("patterns", 0, **iterations._patterns)
    p = task.stored.convert(iterations._ring[0].operand, None)
    log = copy_to_host(iterations._log).reshape(-1, 4)
    return copy_to_host(p)[: task.size], copy_to_host(iterations._q)[: task.size], log[1, 0]


def test_rows_of_a_thread_are_as_far_apart_as_planes_or_lines():
    def stride_of(matrix):
        made = Matrix.from_scipy(matrix)
        return row_stride(row_patterns(made.indptr, made.indices, made.given_values()))

    assert stride_of(stencil(7, 20)) == 400
    assert stride_of(stencil(27, 20)) == 400
    assert stride_of(stencil(9, 60)) == 60
    assert stride_of(elasticity(side=20)) == 3 * 400
    one_line = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(5000, 5000))
    assert stride_of(one_line) == 32
    random = np.random.default_rng(5)
    assert stride_of(scipy.sparse.diags_array(random.choice([1.0, 2.0], 5000))) == row_stride_of_none()


@pytest.mark.parametrize("by_patterns", [True, False], ids=["patterns", "operator"])
@pytest.mark.parametrize("says_so", [None, True, False], ids=["none", "diagonal", "applied"])
def test_passes_of_an_iteration_move_all_its_bytes(device, by_patterns, says_so):
    task = a_task(FP32)[0]
    task = task if says_so is None else replace(task, preconditioner=Weights(task.size, says_so=says_so))
    patterns = task.stored.patterns if by_patterns else None
    found = CudaCg(task.stored, task, task.zeros(), patterns).stage_bytes
    n, matrix = task.size, patterns.nbytes if by_patterns else task.stored.bytes_read()
    z = {None: 0, True: 4, False: 8}[says_so]
    expected = {"product": matrix + 8 * n, "curvature": 8 * n, "update": (12 + (z if says_so else 0)) * n}
    expected |= {"preconditioner": 8 * n, "applied": (4 + z) * n, "direction": (12 + z) * n, "solution": (32 + 16) * n}
    absent = {"curvature"} if by_patterns else set()
    absent |= set() if says_so is False else {"preconditioner", "applied"}
    assert found == {name: moved for name, moved in expected.items() if name not in absent}


@pytest.mark.parametrize("by_patterns", [True, False], ids=["patterns", "operator"])
@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_bytes_of_passes_add_up_to_those_of_an_iteration(device, storage, by_patterns):
    task = a_task(storage)[0]
    iterations = CudaCg(task.stored, task, task.zeros(), task.stored.patterns if by_patterns else None)
    n, bits = task.size, 64 if storage is None else storage.bits()
    of_q = 8 if storage is None else 4
    vectors = 7 * bits // 8 + 2 * of_q + 2 if by_patterns else bits + 3 * of_q + 2
    matrix = task.stored.patterns.nbytes if by_patterns else task.stored.bytes_read()
    assert iterations.bytes_read == matrix + vectors * n
    parts = {name: moved / 8 if name == "solution" else moved for name, moved in iterations.stage_bytes.items()}
    assert sum(parts.values()) == iterations.bytes_read


@pytest.mark.parametrize("by_patterns", [True, False], ids=["patterns", "operator"])
@pytest.mark.parametrize("says_so", [None, True, False], ids=["none", "diagonal", "applied"])
def test_passes_one_after_another_are_an_iteration(device, by_patterns, says_so):
    task, matrix, _ = a_task(FP32)
    task = task if says_so is None else replace(task, preconditioner=Weights(task.size, says_so=says_so))
    x = task.zeros()
    iterations = CudaCg(task.stored, task, x, task.stored.patterns if by_patterns else None)
    iterations.replace_residual()
    iterations.run(8)

    def host(v):
        return copy_to_host(v).astype(np.float64)

    def pass_(name):
        iterations.stages().get(name, lambda: None)()
        return host(iterations._log).reshape(-1, 4)

    ring, r, before = [host(v.operand) for v in iterations._ring], host(iterations._r.operand), host(x)
    log = pass_("product")
    q = host(iterations._q)[: task.size]
    np.testing.assert_allclose(q, matrix.to_scipy() @ ring[1], rtol=1e-4, atol=1e-6)
    log = pass_("curvature")
    np.testing.assert_allclose(log[2, 0] / iterations._scale_value**2, ring[1] @ q, rtol=1e-5)
    log = pass_("update")
    updated = r - log[1, 3] / log[2, 0] * q
    np.testing.assert_allclose(host(iterations._r.operand), updated, rtol=1e-4, atol=1e-6)
    z = updated if says_so is None else copy_to_host(task.preconditioner._numbers) * updated
    pass_("applied")
    log = pass_("direction")
    np.testing.assert_allclose(log[2, 2] / iterations._scale_value**2, z @ q, rtol=1e-3)
    direction = host(iterations._ring[2].operand)
    np.testing.assert_allclose(direction, z - log[2, 2] / log[2, 0] * ring[1], rtol=1e-4, atol=1e-6)
    log = pass_("solution")
    ring[2] = direction
    steps = [log[j, 3] / log[j + 1, 0] * p for j, p in enumerate(ring)]
    np.testing.assert_allclose(host(x), before + np.sum(steps, axis=0), rtol=1e-5, atol=1e-7)


def test_many_patterns_and_plain_float64_are_read_as_they_are(device):
    many = Matrix.from_triplets(range(1100), range(1100), np.random.default_rng(0).random(1100))
    assert CudaProduct.of(Matrix.from_dense(np.eye(40)), ProductRequest(FP64, "sell")).patterns is None
    assert CudaProduct.of(many, ProductRequest(FP32, "sell")).patterns is None


@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_solves_reach_their_goal(device, storage):
    task, matrix, b = a_task(storage, side=21)
    x = task.zeros()
    assert cg(task, x).name == "CONVERGED"
    assert np.linalg.norm(b - matrix.to_scipy() @ copy_to_host(x)) <= 1.01e-10
    steps = task.recorder.steps
    assert {step.bits for step in steps} == {64 if storage is None else storage.bits()}
    assert len(steps) < 130


def test_numbers_are_fetched_once_in_several_iterations(device, monkeypatch):
    task, _, _ = a_task(FP32, side=40)
    fetched = []
    fetch = type(device).fetch_async
    monkeypatch.setattr(type(device), "fetch_async", lambda self, numbers: fetched.append(1) or fetch(self, numbers))
    assert cg(task, task.zeros()) is SolveStatus.CONVERGED
    assert 0 < len(fetched) <= len(task.recorder.steps) / 3


def test_a_direction_of_negative_curvature_is_reported_and_leaves_x_finite(device):
    matrix = Matrix.from_dense(np.diag(np.r_[np.ones(39), -5.0]))
    operator = CudaProduct.of(matrix, ProductRequest(CODES8, "sell"))
    task = SolveTask(operator, operator, to_device(np.ones(40)), 1e-10, Recorder(100, 1.0, None, lambda: 0.0))
    x = task.zeros()
    assert cg(task, x).name == "INDEFINITE"
    assert np.isfinite(copy_to_host(x)).all()


def test_other_formats_take_vector_operations(device):
    task, _, _ = a_task(FP16)
    assert task.stored.conjugate_gradients(task, task.zeros()) is None


@pytest.mark.gpu
@pytest.mark.parametrize("storage", FORMATS, ids=lambda s: "fp64" if s is None else s.name)
def test_solves_on_a_gpu(gpu_backend, storage):
    task, matrix, b = a_task(storage, side=300, goal=1e-9)
    x = task.zeros()
    assert cg(task, x).name == "CONVERGED"
    assert np.linalg.norm(b - matrix.to_scipy() @ copy_to_host(x)) <= 1.01e-9
