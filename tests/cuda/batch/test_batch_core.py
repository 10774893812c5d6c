"""Batches where some nodes alone are swept: the core, what it reaches, and dangling mass."""

import numpy as np
import pytest
from batch_cases import GRAPHS, LEAVE_OUT_ALL, few, queries_on, round_of, spread, uniform
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, personalized_pagerank
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.certify.batch import BatchCertifier
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16, FP32
from cpms.precision.refinement_policy import FixedReduction, InnerPlan, default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_refine import refine_all
from cpms.testing import graphs


def test_nodes_that_lead_to_no_cycle_are_not_swept(device):
    leaves = spread(300, 500, 2)
    for graph in (*GRAPHS.values(), leaves):
        core = BatchCore.of(Problem(graph), LEAVE_OUT_ALL)
        leads_on = np.ones(graph.nodes, bool)
        for _ in range(graph.nodes):
            going = np.bincount(graph.sources, leads_on[graph.targets], graph.nodes) > 0
            if (going == leads_on).all():
                break
            leads_on = going
        np.testing.assert_array_equal(device.to_host(core.order)[: core.swept.count], np.flatnonzero(leads_on))
        kept = np.bincount(graph.sources, leads_on[graph.targets], graph.nodes)[leads_on]
        np.testing.assert_array_equal(device.to_host(core.swept.internal_degree), kept)
        assert core.swept.count + sum(level.count for level in core.levels) == graph.nodes
    assert len(BatchCore.of(Problem(leaves), LEAVE_OUT_ALL).levels) > 1


@given(graph=graphs(weighted=False), data=st.data())
@few
def test_queries_are_answered_where_few_nodes_are_swept(device, graph, data):
    nodes = st.integers(0, graph.nodes - 1)
    named = data.draw(st.lists(st.lists(nodes, min_size=1, max_size=3, unique=True), min_size=1, max_size=5))
    queries = [Query(np.sort(np.array(each)), np.full(len(each), 1 / len(each))) for each in named]
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem, stopping = Problem(graph, data.draw(st.floats(0.05, 0.6)), None, rule), Stopping(1e-8)
    batch = CudaRefinementBatch(problem, BatchCore.of(problem, LEAVE_OUT_ALL))
    answers = batch.solve(queries, uniform(graph), default_policy(FP16), stopping)
    for each, (ranks, status, _) in zip(named, answers, strict=True):
        options = {"damping": problem.damping, "dangling": rule, "tol": 1e-10}
        alone = cpms.pagerank(graph, personalization=each, engine="reference", **options)
        assert status is Status.CONVERGED
        found = device.to_host(ranks)
        assert abs(found.sum() - 1.0) < 1e-12
        assert np.abs(found - alone.ranks).sum() <= 1e-8 / (1.0 - problem.damping) + alone.error_bound


def test_outer_steps_of_a_core_are_those_of_its_own_operator(device):
    graph, damping = spread(300, 500, 2), 0.85
    queries, problem = queries_on(graph, 7)[::3], Problem(graph, damping)  # of all nodes
    core = BatchCore.of(problem, LEAVE_OUT_ALL)
    inside = device.to_host(core.order)[: core.swept.count]
    whole = np.zeros((graph.nodes, graph.nodes))
    np.add.at(whole, (graph.targets, graph.sources), 1.0 / graph.out_degree[graph.sources])
    carried = whole[np.ix_(inside, inside)]
    assert carried.sum() < 0.8 * whole[:, inside].sum()

    batch = CudaRefinementBatch(problem, core)
    batch.anderson = False
    batch.start(queries, uniform(graph))
    rounds = [round_of(batch, [InnerPlan(FP32, 1e-3)] * 3, most=[7] * 3) for _ in range(2)]
    for query, *found in zip(queries, *rounds, strict=True):
        b = query.teleport(graph.nodes)[inside]
        b /= b.sum()
        operator = damping * (carried + np.outer(b, 1.0 - carried.sum(axis=0)))
        x = np.full(len(b), 1.0 / len(b))
        for sweep, low in found:
            y = operator @ x + (1.0 - damping) * b
            r = y - x
            np.testing.assert_allclose(sweep, (np.abs(r).sum(), (r @ r) ** 0.5, np.abs(r).max(), 1.0), rtol=2e-4)
            x = y
            for norm in low:
                r = operator @ r
                np.testing.assert_allclose(norm, np.abs(r).sum(), rtol=2e-4)
                x = x + r
        assert min(len(low) for _, low in found) == 6


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_what_is_behind_follows_whatever_ends_a_solve(device, limit):
    graph = Graph.from_edges([0, 1, 1, 2, 3, 3, 4, 0], [1, 0, 2, 3, 4, 5, 5, 5], nodes=7)
    problem, stopping = Problem(graph), Stopping(1e-9, max_iterations=limit)
    queries = [Query(np.array(nodes), np.full(len(nodes), 1 / len(nodes))) for nodes in ([0], [1, 3], [3], [5, 6], [6])]
    batch = CudaRefinementBatch(problem, BatchCore.of(problem, LEAVE_OUT_ALL))
    assert (batch._core.swept.count, [level.count for level in batch._core.levels]) == (2, [1, 1, 1, 2])
    answers = batch.solve(queries, uniform(graph), FixedReduction(FP16, 1e-3), stopping)
    for place, (query, (ranks, status, history)) in enumerate(zip(queries, answers, strict=True)):
        x, teleport = device.to_host(ranks), query.teleport(graph.nodes)
        assert (status is Status.CONVERGED) == (limit == 1000 or place > 1)
        assert len(history) == 1 or place < 2
        y = np.zeros(graph.nodes)
        np.add.at(y, graph.targets, (0.85 * x / np.maximum(graph.out_degree, 1))[graph.sources])
        returned = x[2:] - y[2:]  # is a multiple of the teleport, however far the others have come
        np.testing.assert_allclose(returned, teleport[2:] * (1.0 - y.sum()), rtol=1e-12, atol=1e-16)
        residual = np.abs(y + (1.0 - y.sum()) * teleport - x).sum()
        assert residual <= history[-1].residual + 1e-12


