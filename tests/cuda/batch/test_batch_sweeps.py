"""Batches of queries by CUDA kernels: sweeps and outer steps against the reference."""

import numpy as np
import pytest
from batch_cases import GRAPHS, LEAVE_OUT_ALL, few, queries_on, round_of, uniform, whole_batch
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Status, check, format_named, personalized_pagerank
from cpms.backends.cpu.batch import CpuBatch
from cpms.backends.cuda.batch.inner_sweeps import InnerSweeps, SentHistory
from cpms.backends.cuda.batch.power import CudaBatch
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.batch.refinement import CudaRefinementBatch
from cpms.contracts.stopping import Stopping
from cpms.engines import reference
from cpms.formats.formats import E5M2, FP16, FP32
from cpms.precision.anderson import HISTORY_VECTORS
from cpms.precision.refinement_policy import InnerPlan, default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_refine import refine_all
from cpms.solvers.refine import outer_iteration
from cpms.testing import graphs

FORMATS = (FP16, E5M2, FP32)


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


@pytest.mark.representatives(rule=("teleport",))
@pytest.mark.representatives(rule=("uniform",), name=("one node", "no edges", "skewed"))
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
def test_outer_steps_are_those_of_the_reference(device, storage, rule):
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


@pytest.mark.representatives(name=("fp16",), rule=("teleport",))
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
def test_an_outer_step_is_that_of_the_reference(device, name):
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
