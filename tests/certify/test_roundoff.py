"""What rounding may do to sums and residuals: bounds that hold in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, engines
from cpms.backends.cpu.batch import CpuBatch
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.base.compensated_loops import residual_norms
from cpms.certify import residual as residuals
from cpms.certify.batch import BatchCertifier
from cpms.certify.roundoff import ROW_BLOCK, UNIT, compensated_additions, error_bound, of_residual, pairwise_additions
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP64
from cpms.graph.compensated_sums import WeightSums
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem

POSITIVE = st.floats(1e-30, 1e30)
SMALL_TAIL = 100_000
"""Numbers that each vanish beside 1, but not together: what adds them up one by one loses all of them."""


LONG_ROW = (ROW_BLOCK + SMALL_TAIL / ROW_BLOCK) * UNIT
"""Relative error of their sum in blocks."""


def small_tail():
    return np.concatenate([[1.0], np.full(SMALL_TAIL, 0.9 * UNIT)])


@given(values=st.lists(POSITIVE, min_size=1, max_size=600))
def test_numpy_adds_up_rows_by_pairs(values):
    array = np.array([*values, *small_tail()[: 10 * len(values)]])
    found = Fraction(float(np.add.reduceat(array, np.array([0]))[0]))
    exact = sum(map(Fraction, array.tolist()))
    steps = pairwise_additions(len(array)) * UNIT
    assert abs(found - exact) <= Fraction(steps / (1.0 - steps)) * exact


def test_numpy_adds_up_long_rows_by_pairs():
    values = small_tail()
    exact = math.fsum(values)
    assert np.cumsum(values)[-1] == 1.0
    found = float(np.add.reduceat(values, np.array([0]))[0])
    assert abs(found - exact) <= pairwise_additions(len(values)) * UNIT * exact


@pytest.mark.quick
@given(st.lists(st.tuples(st.integers(0, 3), POSITIVE), max_size=200), st.integers(0, 200))
def test_weights_are_added_up_as_if_exactly(pairs, cut):
    sums, exact = WeightSums(4), [Fraction(0)] * 4
    for part in (pairs[:cut], pairs[cut:]):
        sums.add(np.array([key for key, _ in part], np.int64), np.array([weight for _, weight in part], np.float64))
    for key, weight in pairs:
        exact[key] += Fraction(weight)
    for found, right in zip(sums.rounded().tolist(), exact, strict=True):
        assert abs(Fraction(found) - right) <= 2 * Fraction(UNIT) * right


def test_many_small_weights_are_not_lost():
    values = small_tail()
    sums = WeightSums(1)
    sums.add(np.zeros(len(values), np.int64), values)
    assert sums.rounded()[0] == math.fsum(values)
    graph = Graph.from_edges(np.zeros(len(values), int), np.arange(1, len(values) + 1), values)
    assert graph.out_weight[0] == math.fsum(values)


def test_sums_of_weights_that_outgrow_float64_are_infinite():
    sums = WeightSums(1)
    sums.add(np.zeros(2, np.int64), np.full(2, 1.7e308))
    assert sums.rounded().tolist() == [math.inf]


def product_of_row(contributions):
    found, none = np.empty(1), np.zeros(0)
    edges = np.array([0, len(contributions)]), np.arange(len(contributions)), none, none, contributions
    residual_norms(*edges, np.zeros(1), 1.0, 0.0, np.zeros(1), np.zeros(1), 1.0, found, 0, 1)
    return found[0]


@pytest.mark.quick
@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=200))
@example([1.0, *[1.1e-16] * 199])
@example([1e-16] * 150 + [1.0] * 50)
def test_compensated_sums_lose_no_more_than_is_said(values):
    exact = sum(map(Fraction, values))
    lost = abs(Fraction(product_of_row(np.array(values))) - exact)
    assert lost <= compensated_additions(len(values)) * Fraction(UNIT) * exact


def test_certificates_lose_nothing_of_long_rows():
    values = small_tail()
    assert product_of_row(values) == math.fsum(values)


def test_certifiers_lose_little_of_long_rows():
    tail = small_tail()
    nodes = len(tail) + 1
    graph = Graph.from_edges(np.arange(1, nodes), np.zeros(len(tail), int), nodes=nodes)
    ranks = np.append(0.0, tail)
    ranks /= ranks.sum()
    query = Query(np.array([1]), np.ones(1))
    referee = BatchCertifier(Problem(graph), Stopping())
    [(_, found)] = referee.certify([query], [ranks], [Status.MAX_ITERATIONS])
    teleport = np.zeros(nodes)
    teleport[1] = 1.0
    problem = Problem(graph, 0.85, teleport)
    exact = exact_residual(problem, ranks)
    assert abs(found - exact) <= referee.roundoff
    assert referee.roundoff < 0.05 * SMALL_TAIL * UNIT
    assert abs(residuals.residual(problem, ranks) - exact) <= residuals.residual_roundoff(graph) < referee.roundoff


def test_certifiers_lose_little_of_many_dangling_nodes():
    """Added up node after node, what each has vanishes beside the first; what they lose goes to node 1."""
    tail = small_tail()
    graph = Graph.from_edges([0, 1], [0, 1], nodes=len(tail) + 2)
    ranks = np.append([0.25, 0.0], tail)
    ranks /= ranks.sum()
    query, referee = Query(np.array([1]), np.ones(1)), BatchCertifier(Problem(graph), Stopping(norm="linf"))
    exact = 0.15 + 0.85 * math.fsum(ranks[2:])
    for found in referee._residuals([query, query], [ranks, ranks]):
        assert found["linf"] == pytest.approx(exact, rel=0.0, abs=referee.roundoff)
    alone = Problem(graph, teleport=np.eye(1, graph.nodes, 1)[0])
    found = residuals.residual(alone, ranks, "linf")
    assert found == pytest.approx(exact, rel=0.0, abs=residuals.residual_roundoff(graph))


def test_certifiers_lose_little_of_many_changes():
    """Each node's change is some of its own teleport: beside the first, the others vanish one by one."""
    tail = small_tail()
    graph = Graph.from_edges([], [], nodes=len(tail) + 1)
    ranks, weights = np.append(1.0, np.zeros(len(tail))), np.append(0.0, tail / tail.sum())
    query, referee = Query(np.flatnonzero(weights), weights[1:]), BatchCertifier(Problem(graph), Stopping())
    for found in referee._residuals([query, query], [ranks, ranks]):
        assert found["l1"] == pytest.approx(2.0, rel=0.0, abs=referee.roundoff)
    found = residuals.residual(Problem(graph, teleport=weights), ranks)
    assert found == pytest.approx(2.0, rel=0.0, abs=residuals.residual_roundoff(graph))


