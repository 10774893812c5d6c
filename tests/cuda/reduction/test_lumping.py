"""Exact lumping of nodes with equal columns, emulated on this machine and on a GPU."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, check, load
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.persistent import refinement
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.reduction import lumping, reduced_refinement, trimming
from cpms.backends.cuda.reduction.level_solve import LUMPED
from cpms.backends.cuda.reduction.reduced_refinement import TrimmedRefinement
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.certify import residual
from cpms.contracts.stopping import Stopping
from cpms.engines import cuda_fused
from cpms.formats.formats import FP16
from cpms.formats.quantization import quantiser
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import solve_by_reduction
from cpms.testing import distributions

FREE = trimming.Cost(
    level=0.0,
    narrow_level=0.0,
    launch=0.0,
    external_node=0.0,
    inflow_node=0.0,
    solve_entry=0.0,
    solve_entry_one_block=0.0,
    teleport_node=0.0,
)
DEAR = FREE._replace(sweep_entry=0.0)
"""Nothing is peeled, but merged."""
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        cores = [
            persistent.persistent_refine(quantiser(FP16), SHAPES[16], personal=personal, core=partial)
            for personal, partial in itertools.product((False, True), (False, True))
        ]
        kernels = [*template.TRIMMING, *template.LUMPING, template.CONVERGENCE_ESTIMATE, *template.LEVEL_SOLVE, *cores]
        request.getfixturevalue("host_backend").compile(kernels)


@pytest.fixture
def engine(fused_engine, monkeypatch):
    """Return engine ``cuda_fused`` where all that can be is peeled and merged."""
    monkeypatch.setattr(reduced_refinement, "Cost", lambda: FREE)
    return fused_engine


@st.composite
def graphs_of_few_lists(draw, max_nodes=40):
    """Return a graph whose nodes have one of a few lists of nodes that their edges lead to, some of them none."""
    nodes = draw(st.integers(2, max_nodes))
    node = st.integers(0, nodes - 1)
    lists = draw(st.lists(st.lists(node, max_size=4), min_size=1, max_size=nodes // 2 + 1))
    chosen = draw(st.lists(st.sampled_from(lists), min_size=nodes, max_size=nodes))
    sources = [source for source, targets in enumerate(chosen) for _ in targets]
    return Graph.from_edges(sources, [target for targets in chosen for target in targets], nodes=nodes)


def of_one_ring(lists, each, *, seed=3):
    """Return a graph of lists on a ring: all nodes that have one lead to all that have the next, and to one more."""
    count = lists * each
    list_of = np.repeat(np.arange(lists), each)
    next_ones = each * ((list_of[:, None] + 1) % lists) + np.arange(each)
    another = np.random.default_rng(seed).integers(0, count, lists)[list_of]
    targets = np.column_stack([next_ones, another])
    return Graph.from_edges(np.repeat(np.arange(count), each + 1), targets.ravel(), nodes=count)


def on_host(values):
    return np.asarray(current.current().to_host(values))


def led_to(graph):
    """Return the nodes that edges of each node lead to, in order."""
    lists = [[] for _ in range(graph.nodes)]
    for source, target in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        lists[source].append(target)
    return [tuple(sorted(targets)) for targets in lists]


def lumped(graph, cost=FREE, problem=None):
    rows, degree = padded_csr.DeviceRows.of(graph), padded_csr.out_degree(graph)
    found = trimming.trim(graph, rows.indptr, rows.sources, degree, cost)
    return found, lumping.lumped(problem or Problem(graph), rows, degree, found, cost)


@given(graph=graphs_of_few_lists())
@few
def test_nodes_are_one_whose_edges_lead_to_the_same(engine, graph):
    rows, degree = padded_csr.DeviceRows.of(graph), padded_csr.out_degree(graph)
    hashes, lists = on_host(lumping._hash_targets(rows, degree)), led_to(graph)
    for a, b in itertools.combinations(range(graph.nodes), 2):
        assert (hashes[a] == hashes[b]) == (lists[a] == lists[b] != ())


@given(graph=graphs_of_few_lists(), cost=st.sampled_from([FREE, DEAR]))
@few
def test_rows_are_those_of_all_that_a_place_stands_for(engine, graph, cost):
    found, made = lumped(graph, cost)
    if made is None:
        return
    places, rows = made
    lists, order = led_to(graph), on_host(places.order).astype(np.int64)
    core = (on_host(found.order)[: found.core] if found else np.arange(graph.nodes)).tolist()
    alike = {}
    for node in core:
        alike.setdefault(lists[node] or (None, node), []).append(node)
    assert places.core == len(alike)
    first_joined = places.core + sum(places.upstream)
    joined = order[first_joined : first_joined + places.downstream[0]]
    assert sorted(joined) == sorted(node for nodes in alike.values() if len(nodes) > 1 for node in nodes)
    assert sorted(order[order != LUMPED]) == list(range(graph.nodes))

    stands_for = [*alike.values(), *([node] for node in order[places.core :].tolist())]
    outside = [node for node in order.tolist() if node not in core and node != LUMPED]
    place = {nodes[0]: number for number, nodes in enumerate(alike.values())}
    place |= {node: order.tolist().index(node) for node in outside}
    starts, sources = on_host(rows.row_begins), on_host(rows.sources)
    for number, nodes in enumerate(stands_for):
        expected = [place[s] for node in nodes for s in sources_of(graph, node) if s in place]
        assert sources[starts[number] : starts[number + 1]].tolist() == expected
    degrees = [graph.out_degree[node] for node, *_ in alike.values()]
    degrees += [0 if node in core else graph.out_degree[node] for node in order[places.core :].tolist()]
    assert on_host(places.degree).tolist() == degrees
    given_to = [len(nodes) / graph.nodes for nodes in stands_for]
    np.testing.assert_allclose(on_host(places.teleport), given_to, rtol=1e-15)


def sources_of(graph, node):
    return graph.sources[graph.indptr[node] : graph.indptr[node + 1]].tolist()


@given(graph=graphs_of_few_lists(), damping=st.floats(0.01, 0.95), cost=st.sampled_from([FREE, DEAR]))
@few
def test_the_solution_of_the_whole_follows(engine, graph, damping, cost):
    problem = Problem(graph, damping)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reduced_refinement, "Cost", lambda: cost)
        found = engine.refinement(problem)
    if isinstance(found, TrimmedRefinement):
        ranks, status, _ = solve_by_reduction(found, default_policy(FP16), Stopping(1e-12))
        ranks = on_host(ranks)
        assert status is Status.CONVERGED
        assert ranks.shape == (graph.nodes,)
        assert ranks.sum() == pytest.approx(1.0, abs=1e-14)
        assert residual.residual(problem, ranks) < 2e-12


@pytest.mark.representatives(exponent=("2", "7", "8", "12"))
@pytest.mark.parametrize("exponent", range(2, 13))
def test_wherever_sweeps_end_the_pass_resumes_there(engine, exponent):
    """Full sweeps move x from one array to the other: how many there are depends on the tolerance."""
    problem = Problem(of_one_ring(40, 5))
    found = engine.refinement(problem)
    assert found.core.graph.nodes == 40
    for _ in range(2):
        ranks, _, history = solve_by_reduction(found, default_policy(FP16), Stopping(10.0**-exponent))
        assert residual.residual(problem, on_host(ranks)) < 1.5 * 10.0**-exponent
        from_there = found._solve_downstream(refinement.FinalContributions.without_launch(found.core._contributions))
        assert (on_host(ranks) == on_host(from_there)).all()
    assert len({step.level for step in history}) == 2


def test_of_many_launches_the_last_is_followed(engine, monkeypatch):
    monkeypatch.setattr(refinement, "MAX_SWEEPS", 9)
    problem = Problem(of_one_ring(40, 5))
    ranks, status, history = solve_by_reduction(engine.refinement(problem), default_policy(FP16), Stopping(1e-12))
    assert status is Status.CONVERGED
    assert len(history) > 18
    assert residual.residual(problem, on_host(ranks)) < 2e-12


def test_a_closed_core_loses_nothing_by_a_teleport_of_its_own(engine):
    closed = engine.refinement(Problem(of_one_ring(40, 5))).core.graph
    assert (closed.sink.size, closed.teleport.size, closed.internal_degree) == (1, 40, None)
    open_ended = Graph.from_edges([0, 1, 2, 3, 4, 4], [4, 4, 4, 4, 0, 5])
    found, made = lumped(open_ended, DEAR)
    assert found is None
    graph = TrimmedRefinement(Problem(open_ended), *made).core.graph
    assert graph.sink is graph.teleport


def test_what_leaves_a_merged_core_comes_back_by_its_teleport(engine):
    ring = of_one_ring(12, 4)
    sources, targets = np.append(ring.sources, np.arange(0, 48, 3)), np.append(ring.targets, np.arange(48, 64))
    problem = Problem(Graph.from_edges(sources, targets))
    found = engine.refinement(problem)
    places, core = found._level_solve.layout, found.core.graph
    assert 12 < places.core < 48
    assert places.downstream[1:] == [16]
    assert on_host(core.degree).sum() - on_host(core.internal_degree).sum() == 16
    ranks, *_ = solve_by_reduction(found, default_policy(FP16), Stopping(1e-12))
    assert residual.residual(problem, on_host(ranks)) < 2e-12


def test_merged_nodes_may_lie_in_another_order(engine, monkeypatch):
    ring = of_one_ring(30, 4)
    order = np.random.default_rng(5).permutation(ring.nodes).astype(np.int32)
    monkeypatch.setattr(lumping.reordering, "chosen", lambda *_: Reordering.of_order(current.current().upload(order)))
    found = engine.refinement(Problem(ring))
    assert found.core.graph.nodes == 30
    ranks, *_ = solve_by_reduction(found, default_policy(FP16), Stopping(1e-12))
    assert residual.residual(Problem(ring), on_host(ranks)) < 2e-12


@given(graph=graphs_of_few_lists(), data=st.data())
@few
def test_where_teleports_differ_nothing_is_merged(engine, graph, data):
    problem = Problem(graph, 0.85, data.draw(distributions(graph.nodes)))
    assert lumped(graph, problem=problem)[1] is None
    result = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve(
        personalization=problem.teleport
    )
    check.answer_is_certified(result, personalization=problem.teleport)


def test_what_marks_get_wrong_is_refined(engine, monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 0, 2, 0, 1, 1])
    monkeypatch.setattr(lumping, "_hash_targets", lambda rows, _: current.current().arrays.zeros(rows.nodes, np.uint64))
    assert engine.refinement(Problem(graph)).core.graph.nodes == 1
    result = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve()
    assert result.converged
    check.answer_is_certified(result)


def test_nodes_of_long_rows_stay_by_themselves(engine, monkeypatch):
    graph = of_one_ring(10, 5)
    assert lumped(graph)[1][0].core == 10
    monkeypatch.setattr(lumping, "_MAX_ROW_ENTRIES", 5)
    short = graph.in_degree <= 5
    places = lumped(graph)[1][0]
    assert places.core == len(np.unique(np.arange(50)[short] // 5)) + (~short).sum()
    assert 10 < places.core < 50


def test_merging_that_does_not_pay_is_not_done(host_backend, monkeypatch):
    monkeypatch.setattr(reduced_refinement.convergence_estimate, "sweeps", lambda *_: 80)
    with current.using(host_backend):
        for lists, paid in ((60, False), (20_000, True)):
            graph = of_one_ring(lists, 5)
            assert (lumped(graph, trimming.Cost())[1] is not None) is paid
            assert lumped(graph, trimming.Cost(teleport_node=1e-3))[1] is None
            assert lumped(graph, trimming.Cost(launch=1e9))[1] is None
            kind = TrimmedRefinement if paid else CudaRefinement
            assert type(reduced_refinement.prepared(Problem(graph), "cuda_fused")) is kind
            dangling = Graph(np.append(graph.indptr, graph.edges), graph.sources)
            assert lumped(dangling, trimming.Cost(external_node=1e-3))[1] is None
            assert (lumped(graph, trimming.Cost(external_node=1e-3))[1] is not None) is paid


@pytest.mark.gpu
def test_web_google_is_swept_by_fewer_nodes(gpu_backend):
    graph = load("web-Google-scc")
    with current.using(gpu_backend):
        found = cuda_fused.ENGINE.refinement(Problem(graph))
        hashes = np.zeros(graph.nodes, np.uint64)
        np.add.at(
            hashes, graph.sources, np.random.default_rng(1).integers(0, 2**63, graph.nodes, np.uint64)[graph.targets]
        )
        assert found.core.graph.nodes == len(np.unique(hashes[graph.in_degree <= 256])) + (graph.in_degree > 256).sum()
        result = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve()
    assert result.converged
    check.answer_is_certified(result)


def test_counts_are_of_lists(engine):
    """Parallel edges count: a node with two to another is not one with a single one."""
    graph = Graph(np.array([0, 1, 4, 4]), np.array([1, 0, 0, 2], np.int32))
    assert Counter(led_to(graph)) == {(1, 1): 1, (0,): 1, (1,): 1}
    hashes = on_host(lumping._hash_targets(padded_csr.DeviceRows.of(graph), padded_csr.out_degree(graph)))
    assert len(set(hashes.tolist())) == 3
