"""Queued steps of Arnoldi's method: kernels on this machine's processor and on a GPU, against vector operations."""

from __future__ import annotations

import numpy as np
import pytest

from cpms.api.linear.choice import BLOCKS, BYTES
from cpms.backends.cuda.kernels.krylov import ARNOLDI_PARTS, arnoldi_pass
from cpms.backends.cuda.kernels.product import decode_blocks, encode_blocks, vector_combine, vector_dots
from cpms.backends.cuda.krylov.arnoldi import MOST_STEPS, CudaArnoldi
from cpms.backends.cuda.krylov.basis import SLAB_VECTORS, Basis, LayeredBasis
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.contracts.arnoldi import StoredAs
from cpms.contracts.linear_solve import Preconditioner, Recorder, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16, BFP32
from cpms.formats.formats import FP16, FP32, FP64
from cpms.solvers.linear.gmres import cycle_limits, gmres
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix
from cpms.storage.device import copy_to_host, to_device

FORMATS = {"fp64": (None,), "bfp16, fp64": (BFP16, None), "blocks": BLOCKS}
SLOW_FORMATS = {"fp32": (FP32,), "bfp32": (BFP32,), "bytes": (BYTES,)}
NAMES = [*FORMATS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_FORMATS)]


def a_task(name, matrix, goal=1e-10, **options):
    """Return a task and its right-hand side, of length 1."""
    operator = CudaProduct.of(matrix, ProductRequest(FP64))
    b = np.random.default_rng(3).standard_normal(matrix.rows)
    b /= np.linalg.norm(b)
    recorder = Recorder(300, 1.0, None, lambda: 0.0)
    formats = (FORMATS | SLOW_FORMATS)[name]
    return SolveTask(operator, operator, to_device(b), goal, recorder, formats, **options), b


def residuals(task, matrix, b, restart):
    """Solve; return the residual after each iteration, and x."""
    x = task.zeros()
    assert gmres(task, x, restart=restart).name == "CONVERGED"
    found = copy_to_host(x)
    assert np.linalg.norm(b - matrix.to_scipy() @ found) <= 1.01 * task.goal
    return [step.residual for step in task.recorder.steps], found


def bytes_read(task):
    return sum(step.bytes_read for step in task.recorder.steps)


@pytest.mark.parametrize("name", NAMES)
def test_queued_steps_are_those_of_vector_operations(device, name, monkeypatch):
    # More vectors than a slab has, a size that is no multiple of a block, and cycles that use the memory again.
    matrix, restart = Matrix.from_scipy(stencil(5, 9)), SLAB_VECTORS + 2
    levels = [(BYTES, level) for level in range(1, 8)] if name == "bytes" else [(None, 1), (BFP16, 1)]
    in_one_program = [arnoldi_pass(each, *level) for each in ("dots", "combine", "store") for level in levels]
    of_vectors = [make(form or FP64, level, "fp64") for make in (vector_dots, vector_combine) for form, level in levels]
    device.compile([*in_one_program, ARNOLDI_PARTS, *of_vectors, encode_blocks(BFP16), decode_blocks(BFP16)])
    task, b = a_task(name, matrix)
    ours, _ = residuals(task, matrix, b, restart)
    read = bytes_read(task)
    monkeypatch.setattr(CudaProduct, "arnoldi", lambda *_: None)
    task, b = a_task(name, matrix)
    theirs, _ = residuals(task, matrix, b, restart)
    assert len(ours) == len(theirs) > restart
    np.testing.assert_allclose(ours[:restart], theirs[:restart], rtol=1e-8 if name == "fp64" else 1e-2)
    if name == "blocks":
        # The device knows the residual as early, but layers are stored for one that is a few steps old.
        assert 0.98 * bytes_read(task) <= read <= 1.05 * bytes_read(task)


@pytest.mark.parametrize("name", ["fp64", "blocks"])
def test_a_step_that_cancels_most_of_a_vector_is_done_again_with_two_passes(device, monkeypatch, name):
    repeated = []
    given = CudaArnoldi._repeat
    monkeypatch.setattr(CudaArnoldi, "_repeat", lambda self: (repeated.append(self._done), given(self)))
    dense = np.eye(70) + 1e-4 * np.random.default_rng(0).standard_normal((70, 70))
    matrix = Matrix.from_dense(dense)
    task, b = a_task(name, matrix, goal=1e-12)
    residuals(task, matrix, b, 20)
    assert repeated == [0]
    if name == "fp64":
        read = [step.bytes_read for step in task.recorder.steps]
        assert read[1] - read[0] == 2 * 2 * 8 * 70