@pytest.mark.parametrize("method", ["power", "refine"])
def test_an_answer_does_not_depend_on_its_neighbours(device, method):
    graph = GRAPHS["small"]
    options = {"engine": "cuda", "method": method, "tol": 1e-5, "damping": 0.5}
    queries = [3, [1, 119], {7: 0.5, 8: 1.5}, 100]
    together = personalized_pagerank(graph, queries, **options)
    for width in (1, 3):
        for a, b in zip(together, personalized_pagerank(graph, queries, width=width, **options), strict=True):
            np.testing.assert_array_equal(a.ranks, b.ranks)
            assert [step.residual for step in a.history] == [step.residual for step in b.history]


@pytest.mark.parametrize("weight", [0.5, 1.0 - 1e-9, 1e-200])
def test_what_hardly_leaves_or_reaches_the_swept_nodes_is_still_exact(device, weight):
    damping = 1.0 - 1e-12
    problem = Problem(Graph.from_edges([0, 1], [1, 0], nodes=3), damping)
    query = Query(np.arange(3), np.array([weight / 2, weight / 2, 1.0 - weight]))
    batch = CudaRefinementBatch(problem, BatchCore.of(problem, LEAVE_OUT_ALL))
    assert batch._core.swept.count == 2
    ((ranks, status, _),) = batch.solve([query], uniform(problem.graph), FixedReduction(FP16), Stopping())
    assert status is Status.CONVERGED
    # On the cycle y = v / (1 - damping), beside it y = v.
    y = np.array([weight / 2, weight / 2, (1.0 - weight) * (1.0 - damping)])
    np.testing.assert_allclose(device.to_host(ranks), y / y.sum(), rtol=1e-9, atol=1e-100)


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_dangling_mass_goes_to_all_nodes_where_few_are_swept(device, limit):
    graph = spread(300, 500, 2)
    problem, stopping = Problem(graph, 0.85, None, "uniform"), Stopping(1e-9, max_iterations=limit)
    queries = queries_on(graph, 5)
    batch = CudaRefinementBatch(problem, BatchCore.of(problem, LEAVE_OUT_ALL))
    assert 0 < batch._core.swept.count < 250
    referee = BatchCertifier(problem, stopping)
    for query, (ranks, status, history) in zip(
        queries, batch.solve(queries, uniform(graph), FixedReduction(FP16, 1e-3), stopping), strict=True
    ):
        x = device.to_host(ranks)
        assert x.min() >= 0.0
        assert abs(x.sum() - 1.0) < 1e-12
        ((checked, residual),) = referee.certify([query], [x], [status])
        assert checked is status
        assert residual <= history[-1].residual + 1e-13


@pytest.mark.parametrize("rule", ["teleport", "uniform"])
def test_an_answer_does_not_depend_on_its_neighbours_where_few_nodes_are_swept(device, rule):
    problem, stopping = Problem(spread(300, 500, 2), 0.5, None, rule), Stopping(1e-6)
    core, queries = BatchCore.of(problem, LEAVE_OUT_ALL), queries_on(problem.graph, 18)
    assert core.swept.count < 250

    def solved(some):
        return refine_all(
            CudaRefinementBatch(problem, core), some, uniform(problem.graph), default_policy(FP16), stopping
        )

    together = solved(queries)
    for place in (0, 1, 17):
        ((ranks, _, history),) = solved(queries[place : place + 1])
        np.testing.assert_array_equal(device.to_host(ranks), device.to_host(together[place][0]))
        assert [step.residual for step in history] == [step.residual for step in together[place][2]]
