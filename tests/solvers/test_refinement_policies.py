"""Policies of method refine: what they plan, and policies of a user."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refine_cases import ADVERSARIAL, exact, solve, with_cycle

import cpms
from cpms import Graph, InputError, Status, UnsupportedError, engines, format_named
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterStep, Refinement
from cpms.contracts.stopping import Stopping
from cpms.engines.reference import ReferenceRefinement
from cpms.formats.formats import BF16, E4M3, E5M2, FP16, FP32
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import Threshold
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import (
    AdaptiveReduction,
    FixedReduction,
    InnerPlan,
    RefinementPolicy,
    default_inner_reduction,
    default_policy,
)
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import PolicyDriver, outer_iteration

# Policies, without any engine


def replay(policy, rounds):
    """Return the plans of a history of (promised, found)."""
    plan, state = policy.init()
    plans = [plan]
    for promised, found in rounds:
        plan, state = policy.update(state, promised, found)
        plans.append(plan)
    return plans


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


def test_a_fixed_reduction_is_kept():
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


def test_noise_limits_the_reduction_to_what_was_reached():
    first, second, third = replay(AdaptiveReduction((E5M2, FP16)), [(0.02, 0.3), (0.3, 0.31)])
    assert (first.storage, second, third) == (E5M2, InnerPlan(E5M2, 0.3), InnerPlan(E5M2, 0.3))


def test_no_progress_asks_for_the_next_format_and_after_the_last_for_full_sweeps():
    plans = replay(AdaptiveReduction((E5M2, FP16)), [(0.1, 0.6), (0.01, 2.0), (1.0, 0.85)])
    assert [plan.storage for plan in plans] == [E5M2, FP16, None, None]


@pytest.mark.parametrize("inner_reduction", [0.0, -0.1, 1.1, float("nan")])
def test_a_reduction_lies_above_0_and_up_to_1(inner_reduction):
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


def test_a_policy_of_ones_own_plans_the_outer_steps(engine):
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
        match=r"Plain planned .*; a policy must return a pair: a cpms.InnerPlan and a state",
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
