"""Method refine: laws on any graph and any format, answers within their bound, bad Q noticed, policies replayed."""

from __future__ import annotations

import itertools
import json
from functools import cache

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, Status, UnavailableError, UnsupportedError, check, engines, format_named
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.check.format_laws import LawError
from cpms.cli import main
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterStep, Refinement
from cpms.contracts.stopping import Stopping
from cpms.engines.reference import ReferenceRefinement
from cpms.formats.formats import BF16, E4M3, E5M2, FP16, FP32, FloatFormat
from cpms.formats.quantization import quantiser
from cpms.precision.anderson import DEPTH
from cpms.precision.controllers import Threshold
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.precision.refinement_policy import (
    AdaptiveReduction,
    FixedReduction,
    InnerPlan,
    RefinementPolicy,
    default_inner_reduction,
    default_policy,
)
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import dangling_rule, teleport_distribution
from cpms.solvers.refine import PolicyDriver, outer_iteration
from cpms.sources import loading
from cpms.testing import distributions, float_formats, graphs

ENGINES = ["reference", "cpu", pytest.param("cuda_fused", marks=pytest.mark.gpu)]
# Engine cpu compiles rounds for each format, for seconds: here each width, either exponent and either rounding.
SOME = ["fp32", "fp16", "e5m2", "cpms4", "cpms4-nearest", "cpms2", "e5m2-zero"]
FORMATS = [
    *SOME,
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("bf16", "e4m3", "cpms2-nearest")),
]
TINY = FloatFormat("tiny", 2, 5)


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    try:
        return engines.get(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))


def random_graph(nodes, edges, **options):
    random = np.random.default_rng(nodes)
    sources, targets = random.integers(0, nodes, edges), random.geometric(20 / nodes, edges) % nodes
    return Graph.from_edges(sources, targets, nodes=nodes, **options)


def with_cycle(nodes):
    random = np.random.default_rng(3)
    sources = np.concatenate([np.arange(nodes), random.integers(0, nodes, 3 * nodes)])
    return Graph.from_edges(sources, np.append((np.arange(nodes) + 1) % nodes, random.integers(0, nodes, 3 * nodes)))


HUB = 3000
ADVERSARIAL = {
    "one node": Graph.from_edges([], [], nodes=1),
    "one loop": Graph.from_edges([0], [0]),
    "star inwards": Graph.from_edges(np.arange(1, HUB), np.zeros(HUB - 1, int)),
    "star outwards": Graph.from_edges(np.zeros(HUB - 1, int), np.arange(1, HUB)),
    "star both ways": Graph.from_edges(
        np.append(np.arange(1, HUB), np.zeros(HUB - 1, int)), np.append(np.zeros(HUB - 1, int), np.arange(1, HUB))
    ),
    "chain": Graph.from_edges(np.arange(2999), np.arange(1, 3000)),
    "ring": Graph.from_edges(np.arange(3000), (np.arange(3000) + 1) % 3000),
    "two components": Graph.from_edges(
        [*range(500), *range(500, 1000), 500], [*[(k + 1) % 500 for k in range(500)], *[500] * 500, 700]
    ),
    "all dangling": Graph.from_edges([], [], nodes=3000),
    "none dangling": with_cycle(5000),
    "giant hub": Graph.from_edges(
        np.concatenate([np.tile(np.arange(20_000), 5), np.full(20_000, 7), np.arange(20_000)]),
        np.concatenate([np.full(100_000, 7), np.arange(20_000), (np.arange(20_000) * 31) % 20_000]),
    ),
    "isolated nodes": Graph.from_edges([0, 1, 2, 50_000], [1, 2, 0, 0], nodes=100_000),
    "repeated edges and loops": Graph.from_edges([0] * 40 + [1, 1, 2, 2], [1] * 40 + [1, 0, 2, 2], nodes=4),
    "random": random_graph(6000, 30_000),
}


