"""Batches of queries on a device, emulated on this machine and on a GPU: each answer is that of its query alone."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, Status, UnsupportedError, check, format_named, personalized_pagerank
from cpms.batch import Query, solve
from cpms.batch_refine import _Course, refine_all
from cpms.cuda import backend as backends
from cpms.cuda import batch_graph, batch_refinement, host, variants
from cpms.cuda.batch import CudaBatch
from cpms.cuda.batch_refinement import CudaRefiningBatch
from cpms.engine import Problem
from cpms.engines import cuda, reference
from cpms.engines._cpu_batch import CpuBatch
from cpms.format import E5M2, FP16, FP32
from cpms.refine import FixedGain, Plan, default_policy, refine
from cpms.stopping import Stopping
from cpms.testing import graphs

FORMATS = (FP16, E5M2, FP32)
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile what these tests launch on this machine at once: one by one it takes longer."""
    if host.compiler() is not None:
        full = [variants.batch_full(each, refines=False) for each in (1, 2)]
        wanted = [*batch_refinement.needed_variants(), *full, *variants.batch_low(E5M2, 1)]
        request.getfixturevalue("host_backend").compile(wanted)


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: None)
    with backends.using(request.getfixturevalue(f"{request.param}_backend")) as backend:
        yield backend


def spread(nodes, edges, power_of_targets):
    random = np.random.default_rng(1)
    targets = (nodes * random.random(edges) ** power_of_targets).astype(np.int64)
    return Graph.from_edges(random.integers(0, nodes, edges), targets, nodes=nodes)


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=70),
    "hub over turns": Graph.from_edges(np.arange(1, 20_000), np.zeros(19_999, int)),
    "two hubs": Graph.from_edges(np.arange(20_000) % 1500, np.arange(20_000) % 2 * 1499, nodes=1500),
    "skewed": spread(400, 9000, 4),
    "small": spread(120, 1500, 4),
    "few edges": spread(900, 200, 1),
    "rows that end with tasks": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 512, nodes=512),
}


def queries_on(graph, count):
    """Return every third query on all nodes, the others on a few."""
    random = np.random.default_rng(count)
    made = []
    for place in range(count):
        nodes = np.sort(random.choice(graph.nodes, min(graph.nodes, 3 if place % 3 else graph.nodes), replace=False))
        weights = random.random(len(nodes)) + 0.1
        made.append(Query(nodes, weights / weights.sum()))
    return made


def round_of(batch, plans, *, most, tol=1e-11):
    """Do a full sweep and the low sweeps that follow; return what each query's found."""
    found = batch.full()
    courses = [_Course(plan, None) for plan in plans]
    damping, stops = batch.problem.damping, [Stopping(tol, max_iterations=each) for each in most]
    goals = [course.goal(*each, damping) for course, *each in zip(courses, found, stops, strict=True)]
    return [(sweep, low) for sweep, (low, _) in zip(found, batch.low(goals), strict=True)]


def uniform(graph):
    return np.full(graph.nodes, 1.0 / graph.nodes)


@given(graph=graphs(weighted=False), data=st.data())
@few
def test_queries_are_answered_as_if_alone(device, graph, data):
    nodes = st.integers(0, graph.nodes - 1)
    several = st.lists(nodes, min_size=1, max_size=3, unique=True)
    weighted = st.dictionaries(nodes, st.floats(0.1, 3.0), min_size=1, max_size=3)
    queries = data.draw(st.lists(nodes | several | weighted, min_size=1, max_size=5))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    method = data.draw(st.sampled_from(["power", "refine"]))
    options = {"damping": data.draw(st.floats(0.05, 0.6)), "dangling": rule, "tol": 1e-8}
    width = data.draw(st.integers(1, 6))
    found = personalized_pagerank(graph, queries, engine="cuda", method=method, width=width, **options)
    for query, result in zip(queries, found, strict=True):
        given_as = [query] if isinstance(query, int) else query
        alone = cpms.pagerank(graph, personalization=given_as, engine="reference", **options)
        assert result.converged
        assert abs(result.mass - 1.0) < 1e-12
        assert np.abs(result.ranks - alone.ranks).sum() <= result.error_bound + alone.error_bound + 1e-13
        check.answer_is_certified(result, personalization=given_as, dangling=rule)