def exact_residual(problem, ranks):
    """||G(x) - x||_1 of a star inwards, node 0 dangling."""
    damping = Fraction(problem.damping)
    given = [Fraction(value) for value in ranks.tolist()]
    rest = 1 - damping + damping * given[0]
    new = [rest * Fraction(value) for value in problem.teleport.tolist()]
    new[0] += damping * sum(given[1:])
    return float(sum(abs(a - b) for a, b in zip(new, given, strict=True)))


@given(additions=st.integers(1, 10**9), residual=st.floats(0, 2), damping=st.floats(0, 1 - 2**-53))
def test_bounds_grow_with_what_they_are_made_of(additions, residual, damping):
    roundoff = of_residual(additions)
    assert 0 < roundoff < of_residual(additions + 1)
    assert error_bound(residual, roundoff, damping) > residual / (1 - damping) * (1 - 4 * UNIT)


@pytest.mark.parametrize("engine", ["cpu", "scipy", "serial", "reference"])
@pytest.mark.parametrize(
    ("gap", "off"), [(2.0**-53, 0.1), (1e-14, 1e-3), (1e-12, 1e-5), (1e-10, 1e-7), (1e-8, 1e-9), (1e-6, 2e-11)]
)
def test_bounds_hold_where_damping_is_nearly_1_and_changes_vanish_in_rounding(engine, gap, off):
    start = np.array([0.5 + off, 0.5 - off])
    graph = Graph.from_edges([0, 1], [0, 1])
    result = cpms.pagerank(
        graph, engine=engine, damping=1 - gap, personalization=np.array([0.5, 0.5]), start=start, max_iterations=50
    )
    assert np.abs(result.ranks - 0.5).sum() <= result.error_bound


@pytest.mark.parametrize("leaves", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["cpu", "scipy"])
def test_bounds_hold_where_hubs_have_many_weights(engine, leaves):
    """Their sums, added up one by one, would be off by opposite amounts, which leave the mass as it is."""
    weights = 0.013, 0.3
    edges = np.repeat([0, 1], leaves), np.arange(2, 2 * leaves + 2), np.repeat(weights, leaves)
    graph = Graph.from_edges(*edges)
    off = [float(Fraction(float(np.cumsum(np.full(leaves, w))[-1])) / (leaves * Fraction(w)) - 1) for w in weights]
    assert min(off) < -1e-12 < 1e-12 < max(off)
    first = -off[1] / (off[0] - off[1])
    result = cpms.pagerank(graph, engine=engine, tol=1e-13, personalization={0: first, 1: 1 - first})
    hubs = np.array([first, 1 - first]) / 1.85
    right = np.concatenate([hubs, np.repeat(0.85 * hubs / leaves, leaves)])
    assert result.converged
    assert np.abs(result.ranks - right).sum() <= result.error_bound < 1e-12