def exact(problem):
    """Return the solution from a sparse factorisation: x is a sum of (I - damping P)^-1 v and the same of w."""
    graph, n = problem.graph, problem.graph.nodes
    share = problem.damping / np.maximum(graph.out_degree, 1)[graph.sources]
    p = scipy.sparse.csc_array(scipy.sparse.coo_array((share, (graph.targets, graph.sources)), shape=(n, n)))
    factors = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(scipy.sparse.eye_array(n, format="csc") - p))
    of_v = factors.solve(np.broadcast_to(problem.teleport_or_scalar, n).copy())
    of_w = factors.solve(np.broadcast_to(problem.sink_or_scalar, n).copy())
    nodes, damping = graph.dangling_nodes, problem.damping
    x = of_v + damping * of_v[nodes].sum() / (1 - damping * of_w[nodes].sum()) * of_w
    return x / x.sum()


@cache
def exact_ranks(name):
    """Return the solution of an adversarial graph, factorised once: that takes longer than all else."""
    return exact(Problem(ADVERSARIAL[name]))


def solve(graph, engine, **options):
    return cpms.pagerank(graph, method="refine", engine=engine.name, **options)


# Laws


@pytest.mark.parametrize("name", FORMATS)
@given(graph=graphs(weighted=False), data=st.data())
@settings(max_examples=25)
def test_rounds_are_sound_on_any_graph(engine, name, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    check.refinement_is_sound(engine, problem, quantiser(format_named(name)))


@pytest.mark.parametrize("graph", ADVERSARIAL)
@pytest.mark.parametrize("name", FORMATS)
def test_rounds_are_sound_on_adversarial_graphs(engine, name, graph):
    check.refinement_is_sound(engine, Problem(ADVERSARIAL[graph]), quantiser(format_named(name)))


@pytest.mark.quick
@given(graph=graphs(weighted=False), storage=float_formats())
@settings(max_examples=100)
def test_rounds_are_sound_in_formats_of_any_shape(graph, storage):
    check.refinement_is_sound(engines.get("reference"), Problem(graph), storage)


class Wrong(ReferenceRefinement):
    """Loses mass: dangling nodes keep theirs."""

    def _quantised(self, r, storage, largest):
        return super()._quantised(r, storage, largest) * (1 + 1e-9)


class Leaking(ReferenceRefinement):
    def _gathered(self, share):
        return super()._gathered(share) * (1 - 1e-9)


class Uncorrected(ReferenceRefinement):
    def outer_step(self, storage, **options):
        found = super().outer_step(storage, **options)
        self._x = self._x * (1 + 1e-12)
        return found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("fault", "said"), [(Leaking, "sum of r|says|mass"), (Uncorrected, "reads back"), (Wrong, None)]
)
def test_the_law_finds_faults(fault, said, monkeypatch):
    reference = engines.get("reference")
    monkeypatch.setattr(type(reference), "refinement", lambda _, problem: fault(problem))
    problem = Problem(ADVERSARIAL["random"])
    if said is None:  # Mass that Q invents is mended by construction: no fault.
        check.refinement_is_sound(reference, problem, FP16)
    else:
        with pytest.raises(LawError, match=said):
            check.refinement_is_sound(reference, problem, FP16)


# Answers


@pytest.mark.parametrize("in_rounds", [False, True])
@pytest.mark.parametrize("graph", ADVERSARIAL)
@pytest.mark.parametrize("name", FORMATS)
def test_the_bound_holds_against_the_exact_solution(engine, name, graph, in_rounds):
    nodes = ADVERSARIAL[graph].nodes
    # From a start that is given no passes are taken, so that low sweeps are where there are changes at all.
    start = np.arange(1.0, nodes + 1) if in_rounds else None
    result = solve(ADVERSARIAL[graph], engine, storage=name, start=start)
    assert result.converged
    assert not in_rounds or len(result.iterations_by_bits) > 1 or nodes == 1
    assert np.abs(result.ranks - exact_ranks(graph)).sum() <= result.error_bound + 1e-13
    check.answer_is_certified(result)