class Diagonal(Preconditioner):
    """Divides by a diagonal."""

    def __init__(self, diagonal):
        self._inverse = to_device(1.0 / diagonal)

    def apply(self, r):
        """Return the quotient."""
        return r * self._inverse


@pytest.mark.parametrize("name", ["fp64", "blocks"])
def test_a_preconditioner_acts_on_whole_vectors_of_their_own_length(device, name):
    dense = np.diag(np.arange(1.0, 41.0)) + 0.01 * np.random.default_rng(1).standard_normal((40, 40))
    matrix = Matrix.from_dense(dense)
    task, b = a_task(name, matrix, preconditioner=Diagonal(np.diag(dense)))
    found, _ = residuals(task, matrix, b, 20)
    assert len(found) < 10


def test_a_basis_uses_its_memory_again(device):
    basis, wide, narrow = Basis(256, 40), StoredAs(None, None, 64), StoredAs(BFP16, None, 16)
    first = [basis.add(wide) for _ in range(SLAB_VECTORS + 1)]
    basis.add(narrow)
    assert [run.count for run in basis.runs] == [SLAB_VECTORS + 1, 1]
    basis.cut(SLAB_VECTORS)
    assert [run.count for run in basis.runs] == [SLAB_VECTORS]
    assert basis.add(wide) == first[-1]
    assert basis.bits == [64] * (SLAB_VECTORS + 1)


def test_no_vector_has_more_layers_than_the_one_before(device):
    basis = LayeredBasis(256, 40, BFP16)
    given = [48, 48, 16, 32, 16]
    places = [basis.add(StoredAs(BFP16, None, bits)) for bits in given]
    assert basis.bits == [48, 48, 16, 16, 16]
    assert [len(each) for each in places] == [3, 3, 1, 1, 1]
    assert [run.count for run in basis.runs] == [5, 2, 2]
    basis.cut(1)
    assert [run.count for run in basis.runs] == [1, 1, 1]
    basis.cut(0)
    assert basis.runs == []
    assert basis.add(StoredAs(BFP16, None, 48))[0] == places[0][0]


def test_the_results_of_the_longest_cycle_fit_one_copy(device):
    task, _ = a_task("fp64", Matrix.from_scipy(stencil(5, 27)))
    numbers = task.stored.arnoldi(task, MOST_STEPS)._numbers
    assert numbers.size > 6 * MOST_STEPS
    assert device.fetch_async(numbers)().size == numbers.size


def test_other_formats_and_very_long_cycles_take_vector_operations(device):
    matrix = Matrix.from_dense(np.eye(3))
    task, _ = a_task("fp64", matrix)
    assert task.stored.arnoldi(task, 100) is not None
    assert task.stored.arnoldi(task, MOST_STEPS + 1) is None
    recorder = Recorder(9, 1.0, None, lambda: 0.0)
    assert task.stored.arnoldi(SolveTask(task.exact, task.stored, task.b, 1.0, recorder, (FP16,)), 9) is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*FORMATS, *SLOW_FORMATS])
def test_solves_on_a_gpu(gpu_backend, name):
    matrix = Matrix.from_scipy(stencil(7, 40))
    task, b = a_task(name, matrix, goal=1e-9)
    residuals(task, matrix, b, 100)


@pytest.mark.parametrize("name", ["fp64", "blocks"])
def test_bytes_of_the_parts_of_a_step_are_those_that_the_step_reports(device, name):
    matrix, count = Matrix.from_scipy(stencil(5, 9)), 12

    def steps(most):
        task, _ = a_task(name, matrix)
        made = CudaArnoldi(task.stored, task, count + 1)
        r, size = task.residual(task.zeros())
        made.begin(r, size, cycle_limits(task, size, most))
        found = []
        while more := made.run():
            found += more
        return made, found

    made, done = steps(count)
    assert len(done) == count
    launches = made.stages()
    again, further = steps(count + 1)
    bits = further[-1].bits or 2 * sum(again.bits[:-1])
    padded = 256
    in_basis = made.stage_bytes["dots"] + made.stage_bytes["combination"] - 3 * 8 * padded
    assert 8 * in_basis == bits * padded
    assert made.stage_bytes["store"] == padded * (8 + made.bits[-1] // 8 + (8 if name == "blocks" else 0))
    # The parts in their order are a step: its vector is that of the step itself.
    for launch in launches.values():
        launch()
    np.testing.assert_allclose(copy_to_host(made._w), copy_to_host(again._w), atol=1e-12)
