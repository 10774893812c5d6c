"""Wide batches by CUDA kernels: limits, formats of each query, refusals and endings."""

import kernel_catalogue
import numpy as np
import pytest
from batch_cases import GRAPHS, queries_on, round_of, uniform, whole_batch

import cpms
from cpms import Graph, InputError, Status, UnsupportedError, engines, format_named, personalized_pagerank
from cpms.backends.cpu.batch import CpuBatch
from cpms.backends.cuda.batch import edges as batch_graph
from cpms.backends.cuda.batch import refinement
from cpms.backends.cuda.batch.inner_sweeps import InnerSweeps, SentHistory
from cpms.backends.cuda.batch.power import CudaBatch
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.backends.cuda.kernels import batched
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import E5M2, FP16, FP32
from cpms.precision.anderson import DEPTH
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import FixedReduction, InnerPlan, default_inner_reduction, default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_power import iterate_all
from cpms.solvers.batch_refine import refine_all


def test_a_wide_round_is_that_of_its_queries_in_few_columns(device):
    problem = Problem(GRAPHS["skewed"])
    queries = queries_on(problem.graph, 100)
    wide, narrow = whole_batch(problem), whole_batch(problem)
    wide.start(queries, uniform(problem.graph))
    narrow.start(queries[95:], uniform(problem.graph))
    found = round_of(wide, [InnerPlan(FP16, 0.3)] * 100, most=[9] * 100)[95:]
    assert found == round_of(narrow, [InnerPlan(FP16, 0.3)] * 5, most=[9] * 5)


@pytest.mark.representatives(count=("140",))
@pytest.mark.parametrize("device", ["host"], indirect=True)
@pytest.mark.parametrize("count", [100, 140])
def test_wide_outer_steps_are_extrapolated_as_narrow_ones(device, count):
    problem = Problem(GRAPHS["back and forth"])
    queries = queries_on(problem.graph, count)
    wide, narrow = whole_batch(problem), whole_batch(problem)
    wide.start(queries, uniform(problem.graph))
    narrow.start(queries[-5:], uniform(problem.graph))
    # The first 128 rest soon, while those behind them go on.
    gains = [0.3] * (count - 5) + [1e-3] * 5
    for _ in range(2):
        found = round_of(wide, [InnerPlan(FP16, inner_reduction) for inner_reduction in gains], most=[60] * count)[-5:]
        assert found == round_of(narrow, [InnerPlan(FP16, 1e-3)] * 5, most=[60] * 5)
    assert max(len(low) for _, low in found) > DEPTH


def test_a_limit_of_iterations_is_kept_and_what_was_found_counts(device):
    graph = GRAPHS["small"]
    options = {"engine": "cuda", "method": "refine", "policy": FixedReduction(FP16, 1e-4)}
    for limit in (1, 7):
        found = personalized_pagerank(graph, [3, 4], max_iterations=limit, **options)
        assert [(result.status, result.iterations) for result in found] == [(Status.MAX_ITERATIONS, limit)] * 2
    assert found[0].residual_l1 < 0.1 * found[0].history[0].residual


def test_formats_may_differ_among_queries(device):
    problem = Problem(GRAPHS["small"])
    queries = queries_on(problem.graph, 3)
    plans = [InnerPlan(FP16, 0.1), InnerPlan(None, 1.0), InnerPlan(E5M2, 0.4)]
    mixed = whole_batch(problem)
    mixed.start(queries, uniform(problem.graph))
    found = [round_of(mixed, plans, most=[20] * 3) for _ in range(2)]
    for place, (query, plan) in enumerate(zip(queries, plans, strict=True)):
        alone = whole_batch(problem)
        alone.start([query], uniform(problem.graph))
        for together in found:
            assert [together[place]] == round_of(alone, [plan], most=[20])