@pytest.mark.parametrize("graph", ["two components", "star inwards", "random", "isolated nodes"])
@pytest.mark.parametrize("rule", ["teleport", "uniform", {5: 1.0, 0: 3.0}], ids=["teleport", "uniform", "own"])
@pytest.mark.parametrize("damping", [0.1, 0.85, 0.99])
def test_personalised_answers_are_within_their_bound(engine, rule, damping, graph):
    chosen = {0: 1.0, 3: 2.0, 700: 0.5}
    options = {"personalization": chosen, "dangling": rule, "damping": damping}
    result = solve(ADVERSARIAL[graph], engine, max_iterations=5000, **options)
    teleport = teleport_distribution(ADVERSARIAL[graph], chosen)
    right = exact(Problem(ADVERSARIAL[graph], damping, teleport, dangling_rule(ADVERSARIAL[graph], rule)))
    assert result.converged
    assert np.abs(result.ranks - right).sum() <= result.error_bound + 1e-13
    check.answer_is_certified(result, personalization=chosen, dangling=rule)


@given(graph=graphs(weighted=False), name=st.sampled_from(SOME), tol=st.sampled_from([1e-2, 1e-6, 1e-10, 1e-13]))
@settings(max_examples=60)
def test_any_graph_is_solved_within_its_bound(engine, graph, name, tol):
    result = solve(graph, engine, storage=name, tol=tol)
    assert result.converged
    assert result.residual_l1 < tol
    assert np.abs(result.ranks - exact(Problem(graph))).sum() <= result.error_bound + 1e-13


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_norm_asked_for_decides(engine, norm):
    result = solve(ADVERSARIAL["random"], engine, norm=norm, tol=1e-8)
    assert result.converged
    check.answer_is_certified(result)
    strictest = solve(ADVERSARIAL["random"], engine, tol=1e-8)
    assert norm == "l1" or result.iterations < strictest.iterations


@pytest.mark.parametrize("start", ["one node", "random"])
def test_any_start_leads_to_the_same_answer(engine, start):
    graph = ADVERSARIAL["two components"]
    first = np.eye(graph.nodes)[3] if start == "one node" else np.random.default_rng(1).random(graph.nodes)
    assert np.abs(solve(graph, engine, start=first).ranks - exact(Problem(graph))).sum() < 1e-9


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
def test_a_gain_out_of_reach_is_never_a_wrong_answer(engine, storage):
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


# Policies, without any engine


def replay(policy, rounds):
    """Return the plans of a history of (promised, found)."""
    plan, state = policy.init()
    plans = [plan]
    for promised, found in rounds:
        plan, state = policy.update(state, promised, found)
        plans.append(plan)
    return plans


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


@pytest.mark.parametrize("storage", ["fp32", "fp16", "cpms4-nearest", "e5m2"])
def test_no_round_is_needed_because_the_last_one_ended_too_early(engine, storage):
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
def test_a_round_ends_where_rounding_gives_back_what_damping_takes(engine, storage, damping):
    teleport = np.eye(1, 100)[0]
    refinement = engine.refinement(Problem(CYCLE, damping, teleport))
    refinement.start(np.full(100, 0.01))
    limit = inner_max_iterations(0.2, damping)
    made = refinement.outer_step(storage, inner_reduction=0.2, tol=1e-12, norm="l1", max_inner=5000)
    assert len(made.inner_l1) == limit
    assert made.inner_l1[-1] > 0.5 * made.found.l1
    refinement.start(np.full(100, 0.01))
    found = refinement.outer_steps(storage, inner_reduction=0.2, noise_tolerance=1e9, tol=1e-12, norm="l1", most=5000)
    assert len(found[-1].inner_l1) in (0, limit)
    assert all(len(before.inner_l1) < limit for before in found[:-1])


