"""Fused sweeps in residual form: kernels on this machine's processor and on a GPU, against vector operations."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms.backends.cuda.krylov.sweeps import CudaSweeps
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16
from cpms.formats.formats import FP16, FP32, FP64
from cpms.solvers.linear.stationary import VectorSweeps
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.storage.device import copy_to_host, to_device

FORMATS = [pytest.param(None, marks=pytest.mark.slow), FP32, BFP16]
NAME = {None: "fp64", FP32: "fp32", BFP16: "bfp16"}.get


def a_task(storage, side=13, scale=1.0):
    """Return a task whose size is no multiple of four, with 1 over its diagonal."""
    matrix = Matrix.from_scipy(stencil(5, side))
    operator = CudaProduct.of(matrix, ProductRequest(FP64, "sell"))
    b = scale * np.random.default_rng(3).standard_normal(matrix.rows)
    task = SolveTask(operator, operator, to_device(b), 1e-10, Recorder(3000, 1.0, None, float), (storage,))
    return task, to_device(1.0 / matrix.to_scipy().diagonal())


@pytest.mark.parametrize("storage", FORMATS, ids=NAME)
def test_fused_sweeps_are_those_of_vector_operations(device, storage):
    task, inverse = a_task(storage)
    assert task.size % 4 == 1
    held = []
    for make in (task.stored.sweeps, VectorSweeps):
        r, c = to_device(copy_to_host(task.b)), task.zeros()
        sweeps = make(task, inverse, r, c)
        assert isinstance(sweeps, CudaSweeps) == (make is not VectorSweeps)
        norms = [
            sweeps.run(some, 0.0, np.inf) for some in ([(0.0, 1.0), (0.25, 1.5)], [(0.5, 0.75)], [(0.125, 1.25)] * 6)
        ]
        held.append((np.concatenate(norms), copy_to_host(r), copy_to_host(c)))
    precision = {None: 1e-13, FP32: 1e-6, BFP16: 1e-3}[storage]
    for ours, theirs in zip(*held, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=precision, atol=precision)
    # The residual is that of the correction, whatever steps were rounded to.
    np.testing.assert_allclose(held[0][1], copy_to_host(task.b) - stencil(5, 13) @ held[0][2], atol=1e-12)


def test_steps_beyond_float32_end_above_any_limit(device):
    task, inverse = a_task(FP32, scale=1e300)
    found = task.stored.sweeps(task, inverse, to_device(copy_to_host(task.b)), task.zeros())
    assert not found.run([(0.0, 1.0)], 0.0, 1e304)[-1] < 1e304


def test_other_formats_take_vector_operations(device):
    task, inverse = a_task(FP16)
    assert task.stored.sweeps(task, inverse, task.b, task.zeros()) is None


def test_norms_are_fetched_once_in_several_sweeps(device, monkeypatch):
    task, inverse = a_task(FP32)
    sweeps = task.stored.sweeps(task, inverse, to_device(copy_to_host(task.b)), task.zeros())
    fetched, fetch = [], type(device).fetch_async
    monkeypatch.setattr(type(device), "fetch_async", lambda self, numbers: fetched.append(1) or fetch(self, numbers))
    assert len(sweeps.run([(0.0, 1.0)] * sweeps.together, 0.0, np.inf)) == sweeps.together >= 4
    assert len(fetched) == 1


def test_sweeps_end_soon_after_the_target(device):
    task, inverse = a_task(FP32)
    sweeps = task.stored.sweeps(task, inverse, to_device(copy_to_host(task.b)), task.zeros())
    assert len(sweeps.run([(0.0, 1.0)] * 20, 1e9, np.inf)) == sweeps.together
    assert len(sweeps.run([(0.0, 1.0)] * 20, 0.0, 1e-9)) == sweeps.together
    assert len(sweeps.run([(0.0, 1.0)] * 20, 0.0, np.inf)) == 20


@pytest.mark.gpu
@pytest.mark.parametrize("vectors", ["fp64", "fp32", "bfp16"])
@pytest.mark.parametrize("method", ["jacobi", "chebyshev"])
def test_solves_on_a_gpu(gpu_backend, method, vectors):
    A = stencil(5, 120) + 0.05 * np.float64(1.0) * identity(14400)
    b = np.random.default_rng(4).standard_normal(14400)
    found = cpms.solve(A, b, method=method, vectors=vectors, engine="cuda", tol=1e-9, max_iterations=20000)
    assert found.converged, (found, found.reason)
    assert np.linalg.norm(b - A @ found.x) <= 1e-9 * np.linalg.norm(b)


def identity(size):
    import scipy.sparse

    return scipy.sparse.eye_array(size, format="csr")
