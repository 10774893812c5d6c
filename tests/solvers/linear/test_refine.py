"""The outer iteration of linear systems: any inner solver, and the same sweeps as PageRank's."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms.backends.cpu.product import CpuProduct
from cpms.contracts.linear_solve import Recorder, SolveStatus, SolveTask
from cpms.contracts.product_request import ProductRequest
from cpms.engines import composed
from cpms.formats.formats import FP16, FP32, FP64
from cpms.problems.pagerank import Problem
from cpms.solvers.linear.jacobi import jacobi
from cpms.solvers.linear.refine import outer_iteration, refine
from cpms.solvers.linear.stationary import sweeps_of
from cpms.sparse.matrix import Matrix

SIZE = 200


def a_task(dense, b, formats=(None,), goal=1e-10, most=500):
    operator = CpuProduct.of(Matrix.from_dense(dense), ProductRequest(FP64))
    return SolveTask(operator, operator, b, goal, Recorder(most, 1.0, None, lambda: 0.0), formats)


def a_graph():
    """Return a graph without self-loops whose nodes all have out-edges."""
    random, nodes = np.random.default_rng(2), np.arange(SIZE)
    targets = (nodes + random.geometric(0.05, (4, SIZE))) % SIZE
    sources, targets = np.tile(nodes, 4), targets.reshape(-1)
    kept = sources != targets
    return cpms.Graph.from_edges(
        np.append(nodes, sources[kept]), np.append((nodes + 1) % SIZE, targets[kept]), nodes=SIZE, duplicates="drop"
    )


def pagerank_system(graph, damping=0.85):
    transition = np.zeros((SIZE, SIZE))
    adjacency = graph.to_scipy().toarray()
    transition[:] = (adjacency / adjacency.sum(axis=1, keepdims=True)).T
    return np.eye(SIZE) - damping * transition, np.full(SIZE, (1.0 - damping) / SIZE)


def test_inner_sweeps_of_pagerank_are_jacobis_after_its_first():
    graph = a_graph()
    dense, b = pagerank_system(graph)
    first = np.arange(1.0, SIZE + 1.0) / np.arange(1.0, SIZE + 1.0).sum()
    ours = composed.CPU.refinement(Problem(graph))
    ours.start(first)
    step = ours.outer_step(FP32, inner_reduction=1e-3, tol=1e-12, norm="l1", max_inner=20)

    task = a_task(dense, b)
    r, size = task.residual(first)
    c = task.zeros()
    sweeps = sweeps_of(task, np.ones(SIZE), r, c)
    assert step.found.l2 == pytest.approx(size, rel=1e-12)
    norms = [np.abs(r).sum()]
    for _ in step.inner_l1:
        sweeps.run([(0.0, 1.0)], 0.0, np.inf)
        norms.append(np.abs(r).sum())
    assert [step.found.l1, *step.inner_l1] == pytest.approx(norms, rel=1e-5)
    assert len(step.inner_l1) > 4


@pytest.mark.parametrize("inner", ["gmres", "jacobi", "own sweeps"])
def test_any_inner_solver_finds_pagerank(inner):
    dense, b = pagerank_system(a_graph())

    def own_sweeps(task, x):
        r = task.exact.convert(task.b, None)
        sweeps_of(task, np.ones(SIZE), r, x).run([(0.0, 1.0)] * 10, 0.0, np.inf)
        return SolveStatus.CONVERGED

    own = own_sweeps if inner == "own sweeps" else inner
    found = cpms.solve(dense, b, method="refine", inner=own, vectors="fp16", storage="fp32", tol=1e-12, engine="cpu")
    expected = cpms.pagerank(a_graph(), method="refine", engine="cpu", storage="fp16", tol=1e-13)
    assert found.converged
    assert inner == "own sweeps" or 16 in found.iterations_by_bits
    assert np.abs(found.x - expected.ranks).sum() <= 1e-11


def test_a_correction_of_no_use_is_not_added():
    def correct(task, c, size):
        c[...] = 0.5 * task.b if size > 1.0 else 100.0
        return SolveStatus.CONVERGED if size > 1.0 else None

    task = a_task(np.eye(4), np.ones(4))
    x = task.zeros()
    assert outer_iteration(task, x, correct) is SolveStatus.DIVERGED
    assert x.tolist() == [0.5] * 4


def test_the_last_residual_of_sweeps_that_diverge_is_a_recurrences():
    task = a_task(np.eye(6) + 3.0 * (np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)), np.ones(6))
    assert jacobi(task, task.zeros(), inverse_diagonal=np.ones(6)) is SolveStatus.DIVERGED
    assert not task.recorder.steps[-1].exact


@pytest.mark.parametrize("most", [0, 1, 3])
def test_sweeps_that_are_cut_short_have_not_stagnated(most):
    chain = 2.0 * np.eye(40) - np.diag(np.ones(39), 1) - np.diag(np.ones(39), -1)
    slowest = np.sin(np.pi * np.arange(1, 41) / 41)
    task = a_task(chain, slowest, (FP32, None), most=most)
    assert jacobi(task, task.zeros(), inverse_diagonal=np.full(40, 0.5)) is SolveStatus.MAX_ITERATIONS
    assert len(task.recorder.steps) == most
    assert task.recorder.notes == []


@pytest.mark.parametrize(
    ("returned", "factor", "status"),
    [
        (SolveStatus.BREAKDOWN, 0.0, SolveStatus.BREAKDOWN),
        (SolveStatus.CONVERGED, 0.0, SolveStatus.STAGNATED),
        (SolveStatus.MAX_ITERATIONS, -0.5, SolveStatus.STAGNATED),
        (SolveStatus.CONVERGED, -5.0, SolveStatus.STAGNATED),
        (SolveStatus.CONVERGED, -np.inf, SolveStatus.STAGNATED),
    ],
)
def test_an_outer_step_that_reduces_too_little_ends_with_the_cause(returned, factor, status):
    def inner(task, c):
        c[...] = factor * task.b
        return returned

    task = a_task(np.eye(4), np.ones(4))
    with np.errstate(invalid="ignore"):
        assert refine(task, task.zeros(), inner=inner) is status


def test_steps_of_few_bits_that_round_to_nothing_widen():
    task = a_task(np.eye(3), np.full(3, 1e-12), (FP16,), goal=1e-20)
    x = task.zeros()
    assert jacobi(task, x, inverse_diagonal=np.ones(3)) is SolveStatus.CONVERGED
    assert [step.bits for step in task.recorder.steps] == [16] * 100 + [64]
    np.testing.assert_allclose(x, 1e-12, rtol=1e-12)