@pytest.mark.parametrize("storage", [pytest.param("e4m3", marks=pytest.mark.slow), "e5m2", "cpms4-nearest", "fp16"])
def test_what_rounding_holds_goes_on_with_more_bits(engine, storage):
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
def test_where_rounding_feeds_what_hardly_fades_power_iteration_is_not_much_faster(
    one_that_sends_much, seed, damping, storage
):
    graph = one_that_sends_much(seed)
    power = cpms.pagerank(graph, engine="cpu", damping=damping)
    most = 2 * power.iterations + 50
    result = cpms.pagerank(graph, method="refine", storage=storage, engine="cpu", damping=damping, max_iterations=most)
    assert power.converged
    assert result.converged
    check.answer_is_certified(result)


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
def test_rounds_end_before_a_combination_and_near_a_damping_of_1_the_sooner(inner_reduction, one, other):
    less, more = sorted((one, other))
    limit = inner_max_iterations(inner_reduction, more)
    assert limit % DEPTH == 0
    assert 2 * DEPTH <= limit <= inner_max_iterations(inner_reduction, 0.85)
    assert (
        inner_max_iterations(inner_reduction, less) <= limit
        if more <= 0.85
        else less < 0.85 or limit <= inner_max_iterations(inner_reduction, less)
    )


def found_after(before, low):
    """Return a round whose full sweep found so much, and that was cut short when low sweeps had left so much of it."""
    return OuterStep(Sweep(before, before, before, 1.0), low, [], [])


def add(planning, made, plan):
    planning.add([made], plan, Stopping(), 1)


def test_a_round_cut_short_that_has_not_halved_the_residual_is_followed_by_more_bits():
    planning = PolicyDriver(AdaptiveReduction((E5M2, FP16)), 0.999)
    limit = inner_max_iterations(0.2, 0.999)
    add(planning, found_after(1.0, [0.4] * limit), planning.plan)
    assert planning.plan.storage == E5M2
    add(planning, found_after(0.4, [0.3] * limit), planning.plan)
    assert planning.plan == InnerPlan(FP16, default_inner_reduction(FP16))


@given(st.sampled_from([0.99, 0.999, 0.9999]), st.lists(st.floats(0.5, 1.0), max_size=12))
def test_what_falls_as_the_damping_lets_it_needs_no_full_sweeps(damping, more):
    # Two combinations may be of no use, never more.
    planning, left = PolicyDriver(AdaptiveReduction((FP16, FP32)), damping), 1.0
    for share in [1.0, *more]:
        plan = planning.plan
        assert plan.storage is not None
        limit = inner_max_iterations(plan.inner_reduction, damping)
        low = (left * share * damping ** np.arange(1, limit + 1)).tolist()
        add(planning, found_after(left, low), plan)
        left = low[-1] * damping


def test_what_one_plan_left_is_not_held_against_the_next():
    planning = PolicyDriver(AdaptiveReduction((E5M2, FP16)), 0.99)
    add(planning, found_after(1.0, [0.9] * inner_max_iterations(0.2, 0.99)), planning.plan)
    assert planning.plan.storage == FP16
    add(planning, found_after(5.0, [1e-3]), planning.plan)
    assert planning.plan == InnerPlan(FP16, default_inner_reduction(FP16))


def test_low_sweeps_that_fail_again_are_followed_by_twice_as_many_full_ones():
    planning, bits = PolicyDriver(AdaptiveReduction((FP16,)), 0.999), []
    for _ in range(40):
        plan = planning.plan
        bits.append(plan.storage.width if plan.storage else 64)
        add(
            planning,
            found_after(1.0, [0.9] * inner_max_iterations(plan.inner_reduction, 0.999) if plan.storage else []),
            plan,
        )
    runs = [(width, len(list(run))) for width, run in itertools.groupby(bits)]
    assert runs[:5] == [(16, 2), (64, 9), (16, 2), (64, 17), (16, 2)]