@pytest.mark.parametrize("rule", ["teleport", "uniform"])
@pytest.mark.parametrize("name", GRAPHS)
def test_sweeps_are_those_of_the_processor(device, name, rule):
    problem = Problem(GRAPHS[name], 0.85, None, rule)
    mine, twin = CudaBatch(problem), CpuBatch(problem)
    for batch in (mine, twin):
        batch.start(queries_on(problem.graph, 3), uniform(problem.graph))
    for leaves in (False, True, False):
        np.testing.assert_allclose(mine.sweep(), twin.sweep(), rtol=1e-11, atol=1e-13)
        if leaves:
            (ranks,), (expected,) = mine.take([1]), twin.take([1])
            np.testing.assert_allclose(device.to_host(ranks), expected, rtol=1e-11, atol=1e-18)


@pytest.mark.parametrize(("count", "name"), [(17, "skewed"), (40, "few edges"), (70, "skewed")])
def test_many_columns_are_swept_in_groups_and_close_up(device, count, name):
    problem = Problem(GRAPHS[name])
    mine, twin = CudaBatch(problem), CpuBatch(problem)
    for batch in (mine, twin):
        batch.start(queries_on(problem.graph, count), uniform(problem.graph))
    for gone in ([], list(range(1, count, 2)), [0], []):
        np.testing.assert_allclose(mine.sweep(), twin.sweep(), rtol=1e-11, atol=1e-13)
        for ranks, expected in zip(mine.take(gone), twin.take(gone), strict=True):
            np.testing.assert_allclose(device.to_host(ranks), expected, rtol=1e-11, atol=1e-18)


@pytest.mark.parametrize("rule", ["teleport", "uniform"])
@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
def test_rounds_are_those_of_the_reference(device, storage, rule):
    graph, stopping = GRAPHS["small"], Stopping(1e-8)
    problem = Problem(graph, 0.7, None, rule)
    queries = queries_on(graph, 3)
    answers = refine_all(CudaRefiningBatch(problem), queries, uniform(graph), default_policy(storage), stopping)
    for query, (ranks, status, history) in zip(queries, answers, strict=True):
        teleport = np.zeros(graph.nodes)
        teleport[query.nodes] = query.weights
        twin = reference.ENGINE.refinement(Problem(graph, 0.7, teleport, rule))
        expected, _, steps = refine(twin, uniform(graph), default_policy(storage), stopping)
        assert status is Status.CONVERGED
        assert np.abs(device.to_host(ranks) - expected).sum() <= 2e-8 / 0.3
        # A value that lies between two of Q's may go either way.
        for bits in (64, storage.width):
            assert abs(sum(s.bits == bits for s in history) - sum(s.bits == bits for s in steps)) <= 2


