"""Queued steps of Arnoldi's method: kernels on this machine's processor and on a GPU, against vector operations."""

from __future__ import annotations

import numpy as np
import pytest

from cpms.api.linear.choice import BLOCKS, BYTES
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP32
from cpms.formats.formats import FP32, FP64
from cpms.solvers.linear.gmres import gmres
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.storage.device import copy_to_host, to_device

FORMATS = {"fp64": (None,), "fp32": (FP32,), "bfp32": (BFP32,), "bytes": (BYTES,), "blocks": BLOCKS}


def a_task(formats, dense=None, side=9, goal=1e-10, layout="sell"):
    """Return the task of a Laplacian whose size is no multiple of a block, and its matrix."""
    matrix = Matrix.from_scipy(stencil(5, side)) if dense is None else Matrix.from_dense(dense)
    operator = CudaProduct.of(matrix, ProductRequest(FP64, layout))
    b = np.random.default_rng(3).standard_normal(matrix.rows)
    b /= np.linalg.norm(b)
    recorder = Recorder(3000, 1.0, None, lambda: 0.0)
    return SolveTask(operator, operator, to_device(b), goal, recorder, formats), matrix, b


@pytest.mark.parametrize("name", FORMATS)
def test_queued_steps_are_those_of_vector_operations(device, name, monkeypatch):
    found = {}
    for queued in (True, False):
        task, matrix, b = a_task(FORMATS[name])
        if not queued:
            monkeypatch.setattr(CudaProduct, "arnoldi", lambda *_: None)
        x = task.zeros()
        assert gmres(task, x, restart=20).name == "CONVERGED"
        assert np.linalg.norm(b - matrix.to_scipy() @ copy_to_host(x)) <= 1.01e-10
        found[queued] = [step.residual for step in task.recorder.steps]
    assert abs(len(found[True]) - len(found[False])) <= 1
    np.testing.assert_allclose(found[True][:20], found[False][:20], rtol=1e-2)
