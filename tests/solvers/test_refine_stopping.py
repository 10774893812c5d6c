"""When inner sweeps and outer steps of method refine end, and what gives way to more bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refine_cases import ADVERSARIAL, exact, exact_ranks, solve

import cpms
from cpms import Graph, Status, check, engines, format_named
from cpms.contracts.refinement import OuterRequest
from cpms.engines.reference import ReferenceRefinement
from cpms.formats.formats import E4M3, E5M2, FP16, FP32, FloatFormat
from cpms.formats.quantization import quantiser
from cpms.precision.anderson import DEPTH
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.precision.refinement_policy import (
    AdaptiveReduction,
    FixedReduction,
    default_inner_reduction,
)
from cpms.problems.pagerank import Problem

TINY = FloatFormat("tiny", 2, 5)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 14, 15, 40])
def test_iterations_are_exactly_those_asked_for(engine, count):
    seen = []
    result = solve(ADVERSARIAL["none dangling"], engine, iterations=count, on_step=seen.append)
    assert (result.status, result.iterations) == (Status.FIXED, count)
    assert seen == list(result.history)
    assert [step.iteration for step in seen] == list(range(1, count + 1))
    check.answer_is_certified(result)


@pytest.mark.parametrize("most", [1, 2, 4, 7, 12])
def test_max_iterations_ends_with_a_full_sweep_of_what_low_ones_found(engine, most):
    result = solve(ADVERSARIAL["none dangling"], engine, max_iterations=most, tol=1e-14)
    assert (result.status, result.iterations) == (Status.MAX_ITERATIONS, most)
    assert result.history[-1].bits == 64
    assert result.residual_l1 <= result.damping * result.history[-1].residual + 1e-14
    check.answer_is_certified(result)


def test_the_history_tells_full_sweeps_from_low_ones(engine):
    result = solve(ADVERSARIAL["none dangling"], engine, storage="e5m2")
    bits = [step.bits for step in result.history]
    assert (bits[0], bits[-1], set(bits)) == (64, 64, {8, 64})
    assert all(abs(step.mass - 1) < 1e-12 for step in result.history)
    seconds = [step.seconds for step in result.history]
    assert seconds == sorted(seconds)


# Bad Q


@pytest.mark.parametrize(
    "storage",
    [
        TINY,
        *(
            pytest.param(FloatFormat(name, *bits, "zero"), marks=pytest.mark.slow)
            for name, bits in (("shallow", (2, 5)), ("flat", (3, 12)))
        ),
    ],
)
@pytest.mark.parametrize("graph", ["giant hub", "two components", "random", "isolated nodes"])
def test_bad_formats_are_noticed_and_the_answer_is_right(engine, storage, graph):
    result = solve(ADVERSARIAL[graph], engine, storage=storage)
    assert result.converged
    assert np.abs(result.ranks - exact_ranks(graph)).sum() <= result.error_bound + 1e-13


def test_a_format_too_poor_for_the_graph_gives_way_to_a_wider_one(engine):
    poor, graph = FloatFormat("poor", 2, 5, "zero"), ADVERSARIAL["two components"]
    policy, start = AdaptiveReduction((poor, FP16, FP32)), np.full(graph.nodes, 1 / graph.nodes)
    result = solve(graph, engine, controller=policy, tol=1e-13, start=start)
    assert result.converged
    low = [step.bits for step in result.history if step.bits != 64]
    assert low[0] == 8
    assert 16 in low
    assert low == sorted(low)
    alone = solve(graph, engine, controller=AdaptiveReduction((poor,)), tol=1e-13, start=start)
    assert set(alone.iterations_by_bits) == {8, 64}


@pytest.mark.parametrize("storage", [TINY, E5M2])
def test_a_reduction_out_of_reach_is_never_a_wrong_answer(engine, storage):
    result = solve(ADVERSARIAL["giant hub"], engine, controller=FixedReduction(storage, 1e-9), max_iterations=300)
    check.answer_is_certified(result)


class Nothing(ReferenceRefinement):
    """Every value rounds to zero."""

    def _quantised(self, r, *_):
        return np.zeros_like(r)


class Broken(ReferenceRefinement):
    """Sweeps overflow."""

    def outer_step(self, storage, **options):
        self._c = self._c + np.inf
        return super().outer_step(storage, **options)


def test_a_quantiser_that_loses_everything_ends_in_full_sweeps(monkeypatch):
    reference = engines.get("reference")
    monkeypatch.setattr(type(reference), "refinement", lambda _, problem: Nothing(problem))
    result = solve(ADVERSARIAL["random"], reference)
    assert result.converged
    assert np.abs(result.ranks - exact(Problem(ADVERSARIAL["random"]))).sum() <= result.error_bound + 1e-13


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_said(monkeypatch):
    reference = engines.get("reference")
    monkeypatch.setattr(type(reference), "refinement", lambda _, problem: Broken(problem))
    assert solve(ADVERSARIAL["random"], reference).status is Status.NON_FINITE


@given(
    inner_reduction=st.floats(1e-9, 1.0),
    tol=st.floats(1e-15, 1e-2),
    damping=st.floats(0.01, 0.99),
    began=st.floats(1.0, 1e12),
    ratio=st.floats(0.01, 1.0),
)
def test_low_sweeps_end_where_the_next_full_one_should_find_less_than_the_tolerance(
    inner_reduction, tol, damping, began, ratio
):
    l1 = tol * began
    until = inner_tolerance(inner_reduction, tol, damping, l1, l1)
    assert until >= max(inner_reduction * l1, 0.5 * tol)
    if until > max(inner_reduction * l1, 0.5 * tol):
        assert damping * until + 0.35 * inner_reduction * l1 < tol
    assert inner_tolerance(inner_reduction, tol, damping, l1 / ratio, l1) >= max(
        inner_reduction * l1, 0.5 * tol
    ) / ratio * (1 - 1e-12)


@pytest.mark.parametrize("storage", ["fp32", "fp16", pytest.param("cpms4-nearest", marks=pytest.mark.slow), "e5m2"])
def test_no_outer_step_is_needed_because_the_last_one_ended_too_early(engine, storage):
    graph = cpms.load("weblike:nodes=20000,edges=100000,seed=1")
    result = cpms.pagerank(graph, method="refine", storage=storage, engine=engine.name, tol=1e-10)
    *_, before, last, found = [step.residual for step in result.history if step.bits == 64]
    assert found < 1e-10
    # A round that left the share which its format can leave did not end early.
    assert last > 2e-10 or last <= default_inner_reduction(quantiser(format_named(storage))) * before


CYCLE = Graph.from_edges(np.arange(100), (np.arange(100) + 1) % 100)


@pytest.mark.parametrize("damping", [0.95, 0.99])
@pytest.mark.parametrize(
    "storage", [E5M2, pytest.param(E4M3, marks=pytest.mark.slow)], ids=lambda storage: storage.name
)
def test_an_outer_step_ends_where_rounding_gives_back_what_damping_takes(engine, storage, damping):
    teleport = np.eye(1, 100)[0]
    refinement = engine.refinement(Problem(CYCLE, damping, teleport))
    refinement.start(np.full(100, 0.01))
    limit = inner_max_iterations(0.2, damping)
    made = refinement.outer_step(storage, inner_reduction=0.2, tol=1e-12, norm="l1", max_inner=5000)
    assert len(made.inner_l1) == limit
    assert made.inner_l1[-1] > 0.5 * made.found.l1
    refinement.start(np.full(100, 0.01))
    found = refinement.outer_steps(storage, OuterRequest(0.2, 1e9, 1e-12, "l1", 5000))
    assert len(found[-1].inner_l1) in (0, limit)
    assert all(len(before.inner_l1) < limit for before in found[:-1])


@pytest.mark.parametrize(
    "storage", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("e4m3", "cpms4-nearest")), "e5m2", "fp16"]
)
def test_stagnation_by_rounding_continues_with_more_bits(engine, storage):
    options = {"damping": 0.99, "personalization": [0], "max_iterations": 5000}
    result = cpms.pagerank(CYCLE, method="refine", storage=storage, engine=engine.name, **options)
    assert result.converged
    check.answer_is_certified(result, personalization=[0])
    assert result.iterations <= 2 * cpms.pagerank(CYCLE, engine=engine.name, **options).iterations


@pytest.mark.parametrize(
    ("seed", "damping", "storage"),
    [
        *((10, 0.9999, "fp16"), (10, 0.9999, "e5m2"), (31, 0.999, "e5m2"), (31, 0.9999, "e5m2")),
        *((35, 0.999, "e5m2"), (35, 0.9999, "e5m2"), (40, 0.9999, "e5m2"), (54, 0.999, "fp32")),
        *((54, 0.999, "fp16"), (54, 0.999, "e5m2"), (54, 0.9999, "fp32")),
    ],
)
def test_where_rounding_feeds_slow_modes_power_iteration_is_not_much_faster(
    one_that_sends_much, seed, damping, storage
):
    graph = one_that_sends_much(seed)
    power = cpms.pagerank(graph, engine="cpu", damping=damping)
    most = 3 * power.iterations  # Of versions of LLVM, which order sums, one case takes 2.3 to 2.7 times as many.
    result = cpms.pagerank(graph, method="refine", storage=storage, engine="cpu", damping=damping, max_iterations=most)
    assert power.converged
    assert result.converged
    check.answer_is_certified(result)


@pytest.mark.representatives(damping=("0.99",))
@pytest.mark.parametrize("storage", ["fp32", "fp16"])
@pytest.mark.parametrize("damping", [0.99, 0.999])
def test_where_each_sweep_takes_the_damping_alone_full_sweeps_are_few(engine, damping, storage):
    ring, options = ADVERSARIAL["ring"], {"damping": damping, "personalization": [0], "tol": 1e-6}
    power = cpms.pagerank(ring, engine="cpu", max_iterations=20_000, **options)
    result = solve(ring, engine, storage=storage, max_iterations=20_000, **options)
    assert power.converged
    assert result.converged
    assert result.iterations <= 1.05 * power.iterations
    assert result.iterations_by_bits[64] <= 0.03 * result.iterations


@given(st.floats(1e-9, 1.0), st.floats(0.01, 0.85))
def test_whatever_only_damping_takes_reaches_its_goal_within_the_limit(inner_reduction, damping):
    limit = inner_max_iterations(inner_reduction, damping)
    assert damping ** (limit - DEPTH) <= inner_reduction * (1 + 1e-9)
    assert limit == 2 * DEPTH or inner_reduction * (1 - 1e-9) < damping ** (limit - 2 * DEPTH)


@given(st.floats(1e-300, 1.0), st.floats(0.01, 1 - 1e-15), st.floats(0.01, 1 - 1e-15))
def test_outer_steps_end_before_a_combination_and_near_a_damping_of_1_the_sooner(inner_reduction, one, other):
    less, more = sorted((one, other))
    limit = inner_max_iterations(inner_reduction, more)
    assert limit % DEPTH == 0
    assert 2 * DEPTH <= limit <= inner_max_iterations(inner_reduction, 0.85)
    assert (
        inner_max_iterations(inner_reduction, less) <= limit
        if more <= 0.85
        else less < 0.85 or limit <= inner_max_iterations(inner_reduction, less)
    )