def test_a_residual_that_an_earlier_plan_found_smaller_is_no_stagnation():
    class Restless(RefinementPolicy):
        """One round of low sweeps, and eight full ones."""

        noise_tolerance = 0.0

        def init(self):
            return InnerPlan(E5M2, 0.2), 0

        def update(self, state, *_):
            return InnerPlan(None if state % 9 else E5M2, 0.2), state + 1

    class Stirred(ReferenceRefinement):
        """Low sweeps that leave x as far from the solution as it was at first."""

        def outer_step(self, storage, **options):
            found = super().outer_step(storage, **options)
            if storage is not None:
                self._x, self._c = np.eye(1, len(self._x))[0], np.zeros(len(self._x))
            return found

    stirred = Stirred(Problem(ADVERSARIAL["ring"], 0.99))
    first = np.full(3000, 1 / 3000)
    first[0] += 1e-6
    _, status, history = outer_iteration(stirred, first, Restless(), Stopping(1e-10, max_iterations=400))
    assert (status, len(history)) == (Status.MAX_ITERATIONS, 400)


@pytest.mark.parametrize("most", [28, 33])
def test_a_core_that_takes_all_iterations_leaves_none(most):
    graph = cpms.generate("rmat:scale=10,edge_factor=8,seed=3")
    options = {"engine": "cpu", "method": "refine", "damping": 0.99, "tol": 2.5e-16, "max_iterations": most}
    assert cpms.pagerank(graph, storage="e5m2", **options).iterations <= most
    assert all(result.iterations <= most for result in cpms.personalized_pagerank(graph, [0, 1], **options))


def test_a_fixed_gain_stays():
    assert set(replay(FixedReduction(FP16), [(0.01, 0.01), (0.01, 3.0)])) == {
        InnerPlan(FP16, default_inner_reduction(FP16))
    }
    assert FixedReduction(FP16, 0.5).init()[0] == InnerPlan(FP16, 0.5)


@given(rounds=st.lists(st.tuples(st.floats(1e-9, 1.0), st.floats(0.0, 1e3)), max_size=40))
def test_an_adaptive_policy_widens_and_returns_from_full_sweeps_to_the_last_format_alone(rounds):
    formats = (E5M2, FP16, FP32, None)
    plans = replay(AdaptiveReduction(formats[:-1]), rounds)
    places = [formats.index(plan.storage) for plan in plans]
    assert all(after - before in (0, 1) or (before, after) == (3, 2) for before, after in itertools.pairwise(places))
    assert all(0.0 < plan.inner_reduction <= 1.0 for plan in plans)


def test_noise_lowers_the_gain_to_what_was_reached():
    first, second, third = replay(AdaptiveReduction((E5M2, FP16)), [(0.02, 0.3), (0.3, 0.31)])
    assert (first.storage, second, third) == (E5M2, InnerPlan(E5M2, 0.3), InnerPlan(E5M2, 0.3))


def test_no_progress_asks_for_the_next_format_and_after_the_last_for_full_sweeps():
    plans = replay(AdaptiveReduction((E5M2, FP16)), [(0.1, 0.6), (0.01, 2.0), (1.0, 0.85)])
    assert [plan.storage for plan in plans] == [E5M2, FP16, None, None]


@pytest.mark.parametrize("inner_reduction", [0.0, -0.1, 1.1, float("nan")])
def test_a_gain_lies_above_0_and_up_to_1(inner_reduction):
    with pytest.raises(InputError, match="inner_reduction"):
        InnerPlan(FP16, inner_reduction)


