"""Compilation never counts as solving: the clock of work stands still while something is compiled."""

import threading
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import engines
from cpms.backends.cpu import refine_loops, sweep_loops
from cpms.backends.cpu import refinement as _cpu_refinement
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.compile import exclude_cupy_compilation
from cpms.backends.opencl import program
from cpms.base import threads, work_clock
from cpms.contracts.refinement import OuterRequest
from cpms.engines import opencl
from cpms.formats.formats import FP16
from cpms.problems.pagerank import Problem

GRAPH = cpms.Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 0, 0, 2])
AGE_S = 1000.0
"""What each compilation is made to take: no solve of these tests takes a part of it."""


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when it is set."""
    stub = SimpleNamespace(at=50.0)
    monkeypatch.setattr(work_clock, "time", SimpleNamespace(perf_counter=lambda: stub.at))
    monkeypatch.setattr(work_clock._thread, "compilers", work_clock._Compilers())
    return stub


@pytest.fixture
def slow_compilers(monkeypatch):
    """Let each compilation take an age on the clock of work; return how many there were."""
    begin, real, count = work_clock._Compilers.begin, work_clock.time.perf_counter, [0]

    def slow(compilers):
        begin(compilers)
        count[0] += 1

    monkeypatch.setattr(work_clock._Compilers, "begin", slow)
    monkeypatch.setattr(work_clock, "time", SimpleNamespace(perf_counter=lambda: real() + AGE_S * count[0]))
    return count


@given(st.lists(st.tuples(st.sampled_from(["work", "begin", "end"]), st.integers(1, 9)), max_size=30))
def test_the_clock_moves_with_work_alone_and_counts_what_overlaps_once(events):
    with pytest.MonkeyPatch.context() as patched:
        stub, compilers = SimpleNamespace(at=50.0), work_clock._Compilers()
        patched.setattr(work_clock, "time", SimpleNamespace(perf_counter=lambda: stub.at))
        patched.setattr(work_clock._thread, "compilers", compilers)
        at_work, worked, compiled = 0, 0, 0
        for what, seconds in events:
            if what == "begin":
                compilers.begin()
                at_work += 1
            elif what == "end":  # Also where nothing has begun.
                compilers.end()
                at_work = max(0, at_work - 1)
            else:
                stub.at += seconds
                worked, compiled = (worked, compiled + seconds) if at_work else (worked + seconds, compiled)
            assert (work_clock.now(), work_clock.compiled_s()) == (50.0 + worked, compiled)


def test_threads_compile_for_whom_they_work_and_others_for_themselves(clock):
    def compiled(seconds):
        with work_clock.compiling():
            clock.at += seconds

    threads.run_lanes(lambda lane, _: compiled(4.0) if lane == 0 else None, 2)
    assert work_clock.compiled_s() == 4.0
    threads.each(lambda seconds: compiled(seconds) if seconds else None, [0.0, 5.0], threads=2)
    assert work_clock.compiled_s() == 9.0
    with threads.in_background(lambda: compiled(7.0)):
        pass
    assert work_clock.compiled_s() == 16.0
    other = threading.Thread(target=compiled, args=(100.0,))
    other.start()
    other.join()
    assert work_clock.compiled_s() == 16.0


def test_what_numba_compiles_in_threads_is_counted(slow_compilers):
    function = numba.njit(nogil=True)(lambda x: x + 1)
    for expected in (True, False):
        before = work_clock.compiled_s()
        assert threads.each(function, [1, 2], threads=2) == [2, 3]
        assert (work_clock.compiled_s() - before >= AGE_S) == expected


def test_what_cupy_compiles_is_counted_once_and_what_it_lacks_is_left_alone(clock):
    def compiled(source, *, options):
        clock.at += 3.0
        return source + options

    compiler = SimpleNamespace(_compile_module_with_cache=compiled)
    for _ in range(2):
        exclude_cupy_compilation(compiler)
    assert compiler._compile_module_with_cache("a", options="b") == "ab"
    assert work_clock.compiled_s() == 3.0
    other = SimpleNamespace()
    exclude_cupy_compilation(other)
    assert not vars(other)


def forget_kernels(monkeypatch, host_backend):
    """Have kernels of all engines compiled, or found in their caches, as by the first solve of a process."""
    for kept in (refine_loops.addresses, refine_loops.inner_sweep):
        kept.cache_clear()
    sweep_loops.sweep_kernel.cache_clear()
    sweep_loops.selected_sum_kernel.cache_clear()
    monkeypatch.setattr(host_backend, "_functions", {})
    monkeypatch.setattr(opencl, "_launched", set())
    program._built.cache_clear()


CASES = [("cpu", "power"), ("cpu", "refine"), ("cuda_fused", "power"), ("cuda_fused", "refine"), ("opencl", "power")]


@pytest.mark.parametrize(("engine", "method"), CASES)
def test_solves_take_no_longer_where_kernels_are_compiled(slow_compilers, monkeypatch, host_backend, engine, method):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    if reason := engines.get_any(engine).missing():
        pytest.skip(reason)
    forget_kernels(monkeypatch, host_backend)
    with current.using(host_backend):
        # The first call of a process leaves out loops that the second one compiles.
        results = [cpms.pagerank(GRAPH, engine=engine, method=method) for _ in range(3)]
    assert results[0].compile_s >= AGE_S
    assert results[-1].compile_s == 0.0
    for result in results:
        assert 0.0 <= result.prepare_s + result.solve_s + result.certify_s < AGE_S
        assert all(0.0 <= step.seconds < AGE_S for step in result.history)


@pytest.mark.representatives(method=("power",))
@pytest.mark.parametrize("method", ["power", "refine"])
def test_batches_take_no_longer_where_kernels_are_compiled(slow_compilers, monkeypatch, host_backend, method):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    forget_kernels(monkeypatch, host_backend)
    with current.using(host_backend):
        results = cpms.personalized_pagerank(GRAPH, [0, 1], engine="cuda", method=method)
    for result in results:
        assert result.compile_s == results[0].compile_s >= AGE_S
        assert 0.0 <= result.prepare_s + result.solve_s + result.certify_s < AGE_S


def test_sweeps_of_refine_are_timed_one_by_one():
    graph = cpms.load("weblike:nodes=3000,edges=20000,seed=1")
    refinement = CpuRefinement(Problem(graph))
    refinement.start_uniform(graph.nodes)
    rounds = refinement.outer_steps(FP16, OuterRequest(1e-2, 2.0, 1e-9, "l1", 100))
    spent = np.concatenate([np.diff([0.0, *made.seconds]) for made in rounds])
    assert len(rounds) > 1
    assert (spent > 0.0).all()
    assert len(set(spent.round(12))) > 1  # Shared out evenly, all were the same.


def test_outer_steps_have_the_time_of_their_own_sweeps_or_of_the_call_without_a_clock():
    report = np.ones((5, refine_loops.COLUMNS + 1))
    report[[1, 2, 4], refine_loops.SQUARES] = -1.0
    report[:, refine_loops.ENDED] = [1.0, 1.5, 2.0, 4.0, 4.25]
    assert [made.seconds for made in _cpu_refinement._as_outer_steps(report, 9.0)] == [[1.0, 1.5, 2.0], [2.0, 2.25]]
    report[:, refine_loops.ENDED] = np.nan
    assert [made.seconds for made in _cpu_refinement._as_outer_steps(report, 9.0)] == [[9.0, 9.0, 9.0], [0.0, 0.0]]