@pytest.mark.parametrize("name", ["hub over turns", "two hubs", "few edges"])
def test_a_round_is_that_of_the_reference(device, name):
    graph = GRAPHS[name]
    problem, queries = Problem(graph), queries_on(graph, 2)
    batch = CudaRefiningBatch(problem)
    batch.start(queries, uniform(graph))
    found = round_of(batch, [Plan(FP16, 0.6)] * 2, most=[4, 9])
    assert len(found[0][1]) <= 3
    for query, (sweep, low), most_low in zip(queries, found, (3, 8), strict=True):
        teleport = np.zeros(graph.nodes)
        teleport[query.nodes] = query.weights
        twin = reference.ENGINE.refinement(Problem(graph, 0.85, teleport))
        twin.start(uniform(graph))
        expected = twin.round(FP16, gain=0.6, tol=1e-11, norm="l1", most_low=most_low)
        np.testing.assert_allclose(sweep, expected.found, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(low, expected.low, rtol=2.0**-10, atol=1e-12)


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


def test_a_wide_round_is_that_of_its_queries_in_few_columns(device):
    problem = Problem(GRAPHS["skewed"])
    queries = queries_on(problem.graph, 100)
    wide, narrow = CudaRefiningBatch(problem), CudaRefiningBatch(problem)
    wide.start(queries, uniform(problem.graph))
    narrow.start(queries[95:], uniform(problem.graph))
    found = round_of(wide, [Plan(FP16, 0.3)] * 100, most=[9] * 100)[95:]
    assert found == round_of(narrow, [Plan(FP16, 0.3)] * 5, most=[9] * 5)


def test_a_limit_of_iterations_is_kept_and_what_was_found_counts(device):
    graph = GRAPHS["small"]
    options = {"engine": "cuda", "method": "refine", "policy": FixedGain(FP16, 1e-4)}
    for limit in (1, 7):
        found = personalized_pagerank(graph, [3, 4], max_iterations=limit, **options)
        assert [(result.status, result.iterations) for result in found] == [(Status.MAX_ITERATIONS, limit)] * 2
    assert found[0].residual_l1 < 0.1 * found[0].history[0].residual


def test_formats_may_differ_among_queries(device):
    problem = Problem(GRAPHS["small"])
    queries = queries_on(problem.graph, 3)
    plans = [Plan(FP16, 0.1), Plan(None, 1.0), Plan(E5M2, 0.4)]
    mixed = CudaRefiningBatch(problem)
    mixed.start(queries, uniform(problem.graph))
    found = [round_of(mixed, plans, most=[20] * 3) for _ in range(2)]
    for place, (query, plan) in enumerate(zip(queries, plans, strict=True)):
        alone = CudaRefiningBatch(problem)
        alone.start([query], uniform(problem.graph))
        for together in found:
            assert [together[place]] == round_of(alone, [plan], most=[20])


def test_what_does_not_fit_is_a_sentence(device, monkeypatch):
    problem = Problem(GRAPHS["skewed"])
    monkeypatch.setattr(type(device), "free_bytes", lambda _: 60_000)
    with pytest.raises(UnsupportedError, match=r"needs about [\d,]+ bytes .* but 60,000 are free"):
        cuda.ENGINE.batch(problem)
    monkeypatch.setattr(type(device), "free_bytes", lambda _: 400_000)
    assert 0 < cuda.ENGINE.batch(problem).width < batch_graph.FULL_COLUMNS
    assert 0 < cuda.ENGINE.refining_batch(problem).width < batch_graph.MOST_COLUMNS


def test_bad_input_is_refused(device):
    graph = GRAPHS["skewed"]
    for queries, options, error, message in (
        ([0], {"storage": "cpms4", "method": "refine"}, UnsupportedError, "at most 8 exponent bits"),
        ([0], {"storage": "fp16-stochastic", "method": "refine"}, UnsupportedError, "no stochastic rounding"),
        ([0], {"storage": "fp16"}, UnsupportedError, "batches iterate in fp64, not fp16"),
        ([0], {"method": "guess"}, InputError, "method is 'guess'"),
        ([0], {"policy": FixedGain(FP16)}, InputError, "this policy plans rounds"),
        ([0, [1, 1]], {}, InputError, "query 1: personalization names a node twice"),
        ([[3, 400]], {}, InputError, "query 0: .*400"),
        ([{3: -1.0}], {}, InputError, "query 0: personalization weights"),
    ):
        with pytest.raises(error, match=message):
            personalized_pagerank(graph, queries, engine="cuda", **options)


@pytest.mark.parametrize(("group", "most_noted"), [(1, 8), (5, 4096)])
def test_low_sweeps_launched_too_late_change_nothing(device, monkeypatch, group, most_noted):
    problem = Problem(GRAPHS["small"])
    rounds = {}
    for size in (group, 32):
        monkeypatch.setattr(batch_refinement, "_GROUP", size)
        monkeypatch.setattr(batch_refinement, "NOTED", most_noted if size == group else 4096)
        batch = CudaRefiningBatch(problem)
        batch.start(queries_on(problem.graph, 3), uniform(problem.graph))
        plans = [Plan(FP16, gain) for gain in (0.3, 0.01, 0.1)]
        rounds[size] = [round_of(batch, plans, most=[50, 4, 50]) for _ in range(2)]
    assert rounds[group] == rounds[32]
    assert len(rounds[group][0][1][1]) == 3


def test_a_query_at_its_limit_rests_as_one_at_its_goal(device):
    problem = Problem(GRAPHS["small"])
    queries = queries_on(problem.graph, 2)
    limited, content = CudaRefiningBatch(problem), CudaRefiningBatch(problem)
    for batch in (limited, content):
        batch.start(queries, uniform(problem.graph))
    (sweep, low), _ = round_of(limited, [Plan(FP16, 0.01)] * 2, most=[4, 50])
    round_of(content, [Plan(FP16, 1.0001 * low[2] / sweep.l1), Plan(FP16, 0.01)], most=[50, 50])
    following = [round_of(batch, [Plan(FP16, 0.1)] * 2, most=[50] * 2) for batch in (limited, content)]
    assert following[0] == following[1]


class OneIsDoneSoon(CudaRefiningBatch):
    """Says that the first query is done at its second full sweep; keeps the columns that low sweeps had."""

    def __init__(self, problem):
        super().__init__(problem)
        self.columns = []

    def full(self):
        found = super().full()
        return [found[0]._replace(l1=0.0), *found[1:]] if len(self.columns) == 1 else found

    def low(self, goals):
        self.columns.append(self._places.stride)
        return super().low(goals)


def test_a_query_that_is_done_leaves_before_the_others_do_low_sweeps(device):
    problem = Problem(GRAPHS["few edges"], 0.5)
    queries, first = queries_on(problem.graph, 17), uniform(problem.graph)
    plain, batch = CudaRefiningBatch(problem), OneIsDoneSoon(problem)
    expected, found = (refine_all(b, queries, first, FixedGain(FP16, 0.2), Stopping(1e-7)) for b in (plain, batch))
    assert batch.columns[:2] == [32, 16]
    assert len(found[0][2]) < len(expected[0][2])
    for (mine, _, history), (ranks, _, steps) in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(device.to_host(mine), device.to_host(ranks))
        assert [step.residual for step in history] == [step.residual for step in steps]


def test_a_low_sweep_of_queries_that_all_rest_touches_nothing(device):
    problem = Problem(GRAPHS["small"])
    batch = CudaRefiningBatch(problem)
    batch.start(queries_on(problem.graph, 2), uniform(problem.graph))
    batch._use(FP16)
    stride = batch._places.stride
    untouched = 0x3A
    for z in batch._z:
        z.fill(untouched)
    arrays = device.arrays
    options = arrays.zeros((5, stride), np.float32)
    for rest, touched in ((np.inf, False), (0.0, True)):
        ends = arrays.asarray(np.stack([np.full(stride, rest), np.full(stride, 3.0)]))
        batch._low_sweep(FP16, options, ends, arrays.zeros(stride, np.float64), 0.0)
        assert bool((device.to_host(batch._z[0]) != untouched).any()) is touched


def test_solves_end_with_each_query(device):
    problem, queries = Problem(GRAPHS["small"], 0.5), queries_on(GRAPHS["small"], 4)
    answers = solve(CudaBatch(problem), queries, uniform(problem.graph), Stopping(1e-7))
    expected = solve(CpuBatch(problem), queries, uniform(problem.graph), Stopping(1e-7))
    for (_, status, history), (_, _, steps) in zip(answers, expected, strict=True):
        assert status is Status.CONVERGED
        assert len(history) == len(steps)


def test_named_formats_are_compiled():
    group = {variant.symbol for variant in variants.every()["batches"]}
    for name in ("fp16", "bf16", "fp32", "e5m2", "e4m3"):
        for columns in (16, 64, 128):
            each = batch_graph.values_a_lane(columns)
            assert {v.symbol for v in variants.batch_low(format_named(name), each)} <= group