@pytest.mark.quick
def test_policies_are_chosen_from_the_storage():
    ladders = {
        name: [q.name for q in default_policy(format_named(name)).formats]
        for name in ("fp32", "fp16", "bf16", "e4m3", "e5m2", "cpms4")
    }
    assert ladders["fp32"] == ["fp32"]
    assert ladders["bf16"] == ["bf16", "fp32"]
    assert ladders["e4m3"] == ["e4m3", "fp16", "fp32"]
    assert ladders["cpms4"] == ["cpms4", "fp32"]
    assert (
        default_inner_reduction(E4M3)
        > default_inner_reduction(BF16)
        > default_inner_reduction(FP16)
        > default_inner_reduction(FP32)
    )


class Mine(RefinementPolicy):
    """A policy of the user's own: full sweeps and bf16 ones in turn."""

    noise_tolerance = 0.0

    def init(self):
        return InnerPlan(None, 1.0), False

    def update(self, state, *_):
        return InnerPlan(None if state else BF16, 0.1), not state


def test_a_policy_of_ones_own_plans_the_rounds(engine):
    result = solve(ADVERSARIAL["random"], engine, controller=Mine())
    assert result.converged
    assert set(result.iterations_by_bits) == {16, 64}
    assert np.abs(result.ranks - exact(Problem(ADVERSARIAL["random"]))).sum() <= result.error_bound + 1e-13


# Bad input


def test_what_refine_cannot_do_is_said(engine):
    weighted = Graph.from_edges([0, 1], [1, 0], [1.0, 2.0])
    if "refine" not in engine.works_with_weights:
        with pytest.raises(UnsupportedError, match="stores no values"):
            solve(weighted, engine)
    for graph, own, others in ((ADVERSARIAL["ring"], "pattern", ("csr", "ell")), (weighted, "csr", ("pattern", "ell"))):
        for layout in others if graph is not weighted or "refine" in engine.works_with_weights else ():
            with pytest.raises(UnsupportedError, match=f"layout '{own}'"):
                solve(graph, engine, layout=layout)
    with pytest.raises(InputError, match="method 'power'"):
        solve(ADVERSARIAL["ring"], engine, controller=Threshold())
    with pytest.raises(InputError, match="method 'refine'"):
        cpms.pagerank(ADVERSARIAL["ring"], engine=engine.name, controller=FixedReduction(FP16))
    for name in ("fp64", "cpms8", "seg64"):
        with pytest.raises(UnsupportedError, match="16 or 32 bits"):
            solve(ADVERSARIAL["ring"], engine, storage=name)


@pytest.mark.parametrize("name", engines.names())
def test_engines_without_the_method_say_so(name):
    try:
        executor = engines.get(name)
    except cpms.UnavailableError as error:
        pytest.skip(str(error))
    if "refine" in executor.methods:
        assert isinstance(executor.refinement(Problem(ADVERSARIAL["ring"])), Refinement)
    else:
        with pytest.raises(UnsupportedError, match="refine"):
            solve(ADVERSARIAL["ring"], executor)


