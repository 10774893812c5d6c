"""Method refine on the processor: its twin, any number of threads, jagged diagonals, acyclic graphs in one pass."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, check, engines, format_named
from cpms.backends.cpu import node_loops, refine_loops
from cpms.backends.cpu import refinement as _cpu_refinement
from cpms.backends.cpu.reduced_refinement import CpuTrimmedRefinement, prepared
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.backends.cpu.substitution import acyclic
from cpms.backends.cpu.trimmed_core import Core, core
from cpms.base import threads
from cpms.certify import residual
from cpms.contracts.status import Step
from cpms.contracts.stopping import Stopping
from cpms.engines.reference import round_to_float
from cpms.formats.formats import FP16, FloatFormat
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import solve_by_reduction
from cpms.sparse import jagged
from cpms.storage.array import SegmentedArray
from cpms.testing import distributions, float_arrays, float_formats, graphs, graphs_with_a_core

CPU, REFERENCE = engines.get("cpu"), engines.get("reference")
# Rounds are compiled for each format, for seconds: here each width, either exponent and either rounding.
FORMATS = [
    *("fp32", "fp16", "e5m2", "cpms4", "cpms4-nearest", "cpms2", "e5m2-zero"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("bf16", "e4m3", "cpms2-nearest", "fp16-zero", "e4m3-zero", "e3m12", "e2m5", "e6m25")
    ),
]


def random_graph(nodes, edges, seed=5):
    random = np.random.default_rng(seed)
    sources, targets = random.integers(0, nodes, edges), random.geometric(30 / nodes, edges) % nodes
    return Graph.from_edges(sources, targets, nodes=nodes)


LARGE = random_graph(9000, 60_000)
WEIGHTS = np.random.default_rng(6).random(9000)
PROBLEMS = {
    "plain": Problem(LARGE),
    "personalised": Problem(LARGE, 0.9, WEIGHTS / WEIGHTS.sum()),
    "uniform": Problem(LARGE, 0.5, WEIGHTS / WEIGHTS.sum(), "uniform"),
    "hub": Problem(Graph.from_edges(np.arange(1, 9000), np.zeros(8999, int))),
    # What leaves reach the hub with grows a thousandfold in one sweep: more than any headroom.
    "growing": Problem(Graph.from_edges(np.append(np.arange(1, 9000), 0), np.append(np.zeros(8999, int), 5))),
    "dangling": Problem(Graph.from_edges([], [], nodes=5000)),
}


def rounds_of(engine, problem, storage, *, low=20, rounds=2):
    refinement = engine.refinement(problem)
    start = np.random.default_rng(1).random(problem.graph.nodes)
    refinement.start(start / start.sum())
    found = [
        refinement.outer_step(storage, inner_reduction=1e-300, tol=1e-300, norm="l1", max_inner=low)
        for _ in range(rounds)
    ]
    return found, refinement.read()


# The twin


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", FORMATS)
def test_rounds_agree_with_the_reference(problem, name):
    storage = quantiser(format_named(name))
    allowed = 1e-14 + 2.0**-53 * PROBLEMS[problem].graph.in_degree.max()
    mine, x = rounds_of(CPU, PROBLEMS[problem], storage)
    right, y = rounds_of(REFERENCE, PROBLEMS[problem], storage)
    for a, b in zip(mine[:1], right[:1], strict=True):
        np.testing.assert_allclose(a.found, b.found, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(a.inner_l1, b.inner_l1, rtol=1e-7, atol=1e-15)
        np.testing.assert_allclose(a.sums, b.sums, rtol=0, atol=allowed * b.found.l1)
    # c is float32 here: the second round's start may differ by that much of what the first one corrected.
    assert np.abs(x - y).sum() <= 1e-6 * right[0].found.l1


@pytest.mark.quick
@given(graph=graphs(weighted=False, max_nodes=40), data=st.data())
@settings(max_examples=60)
def test_full_sweeps_agree_on_any_graph(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    problem = Problem(
        graph, data.draw(st.floats(0.01, 0.99)), teleport, data.draw(st.sampled_from(["teleport", "uniform"]))
    )
    mine, right = (rounds_of(engine, problem, None, rounds=3) for engine in (CPU, REFERENCE))
    for a, b in zip(mine[0], right[0], strict=True):
        np.testing.assert_allclose(a.found, b.found, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(mine[1], right[1], rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["fp16", "e5m2", "cpms4-nearest", "cpms2"])
def test_ranks_and_counts_are_those_of_the_reference(name):
    # From a start of one's own, all of the graph is swept.
    start = np.full(LARGE.nodes, 1.0 / LARGE.nodes)
    a, b = (
        cpms.pagerank(LARGE, method="refine", storage=name, engine=engine, start=start)
        for engine in ("cpu", "reference")
    )
    assert a.iterations_by_bits == b.iterations_by_bits
    assert np.abs(a.ranks - b.ranks).sum() <= a.error_bound + b.error_bound


@given(values=float_arrays(min_size=1), storage=float_formats(scaled=False), data=st.data())
@settings(max_examples=300)
def test_values_are_stored_as_the_reference_rounds_them(values, storage, data):
    values = np.where(np.isfinite(values), values, 0.0)
    values = np.clip(values, -1e290, 1e290) if storage.exponent_bits == 11 else np.ldexp(np.frexp(values)[0], 3)
    # Halves of the last bit kept are ties.
    step = 2.0 ** -(storage.mantissa_bits + data.draw(st.integers(0, 3)))
    values = np.where(data.draw(st.booleans()), np.rint(values / step) * step, values)
    scale = 0 if storage.exponent_bits == 11 else data.draw(st.integers(-8, min(storage.bias, 60)))
    z, share, loss = np.zeros(len(values), f"int{storage.width}"), np.empty(len(values)), np.empty(len(values))
    degree, mode = np.ones(len(values), np.uint32), {"zero": 0, "nearest": 1}[storage.rounding]
    arrays = (values, degree, degree, z, 0, len(values), share, loss)
    refine_loops._quantise(*arrays, scale, np.uint64(0), storage.exponent_bits, storage.mantissa_bits, mode)
    fitting = np.clip(values * 2.0**scale, -storage.max_finite, storage.max_finite)
    right = round_to_float(fitting, storage)
    stored = SegmentedArray(z.view(np.uint8), len(z), storage, 0).decode()
    np.testing.assert_array_equal(stored, right)
    np.testing.assert_array_equal(share, np.abs(values))
    np.testing.assert_array_equal(loss, values - right * 2.0**-scale)


# Threads


def split_finely(monkeypatch):
    monkeypatch.setattr(_cpu_refinement, "_RANGE_COST", 1000)
    monkeypatch.setattr(_cpu_refinement, "_THREAD_COST", 1000)


def bits(problem, storage, count):
    with threads.limited(count):
        found, x = rounds_of(CPU, problem, storage, rounds=3)
        return [(a.found, a.inner_l1, a.sums) for a in found], x.tobytes()


@pytest.mark.parametrize("name", ["fp16", "e5m2", "cpms4", "fp32", "fp16-stochastic"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_any_number_of_threads_gives_the_same_bits(problem, name, monkeypatch):
    split_finely(monkeypatch)
    storage = quantiser(format_named(name))
    first = bits(PROBLEMS[problem], storage, 1)
    assert all(bits(PROBLEMS[problem], storage, count) == first for count in (1, 2, 3, 7))


def test_the_test_of_threads_splits_the_work(monkeypatch):
    split_finely(monkeypatch)
    with threads.limited(7):
        assert CpuRefinement(PROBLEMS["plain"])._lanes() > 2


@pytest.mark.parametrize("lanes", [1, 2, 3, 64, 100])
def test_every_range_has_one_thread_and_every_row_one_range(lanes, monkeypatch):
    monkeypatch.setattr(_cpu_refinement, "_RANGE_COST", 1)
    for problem in PROBLEMS.values():
        refinement = CpuRefinement(problem)
        ranges, bounds = refinement._first_ranges(lanes).tolist(), refinement._bounds.tolist()
        assert ranges == sorted(ranges)
        assert (ranges[0], ranges[-1], len(ranges)) == (0, len(bounds) - 1, lanes + 1)
        assert bounds == sorted(set(bounds))
        assert (bounds[0], bounds[-1]) == (0, problem.graph.nodes)
        assert all(bound % jagged.BLOCK_ROWS == 0 for bound in bounds[:-1])


def test_low_sweeps_go_on_where_a_call_into_compiled_code_ended(monkeypatch):
    split_finely(monkeypatch)
    whole = bits(PROBLEMS["plain"], FP16, 2)
    monkeypatch.setattr(_cpu_refinement, "_CALL_COST", 1)
    assert bits(PROBLEMS["plain"], FP16, 2) == whole


def test_solves_in_several_threads_at_once_do_not_wait_for_each_other(monkeypatch):
    split_finely(monkeypatch)
    right = cpms.pagerank(LARGE, method="refine", engine="cpu").ranks
    found = []
    workers = [
        threading.Thread(target=lambda: found.append(cpms.pagerank(LARGE, method="refine", engine="cpu").ranks))
        for _ in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert len(found) == 6
    assert all((ranks == right).all() for ranks in found)


def test_lanes_run_together_and_one_alone_where_others_do():
    met = threading.Barrier(3)

    def lane(lane, lanes):
        met.wait(timeout=60)
        # The lock is held: a call from within has one lane.
        return lane, lanes, threads.run_lanes(lambda k, n: (k, n), 2)

    assert threads.run_lanes(lane, 3) == [(k, 3, [(0, 1)]) for k in range(3)]
    assert threads.run_lanes(lambda lane, lanes: (lane, lanes), 2) == [(0, 2), (1, 2)]


def test_a_lane_that_fails_sets_the_others_free_for_the_next_call():
    def fails(lane, lanes):
        raise ValueError(lane)

    with pytest.raises(ValueError, match="0"):
        threads.run_lanes(fails, 2)
    assert threads.run_lanes(lambda _, lanes: lanes, 2) == [2, 2]


# Stochastic rounding


@pytest.mark.parametrize(
    "base", ["fp16", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bf16", "e5m2", "e4m3"))]
)
def test_stochastic_rounding_is_seeded_and_sound(base):
    storage = quantiser(format_named(f"{base}-stochastic"))
    other = FloatFormat(storage.name, storage.exponent_bits, storage.mantissa_bits, "stochastic", seed=1)
    problem = PROBLEMS["personalised"]
    first, again, differs = (bits(problem, chosen, 2) for chosen in (storage, storage, other))
    assert first == again
    assert first != differs
    check.refinement_is_sound(CPU, problem, storage)
    result = cpms.pagerank(LARGE, method="refine", storage=storage, engine="cpu")
    assert result.converged
    check.answer_is_certified(result)


@pytest.mark.parametrize("base", [pytest.param("fp16", marks=pytest.mark.slow), "e5m2"])
def test_stochastic_rounding_loses_less_than_cutting(base):
    def lost(name):
        (found,), _ = rounds_of(CPU, PROBLEMS["plain"], quantiser(format_named(name)), low=12, rounds=1)
        return found.inner_l1[-1]

    (exact,), _ = rounds_of(CPU, PROBLEMS["plain"], quantiser(format_named("fp32")), low=12, rounds=1)
    assert abs(lost(f"{base}-stochastic") - exact.inner_l1[-1]) < abs(lost(f"{base}-zero") - exact.inner_l1[-1])


# Jagged diagonals


def in_rows(matrix, low, high):
    """Return each row's entries of one block, by walking its diagonals."""
    rows = [[] for _ in range(high - low)]
    at, column = int(matrix.starts[low // jagged.BLOCK_ROWS]), 0
    lengths = matrix.lengths[low:high].tolist()
    while (going := sum(length > column for length in lengths)) >= jagged.FEWEST_ROWS:
        for i in range(going):
            rows[i].append(int(matrix.sources[at + i]))
        at, column = at + going, column + 1
    for i in range(going):
        rows[i] += matrix.sources[at : at + lengths[i] - column].tolist()
        at += lengths[i] - column
    assert at == int(matrix.starts[low // jagged.BLOCK_ROWS + 1])
    return rows


def same_structure(graph):
    matrix = jagged.build(graph)
    assert sorted(matrix.nodes.tolist()) == list(range(graph.nodes))
    for low in range(0, graph.nodes, jagged.BLOCK_ROWS):
        high = min(low + jagged.BLOCK_ROWS, graph.nodes)
        assert set(matrix.nodes[low:high].tolist()) == set(range(low, high))
        assert (np.diff(matrix.lengths[low:high].astype(int)) <= 0).all()
        for i, row in enumerate(in_rows(matrix, low, high)):
            node = matrix.nodes[low + i]
            stored = graph.sources[graph.indptr[node] : graph.indptr[node + 1]]
            assert matrix.nodes[row].tolist() == stored.tolist()


@pytest.mark.quick
@given(graph=graphs(weighted=False, max_nodes=30))
def test_jagged_diagonals_hold_each_row_in_its_order(graph):
    same_structure(graph)


@pytest.mark.parametrize("nodes", [2047, 2048, 2049, 5000])
def test_jagged_diagonals_of_several_blocks(nodes):
    same_structure(random_graph(nodes, 4 * nodes))


# Acyclic graphs


def some_acyclic_graph(draw):
    nodes = draw(st.integers(1, 25))
    numbering = draw(st.permutations(range(nodes)))
    node = st.integers(0, nodes - 1)
    pairs = [sorted(pair) for pair in draw(st.lists(st.tuples(node, node), max_size=60))]
    kind = draw(st.sampled_from(["mixed", "upwards", "downwards"]))
    named = {"mixed": numbering, "upwards": range(nodes), "downwards": range(nodes)[::-1]}[kind]
    return Graph.from_edges([named[a] for a, _ in pairs], [named[b] for _, b in pairs], nodes=nodes)


ACYCLIC = st.composite(some_acyclic_graph)()


@pytest.mark.quick
@given(graph=ACYCLIC, data=st.data())
def test_acyclic_graphs_are_solved_by_one_pass(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    damping = data.draw(st.floats(0.01, 0.99))
    result = cpms.pagerank(
        graph, method="refine", engine="cpu", damping=damping, personalization=teleport, dangling=rule, tol=1e-12
    )
    assert (result.converged, result.iterations) == (True, 1)
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


@given(graph=ACYCLIC, data=st.data())
def test_one_edge_that_closes_a_cycle_is_noticed(graph, data):
    assert acyclic(Problem(graph)) is not None
    if not graph.edges:
        return
    k = data.draw(st.integers(0, graph.edges - 1))
    source, target = int(graph.sources[k]), int(graph.targets[k])
    if source != target:
        closed = Graph.from_edges(np.append(graph.sources, target), np.append(graph.targets, source), nodes=graph.nodes)
        assert acyclic(Problem(closed)) is None
        assert acyclic(Problem(closed)) is None


def test_a_long_cycle_and_a_deep_path_need_no_deep_stack():
    random = np.random.default_rng(2)
    path = random.permutation(100_000)
    edges = list(itertools.pairwise(path.tolist()))
    chain = Graph.from_edges([a for a, _ in edges], [b for _, b in edges])
    result = cpms.pagerank(chain, method="refine", engine="cpu", tol=1e-13)
    assert (result.converged, result.iterations) == (True, 1)
    ring = Graph.from_edges(np.append(chain.sources, path[-1]), np.append(chain.targets, path[0]))
    assert acyclic(Problem(ring)) is None


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_step_of_one_pass_tells_the_recomputed_residual(norm):
    chain, seen = Graph.from_edges(np.arange(99), np.arange(1, 100)), []
    result = cpms.pagerank(chain, method="refine", engine="cpu", norm=norm, on_step=seen.append)
    assert seen == list(result.history)
    assert (result.iterations_by_bits, seen[0].mass) == ({64: 1}, 1.0)
    scaled = result.ranks / result.ranks.sum()
    assert seen[0].residual == pytest.approx(residual.residual(Problem(chain), scaled, norm), rel=1e-3, abs=1e-18)


def test_what_a_pass_gets_wrong_is_refined(monkeypatch):
    chain = Graph.from_edges(np.arange(99), np.arange(1, 100))
    monkeypatch.setattr(CpuTrimmedRefinement, "solve_reduced", lambda *_: np.full(100, 0.01))
    result = cpms.pagerank(chain, method="refine", engine="cpu")
    assert result.converged
    assert result.iterations > 1


def test_what_passes_leave_out_is_no_part_of_what_is_prepared():
    ring, tail = np.arange(30), np.arange(30, 100)
    graph = Graph.from_edges(np.append(ring, tail - 1), np.append(np.roll(ring, -1), tail))
    for smaller in (Graph.from_edges(tail - 1, tail, nodes=100), graph):
        refinement = prepared(Problem(smaller))
        before = refinement.nbytes
        assert (
            refinement.solve_reduced(
                lambda core: core.outer_step(FP16, inner_reduction=0.1, tol=1e-9, norm="l1", max_inner=50)
            )
            is not None
        )
        assert refinement.nbytes == before
        refinement.start(np.full(100, 0.01))
        assert refinement.nbytes > before


def test_a_start_of_ones_own_is_kept_on_acyclic_graphs():
    chain = Graph.from_edges(np.arange(99), np.arange(1, 100))
    result = cpms.pagerank(chain, method="refine", engine="cpu", start=np.eye(100)[0])
    assert result.converged
    assert result.iterations > 1


# Graphs of which few nodes lie on cycles or between them


def obvious_core(graph):
    """Take nodes away whose last edge from, or to, what is left has gone, until there are none."""
    left = set(range(graph.nodes))
    edges = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    while True:
        gone = (left - {a for a, _ in edges}) | (left - {b for _, b in edges})
        if not gone:
            return sorted(left)
        left -= gone
        edges = {(a, b) for a, b in edges if a in left and b in left}


@given(graphs_with_a_core(), st.sampled_from([1, 3, 1 << 14]))
def test_the_core_is_what_is_left_when_ends_are_taken_away(graph, part_nodes):
    with patch.object(node_loops, "_PART_NODES", part_nodes):
        found, expected = core(Problem(graph)), obvious_core(graph)
    if found is None:
        inner = sum(
            a in set(expected) and b in set(expected) for a, b in zip(graph.sources, graph.targets, strict=True)
        )
        assert inner + 4 * len(expected) > 0.8 * (graph.edges + 4 * graph.nodes)
        return
    assert found.nodes.tolist() == expected
    assert found.internal_degree.tolist() == found.graph.out_degree.tolist()
    places, before = {node: place for place, node in enumerate(expected)}, set(found.up.tolist())
    for row, node in enumerate(expected):
        sources = graph.sources[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        inside = found.graph.sources[found.graph.indptr[row] : found.graph.indptr[row + 1]].tolist()
        entering = found.entering[found.inflow[row] : found.inflow[row + 1]].tolist()
        assert inside == [places[source] for source in sources if source in places]
        assert entering == [source for source in sources if source in before]
    assert sorted([*found.up, *found.nodes, *found.down]) == list(range(graph.nodes))
    order = {node: place for place, node in enumerate([*found.up, *found.nodes, *found.down])}
    kinds = [set(found.up.tolist()), set(found.down.tolist())]
    for a, b in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        assert order[a] < order[b] or not any(a in kind or b in kind for kind in kinds)


@given(graph=graphs_with_a_core(), data=st.data())
def test_graphs_with_a_core_are_solved_and_certified(graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    damping, norm = data.draw(st.floats(0.01, 0.95)), data.draw(st.sampled_from(["l1", "l2", "linf"]))
    result = cpms.pagerank(
        graph, method="refine", engine="cpu", damping=damping, personalization=teleport, dangling=rule, tol=1e-11,
        norm=norm,
    )  # fmt: skip
    assert result.converged
    assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
    check.answer_is_certified(result, personalization=teleport, dangling=rule)


def test_numbers_of_64_bits_are_those_of_32():
    graph = cpms.load("weblike:nodes=3000,edges=12000,seed=1")
    wide = replace(graph, sources=graph.sources.astype(np.int64))
    found, same = core(Problem(graph)), core(Problem(wide))
    assert same.nodes.dtype == np.uint64
    for part in ("nodes", "up", "down", "internal_degree", "entering"):
        np.testing.assert_array_equal(getattr(found, part), getattr(same, part))
    np.testing.assert_array_equal(*(cpms.pagerank(g, method="refine", engine="cpu").ranks for g in (graph, wide)))


@given(graph=graphs_with_a_core(), part_nodes=st.sampled_from([1, 3, 1 << 14]), data=st.data())
def test_the_solution_of_the_whole_follows_from_the_cores(graph, part_nodes, data):
    problem = Problem(graph, data.draw(st.floats(0.01, 0.95)), data.draw(st.none() | distributions(graph.nodes)))
    answers = []
    for count in (1, 2):
        with patch.object(node_loops, "_PART_NODES", part_nodes), threads.limited(count):
            if core(problem) is None:
                return
            ranks, status, _ = solve_by_reduction(prepared(problem), default_policy(FP16), Stopping(1e-12))
        assert status is Status.CONVERGED
        assert ranks.sum() == pytest.approx(1.0, abs=1e-14)
        assert residual.residual(problem, ranks) < 2e-12
        answers.append(ranks)
    np.testing.assert_array_equal(*answers)


@given(graph=graphs_with_a_core(), data=st.data())
def test_a_core_begins_at_what_it_gets(graph, data):
    problem, began = Problem(graph, 0.85, data.draw(distributions(graph.nodes))), []
    prepared(problem).solve_reduced(lambda smaller: began.append((smaller.read(), smaller.problem.teleport)))
    for first, given_to_it in began:
        np.testing.assert_array_equal(first, given_to_it)
        assert first.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("storage", ["fp32", "fp16"])
def test_a_part_of_the_core_that_gets_little_needs_few_sweeps(storage):
    # Of its two closed parts, what begins in one and belongs to the other fades by the damping alone.
    sources = [5, 14, 4, 0, 8, 6, 12, 18, 5, 7, 8, 13, 16, 9, 1, 8, 17, 12, 8, 2]
    targets = [9, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 5, 8, 1, 1, 9, 0, 0]
    graph = Graph.from_edges(sources, targets, nodes=19)
    assert core(Problem(graph)) is not None
    power = cpms.pagerank(graph, engine="cpu", damping=0.9999)
    result = cpms.pagerank(graph, method="refine", storage=storage, engine="cpu", damping=0.9999)
    assert result.converged
    assert result.iterations <= power.iterations


@given(graph=graphs_with_a_core(), most=st.integers(1, 6))
def test_a_limit_of_sweeps_holds_in_the_core_too(graph, most):
    result = cpms.pagerank(graph, method="refine", engine="cpu", tol=1e-13, max_iterations=most)
    assert result.iterations <= most
    assert result.mass == pytest.approx(1.0, abs=1e-12)


@given(graphs_with_a_core(), st.sampled_from(["fp16", "e5m2", "cpms4"]))
def test_sweeps_of_a_core_lose_what_leaves_it(graph, name):
    found = core(Problem(graph))
    if found is None:
        return
    storage, count = quantiser(format_named(name)), len(found.nodes)
    refinement = CpuRefinement(
        Problem(found.graph, 0.85, np.full(count, 1.0 / count)),
        degree=found.degree,
        internal_degree=found.internal_degree,
    )
    refinement.start(np.random.default_rng(count).random(count))
    made = refinement.outer_step(storage, inner_reduction=1e-300, tol=1e-300, norm="l1", max_inner=6)
    sizes = [made.found.l1, *made.inner_l1]
    for place, (before, after) in enumerate(itertools.pairwise(made.sums)):
        assert abs(after - 0.85 * before) <= 1e-14 * max(sizes[place], 1e-300) * (1 + int(found.graph.in_degree.max()))


@pytest.mark.parametrize("node", range(7))
def test_queries_may_reach_the_core_or_not(node):
    graph = Graph.from_edges([0, 1, 2, 2, 4, 4, 0, 5], [1, 2, 1, 3, 3, 5, 2, 6], nodes=7)
    assert core(Problem(graph)).nodes.tolist() == [1, 2]
    for rule in ("teleport", "uniform"):
        result = cpms.pagerank(graph, method="refine", engine="cpu", personalization=[node], dangling=rule, tol=1e-12)
        assert result.converged
        check.answer_is_certified(result, personalization=[node], dangling=rule)


def test_a_core_that_went_wrong_is_noticed_and_refined(monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    assert core(Problem(graph)) is not None
    right = cpms.pagerank(graph, engine="reference", tol=1e-13)
    monkeypatch.setattr(Core, "end", lambda *_: np.full(7, 1 / 7))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert result.converged
    assert np.abs(result.ranks - right.ranks).sum() < 1e-9


@pytest.mark.parametrize("swept", ["all", "core"])
def test_few_bits_are_for_what_outgrows_a_cores_cache(monkeypatch, swept):
    graph = cpms.load("uniform:scale=8,edge_factor=8,seed=1" if swept == "all" else "rmat:scale=9,edge_factor=8,seed=1")
    refinement = prepared(Problem(graph))
    assert isinstance(refinement, CpuTrimmedRefinement) == (swept == "core")
    nodes = len(core(Problem(graph)).nodes) if swept == "core" else graph.nodes
    for limit, storage in ((nodes + 1, "fp32"), (nodes, "fp16")):
        monkeypatch.setattr(_cpu_refinement, "_NODES_OF_FEW_BITS", limit)
        result = cpms.pagerank(graph, engine="cpu", method="refine")
        assert (result.storage, result.status) == (storage, Status.CONVERGED)
        assert cpms.pagerank(graph, engine="cpu", method="refine", storage="bf16").storage == "bf16"


@pytest.mark.parametrize("storage", ["fp32", "fp16"])
def test_full_sweeps_that_make_up_for_what_low_ones_did_are_no_stagnation(storage):
    """What goes along a path whose nodes keep some of it fades late: combinations of low sweeps bring it back."""
    nodes, damping = np.arange(600), 0.9999
    path = Graph.from_edges(np.append(nodes[:-1], nodes), np.append(nodes[1:], nodes))
    start = np.random.default_rng(1).random(600) ** 10
    asked = {"damping": damping, "personalization": [0], "start": start, "tol": 1e-9, "engine": "cpu"}
    result = cpms.pagerank(path, method="refine", storage=storage, max_iterations=20_000, **asked)
    assert result.converged
    assert result.iterations < 4 * cpms.pagerank(path, max_iterations=20_000, **asked).iterations


@pytest.mark.parametrize("status", [Status.STAGNATED, Status.MAX_ITERATIONS, Status.NON_FINITE])
def test_a_core_that_is_not_solved_is_no_answer_while_sweeps_are_left(monkeypatch, status):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    ranks = np.full(7, np.nan if status is Status.NON_FINITE else 1 / 7)
    steps = [Step(1 + k, 1e-3, FLOAT64, 64, 64, 1.0, 0.0) for k in range(5)]
    monkeypatch.setattr("cpms.solvers.refine.solve_by_reduction", lambda *_: (ranks.copy(), status, steps))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert result.converged
    assert [step.iteration for step in result.history] == list(range(1, result.iterations + 1))
    assert result.iterations > 5
    check.answer_is_certified(result)
    spent = cpms.pagerank(graph, method="refine", engine="cpu", max_iterations=5)
    assert (spent.status, spent.iterations) == (status, 5)


def test_what_the_referee_confirms_is_an_answer_however_the_core_ended(monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1])
    right = cpms.pagerank(graph, engine="reference", tol=1e-13).ranks
    step = Step(1, 1e-9, FLOAT64, 64, 64, 1.0, 0.0)
    monkeypatch.setattr("cpms.solvers.refine.solve_by_reduction", lambda *_: (right.copy(), Status.STAGNATED, [step]))
    result = cpms.pagerank(graph, method="refine", engine="cpu")
    assert (result.status, result.iterations) == (Status.CONVERGED, 1)


def test_real_graphs_have_the_cores_counted_before(cpms_data):
    for name, nodes in (("wiki-Vote", 1300), ("p2p-Gnutella31", 14149), ("web-NotreDame", 127472)):
        assert len(core(Problem(cpms.load(name))).nodes) == nodes
    assert core(Problem(cpms.load("web-Google-scc"))) is None


def test_real_lower_triangles_are_acyclic(cpms_data):
    for name in ("luxembourg_osm", "usroads", "delaunay_n15"):
        result = cpms.pagerank(cpms.load(name), method="refine", engine="cpu")
        assert (result.converged, result.iterations) == (True, 1)
        assert result.residual_l1 < 1e-12
