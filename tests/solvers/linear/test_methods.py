"""Methods of linear systems against dense algebra: bits of a basis, widening, spectra, and corrections in few bits."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.api.linear.choice import BYTES
from cpms.backends.cpu.product import CpuProduct
from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BLOCK_FLOATS
from cpms.formats.formats import FP16, FP32, FP64
from cpms.solvers.linear.cg import cg, cg_on_trial_in_runs
from cpms.solvers.linear.chebyshev import spectrum
from cpms.solvers.linear.gmres import choice, gmres
from cpms.solvers.linear.power_iteration import power_iteration
from cpms.solvers.linear.shared_reads import alone
from cpms.solvers.linear.widening import widened
from cpms.sources.matrices.stencils import stencil
from cpms.sparse.matrix import Matrix


def a_task(dense, formats=(None,), goal=1e-10, most=500):
    operator = CpuProduct.of(Matrix.from_dense(dense), ProductRequest(FP64))
    return SolveTask(operator, operator, np.ones(len(dense)), goal, Recorder(most, 1.0, None, lambda: 0.0), formats)


def test_conjugate_gradients_end_where_a_singular_matrix_lets_the_residual_grow():
    chain = np.diag(np.full(34, -1.0), 1) + np.diag(np.full(34, -1.0), -1)
    task = a_task(chain - np.diag(chain.sum(axis=1)), most=2500)
    task = replace(task, b=np.random.default_rng(0).standard_normal(35))  # Its mean is not 0, as that of all A x is.
    x = task.zeros()
    assert cg(task, x) is SolveStatus.DIVERGED
    assert len(task.recorder.steps) <= 2000
    assert not x.any()


@given(st.integers(1, 52))
def test_a_basis_vector_keeps_its_digits_in_the_fewest_bits(digits):
    rng = np.random.default_rng(digits)
    v = rng.standard_normal(640) / 25.0
    task = a_task(np.eye(640))
    for formats in ((BYTES,), BLOCK_FLOATS, (FP16, FP32)):
        found = choice(formats, digits)
        stored = task.stored.convert(v, found.storage, write=found.segments)
        back = task.stored.convert(stored, None, found.segments)
        assert np.linalg.norm(back - v) <= 2.0 ** (1 - digits) * np.linalg.norm(v)
        assert found.bits <= 64


@pytest.mark.parametrize(
    "formats",
    # Of bytes, each number of segments compiles loops of its own.
    [(None,), pytest.param((BYTES,), marks=pytest.mark.slow), BLOCK_FLOATS],
    ids=["fp64", "bytes", "block floats"],
)
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12))
def test_gmres_solves_what_is_well_conditioned(formats, seed, size, restart):
    rng = np.random.default_rng(seed)
    dense = 4.0 * np.eye(size) + rng.standard_normal((size, size)) / np.sqrt(size)
    task = a_task(dense, formats)
    x = task.zeros()
    assert gmres(task, x, restart=restart) is SolveStatus.CONVERGED
    assert np.linalg.norm(1.0 - dense @ x) <= 1.01e-10


def test_gmres_in_float64_takes_no_more_iterations_than_there_are_eigenvalues():
    task = a_task(np.diag([1.0, 2.0, 2.0, 5.0, 5.0, 5.0]))
    assert gmres(task, task.zeros()) is SolveStatus.CONVERGED
    assert len(task.recorder.steps) == 3


@pytest.mark.parametrize("formats", [(None,), (FP32,), BLOCK_FLOATS])
def test_gmres_without_progress_at_the_last_iteration_has_run_out_of_iterations(formats):
    shift = np.roll(np.eye(8), 1, axis=0)  # The residual of e_1 does not fall before the eighth step.
    task = replace(a_task(shift, formats, most=5), b=np.eye(8)[0])
    x = task.zeros()
    assert gmres(task, x) is SolveStatus.MAX_ITERATIONS
    assert not task.recorder.notes
    task = replace(task, recorder=a_task(shift, formats, most=8).recorder)
    assert gmres(task, x) is SolveStatus.CONVERGED


def test_power_iteration_goes_on_in_more_bits_where_few_make_a_product_0():
    task = a_task(np.diag([0.0, 1.0]), (FP16,))
    x = np.array([1.0, 1e-9])  # float16 has nothing between 0 and 6e-8.
    status, value = power_iteration(task, x, tol=1e-10)
    assert (status, value) == (SolveStatus.CONVERGED, pytest.approx(1.0))
    assert x.tolist() == [0.0, pytest.approx(1.0)]


def test_widening_tries_each_format_once_and_keeps_the_better_x():
    seen = []

    def method(task, x):
        seen.append(task.formats[0])
        x += 1.0 if task.formats[0] is None else np.nan
        return SolveStatus.CONVERGED if task.formats[0] is None else SolveStatus.STAGNATED

    task = a_task(np.eye(3), (FP16, FP32))
    x = np.zeros(3)
    assert widened(method, task, x) is SolveStatus.CONVERGED
    assert (seen, x.tolist(), len(task.recorder.notes)) == ([FP16, FP32, None], [1.0] * 3, 2)


def test_spectra_contain_all_eigenvalues_of_a_grid():
    dense = stencil(5, 9).toarray()
    inverse = 1.0 / np.diag(dense)
    found = spectrum(a_task(dense), inverse)
    values = np.linalg.eigvals(inverse[:, None] * dense).real
    assert found.least <= values.min() * 1.01
    assert found.most >= values.max()


@pytest.mark.parametrize("dense", [np.diag([1.0, -1.0]), -np.eye(2)])
def test_spectra_of_indefinite_matrices_are_none(dense):
    assert spectrum(a_task(dense), 1.0 / np.diag(dense)) is None


def test_a_trial_ends_where_the_residual_does_not_fall_and_keeps_no_worse_x():
    size = 2000
    chain = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
    operator = CpuProduct.of(Matrix.from_scipy(scipy.sparse.csr_array(chain)), ProductRequest(FP64))
    b = np.random.default_rng(0).standard_normal(size)
    task = SolveTask(operator, operator, b, 1e-9, Recorder(5000, 1.0, None, lambda: 0.0), (FP32,))
    x = np.zeros(size)
    assert alone(cg_on_trial_in_runs(task, x)) is SolveStatus.STAGNATED
    assert len(task.recorder.steps) == 300
    assert task.residual(x)[1] <= np.linalg.norm(b)
    long = SolveTask(operator, operator, b, 1e-9, Recorder(5000, 1.0, None, lambda: 0.0), (FP32,))
    assert cg(long, x) is SolveStatus.CONVERGED


class CountedTask(SolveTask):
    """A task that counts the residuals in float64."""

    found: ClassVar[list[float]] = []

    def residual(self, x):
        r, size = super().residual(x)
        self.found.append(size)
        return r, size


@pytest.mark.parametrize("formats", [(None,), (FP32,)])
def test_gmres_finds_one_residual_for_each_cycle_and_one_before(formats):
    task = a_task(stencil(5, 6).toarray(), formats)
    task = CountedTask(**vars(task))
    task.found.clear()
    x = task.zeros()
    assert gmres(task, x, restart=5) is SolveStatus.CONVERGED
    ends = [step.iteration for step in task.recorder.steps if step.exact]
    assert len(task.found) == len(ends) + 1 > 4
    assert task.found[0] == 6.0
    assert [task.recorder.steps[end - 1].residual for end in ends] == task.found[1:]
    assert task.recorder.other_bytes == len(task.found) * task.exact.bytes_read()


def test_gmres_takes_a_cycle_back_that_makes_the_residual_grow_and_goes_on_from_there():
    dense = stencil(5, 4).toarray()
    task = CountedTask(**vars(a_task(dense, (FP16,))))
    task.found.clear()
    spoiled = CpuProduct.of(Matrix.from_dense(-np.eye(16)), ProductRequest(FP64))  # Its cycle makes x worse.
    x = task.zeros()
    assert gmres(replace(task, stored=spoiled), x) is SolveStatus.CONVERGED
    assert task.found[1] > task.found[0] == task.found[2]
    assert task.recorder.notes == ["a cycle without progress: widened to 64 bits"]
    assert np.linalg.norm(1.0 - dense @ x) <= 1.01e-10


def test_conjugate_gradients_that_succeed_find_no_residual_for_a_failure():
    for solve in (cg, lambda task, x: alone(cg_on_trial_in_runs(task, x))):
        task = CountedTask(**vars(a_task(stencil(5, 6).toarray())))
        task.found.clear()
        assert solve(task, task.zeros()) is SolveStatus.CONVERGED
        assert len(task.found) == 1 + sum(step.exact for step in task.recorder.steps)