@pytest.mark.parametrize("weight", [1e300, 1.7e308])
def test_weights_near_the_largest_float_are_as_good_as_any(weight):
    random = np.random.default_rng(0)
    nodes = 20_000
    edges = np.arange(nodes), random.integers(0, nodes, nodes)
    result = cpms.pagerank(Graph.from_edges(*edges, np.full(nodes, weight)), tol=1e-12)
    plain = cpms.pagerank(Graph.from_edges(*edges), tol=1e-12)
    assert result.converged
    assert np.abs(result.ranks - plain.ranks).sum() <= result.error_bound + plain.error_bound


@given(damping=st.sampled_from([0.85, 0.999999, 1 - 1e-12]), node=st.integers(0, 4))
def test_serial_ranks_are_never_negative(damping, node):
    graph = Graph.from_edges([0, 2, 0, 3, 4, 2, 1, 1, 0, 1, 2, 1, 2], [0, 0, 4, 4, 2, 4, 0, 2, 0, 0, 0, 0, 0], nodes=5)
    result = cpms.pagerank(
        graph, engine="serial", damping=damping, tol=1e-14, norm="l2", dangling="uniform", personalization=[node]
    )
    assert (result.ranks >= 0).all()


def test_an_answer_that_meets_the_tolerance_has_converged_though_its_changes_stagnate():
    result = cpms.pagerank(
        Graph.from_edges([], [], nodes=4),
        engine="cpu",
        method="refine",
        storage="cpms4",
        damping=0.2,
        tol=1e-16,
        personalization=np.array([0.0, 0.0, 0.0, 1.0]),
    )
    assert result.residual_l1 < 1e-16
    assert result.status is Status.CONVERGED


def star_inwards():
    """Return a star whose leaves' ranks vanish one by one, these ranks, and what its hub gets."""
    tail = small_tail()
    nodes = len(tail) + 1
    graph = Graph.from_edges(np.arange(1, nodes), np.zeros(len(tail), int), nodes=nodes)
    teleport = np.zeros(nodes)
    teleport[1] = 1.0
    ranks = np.append(0.0, tail)
    return Problem(graph, 0.85, teleport), ranks, 0.85 * math.fsum(tail)


@pytest.mark.parametrize("layout", ["csr", "pattern"])
def test_engine_cpu_loses_little_of_long_rows(layout):
    problem, ranks, right = star_inwards()
    operator = engines.get("cpu").prepare(problem, FP64, layout)
    x, out = operator.load(ranks), operator.empty()
    operator.sweep(x, out, FLOAT64, 0)
    assert operator.read(out, 0)[0] == pytest.approx(right, rel=LONG_ROW, abs=0.0)


def test_batches_of_engine_cpu_lose_little_of_long_rows():
    problem, ranks, right = star_inwards()
    batch = CpuBatch(problem)
    batch.start([Query(np.array([1]), np.ones(1))] * 9, ranks)
    batch.sweep()
    for found in batch.take(list(range(9))):
        assert found[0] == pytest.approx(right, rel=LONG_ROW, abs=0.0)


def test_batches_of_engine_cpu_lose_little_of_many_dangling_nodes():
    tail = small_tail()
    weights = tail / tail.sum()
    batch = CpuBatch(Problem(Graph.from_edges([], [], nodes=len(tail))))
    batch.start([Query(np.arange(len(tail)), weights)] * 2, weights)
    for _ in range(2):  # The second spreads what the first found on dangling nodes.
        masses = [sweep.mass for sweep in batch.sweep()]
    assert masses == pytest.approx([1.0, 1.0], rel=LONG_ROW, abs=0.0)


def test_full_sweeps_of_engine_cpu_lose_little_of_long_rows():
    problem, ranks, _ = star_inwards()
    refinement = CpuRefinement(problem)
    refinement.start(ranks)
    refinement.outer_step(None, inner_reduction=1.0, tol=1e-300, norm="l1", max_inner=0)
    assert refinement.read()[0] == pytest.approx(0.85, rel=2 * LONG_ROW, abs=0.0)  # Of mass 1.