def test_queries_that_rounding_holds_go_on_with_more_bits(device):
    problem = Problem(Graph.from_edges(np.arange(100), (np.arange(100) + 1) % 100), 0.95)
    queries = [Query(np.array([node]), np.ones(1)) for node in (3, 70)]
    answers = refine_all(whole_batch(problem), queries, uniform(problem.graph), default_policy(E5M2), Stopping())
    for _, status, history in answers:
        assert status is Status.CONVERGED
        assert [step.bits for step in history].index(16) <= 2 + inner_max_iterations(
            default_inner_reduction(E5M2), 0.95
        )


@pytest.mark.parametrize("seed", [31, 35])
def test_where_rounding_feeds_slow_modes_power_iteration_is_not_much_faster(one_that_sends_much, device, seed):
    problem = Problem(one_that_sends_much(seed), 0.999)
    power = cpms.pagerank(problem.graph, engine="cpu", damping=problem.damping)
    first, stopping = uniform(problem.graph), Stopping(max_iterations=2 * power.iterations + 50)
    queries = [Query(np.arange(40), first)]
    ((_, status, _),) = refine_all(whole_batch(problem), queries, first, default_policy(E5M2), stopping)
    assert power.converged
    assert status is Status.CONVERGED


def test_what_does_not_fit_is_a_sentence(device, monkeypatch):
    problem = Problem(GRAPHS["skewed"])
    monkeypatch.setattr(type(device), "free_bytes", lambda _: 60_000)
    with pytest.raises(UnsupportedError, match=r"needs about [\d,]+ bytes .* but 60,000 are free"):
        engines.get_any("cuda").batch(problem)
    monkeypatch.setattr(type(device), "free_bytes", lambda _: 400_000)
    assert 0 < engines.get_any("cuda").batch(problem).width < batch_graph.RESIDUAL_COLUMNS
    assert 0 < engines.get_any("cuda").refinement_batch(problem).width < batch_graph.MAX_COLUMNS


def test_bad_input_is_refused(device):
    graph = GRAPHS["skewed"]
    for queries, options, error, message in (
        ([0], {"storage": "cpms4", "method": "refine"}, UnsupportedError, "at most 8 exponent bits"),
        ([0], {"storage": "fp16-stochastic", "method": "refine"}, UnsupportedError, "no stochastic rounding"),
        ([0], {"storage": "fp16"}, UnsupportedError, "batches iterate in fp64, not fp16"),
        ([0], {"method": "guess"}, InputError, "method 'guess' is not known"),
        ([0], {"policy": FixedReduction(FP16)}, InputError, "this policy plans outer steps"),
        ([0, [1, 1]], {}, InputError, "query 1: personalization names a node twice"),
        ([[3, 400]], {}, InputError, "query 0: .*400"),
        ([{3: -1.0}], {}, InputError, "query 0: personalization weights"),
    ):
        with pytest.raises(error, match=message):
            personalized_pagerank(graph, queries, engine="cuda", **options)


@pytest.mark.parametrize("name", ["small", "back and forth"])
@pytest.mark.parametrize(("group", "most_noted"), [(1, 8), (5, 4096)])
def test_low_sweeps_launched_too_late_change_nothing(device, monkeypatch, group, most_noted, name):
    problem = Problem(GRAPHS[name])
    rounds = {}
    for size in (group, 32):
        monkeypatch.setattr(refinement, "_GROUP", size)
        monkeypatch.setattr(refinement, "MAX_ASYNC_NUMBERS", most_noted if size == group else 4096)
        batch = whole_batch(problem)
        batch.start(queries_on(problem.graph, 3), uniform(problem.graph))
        plans = [InnerPlan(FP16, inner_reduction) for inner_reduction in (0.3, 0.01, 0.1)]
        rounds[size] = [round_of(batch, plans, most=[50, 4, 50]) for _ in range(2)]
    assert rounds[group] == rounds[32]
    assert len(rounds[group][0][1][1]) == 3


