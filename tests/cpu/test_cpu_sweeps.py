"""Refinement on processors: sweeps against the reference, threads, lanes and stochastic rounding."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cpu_refinement_cases import random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, check, engines, format_named
from cpms.backends.cpu import refine_loops
from cpms.backends.cpu import refinement as _cpu_refinement
from cpms.backends.cpu.load_balance import first_ranges
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.base import threads
from cpms.base.jit import numba
from cpms.engines.reference import round_to_float
from cpms.formats.formats import FP16, FloatFormat
from cpms.formats.quantization import quantiser
from cpms.problems.pagerank import Problem
from cpms.sparse import jagged
from cpms.storage.array import SegmentedArray
from cpms.testing import distributions, float_arrays, float_formats, graphs

CPU, REFERENCE = engines.get("cpu"), engines.get("reference")
# Inner sweeps are compiled for each format, for seconds: here each width, either exponent and either rounding.
FORMATS = [
    *("fp32", "fp16", "e5m2", "cpms4"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "cpms4-nearest",
            "cpms2",
            "e5m2-zero",
            "bf16",
            "e4m3",
            "cpms2-nearest",
            "fp16-zero",
            "e4m3-zero",
            "e3m12",
            "e2m5",
            "e6m25",
        )
    ),
]


# Python calls no helper that loops inline.
QUANTISE = numba.njit(refine_loops._quantise.py_func)
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
def test_outer_steps_agree_with_the_reference(problem, name):
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


@pytest.mark.parametrize(
    "name", ["fp16", "e5m2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cpms4-nearest", "cpms2"))]
)
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
    digits = storage.exponent_bits, storage.mantissa_bits
    QUANTISE(*arrays, scale, np.uint64(0), *refine_loops.limits(*digits), *digits, mode)
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


@pytest.mark.representatives(name=("fp16", "cpms4"))
@pytest.mark.representatives(name=("e5m2", "fp32"), problem=("plain",))
@pytest.mark.parametrize(
    "name", ["fp16", "e5m2", "cpms4", "fp32", pytest.param("fp16-stochastic", marks=pytest.mark.slow)]
)
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
        ranges, bounds = first_ranges(refinement._cost, lanes).tolist(), refinement._bounds.tolist()
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


@pytest.mark.slow
@pytest.mark.parametrize("base", ["fp16", "e5m2"])
def test_stochastic_rounding_loses_less_than_cutting(base):
    def lost(name):
        (found,), _ = rounds_of(CPU, PROBLEMS["plain"], quantiser(format_named(name)), low=12, rounds=1)
        return found.inner_l1[-1]

    (exact,), _ = rounds_of(CPU, PROBLEMS["plain"], quantiser(format_named("fp32")), low=12, rounds=1)
    assert abs(lost(f"{base}-stochastic") - exact.inner_l1[-1]) < abs(lost(f"{base}-zero") - exact.inner_l1[-1])
