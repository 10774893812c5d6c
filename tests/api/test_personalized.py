"""Batches of personalised queries: the same answers as one at a time, each certified."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, Status, UnsupportedError, check, engines, penalised_start, personalized_pagerank
from cpms.api.batch_solving import _split_evenly
from cpms.base import threads
from cpms.certify.residual import apply_operator, residual
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterStep
from cpms.contracts.stopping import Stopping
from cpms.engines.cpu import CpuEngine
from cpms.formats.formats import FP16
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import AdaptiveReduction, default_inner_reduction
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_refine import OuterState
from cpms.solvers.refine import History, PolicyDriver
from cpms.testing import graphs, graphs_with_a_core


def web(nodes=2000, edges=9000):
    random = np.random.default_rng(1)
    return Graph.from_edges(
        (nodes * random.random(edges) ** 2).astype(int), random.integers(0, nodes, edges), nodes=nodes
    )


@pytest.mark.quick
@given(graph=graphs(weighted=False), data=st.data())
@settings(max_examples=60)
def test_queries_are_answered_as_if_alone(graph, data):
    nodes = st.integers(0, graph.nodes - 1)
    several = st.lists(nodes, min_size=1, max_size=3, unique=True)
    weighted = st.dictionaries(nodes, st.floats(0.1, 3.0), min_size=1, max_size=3)
    queries = data.draw(st.lists(nodes | several | weighted, min_size=1, max_size=7))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    damping = data.draw(st.floats(0.05, 0.95))
    found = personalized_pagerank(graph, queries, damping=damping, dangling=rule, width=data.draw(st.integers(1, 8)))
    for query, result in zip(queries, found, strict=True):
        given_as = [query] if isinstance(query, int) else query
        alone = cpms.pagerank(graph, personalization=given_as, damping=damping, dangling=rule, engine="reference")
        assert result.converged
        assert abs(result.iterations - alone.iterations) <= 1
        assert np.abs(result.ranks - alone.ranks).sum() <= result.error_bound + alone.error_bound + 1e-13
        check.answer_is_certified(result, personalization=given_as, dangling=rule)


@given(graph=graphs(weighted=False) | graphs_with_a_core(), data=st.data())
@settings(max_examples=60)
def test_refined_queries_are_answered_as_if_alone(graph, data):
    several = st.lists(st.integers(0, graph.nodes - 1), min_size=1, max_size=3, unique=True)
    queries = data.draw(st.lists(several, min_size=2, max_size=5))
    options = {"dangling": data.draw(st.sampled_from(["teleport", "uniform"])), "method": "refine", "engine": "cpu"}
    options |= {"damping": data.draw(st.floats(0.05, 0.95)), "storage": data.draw(st.sampled_from(["auto", "fp16"]))}
    for query, result in zip(queries, personalized_pagerank(graph, queries, **options), strict=True):
        alone = cpms.pagerank(graph, personalization=query, **options)
        assert result.converged
        assert (result.storage, result.engine, result.iterations) == (alone.storage, "cpu", alone.iterations)
        assert np.abs(result.ranks - alone.ranks).max() <= 1e-15
        check.answer_is_certified(result, personalization=query, dangling=options["dangling"])


def test_a_query_whose_residual_an_earlier_plan_found_smaller_does_not_stagnate():
    course = OuterState(PolicyDriver(AdaptiveReduction((FP16,)), 0.999), History(Stopping()))
    for found in [1e-6] * 3 + [0.999**k * 1e-5 for k in range(100)]:
        low = (
            [0.9 * found] * inner_max_iterations(default_inner_reduction(FP16), 0.999)
            if course.driver.plan.storage
            else []
        )
        made = OuterStep(Sweep(found, found, found, 1.0), low, [], [0.0] * (1 + len(low)))
        assert course.add(made, 0.0) is None


def test_refined_queries_on_a_processor_share_one_matrix(monkeypatch):
    prepared = []
    refinement = CpuEngine.refinement
    monkeypatch.setattr(CpuEngine, "refinement", lambda *given: prepared.append(1) or refinement(*given))
    assert len(personalized_pagerank(web(), [1, 2, 3], method="refine", engine="cpu")) == 3
    assert prepared == [1]


@pytest.mark.parametrize("method", ["power", "refine"])
def test_a_query_alone_is_answered_as_by_pagerank(method):
    (found,) = personalized_pagerank(web(), [{7: 1.0, 9: 3.0}], method=method, tol=1e-9, dangling="uniform")
    alone = cpms.pagerank(web(), personalization={7: 1.0, 9: 3.0}, method=method, tol=1e-9, dangling="uniform")
    assert (found.engine, found.storage, found.iterations) == (alone.engine, alone.storage, alone.iterations)
    np.testing.assert_allclose(found.ranks, alone.ranks, rtol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_each_query_stops_by_itself(norm):
    graph = web()
    found = personalized_pagerank(graph, [0, 1999, [5, 6]], norm=norm, tol=1e-8)
    assert len({result.iterations for result in found}) > 1
    for result in found:
        assert result.status is Status.CONVERGED
        assert [step.residual < 1e-8 for step in result.history].count(True) == 1


def test_answers_do_not_depend_on_the_width_or_the_threads():
    graph = web()
    queries = list(range(0, 2000, 97))
    wide = personalized_pagerank(graph, queries, width=32)
    for width, count in ((1, 2), (5, 1), (32, 1)):
        with threads.limited(count):
            found = personalized_pagerank(graph, queries, width=width)
        for a, b in zip(wide, found, strict=True):
            np.testing.assert_array_equal(a.ranks, b.ranks)
            assert a.iterations == b.iterations


def test_a_limit_of_iterations_is_kept():
    found = personalized_pagerank(web(), [3, 4], max_iterations=4)
    assert [(result.status, result.iterations) for result in found] == [(Status.MAX_ITERATIONS, 4)] * 2


def test_no_queries_no_answers():
    assert personalized_pagerank(web(), []) == []


def test_names_are_queries_too():
    graph = Graph.from_edges([0, 1], [1, 0], names=np.array(["b.org", "a.org"], dtype=object))
    assert [result.top(1)[0][0] for result in personalized_pagerank(graph, ["a.org", ["b.org"]])] == ["a.org", "b.org"]


def test_a_penalised_start_leads_to_the_same_answer():
    graph = web()
    first = penalised_start(graph)
    assert first.sum() == pytest.approx(1.0)
    assert set(np.unique(first[graph.in_degree == 0])) == {first.min()}
    (plain,), (penalised,) = personalized_pagerank(graph, [7]), personalized_pagerank(graph, [7], start=first)
    assert np.abs(plain.ranks - penalised.ranks).sum() <= plain.error_bound + penalised.error_bound


def test_queries_are_split_evenly():
    batches = [[len(part) for part in _split_evenly(list(range(count)), 16)] for count in (0, 1, 16, 17, 100)]
    assert batches == [[], [1], [16], [8, 9], [14, 14, 14, 15, 14, 14, 15]]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([0, [1, 1]], "query 1: personalization names a node twice"),
        ([2000], "query 0: .*2000"),
        ([{}], "query 0: personalization"),
        ([[3], None], "query 1: personalization"),
    ],
)
def test_bad_queries_are_named(queries, message):
    with pytest.raises(InputError, match=message):
        personalized_pagerank(web(), queries)


def test_bad_arguments_are_refused():
    for arguments, error, message in (
        ((web(), [0], {"width": 0}), InputError, "width is 0"),
        ((web(), [0], {"width": 1.5}), InputError, "width is 1.5; .*whole"),
        ((web(), 5), InputError, "queries is a int; give a list"),
        ((web(), {0: 0.5, 1: 0.5}), InputError, r"queries is a dict; .* as \[query\]"),
        ((web(), "ab"), InputError, "queries is a str"),
        ((web(), [0], {"start": np.ones(3)}), InputError, "start must hold 2000 values"),
        ((web(), [0], {"engine": "scipy"}), UnsupportedError, "takes no batches"),
    ):
        with pytest.raises(error, match=message):
            personalized_pagerank(*arguments[:2], **(arguments[2] if len(arguments) > 2 else {}))
    with pytest.raises(InputError, match="penalty is 1"):
        penalised_start(web(), 1.0)


def test_every_engine_takes_batches_or_says_so():
    problem, others = Problem(web()), ("cuda_balanced_rows", "cuda_thread_rows", "cpu_composed")
    for name in engines.names():
        executor = engines.get_any(name)
        if executor.missing():
            continue
        if name in ("cpu", "cuda", "cuda_composed", "cusparse_composed", *others):
            assert executor.batch(problem).nbytes > 0
            assert executor.refinement_batch(problem).nbytes > 0
            continue
        with pytest.raises(UnsupportedError, match=f"engine {name} takes no batches of queries; use"):
            executor.batch(problem)
        with pytest.raises(UnsupportedError, match=f"engine {name} takes no batches of queries by method 'refine'"):
            executor.refinement_batch(problem)


@pytest.mark.parametrize("method", ["power", "refine"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
@given(graph=graphs(weighted=False), tol=st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_what_is_not_certified_is_iterated_further(method, norm, graph, tol):
    """Sweeps contract in L1 alone: in other norms a residual may be above the change that came before it."""
    results = personalized_pagerank(graph, [0, graph.nodes - 1], engine="cpu", method=method, tol=tol, norm=norm)
    for result in results:
        assert result.converged
        assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
        seconds = [step.seconds for step in result.history]
        assert seconds == sorted(seconds)


def test_a_residual_in_linf_that_grows_once_more_is_followed_up():
    graph = Graph.from_edges([2, 2, 4, 0], [3, 1, 4, 3], nodes=5)
    for found in personalized_pagerank(graph, [2, 2], engine="cpu", tol=1e-6, norm="linf"):
        assert found.converged
        assert found.iterations == 72


def chains_into_a_hub(width, length, begin):
    """Return sources and targets of so many chains that end in one node, the nodes they begin at, and the hub."""
    nodes = begin + np.arange(width * length).reshape(length, width)
    hub = begin + width * length
    return nodes.ravel(), np.append(nodes[1:], np.full(width, hub)), nodes[0], hub


def test_a_solve_in_linf_that_leaves_more_than_the_one_before_is_followed_up():
    """What chains bring to a hub is small on each of them; the longer ones are more, and get there a solve later."""
    short = chains_into_a_hub(20, 3, 0)
    long = chains_into_a_hub(60, 6, short[3] + 1)
    sources, targets, begins = (np.concatenate(both) for both in list(zip(short, long, strict=True))[:3])
    loose = np.arange(len(begins)) + long[3] + 1
    query = int(loose[-1]) + 1
    graph = Graph.from_edges(sources, targets, nodes=query + 1)
    options = {"damping": 0.99, "dangling": "uniform", "engine": "cpu"}
    first = cpms.pagerank(graph, personalization=[query], tol=1e-14, **options).ranks
    first[begins] += 1e-6
    first[loose] -= 1e-6
    problem = Problem(graph, 0.99, np.eye(1, graph.nodes, query)[0], "uniform")
    left, x = [], first
    for _ in range(6):
        left.append(residual(problem, x, "linf"))
        x = apply_operator(problem, x)
    assert max(left[0], left[1], left[4]) < 1e-5 < left[2] < left[5]
    for found in personalized_pagerank(graph, [query, query], tol=1e-5, norm="linf", start=first, **options):
        assert found.converged


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_changes_of_batches_that_grow_for_long_do_not_stagnate(norm):
    nodes = np.arange(1, 600)
    tree = Graph.from_edges(nodes, (nodes - 1) // 2)
    for found in personalized_pagerank(tree, [599, 300], damping=0.99, norm=norm, engine="cpu", max_iterations=3000):
        assert found.converged


def test_batches_stop_where_changes_have_stopped_falling():
    tail = 10**5
    hub, leaves = np.zeros(tail, int), np.arange(1, tail + 1)
    graph = Graph.from_edges(np.concatenate([hub, leaves]), np.concatenate([leaves, hub]))
    found = personalized_pagerank(graph, [0, 1], engine="cpu", tol=1e-30)
    assert {result.status for result in found} == {Status.STAGNATED}
