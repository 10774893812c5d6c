"""Ranks against the exact solution, NetworkX and igraph, within the bound that is given."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from pagerank_cases import distance, exact_ranks, l1

from cpms import (
    Fixed,
    Graph,
    check,
    pagerank,
)
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

rules = st.sampled_from(["teleport", "uniform"])


# Against exact arithmetic


@pytest.mark.parametrize(("storage", "layout"), [("fp64", "auto"), ("cpms4", "ell"), ("fp16-scaled", "csr")])
@given(graph=graphs(max_nodes=6), data=st.data())
def test_ranks_are_the_exact_solution(storage, layout, graph, data):
    damping, rule = data.draw(st.sampled_from([0.85, 0.5, 0.15])), data.draw(rules)
    teleport = data.draw(st.none() | distributions(graph.nodes))
    result = pagerank(
        graph, storage=storage, layout=layout, damping=damping, personalization=teleport, dangling=rule, tol=1e-13
    )
    error = distance(result.ranks, exact_ranks(graph, damping, teleport, rule))
    assert result.converged
    assert error <= 1e-13 / (1 - damping)
    assert error <= result.error_bound
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


@pytest.mark.quick
@given(graph=graphs(max_nodes=6), tol=st.sampled_from([0.3, 1e-2, 1e-5]), data=st.data())
@settings(max_examples=60)
def test_the_bound_holds_whatever_the_solver_did(graph, tol, data):
    storage = data.draw(st.sampled_from(["cpms4", "fp16-scaled", "fp64"]))
    controller = data.draw(st.sampled_from([None, Fixed(1)]))
    rule = data.draw(rules)
    result = pagerank(graph, storage=storage, layout="csr", tol=tol, controller=controller, dangling=rule)
    error = distance(result.ranks, exact_ranks(graph, 0.85, None, rule))
    assert error <= result.error_bound


ADVERSARIAL = {
    "star inwards": (np.arange(1, 1000), np.zeros(999, int), 1000),
    "star outwards": (np.zeros(999, int), np.arange(1, 1000), 1000),
    "chain": (np.arange(999), np.arange(1, 1000), 1000),
    "ring": (np.arange(1000), np.arange(1, 1001) % 1000, 1000),
    "two components": (
        np.r_[np.arange(500), np.arange(500, 999)],
        np.r_[(np.arange(500) + 1) % 500, np.full(499, 999)],
        1000,
    ),
    "all dangling": ([], [], 1000),
    "none dangling": (np.arange(1000), np.arange(1000) * 7 % 1000, 1000),
    "self-loops": (np.arange(1000), np.arange(1000), 1000),
    "giant hub": (
        np.r_[np.tile(np.arange(1, 10_000), 11), np.zeros(9_999, int)],
        np.r_[np.zeros(109_989, int), np.arange(1, 10_000)],
        10_000,
    ),
    "isolated nodes": ([0, 1], [1, 2], 1_000_002),
    "clique": (np.repeat(np.arange(40), 40), np.tile(np.arange(40), 40), 40),
}


def direct_solution(problem):
    """Solve the linear system with a sparse factorisation: another way than any sweep."""
    from scipy.sparse.linalg import spsolve

    graph = problem.graph
    # x is proportional to the solution of (I - damping P) y = v, since dangling mass goes to v too.
    shares = (1.0 / np.maximum(graph.out_degree, 1))[graph.sources]
    matrix = scipy.sparse.csr_array((shares, (graph.targets, graph.sources)), shape=(graph.nodes,) * 2)
    system = scipy.sparse.eye_array(graph.nodes, format="csc") - problem.damping * matrix.tocsc()
    y = spsolve(system, np.full(graph.nodes, 1.0 / graph.nodes))
    return y / y.sum()


@pytest.mark.representatives(damping=("0.99",))
@pytest.mark.parametrize("shape", ADVERSARIAL)
@pytest.mark.parametrize("damping", [0.85, 0.99])
def test_the_bound_holds_on_adversarial_graphs(shape, damping):
    sources, targets, nodes = ADVERSARIAL[shape]
    graph = Graph.from_edges(sources, targets, nodes=nodes)
    exact = direct_solution(Problem(graph, damping))
    for storage, layout, tol in (
        ("fp64", "auto", 1e-2), ("fp64", "auto", 1e-10), ("cpms4", "csr", 1e-4), ("cpms4", "csr", 1e-10),
    ):  # fmt: skip
        result = pagerank(graph, storage=storage, layout=layout, damping=damping, tol=tol, max_iterations=5000)
        error = l1(result.ranks, exact)
        assert result.converged
        assert error <= result.error_bound + 1e-13
        assert result.error_bound <= tol / (1 - damping)
        assert abs(result.mass - 1.0) <= 1e-12


# Against outside referees


@given(graph=graphs(), data=st.data())
@settings(max_examples=60)
def test_networkx_agrees(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(rules | distributions(graph.nodes))
    theirs = nx.MultiDiGraph()
    theirs.add_nodes_from(range(graph.nodes))
    weights = np.ones(graph.edges) if graph.weights is None else graph.weights
    edges = zip(graph.sources.tolist(), graph.targets.tolist(), weights.tolist(), strict=True)
    theirs.add_weighted_edges_from(edges)
    sink = np.ones(graph.nodes) if isinstance(rule, str) else rule
    expected = nx.pagerank(
        theirs,
        personalization=None if teleport is None else dict(enumerate(teleport.tolist())),
        dangling=None if isinstance(rule, str) and rule == "teleport" else dict(enumerate(sink.tolist())),
        tol=1e-14,
        max_iter=2000,
    )
    result = pagerank(graph, personalization=teleport, dangling=rule, tol=1e-12)
    np.testing.assert_allclose(result.ranks, [expected[node] for node in range(graph.nodes)], rtol=0, atol=1e-11)


@given(graph=graphs(), damping=st.sampled_from([0.85, 0.5]), data=st.data())
@settings(max_examples=60)
def test_igraph_agrees(graph, damping, data):
    import igraph  # A second: it imports Matplotlib.

    teleport = data.draw(st.none() | distributions(graph.nodes))
    edges = np.stack([graph.sources, graph.targets], axis=1).tolist()
    theirs = igraph.Graph(n=graph.nodes, edges=edges, directed=True)
    expected = theirs.personalized_pagerank(
        damping=damping,
        reset=None if teleport is None else teleport.tolist(),
        weights=None if graph.weights is None else graph.weights.tolist(),
        implementation="prpack",
    )
    result = pagerank(graph, damping=damping, personalization=teleport, tol=1e-12)
    np.testing.assert_allclose(result.ranks, expected, rtol=0, atol=1e-9)
