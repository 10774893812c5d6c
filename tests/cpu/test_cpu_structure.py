"""Jagged diagonals and acyclic graphs on processors: one pass solves, a cycle is noticed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cpu_refinement_cases import random_graph
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, check
from cpms.backends.cpu.reduced_refinement import CpuTrimmedRefinement, prepared
from cpms.backends.cpu.substitution import acyclic
from cpms.certify import residual
from cpms.formats.formats import FP16
from cpms.problems.pagerank import Problem
from cpms.sparse import jagged
from cpms.testing import distributions, graphs

# Jagged diagonals


def in_rows(matrix, low, high):
    """Return each row's entries of one block, by walking its diagonals."""
    rows = [[] for _ in range(high - low)]
    at, column = int(matrix.starts[low // jagged.BLOCK_ROWS]), 0
    lengths = matrix.lengths[low:high].tolist()
    while (going := sum(length > column for length in lengths)) >= jagged.FEWEST_ROWS:
        for i in range(going):
            rows[i].append(int(matrix.sources[at + i]))
        at, column = at + going, column + 1
    for i in range(going):
        rows[i] += matrix.sources[at : at + lengths[i] - column].tolist()
        at += lengths[i] - column
    assert at == int(matrix.starts[low // jagged.BLOCK_ROWS + 1])
    return rows


def same_structure(graph):
    matrix = jagged.build(graph)
    assert sorted(matrix.nodes.tolist()) == list(range(graph.nodes))
    for low in range(0, graph.nodes, jagged.BLOCK_ROWS):
        high = min(low + jagged.BLOCK_ROWS, graph.nodes)
        assert set(matrix.nodes[low:high].tolist()) == set(range(low, high))
        assert (np.diff(matrix.lengths[low:high].astype(int)) <= 0).all()
        for i, row in enumerate(in_rows(matrix, low, high)):
            node = matrix.nodes[low + i]
            stored = graph.sources[graph.indptr[node] : graph.indptr[node + 1]]
            assert matrix.nodes[row].tolist() == stored.tolist()


@pytest.mark.quick
@given(graph=graphs(weighted=False, max_nodes=30))
def test_jagged_diagonals_hold_each_row_in_its_order(graph):
    same_structure(graph)


@pytest.mark.parametrize("nodes", [2047, 2048, 2049, 5000])
def test_jagged_diagonals_of_several_blocks(nodes):
    same_structure(random_graph(nodes, 4 * nodes))


# Acyclic graphs


def some_acyclic_graph(draw):
    nodes = draw(st.integers(1, 25))
    numbering = draw(st.permutations(range(nodes)))
    node = st.integers(0, nodes - 1)
    pairs = [sorted(pair) for pair in draw(st.lists(st.tuples(node, node), max_size=60))]
    kind = draw(st.sampled_from(["mixed", "upwards", "downwards"]))
    named = {"mixed": numbering, "upwards": range(nodes), "downwards": range(nodes)[::-1]}[kind]
    return Graph.from_edges([named[a] for a, _ in pairs], [named[b] for _, b in pairs], nodes=nodes)


ACYCLIC = st.composite(some_acyclic_graph)()


@pytest.mark.quick
@given(graph=ACYCLIC, data=st.data())
def test_acyclic_graphs_are_solved_by_one_pass(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    damping = data.draw(st.floats(0.01, 0.99))
    result = cpms.pagerank(
        graph, method="refine", engine="cpu", damping=damping, personalization=teleport, dangling=rule, tol=1e-12
    )
    assert (result.converged, result.iterations) == (True, 1)
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


@given(graph=ACYCLIC, data=st.data())
def test_one_edge_that_closes_a_cycle_is_noticed(graph, data):
    assert acyclic(Problem(graph)) is not None
    if not graph.edges:
        return
    k = data.draw(st.integers(0, graph.edges - 1))
    source, target = int(graph.sources[k]), int(graph.targets[k])
    if source != target:
        closed = Graph.from_edges(np.append(graph.sources, target), np.append(graph.targets, source), nodes=graph.nodes)
        assert acyclic(Problem(closed)) is None
        assert acyclic(Problem(closed)) is None


def test_a_long_cycle_and_a_deep_path_need_no_deep_stack():
    random = np.random.default_rng(2)
    path = random.permutation(100_000)
    edges = list(itertools.pairwise(path.tolist()))
    chain = Graph.from_edges([a for a, _ in edges], [b for _, b in edges])
    result = cpms.pagerank(chain, method="refine", engine="cpu", tol=1e-13)
    assert (result.converged, result.iterations) == (True, 1)
    ring = Graph.from_edges(np.append(chain.sources, path[-1]), np.append(chain.targets, path[0]))
    assert acyclic(Problem(ring)) is None


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_step_of_one_pass_tells_the_recomputed_residual(norm):
    chain, seen = Graph.from_edges(np.arange(99), np.arange(1, 100)), []
    result = cpms.pagerank(chain, method="refine", engine="cpu", norm=norm, on_step=seen.append)
    assert seen == list(result.history)
    assert (result.iterations_by_bits, seen[0].mass) == ({64: 1}, 1.0)
    scaled = result.ranks / result.ranks.sum()
    assert seen[0].residual == pytest.approx(residual.residual(Problem(chain), scaled, norm), rel=1e-3, abs=1e-18)


def test_what_a_pass_gets_wrong_is_refined(monkeypatch):
    chain = Graph.from_edges(np.arange(99), np.arange(1, 100))
    monkeypatch.setattr(CpuTrimmedRefinement, "solve_reduced", lambda *_: np.full(100, 0.01))
    result = cpms.pagerank(chain, method="refine", engine="cpu")
    assert result.converged
    assert result.iterations > 1


def test_what_passes_leave_out_is_no_part_of_what_is_prepared():
    ring, tail = np.arange(30), np.arange(30, 100)
    graph = Graph.from_edges(np.append(ring, tail - 1), np.append(np.roll(ring, -1), tail))
    for smaller in (Graph.from_edges(tail - 1, tail, nodes=100), graph):
        refinement = prepared(Problem(smaller))
        before = refinement.nbytes
        assert (
            refinement.solve_reduced(
                lambda core: core.outer_step(FP16, inner_reduction=0.1, tol=1e-9, norm="l1", max_inner=50)
            )
            is not None
        )
        assert refinement.nbytes == before
        refinement.start(np.full(100, 0.01))
        assert refinement.nbytes > before


def test_a_start_of_ones_own_is_kept_on_acyclic_graphs():
    chain = Graph.from_edges(np.arange(99), np.arange(1, 100))
    result = cpms.pagerank(chain, method="refine", engine="cpu", start=np.eye(100)[0])
    assert result.converged
    assert result.iterations > 1
