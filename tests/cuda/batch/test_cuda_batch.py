"""Batches of queries on a device, emulated on this machine and on a GPU: each answer is that of its query alone."""

from types import SimpleNamespace

import kernel_catalogue
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, Status, UnsupportedError, check, engines, format_named, personalized_pagerank
from cpms.backends.cpu.batch import CpuBatch
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.batch import edges as batch_graph
from cpms.backends.cuda.batch import refinement
from cpms.backends.cuda.batch.inner_sweeps import InnerSweeps, SentHistory
from cpms.backends.cuda.batch.power import CudaBatch
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.reduction.trimming import Cost
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.certify.batch import BatchCertifier
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.engines import reference
from cpms.formats.formats import E5M2, FP16, FP32
from cpms.precision.anderson import DEPTH, HISTORY_VECTORS
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import FixedReduction, InnerPlan, default_inner_reduction, default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_power import iterate_all
from cpms.solvers.batch_refine import OuterState, refine_all
from cpms.solvers.refine import History, outer_iteration
from cpms.testing import graphs

FORMATS = (FP16, E5M2, FP32)
LEAVE_OUT_ALL = Cost(
    level=0.0, narrow_level=0.0, launch=0.0, solve_entry=0.0, solve_entry_one_block=0.0, external_node=0.0
)
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile what these tests launch on this machine at once: one by one it takes longer."""
    if host_emulation.compiler() is not None:
        full = [variant for each in (1, 2) for variant in batched.batch_residual_sweeps(each, refines=False)]
        few_bits = [format_named(name) for name in ("e5m2", "e4m3", "bf16")]
        low = [v for each in few_bits for v in (*batched.batch_inner_sweeps(each, 1), *batched.batch_history(each))]
        wanted = [*refinement.needed_variants(), *full, *low]
        request.getfixturevalue("host_backend").compile(wanted)


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    with current.using(request.getfixturevalue(f"{request.param}_backend")) as backend:
        yield backend


def spread(nodes, edges, power_of_targets):
    random = np.random.default_rng(1)
    targets = (nodes * random.random(edges) ** power_of_targets).astype(np.int64)
    return Graph.from_edges(random.integers(0, nodes, edges), targets, nodes=nodes)


def back_and_forth(nodes, edges):
    random = np.random.default_rng(2)
    ends = random.integers(0, nodes, edges)
    others = (ends + random.integers(1, 4, edges)) % (nodes + nodes // 10)
    return Graph.from_edges(np.concatenate([ends, others]), np.concatenate([others, ends]))


def with_leaves(graph):
    """Return a graph with a leaf more for every second node."""
    linking = np.arange(0, graph.nodes, 2)
    targets = np.concatenate([graph.targets, graph.nodes + linking])
    return Graph.from_edges(np.concatenate([graph.sources, linking]), targets)


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=70),
    "hub over turns": Graph.from_edges(np.arange(1, 20_000), np.zeros(19_999, int)),
    "two hubs": Graph.from_edges(np.arange(20_000) % 1500, np.arange(20_000) % 2 * 1499, nodes=1500),
    "skewed": spread(400, 9000, 4),
    "small": spread(120, 1500, 4),
    "few edges": spread(900, 200, 1),
    "back and forth": back_and_forth(300, 700),
    "back and forth with leaves": with_leaves(back_and_forth(300, 700)),
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


def whole_batch(problem):
    """Return one that sweeps all nodes."""
    return CudaRefinementBatch(problem, BatchCore.whole(problem))


def round_of(batch, plans, *, most, tol=1e-11):
    """Do a full sweep and the low sweeps that follow; return what each query's found."""
    found = batch.residual_sweep()
    logs = [History(Stopping(tol, max_iterations=each)) for each in most]
    courses = [OuterState(SimpleNamespace(plan=plan), log) for plan, log in zip(plans, logs, strict=True)]
    goals = [course.goal(sweep, batch.problem.damping) for course, sweep in zip(courses, found, strict=True)]
    return [(sweep, low) for sweep, (low, _) in zip(found, batch.inner_sweeps(goals), strict=True)]


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
    first = np.random.default_rng(5).random(problem.graph.nodes)
    for batch in (mine, twin):
        batch.start(queries_on(problem.graph, 3), first / first.sum())
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
    # What z say is added to c, and not what they stand for: of formats with few digits another sweep or two.
    near = 2 if storage.mantissa_bits > 7 else 4
    batch = whole_batch(problem)
    batch.anderson = False
    answers = refine_all(batch, queries, uniform(graph), default_policy(storage), stopping)
    for query, (ranks, status, history) in zip(queries, answers, strict=True):
        teleport = np.zeros(graph.nodes)
        teleport[query.nodes] = query.weights
        twin = reference.ENGINE.refinement(Problem(graph, 0.7, teleport, rule))
        expected, _, steps = outer_iteration(twin, uniform(graph), default_policy(storage), stopping)
        assert status is Status.CONVERGED
        assert np.abs(device.to_host(ranks) - expected).sum() <= 2e-8 / 0.3
        # A value that lies between two of Q's may go either way.
        for bits in (64, storage.width):
            assert abs(sum(s.bits == bits for s in history) - sum(s.bits == bits for s in steps)) <= near


