"""Right-hand sides that share reads of the matrix: each has the answer of its own solve, to the last bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import SolveStatus
from cpms.backends.cpu.krylov import row_products
from cpms.base import threads
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.sources.matrices.stencils import diffusion, stencil

SIDE = 20


def scattered():
    """Return a grid whose points are numbered at random, with a diagonal that differs."""
    rng = np.random.default_rng(3)
    order, more = rng.permutation(SIDE**3), scipy.sparse.diags_array(rng.random(SIDE**3) * 30.0)
    return scipy.sparse.csr_array((stencil(7, SIDE) + more)[order][:, order])


CASES = {
    "columns": (scattered, {}, row_products.COLUMNS),
    "distances": (lambda: diffusion(side=SIDE, dimensions=3), {"vectors": "fp64"}, row_products.DISTANCES),
}


@cache
def solver(name, method="cg", engine="cpu"):
    made, options, _ = CASES[name]
    return cpms.Solver(made(), method=method, engine=engine, **options)


def report(found):
    """Return all that a solution says apart from bytes, seconds and the column."""
    steps = [(step.iteration, step.residual, step.bits, step.exact) for step in found.history]
    return found.x.tobytes(), found.status, found.certificate, steps, found.reason, found.preconditioner


def right_hand_sides(A, kinds, seed):
    """Return columns of different difficulty."""
    rng, size = np.random.default_rng(seed), A.shape[0]
    of = {
        "random": lambda: rng.standard_normal(size),
        "smooth": lambda: np.ones(size),
        "zero": lambda: np.zeros(size),
        "product": lambda: A @ rng.standard_normal(size),
        "point": lambda: 1e200 * (np.arange(size) == size // 3),
        "tiny": lambda: 1e-200 * rng.standard_normal(size),
    }
    return np.array([of[kind]() for kind in kinds]).reshape(len(kinds), size).T


KINDS = st.lists(st.sampled_from(["random", "smooth", "zero", "product", "point", "tiny"]), max_size=7)


@pytest.mark.representatives(name=("columns",))
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None)
@given(KINDS, st.integers(0, 100), st.booleans(), st.sampled_from([None, 9]), st.integers(1, 2))
def test_each_right_hand_side_has_the_answer_of_its_own_solve(name, kinds, seed, is_warm, most, count):
    ours = solver(name)
    assert ours._prepared.stored._lane_matrix.shape == CASES[name][2]
    B = right_hand_sides(ours.system.matrix.to_scipy(), kinds, seed)
    X = 0.5 * np.roll(B, 1, axis=1) if is_warm else None
    steps = []
    with threads.limited(count):
        found = ours.solve(B, x0=X, max_iterations=most, on_step=steps.append)
    alone = [ours.solve(B[:, j], x0=None if X is None else X[:, j], max_iterations=most) for j in range(len(kinds))]
    assert list(map(report, found)) == list(map(report, alone))
    for j, each in enumerate(found):
        assert [(step.column, step.iteration) for step in each.history] == [(j, i + 1) for i in range(each.iterations)]
        assert len([step for step in steps if step.column == j]) == each.iterations
        assert each.bytes_read <= alone[j].bytes_read
    order = np.random.default_rng(seed).permutation(len(kinds))
    turned = ours.solve(B[:, order], x0=None if X is None else X[:, order], max_iterations=most)
    assert [report(each) for each in turned] == [report(found[j]) for j in order]


@pytest.mark.parametrize(
    ("method", "engine"), [("gmres", "cpu"), ("jacobi", "cpu"), ("refine", "cpu"), ("cg", "reference")]
)
def test_other_methods_and_engines_solve_one_after_the_other(method, engine):
    A = stencil(5, 5) + 3.0 * scipy.sparse.eye_array(25)
    ours, B = cpms.Solver(A, method=method, engine=engine), np.random.default_rng(1).standard_normal((25, 3))
    assert list(map(report, ours.solve(B))) == [report(ours.solve(b)) for b in B.T]
    assert [len(ours.solve(B[:, :k])) for k in (0, 1)] == [0, 1]


def test_a_shared_read_counts_once():
    ours, b = solver("columns"), np.random.default_rng(2).standard_normal(SIDE**3)
    alone, found = ours.solve(b), ours.solve(np.stack([b, b, b], axis=1))
    matrix = ours._prepared.stored._lane_matrix.nbytes
    for step, *of_all in zip(alone.history, *(each.history for each in found), strict=True):
        assert sum(each.bytes_read for each in of_all) == 3 * step.bytes_read - 2 * matrix
        assert max(each.bytes_read for each in of_all) <= min(each.bytes_read for each in of_all) + 1
    assert 3 * alone.bytes_read - sum(each.bytes_read for each in found) == 2 * matrix * alone.iterations


def test_a_failure_ends_no_other_solve(monkeypatch):
    monkeypatch.setattr("cpms.backends.cpu.krylov.cg._LEAST_SHARED", 0)
    rng = np.random.default_rng(4)
    definite = stencil(7, 8) + scipy.sparse.diags_array(rng.integers(0, 9, 512).astype(np.float64))
    A = scipy.sparse.block_diag([definite, [[-1.0]]], format="csr")
    B = rng.standard_normal((513, 4))
    B[-1] = [0.0, 1.0, 0.0, 1e-3]
    ours = cpms.Solver(A, method="cg", engine="cpu")
    assert ours._prepared.stored is ours._prepared.exact
    found = ours.solve(B)
    assert list(map(report, found)) == [report(ours.solve(b)) for b in B.T]
    assert [each.status for each in found][:3] == [SolveStatus.CONVERGED, SolveStatus.INDEFINITE, SolveStatus.CONVERGED]


@pytest.mark.parametrize(
    ("A", "vectors", "shares"),
    [
        (stencil(7, 32), "fp32", False),
        (scattered()[:300, :300], "fp32", False),
        (scattered(), "bfp16", False),
        (scattered(), "fp32", True),
    ],
    ids=["grid", "small", "block floats", "scattered"],
)
def test_reads_are_shared_where_that_saves_time(A, vectors, shares):
    ours = cpms.Solver(A, method="cg", engine="cpu", vectors=vectors)
    exact, stored, x = ours._prepared.exact, ours._prepared.stored, np.zeros(A.shape[0])
    task = SolveTask(exact, stored, x, 1.0, Recorder(1, 1.0, None, float), ours.choice.vectors)
    assert (stored.conjugate_gradients(task, x).shared_read is not None) is shares
    assert stored.conjugate_gradients(task, np.zeros(2 * len(x))[::2]) is None


def test_an_error_of_on_step_ends_all_solves():
    def interrupt(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solver("columns").solve(np.ones((SIDE**3, 2)), on_step=interrupt)