def test_the_command_line_refines(tmp_path, capsys):
    graph = tmp_path / "ring.txt"
    graph.write_text("".join(f"{k} {(k + 1) % 50}\n{k} {k * k % 50}\n" for k in range(50)))
    assert main.main(["rank", str(graph), "--method", "refine", "--storage", "e5m2", "--engine", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["method"], report["storage"], report["layout"]) == ("refine", "e5m2", "pattern")
    assert set(report["iterations_by_bits"]) == {"8", "64"}
    assert report["residual_l1"] < 1e-10


# Real graphs: sweeps of Q with a fixed gain, full and low, where float64 power iteration needs ``power``

COUNTS = {
    "web-Google-scc": {"fp32": (3, 107), "fp16": (6, 106), "cpms4-nearest": (10, 102), "cpms4": (13, 121)},
    "web-NotreDame": {"fp32": (3, 113), "fp16": (6, 110), "cpms4-nearest": (10, 106), "cpms4": (13, 127)},
    "wiki-Vote": {"fp32": (3, 28), "fp16": (5, 25), "cpms4-nearest": (8, 24), "cpms4": (9, 25)},
}
GAINS = {"fp32": 1e-5, "fp16": 1e-2, "cpms4-nearest": 0.1, "cpms4": 0.1}


@pytest.mark.parametrize("name", COUNTS)
def test_real_graphs_need_the_sweeps_measured_before(cpms_data, name):
    graph = loading.load(name)
    for storage, (full, low) in COUNTS[name].items():
        policy = FixedReduction(quantiser(format_named(storage)), GAINS[storage])
        refinement, first = CpuRefinement(Problem(graph)), np.full(graph.nodes, 1.0 / graph.nodes)
        refinement.anderson = False
        _, status, history = outer_iteration(refinement, first, policy, Stopping(1e-10, max_iterations=400))
        assert status is Status.CONVERGED
        assert abs(sum(step.bits == 64 for step in history) - full) <= 2
        assert abs(len(history) - (full + low)) <= 5


class Plain(RefinementPolicy):
    """What has to be written for a policy, and no more."""

    def __init__(self, planned, then=None):
        self.planned, self.then = planned, then or planned

    def init(self):
        return self.planned

    def update(self, *_):
        return self.then


def test_a_policy_needs_two_methods_alone(engine):
    result = solve(with_cycle(300), engine, controller=Plain((InnerPlan(FP16, 0.01), None)))
    assert result.converged
    assert result.storage == "fp16"


@pytest.mark.parametrize(
    "policy", [Plain(InnerPlan(FP16, 0.01)), Plain(None), Plain((FP16, 0)), Plain((InnerPlan(E5M2, 0.3), 0), (1, 2))]
)
def test_a_policy_that_plans_something_else_is_refused(engine, policy):
    with pytest.raises(
        InputError,
        match=r"Plain planned .*; a policy must return a pair: "
        r"a cpms.precision.refinement_policy.InnerPlan and a state",
    ):
        solve(with_cycle(300), engine, controller=policy, start=np.full(300, 1 / 300))


def test_policies_take_any_format_and_its_name():
    assert FixedReduction("fp16") == FixedReduction(FP16)
    assert FixedReduction(cpms.CPMS4).init()[0].storage == quantiser(cpms.CPMS4)
    assert AdaptiveReduction(["e5m2", cpms.CPMS2]).formats == (E5M2, quantiser(cpms.CPMS2))
    assert InnerPlan("bf16", np.float32(0.5)) == InnerPlan(BF16, 0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaptiveReduction(()),
        lambda: AdaptiveReduction(FP16),
        lambda: AdaptiveReduction("fp16"),
        lambda: FixedReduction("fp17"),
        lambda: InnerPlan(16, 0.5),
        lambda: InnerPlan(FP16, "little"),
    ],
)
def test_what_policies_cannot_be_made_of_is_refused(make):
    with pytest.raises(InputError, match=r"formats is|storage .?(fp17|is 16)|inner_reduction is"):
        make()


def test_results_name_the_format_that_the_policy_begins_with(engine):
    graph = with_cycle(300)
    assert solve(graph, engine, controller=FixedReduction(E5M2)).storage == "e5m2"
    named = solve(graph, engine, storage="cpms4", controller=FixedReduction(cpms.CPMS4))
    assert named.storage == "cpms4"
    with pytest.raises(InputError, match="storage is fp16, but the policy begins with e5m2"):
        solve(graph, engine, storage="fp16", controller=AdaptiveReduction((E5M2, FP32)))
    (answer,) = cpms.personalized_pagerank(graph, [0], method="refine", engine="cpu", policy=FixedReduction(E5M2))
    assert answer.storage == "e5m2"


@pytest.mark.parametrize("graph", [Graph.from_edges([0, 1], [1, 0]), Graph.from_edges([], [], nodes=3)], ids=str)
def test_iterations_go_on_where_nothing_is_left(engine, graph):
    result = solve(graph, engine, iterations=3)
    assert (result.status, result.iterations) == (Status.FIXED, 3)
    assert result.residual_l1 == 0.0