@pytest.mark.parametrize("rule", ["teleport", "uniform"])
@pytest.mark.parametrize("name", ["fp16", "e5m2", *(pytest.param(n, marks=pytest.mark.slow) for n in ("bf16", "e4m3"))])
def test_low_sweeps_of_each_query_are_extrapolated(device, name, rule):
    graph, stopping = GRAPHS["back and forth"], Stopping(1e-9)
    problem, policy = Problem(graph, 0.85, None, rule), default_policy(format_named(name))
    queries, sweeps, ranks = queries_on(graph, 3), {}, {}
    for anderson in (False, True):
        batch = whole_batch(problem)
        batch.anderson = anderson
        answers = refine_all(batch, queries, uniform(graph), policy, stopping)
        assert {status for _, status, _ in answers} == {Status.CONVERGED}
        sweeps[anderson] = [len(history) for _, _, history in answers]
        ranks[anderson] = [device.to_host(found) for found, _, _ in answers]
    assert sum(sweeps[True]) < (0.55 if name == "fp16" else 0.75) * sum(sweeps[False])
    for with_it, without in zip(ranks[True], ranks[False], strict=True):
        assert np.abs(with_it - without).sum() <= 2 * 1e-9 / 0.15
    alone, _, history = refine_all(whole_batch(problem), queries[1:2], uniform(graph), policy, stopping)[0]
    np.testing.assert_array_equal(device.to_host(alone), ranks[True][1])
    assert len(history) == sweeps[True][1]


