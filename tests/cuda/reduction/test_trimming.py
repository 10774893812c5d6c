"""Trimming and level-scheduled substitution upstream and downstream, emulated on this machine and on a GPU."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, check, format_named
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.reduction import level_solve, reduced_refinement, trimming
from cpms.backends.cuda.reduction.reduced_refinement import TrimmedRefinement
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.certify import residual
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16
from cpms.formats.quantization import quantiser
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import solve_by_reduction
from cpms.testing import distributions, graphs_with_a_core

FREE = trimming.Cost(
    level=0.0, narrow_level=0.0, launch=0.0, external_node=0.0, inflow_node=0.0, solve_entry_one_block=0.0
)
FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2")]
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        cores = [
            persistent.persistent_refine(storage, SHAPES[16], personal=personal, core=partial)
            for storage, personal, partial in itertools.product(FORMATS, (False, True), (False, True))
        ]
        request.getfixturevalue("host_backend").compile(
            [*template.TRIMMING, template.CONVERGENCE_ESTIMATE, *template.LEVEL_SOLVE, *cores]
        )


@pytest.fixture
def engine(fused_engine, monkeypatch):
    """Return engine ``cuda_fused`` where all passes pay."""
    monkeypatch.setattr(reduced_refinement, "Cost", lambda: FREE)
    return fused_engine


def trimmed(graph, cost=FREE):
    return trimming.trim(graph, *padded_csr.uploaded(graph), padded_csr.out_degree(graph), cost)


def layered(sizes, *, seed=1, cycle=0, hub=None, each=3):
    """Return a graph of layers, each of whose nodes has some edges from the one before; a cycle in the midst."""
    random, ends = np.random.default_rng(seed), np.cumsum([0, *sizes])
    sources, targets = [], []
    for k in range(1, len(sizes)):
        targets.append(np.repeat(np.arange(ends[k], ends[k + 1]), each))
        sources.append(random.integers(ends[k - 1], ends[k], each * sizes[k]))
    ring = np.arange(ends[1], ends[1] + cycle)
    sources.append(ring)
    targets.append(np.roll(ring, -1))
    if hub is not None:
        sources.append(np.arange(ends[-1] - 1)[:hub])
        targets.append(np.full(min(hub, ends[-1] - 1), ends[-1] - 1))
    return Graph.from_edges(np.concatenate(sources), np.concatenate(targets), nodes=int(ends[-1]))


@given(graph=graphs_with_a_core())
@few
def test_edges_outside_the_core_lead_to_later_levels(engine, graph):
    found = trimmed(graph)
    if found is None:
        # Every node has edges from others that have, and to others that have.
        assert (graph.in_degree > 0).all()
        assert (graph.out_degree > 0).all()
        return
    order, place = (np.asarray(current.current().to_host(part)) for part in (found.order, found.position))
    assert (order[place] == np.arange(graph.nodes)).all()
    assert found.core + sum(found.upstream) + sum(found.downstream) == graph.nodes
    levels = np.repeat(np.arange(len(found.upstream) + len(found.downstream)), [*found.upstream, *found.downstream])
    # The core lies between the two kinds of levels.
    rank = np.concatenate([np.full(found.core, len(found.upstream) - 0.5), levels])
    source, target = place[graph.sources], place[graph.targets]
    inside = (source < found.core) & (target < found.core)
    assert (rank[source] < rank[target])[~inside].all()
    for ends in (source, target):
        assert np.unique(ends[inside]).size == found.core


@given(graph=graphs_with_a_core(), data=st.data())
@few
def test_the_solution_of_the_whole_follows_from_the_cores(engine, graph, data):
    problem = Problem(graph, data.draw(st.floats(0.01, 0.95)), data.draw(st.none() | distributions(graph.nodes)))
    refinement = engine.refinement(problem)
    if isinstance(refinement, TrimmedRefinement):
        ranks, status, _ = solve_by_reduction(refinement, default_policy(FP16), Stopping(1e-12))
        ranks = np.asarray(current.current().to_host(ranks))
        assert status is Status.CONVERGED
        assert ranks.sum() == pytest.approx(1.0, abs=1e-14)
        assert residual.residual(problem, ranks) < 2e-12


@given(graph=graphs_with_a_core(), data=st.data())
@few
def test_a_core_begins_at_what_it_gets(engine, graph, data):
    problem = Problem(graph, 0.85, data.draw(st.none() | distributions(graph.nodes)))
    refinement = engine.refinement(problem)
    if isinstance(refinement, TrimmedRefinement):
        began = []

        def iterate(smaller):
            began.append((smaller.read(), smaller.graph.teleport))
            smaller.outer_step(FORMATS[0], inner_reduction=0.5, tol=0.5, norm="l1", max_inner=1)

        refinement.solve_reduced(iterate)
        for first, given_to_it in began:
            teleport = np.broadcast_to(np.asarray(current.current().to_host(given_to_it)), first.shape)
            np.testing.assert_allclose(first, teleport, rtol=1e-15)
            assert first.sum() == pytest.approx(1.0, abs=1e-14)


def test_an_interrupted_solve_leaves_no_vector_behind(engine):
    chain = Graph.from_edges([0, 1, 2, 2, 3, *range(4, 100)], [1, 2, 0, 1, 0, *range(3, 99)])
    refinement = engine.refinement(Problem(chain))
    assert isinstance(refinement, TrimmedRefinement)

    def interrupt(smaller):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refinement.solve_reduced(interrupt)
    assert refinement.core.follow is None


@given(graph=graphs_with_a_core(), data=st.data())
@few
def test_answers_are_certified(engine, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    prepared = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000)
    result = prepared.solve(personalization=teleport, dangling=rule, tol=1e-11)
    assert result.converged
    assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1500, 3, 2, 2000, 1, 700), {}),
        ((5, 1200, 1100, 4), {"cycle": 900}),
        ((1100, 40, 1300), {"cycle": 40, "hub": 600}),
        ((20, 1500, 30), {"hub": 1200}),
        ((30,) * 40, {"cycle": 2}),
        ((300, 1100, 60), {"each": 21}),
    ],
    ids=[
        "acyclic",
        "narrow, core, wide",
        "long row behind",
        "long row of an acyclic graph",
        "many levels",
        "rows of 21",
    ],
)
@pytest.mark.parametrize("aimed", [False, True])
def test_levels_of_any_width_are_passed(engine, sizes, options, aimed):
    graph = layered(sizes, **options)
    teleport = np.random.default_rng(3).random(graph.nodes) if aimed else None
    problem = Problem(graph, 0.85, None if teleport is None else teleport / teleport.sum())
    refinement = engine.refinement(problem)
    assert isinstance(refinement, TrimmedRefinement)
    ranks, *_ = solve_by_reduction(refinement, default_policy(FP16), Stopping(1e-12))
    assert residual.residual(problem, np.asarray(current.current().to_host(ranks))) < 2e-12
    again, *_ = solve_by_reduction(refinement, default_policy(FP16), Stopping(1e-12))
    assert bool((ranks == again).all())


def test_rows_too_long_for_a_warp_stay_in_the_core(engine):
    nodes = 20_000
    graph = Graph.from_edges(np.arange(nodes - 1), np.full(nodes - 1, nodes - 1))
    found = trimmed(graph)
    assert (found.core, found.upstream, found.downstream) == (1, [nodes - 1], [])


def test_levels_that_do_not_pay_stay_in_the_core(engine):
    wide_alone = FREE._replace(narrow_level=1e9, sweep=0.0)
    found = trimmed(layered((1500, 5, 4, 6, 1200), cycle=4), wide_alone)
    assert (found.core, found.upstream, found.downstream) == (15, [1500], [1200])
    order = np.asarray(current.current().to_host(found.order))
    assert sorted(order[:15]) == list(range(1500, 1515))


def test_a_pass_that_does_not_pay_is_not_made(host_backend):
    with current.using(host_backend):
        assert trimmed(layered((40, 40, 40)), trimming.Cost()) is not None
        assert trimmed(layered((40, 40, 40), cycle=30), trimming.Cost()) is None
        assert trimmed(layered((1,) * 900), trimming.Cost()) is None


def test_fewer_sweeps_pay_for_fewer_levels(host_backend, monkeypatch):
    graph = layered((20,) * 40)
    with current.using(host_backend):
        for sweeps, kind in ((10, CudaRefinement), (120, TrimmedRefinement)):
            monkeypatch.setattr(reduced_refinement.convergence_estimate, "sweeps", lambda *_, sweeps=sweeps: sweeps)
            assert type(reduced_refinement.prepared(Problem(graph), "cuda_fused")) is kind


def test_where_a_core_does_not_fit_all_is_swept(host_backend, monkeypatch):
    def no_room(*_):
        raise MemoryError

    problem = Problem(layered((40, 40, 40)))
    with current.using(host_backend):
        assert type(reduced_refinement.prepared(problem, "cuda_fused")) is TrimmedRefinement
        monkeypatch.setattr(reduced_refinement.PermutedRows, "of", no_room)
        assert type(reduced_refinement.prepared(problem, "cuda_fused")) is CudaRefinement


@pytest.mark.parametrize("node", range(8))
def test_queries_may_reach_the_core_or_not(engine, node):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6, 2], [1, 2, 1, 0, 0, 0, 0, 1, 7])
    result = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve(personalization=[node])
    assert result.converged
    check.answer_is_certified(result, personalization=[node])


@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
def test_sweeps_of_a_core_lose_what_leaves_it(engine, storage):
    random, inside = np.random.default_rng(5), np.arange(60)
    leaving = random.integers(0, 60, 90), 60 + np.arange(90) % 40
    sources, targets = np.append(inside, leaving[0]), np.append(np.roll(inside, -1), leaving[1])
    core = engine.refinement(Problem(Graph.from_edges(sources, targets, nodes=100))).core
    core.start(random.random(60))
    made = core.outer_step(storage, inner_reduction=1e-300, tol=1e-300, norm="l1", max_inner=6)
    for size, (before, after) in zip([made.found.l1, *made.inner_l1], itertools.pairwise(made.sums), strict=False):
        assert abs(after - 0.85 * before) <= 1e-14 * size


def test_what_a_pass_gets_wrong_is_refined(engine, monkeypatch):
    graph = layered((50, 60, 40), cycle=30)
    wrong = level_solve.LevelSolve.downstream
    monkeypatch.setattr(level_solve.LevelSolve, "downstream", lambda *given: wrong(*given) ** 2)
    result = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve()
    assert result.converged
    check.answer_is_certified(result)


def test_where_dangling_mass_goes_elsewhere_all_is_swept(engine):
    graph, teleport = layered((50, 60, 40)), np.full(150, 1 / 150)
    assert isinstance(engine.refinement(Problem(graph, 0.85, teleport, "uniform")), CudaRefinement)
    assert isinstance(reduced_refinement.prepared(Problem(graph, 0.85, teleport), "cuda_fused"), TrimmedRefinement)
