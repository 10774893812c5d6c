"""The core of a graph on processors: found, solved alone, and completed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, check, format_named
from cpms.backends.cpu import node_loops
from cpms.backends.cpu import refinement as _cpu_refinement
from cpms.backends.cpu.reduced_refinement import CpuTrimmedRefinement, prepared
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.backends.cpu.trimmed_core import Core, core
from cpms.base import threads
from cpms.base.compilation import first_call
from cpms.certify import residual
from cpms.contracts.status import Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import solve_by_reduction
from cpms.testing import distributions, graphs_with_a_core

# Graphs of which few nodes lie on cycles or between them


def obvious_core(graph):
    """Take nodes away whose last edge from, or to, what is left has gone, until there are none."""
    left = set(range(graph.nodes))
    edges = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    while True:
        gone = (left - {a for a, _ in edges}) | (left - {b for _, b in edges})
        if not gone:
            return sorted(left)
        left -= gone
        edges = {(a, b) for a, b in edges if a in left and b in left}


@given(graphs_with_a_core(), st.sampled_from([1, 3, 1 << 14]), st.booleans())
def test_the_core_is_what_is_left_when_ends_are_taken_away(graph, part_nodes, compiles):
    by_loops = patch.object(first_call, "spares_loops", lambda: not compiles)
    with patch.object(node_loops, "_PART_NODES", part_nodes), by_loops:
        found, expected = core(Problem(graph)), obvious_core(graph)
    if found is None:
        inner = sum(
            a in set(expected) and b in set(expected) for a, b in zip(graph.sources, graph.targets, strict=True)
        )
        assert inner + 4 * len(expected) > 0.8 * (graph.edges + 4 * graph.nodes)
        return
    assert found.nodes.tolist() == expected
    assert found.internal_degree.tolist() == found.graph.out_degree.tolist()
    places, before = {node: place for place, node in enumerate(expected)}, set(found.up.tolist())
    for row, node in enumerate(expected):
        sources = graph.sources[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        inside = found.graph.sources[found.graph.indptr[row] : found.graph.indptr[row + 1]].tolist()
        entering = found.entering[found.inflow[row] : found.inflow[row + 1]].tolist()
        assert inside == [places[source] for source in sources if source in places]
        assert entering == [source for source in sources if source in before]
    assert sorted([*found.up, *found.nodes, *found.down]) == list(range(graph.nodes))
    order = {node: place for place, node in enumerate([*found.up, *found.nodes, *found.down])}
    kinds = [set(found.up.tolist()), set(found.down.tolist())]
    for a, b in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        assert order[a] < order[b] or not any(a in kind or b in kind for kind in kinds)


@given(graph=graphs_with_a_core(), data=st.data())
def test_graphs_with_a_core_are_solved_and_certified(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    damping, norm = data.draw(st.floats(0.01, 0.95)), data.draw(st.sampled_from(["l1", "l2", "linf"]))
    result = cpms.pagerank(
        graph, method="refine", engine="cpu", damping=damping, personalization=teleport, dangling=rule, tol=1e-11,
        norm=norm,
    )  # fmt: skip
    assert result.converged
    assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


@pytest.mark.slow
def test_numbers_of_64_bits_are_those_of_32():
    graph = cpms.load("weblike:nodes=3000,edges=12000,seed=1")
    wide = replace(graph, sources=graph.sources.astype(np.int64))
    found, same = core(Problem(graph)), core(Problem(wide))
    assert same.nodes.dtype == np.uint64
    for part in ("nodes", "up", "down", "internal_degree", "entering"):
        np.testing.assert_array_equal(getattr(found, part), getattr(same, part))
    np.testing.assert_array_equal(*(cpms.pagerank(g, method="refine", engine="cpu").ranks for g in (graph, wide)))


@given(graph=graphs_with_a_core(), part_nodes=st.sampled_from([1, 3, 1 << 14]), data=st.data())
def test_the_solution_of_the_whole_follows_from_the_cores(graph, part_nodes, data):
    problem = Problem(graph, data.draw(st.floats(0.01, 0.95)), data.draw(st.none() | distributions(graph.nodes)))
    answers = []
    for count in (1, 2):
        with patch.object(node_loops, "_PART_NODES", part_nodes), threads.limited(count):
            if core(problem) is None:
                return
            ranks, status, _ = solve_by_reduction(prepared(problem), default_policy(FP16), Stopping(1e-12))
        assert status is Status.CONVERGED
        assert ranks.sum() == pytest.approx(1.0, abs=1e-14)
        assert residual.residual(problem, ranks) < 2e-12
        answers.append(ranks)
    np.testing.assert_array_equal(*answers)


@given(graph=graphs_with_a_core(), data=st.data())
def test_a_core_begins_at_what_it_gets(graph, data):
    problem, began = Problem(graph, 0.85, data.draw(distributions(graph.nodes))), []
    prepared(problem).solve_reduced(lambda smaller: began.append((smaller.read(), smaller.problem.teleport)))
    for first, given_to_it in began:
        np.testing.assert_array_equal(first, given_to_it)
        assert first.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("storage", ["fp32", "fp16"])
def test_a_part_of_the_core_that_gets_little_needs_few_sweeps(storage):
    # Of its two closed parts, what begins in one and belongs to the other fades by the damping alone.
    sources = [5, 14, 4, 0, 8, 6, 12, 18, 5, 7, 8, 13, 16, 9, 1, 8, 17, 12, 8, 2]
    targets = [9, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 5, 8, 1, 1, 9, 0, 0]
    graph = Graph.from_edges(sources, targets, nodes=19)
    assert core(Problem(graph)) is not None
    power = cpms.pagerank(graph, engine="cpu", damping=0.9999)
    result = cpms.pagerank(graph, method="refine", storage=storage, engine="cpu", damping=0.9999)
    assert result.converged
    assert result.iterations <= power.iterations


@given(graph=graphs_with_a_core(), most=st.integers(1, 6))
def test_a_limit_of_sweeps_holds_in_the_core_too(graph, most):
    result = cpms.pagerank(graph, method="refine", engine="cpu", tol=1e-13, max_iterations=most)
    assert result.iterations <= most
    assert result.mass == pytest.approx(1.0, abs=1e-12)


@given(graphs_with_a_core(), st.sampled_from(["fp16", "e5m2", "cpms4"]))
def test_sweeps_of_a_core_lose_what_leaves_it(graph, name):
    found = core(Problem(graph))
    if found is None:
        return
    storage, count = quantiser(format_named(name)), len(found.nodes)
    refinement = CpuRefinement(
        Problem(found.graph, 0.85, np.full(count, 1.0 / count)),
        degree=found.degree,
        internal_degree=found.internal_degree,
    )
    refinement.start(np.random.default_rng(count).random(count))
    made = refinement.outer_step(storage, inner_reduction=1e-300, tol=1e-300, norm="l1", max_inner=6)
    sizes = [made.found.l1, *made.inner_l1]
    for place, (before, after) in enumerate(itertools.pairwise(made.sums)):
        assert abs(after - 0.85 * before) <= 1e-14 * max(sizes[place], 1e-300) * (1 + int(found.graph.in_degree.max()))


@pytest.mark.parametrize("node", range(7))
def test_queries_may_reach_the_core_or_not(node):
    graph = Graph.from_edges([0, 1, 2, 2, 4, 4, 0, 5], [1, 2, 1, 3, 3, 5, 2, 6], nodes=7)
    assert core(Problem(graph)).nodes.tolist() == [1, 2]
    for rule in ("teleport", "uniform"):
        result = cpms.pagerank(graph, method="refine", engine="cpu", personalization=[node], dangling=rule, tol=1e-12)
        assert result.converged
        check.answer_is_certified(result, personalization=[node], dangling=rule)


def test_a_core_that_went_wrong_is_noticed_and_refined(monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    assert core(Problem(graph)) is not None
    right = cpms.pagerank(graph, engine="reference", tol=1e-13)
    monkeypatch.setattr(Core, "end", lambda *_: np.full(7, 1 / 7))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert result.converged
    assert np.abs(result.ranks - right.ranks).sum() < 1e-9


@pytest.mark.parametrize("swept", ["all", "core"])
def test_few_bits_are_for_what_outgrows_a_cores_cache(monkeypatch, swept):
    graph = cpms.load("uniform:scale=8,edge_factor=8,seed=1" if swept == "all" else "rmat:scale=9,edge_factor=8,seed=1")
    refinement = prepared(Problem(graph))
    assert isinstance(refinement, CpuTrimmedRefinement) == (swept == "core")
    nodes = len(core(Problem(graph)).nodes) if swept == "core" else graph.nodes
    for limit, storage in ((nodes + 1, "fp32"), (nodes, "fp16")):
        monkeypatch.setattr(_cpu_refinement, "_NODES_OF_FEW_BITS", limit)
        result = cpms.pagerank(graph, engine="cpu", method="refine")
        assert (result.storage, result.status) == (storage, Status.CONVERGED)
        assert cpms.pagerank(graph, engine="cpu", method="refine", storage="bf16").storage == "bf16"


@pytest.mark.parametrize("storage", ["fp32", "fp16"])
def test_full_sweeps_that_make_up_for_what_low_ones_did_are_no_stagnation(storage):
    """What goes along a path whose nodes keep some of it fades late: combinations of low sweeps bring it back."""
    nodes, damping = np.arange(600), 0.9999
    path = Graph.from_edges(np.append(nodes[:-1], nodes), np.append(nodes[1:], nodes))
    start = np.random.default_rng(1).random(600) ** 10
    asked = {"damping": damping, "personalization": [0], "start": start, "tol": 1e-9, "engine": "cpu"}
    result = cpms.pagerank(path, method="refine", storage=storage, max_iterations=20_000, **asked)
    assert result.converged
    assert result.iterations < 4 * cpms.pagerank(path, max_iterations=20_000, **asked).iterations


@pytest.mark.parametrize("status", [Status.STAGNATED, Status.MAX_ITERATIONS, Status.NON_FINITE])
def test_a_core_that_is_not_solved_is_no_answer_while_sweeps_are_left(monkeypatch, status):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    ranks = np.full(7, np.nan if status is Status.NON_FINITE else 1 / 7)
    steps = [Step(1 + k, 1e-3, FLOAT64, 64, 64, 1.0, 0.0) for k in range(5)]
    monkeypatch.setattr("cpms.solvers.refine.solve_by_reduction", lambda *_: (ranks.copy(), status, steps))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert result.converged
    assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
    assert result.iterations > 5
    check.answer_is_certified(result)
    spent = cpms.pagerank(graph, method="refine", engine="cpu", max_iterations=5)
    assert (spent.status, spent.iterations) == (status, 5)


def test_what_is_certified_is_an_answer_however_the_core_ended(monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    right = cpms.pagerank(graph, engine="reference", tol=1e-13).ranks
    step = Step(1, 1e-9, FLOAT64, 64, 64, 1.0, 0.0)
    monkeypatch.setattr("cpms.solvers.refine.solve_by_reduction", lambda *_: (right.copy(), Status.STAGNATED, [step]))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert (result.status, result.iterations) == (Status.CONVERGED, 1)


def test_real_graphs_have_the_cores_counted_before(cpms_data):
    for name, nodes in (("wiki-Vote", 1300), ("p2p-Gnutella31", 14149), ("web-NotreDame", 127472)):
        assert len(core(Problem(cpms.load(name))).nodes) == nodes
    assert core(Problem(cpms.load("web-Google-scc"))) is None


def test_real_lower_triangles_are_acyclic(cpms_data):
    for name in ("luxembourg_osm", "usroads", "delaunay_n15"):
        result = cpms.pagerank(cpms.load(name), method="refine", engine="cpu")
        assert (result.converged, result.iterations) == (True, 1)
        assert result.residual_l1 < 1e-12