@pytest.mark.parametrize(("rule", "few_swept"), [("teleport", False), ("teleport", True), ("uniform", False)])
@pytest.mark.parametrize("count", [2, 40])
def test_what_is_combined_is_what_was_sent(device, count, rule, few_swept):
    graph = GRAPHS["back and forth with leaves" if few_swept else "back and forth"]
    problem, to_host = Problem(graph, 0.85, None, rule), device.to_host
    core = BatchCore.of(problem, LEAVE_OUT_ALL) if few_swept else BatchCore.whole(problem)
    assert (core.swept.count < graph.nodes) == few_swept
    batch = CudaRefinementBatch(problem, core)
    batch.start(queries_on(graph, 3 * count)[::3], uniform(graph))
    batch.residual_sweep()
    stride = batch._columns.stride
    kept = SentHistory(batch._graph, FP16, stride)
    goes_on = np.arange(stride) < count
    limits = np.where(goes_on, 100, 0)
    sweeps = InnerSweeps(
        kept, batch._columns, batch._correction, batch._largest, np.where(goes_on, 0.0, np.inf), limits
    )
    for _ in range(len(kept) - 1):
        sweeps.launch(device.arrays.zeros(stride, np.float64))
    degree, carried = to_host(core.swept.degree)[:, None], to_host(core.swept.internal_degree)[:, None]
    stored_by = np.where(degree, degree, batch._graph.dangling_degree)

    def sent():
        """Return the shares in each slot, and with the mass that is spread what they sum to."""
        backs, masses, _ = to_host(kept.records)
        shares = to_host(kept.sent).view(np.float16)[:, :-1].astype(np.float64) * backs[:, None]
        return shares, (shares * carried).sum(axis=1) + masses

    (shares, totals), backs, c = sent(), to_host(kept.records)[0], to_host(batch._correction).astype(np.float64)
    sweeps._combine()
    in_c, in_next = (
        to_host(kept.weights)[: 2 * HISTORY_VECTORS].reshape(2, HISTORY_VECTORS, stride)[..., goes_on]
        / backs[:, goes_on]
    )
    found = to_host(batch._correction) - c
    (next_shares, *_), (next_total, *_) = sent()
    assert np.abs(in_next[:-1]).max() > 0.01
    np.testing.assert_allclose(in_next.sum(axis=0), 1.0, rtol=1e-12)
    sizes = (np.abs(in_next) * np.abs(shares * degree).sum(axis=1)[:, goes_on]).sum(axis=0)
    assert (np.abs(next_total[goes_on] - (in_next * totals[:, goes_on]).sum(axis=0)) <= 4e-9 * sizes).all()
    expected = (in_next[:, None] * shares[..., goes_on]).sum(axis=0)
    added_up = np.abs(in_next[:, None] * shares[..., goes_on]).sum(axis=0)
    rounding = 2.0**-11 * np.abs(expected) + 2.0**-20 * added_up + 2.0**-24 * np.abs(expected).max(axis=0)
    assert (np.abs(next_shares[:, goes_on] - expected) <= rounding).all()
    expected = (in_c[1:, None] * shares[1:, :, goes_on]).sum(axis=0) * stored_by
    np.testing.assert_allclose(found[:, goes_on], expected, atol=1e-6 * np.abs(expected).max())
    assert not found[:, ~goes_on].any()


@pytest.mark.parametrize("name", ["hub over turns", "two hubs", "few edges"])
def test_a_round_is_that_of_the_reference(device, name):
    graph = GRAPHS[name]
    problem, queries = Problem(graph), queries_on(graph, 2)
    batch = whole_batch(problem)
    batch.start(queries, uniform(graph))
    found = round_of(batch, [InnerPlan(FP16, 0.6)] * 2, most=[4, 9])
    assert len(found[0][1]) <= 3
    for query, (sweep, low), max_inner in zip(queries, found, (3, 8), strict=True):
        teleport = np.zeros(graph.nodes)
        teleport[query.nodes] = query.weights
        twin = reference.ENGINE.refinement(Problem(graph, 0.85, teleport))
        twin.start(uniform(graph))
        expected = twin.outer_step(FP16, inner_reduction=0.6, tol=1e-11, norm="l1", max_inner=max_inner)
        np.testing.assert_allclose(sweep, expected.found, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(low, expected.inner_l1, rtol=2.0**-10, atol=1e-12)


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


def test_rounds_of_a_core_are_those_of_its_own_operator(device):
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


def test_a_wide_round_is_that_of_its_queries_in_few_columns(device):
    problem = Problem(GRAPHS["skewed"])
    queries = queries_on(problem.graph, 100)
    wide, narrow = whole_batch(problem), whole_batch(problem)
    wide.start(queries, uniform(problem.graph))
    narrow.start(queries[95:], uniform(problem.graph))
    found = round_of(wide, [InnerPlan(FP16, 0.3)] * 100, most=[9] * 100)[95:]
    assert found == round_of(narrow, [InnerPlan(FP16, 0.3)] * 5, most=[9] * 5)


@pytest.mark.parametrize("device", ["host"], indirect=True)
@pytest.mark.parametrize("count", [100, 140])
def test_wide_rounds_are_extrapolated_as_narrow_ones(device, count):
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
def test_where_rounding_feeds_what_hardly_fades_power_iteration_is_not_much_faster(one_that_sends_much, device, seed):
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