def test_a_query_at_its_limit_rests_as_one_at_its_goal(device):
    problem = Problem(GRAPHS["small"])
    queries = queries_on(problem.graph, 2)
    limited, content = whole_batch(problem), whole_batch(problem)
    for batch in (limited, content):
        batch.start(queries, uniform(problem.graph))
    (sweep, low), _ = round_of(limited, [InnerPlan(FP16, 0.01)] * 2, most=[4, 50])
    round_of(content, [InnerPlan(FP16, 1.0001 * low[2] / sweep.l1), InnerPlan(FP16, 0.01)], most=[50, 50])
    following = [round_of(batch, [InnerPlan(FP16, 0.1)] * 2, most=[50] * 2) for batch in (limited, content)]
    assert following[0] == following[1]


class OneIsDoneSoon(CudaRefinementBatch):
    """Says that the first query is done at its second full sweep; keeps the columns that low sweeps had."""

    def __init__(self, problem):
        super().__init__(problem, BatchCore.whole(problem))
        self.columns = []

    def residual_sweep(self):
        found = super().residual_sweep()
        return [found[0]._replace(l1=0.0), *found[1:]] if len(self.columns) == 1 else found

    def inner_sweeps(self, goals):
        self.columns.append(self._columns.stride)
        return super().inner_sweeps(goals)


def test_a_query_that_is_done_leaves_before_the_others_do_low_sweeps(device):
    problem = Problem(GRAPHS["few edges"], 0.5)
    queries, first = queries_on(problem.graph, 17), uniform(problem.graph)
    plain, batch = whole_batch(problem), OneIsDoneSoon(problem)
    expected, found = (refine_all(b, queries, first, FixedReduction(FP16, 0.2), Stopping(1e-7)) for b in (plain, batch))
    assert batch.columns[:2] == [32, 16]
    assert len(found[0][2]) < len(expected[0][2])
    for (mine, _, history), (ranks, _, steps) in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(device.to_host(mine), device.to_host(ranks))
        assert [step.residual for step in history] == [step.residual for step in steps]


@pytest.mark.parametrize("storage", [FP16, FP32], ids=lambda storage: storage.name)
def test_what_is_launched_when_all_queries_rest_touches_nothing(device, storage):
    problem = Problem(GRAPHS["small"])
    batch = whole_batch(problem)
    batch.start(queries_on(problem.graph, 2), uniform(problem.graph))
    stride, arrays = batch._columns.stride, device.arrays
    kept, limits = SentHistory(batch._graph, storage, stride), np.full(stride, 100)
    untouched = 0x3A
    for until, touched in ((np.inf, False), (0.0, True)):
        batch.residual_sweep()
        sweeps = InnerSweeps(kept, batch._columns, batch._correction, batch._largest, np.full(stride, until), limits)
        sweeps.launch(arrays.zeros(stride, np.float64))
        kept.sent[1:, :-1] = untouched
        batch._correction.fill(0.0)
        for _ in kept.sent:
            sweeps.launch(arrays.zeros(stride, np.float64))
        assert bool((device.to_host(kept.sent[2, :-1]) != untouched).any()) is touched
        assert bool(device.to_host(batch._correction).any()) is touched


def test_solves_end_with_each_query(device):
    problem, queries = Problem(GRAPHS["small"], 0.5), queries_on(GRAPHS["small"], 4)
    answers = iterate_all(CudaBatch(problem), queries, uniform(problem.graph), Stopping(1e-7))
    expected = iterate_all(CpuBatch(problem), queries, uniform(problem.graph), Stopping(1e-7))
    for (_, status, history), (_, _, steps) in zip(answers, expected, strict=True):
        assert status is Status.CONVERGED
        assert len(history) == len(steps)


def test_named_formats_are_compiled():
    group = {variant.symbol for variant in kernel_catalogue.every()["batches"]}
    for name in ("fp16", "bf16", "fp32", "e5m2", "e4m3"):
        for columns in (16, 64, 128):
            each = batch_graph.columns_per_lane(columns)
            assert {v.symbol for v in batched.batch_inner_sweeps(format_named(name), each)} <= group
