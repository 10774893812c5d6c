"""A prepared object solves as fresh calls do, bit for bit, in any order; it refuses what it cannot solve."""

import gc
import threading
import tracemalloc
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, PageRank, Status, UnavailableError, UnsupportedError, engines
from cpms.api import preparation
from cpms.base import work_clock
from cpms.engines.cpu import CpuEngine
from cpms.precision.controllers import FLOAT64


def web(nodes=3000, edges=18000, seed=5):
    """Random edges, most of them local, with dangling nodes and chains that trimming removes."""
    random = np.random.default_rng(seed)
    sources = random.integers(0, nodes * 2 // 3, edges)
    targets = np.where(random.random(edges) < 0.2, random.integers(0, nodes, edges), (sources + 1) % nodes)
    return Graph.from_edges(sources, targets, nodes=nodes, name="web")


LARGE, CHAIN = web(), Graph.from_edges([0, 1, 2, 2], [1, 2, 3, 4])
SMALL = Graph.from_edges([0, 1, 2, 3, 4, 4], [1, 2, 0, 0, 1, 3])
WEIGHTED = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0], [1.0, 2.0, 3.0, 4.0])
CONFIGURATIONS = (
    (LARGE, {"engine": "cpu"}),
    (LARGE, {"engine": "cpu", "method": "refine"}),
    (CHAIN, {"engine": "cpu", "method": "refine"}),
    (SMALL, {"engine": "cpu", "method": "refine", "storage": "e5m2"}),
    (LARGE, {"engine": "cpu", "storage": "cpms4", "layout": "csr"}),
    (SMALL, {"engine": "cpu", "storage": "cpms2", "layout": "ell"}),
    (WEIGHTED, {"engine": "cpu", "storage": "cpms2"}),
    (WEIGHTED, {"engine": "scipy"}),
    (SMALL, {"engine": "serial"}),
    (SMALL, {"engine": "reference", "storage": "cpms4", "layout": "csr"}),
    (SMALL, {"engine": "reference", "method": "refine"}),
)
SOLVES = st.fixed_dictionaries(
    {
        "personalization": st.sampled_from([None, [1], {0: 1.0, 2: 3.0}]),
        "dangling": st.sampled_from(["teleport", "uniform"]),
        "start": st.sampled_from([None, "ones", "ramp"]),
        "tol": st.sampled_from([1e-6, 1e-11]),
        "iterations": st.sampled_from([None, None, 3]),
    }
)


def arguments(graph, drawn):
    ramp = np.arange(1.0, graph.nodes + 1)
    return {**drawn, "start": {None: None, "ones": np.ones(graph.nodes), "ramp": ramp}[drawn["start"]]}


def same(found, expected):
    assert found.ranks.tobytes() == expected.ranks.tobytes()
    assert [step[:-1] for step in found.history] == [step[:-1] for step in expected.history]
    assert (found.status, found.residual_l1) == (expected.status, expected.residual_l1)
    assert (found.storage, found.layout, found.engine) == (expected.storage, expected.layout, expected.engine)


@pytest.mark.parametrize(("graph", "options"), CONFIGURATIONS, ids=str)
def test_every_solve_equals_a_fresh_call(graph, options):
    prepared = PageRank(graph, **options)

    @given(st.lists(SOLVES, min_size=2, max_size=3))
    @settings(max_examples=6)
    def law(solves):
        for drawn in solves:
            given_now = arguments(graph, drawn)
            same(prepared.solve(**given_now), cpms.pagerank(graph, **options, **given_now))

    law()


@pytest.mark.parametrize("method", ["power", "refine"])
def test_batches_equal_fresh_calls_and_leave_single_solves_as_they_are(method):
    options, prepared = {"engine": "cpu", "method": method}, PageRank(LARGE, engine="cpu", method=method)
    alone = prepared.solve(personalization=[7])
    for dangling in ("teleport", "uniform", "teleport"):
        fresh = cpms.personalized_pagerank(LARGE, [7, [1, 2]], dangling=dangling, **options)
        for found, expected in zip(prepared.solve_many([7, [1, 2]], dangling=dangling), fresh, strict=True):
            same(found, expected)
    same(prepared.solve(personalization=[7]), alone)
    assert PageRank(LARGE, engine="cpu").solve_many([]) == []


def prepared_by(monkeypatch, graph, **options):
    """Return a prepared object, and a list that grows with each preparation."""
    made = []
    of = preparation.Preparation.of.__func__
    monkeypatch.setattr(
        preparation.Preparation, "of", classmethod(lambda cls, r, **hints: made.append(r) or of(cls, r, **hints))
    )
    return PageRank(graph, **options), made


@pytest.mark.parametrize(("graph", "options"), CONFIGURATIONS[:4], ids=str)
def test_another_teleport_tolerance_or_start_keeps_the_preparation(monkeypatch, graph, options):
    prepared, made = prepared_by(monkeypatch, graph, **options)
    monkeypatch.setattr(work_clock, "now", lambda: float(len(made)))  # Preparations alone take time.
    first = prepared.solve()
    for given_now in ({"personalization": [1]}, {"tol": 1e-5}, {"start": np.ones(graph.nodes)}, {}):
        again = prepared.solve(**given_now)
    assert len(made) == 1
    assert prepared.nbytes == again.matrix_bytes > 0
    assert (first.prepare_s, again.prepare_s) == (1.0, 0.0)


def test_a_matrix_that_was_converted_in_place_is_prepared_again(monkeypatch):
    prepared, made = prepared_by(monkeypatch, LARGE, engine="cpu", storage="cpms4", layout="csr")
    assert prepared.solve(tol=1e-11).history[-1].level == FLOAT64
    assert prepared.solve(tol=1e-11).converged
    assert len(made) == 2


def test_the_first_solve_decides_the_engine(monkeypatch):
    prepared = PageRank(SMALL)
    first = prepared.solve()
    monkeypatch.setattr(engines, "chosen", lambda *_, **__: pytest.fail("an engine was chosen again"))
    monkeypatch.setattr(CpuEngine, "unsupported", lambda *_: pytest.fail("memory was asked for again"))
    assert prepared.solve().engine == first.engine


def test_one_query_first_keeps_the_layout_of_later_solves():
    prepared = PageRank(SMALL, layout="ell")
    query = prepared.solve_many([1])[0]
    found, expected = prepared.solve(), cpms.pagerank(SMALL, layout="ell")
    assert (query.layout, found.layout) == (expected.layout, expected.layout)
    if found.engine == "cpu":
        assert found.ranks.tobytes() == expected.ranks.tobytes()


def test_close_frees_what_was_prepared_and_results_stay():
    with PageRank(LARGE, engine="cpu", method="refine") as prepared:
        assert repr(prepared) == "PageRank('web': refine on cpu, nothing prepared yet)"
        result = prepared.solve()
        assert repr(prepared) == f"PageRank('web': refine on cpu, prepared in {prepared.nbytes:,} bytes)"
        matrix = weakref.ref(prepared._held["one"].work)
    gc.collect()
    assert matrix() is None
    assert (prepared.closed, prepared.nbytes, result.converged) == (True, 0, True)
    prepared.close()
    for use in (prepared.solve, lambda: prepared.solve_many([0]), prepared.prepare, prepared.__enter__):
        with pytest.raises(InputError, match="this PageRank of web is closed; make a new one to solve again"):
            use()


@pytest.mark.parametrize("method", [pytest.param("power", marks=pytest.mark.slow), "refine"])
def test_memory_after_hundreds_of_solves_batches_and_updates_is_that_before(method):
    graph = web(nodes=200, edges=1000)
    added, removed = ([5], [7]), ([5], [7])
    with PageRank(graph, engine="cpu", method=method) as prepared:

        def use(times):
            for turn in range(times):
                prepared.solve(personalization=[turn % 50], tol=0.1)
                if turn % 50 == 0:
                    prepared.solve_many([1, 2], tol=0.1)
                    prepared.update(added, None, tol=0.1)
                    prepared.update(None, removed, tol=0.1)
            gc.collect()

        use(100)
        tracemalloc.start()
        try:
            use(50)
            before = tracemalloc.get_traced_memory()[0]
            use(300)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert grown < 30 * graph.nodes * 8  # A tenth of what keeping one array of each solve would be.


@pytest.mark.parametrize("part", ["indptr", "sources", "weights"])
@pytest.mark.parametrize("later", [2, 2000])
def test_arrays_written_to_after_preparing_are_noticed(part, later):
    nodes = max(later, 3)
    arrays = {
        "indptr": np.arange(nodes + 1),
        "sources": np.roll(np.arange(nodes, dtype=np.int32), 1),
        "weights": np.linspace(1.0, 2.0, nodes),
    }
    graph = Graph(**arrays)
    prepared = PageRank(graph, engine="cpu")
    assert prepared.solve().converged
    assert prepared.solve().converged
    arrays[part][1], arrays[part][2] = arrays[part][2], arrays[part][1]
    for _ in range(2):
        with pytest.raises(InputError, match=r"an array of graph was written to after it was prepared; make a graph"):
            prepared.solve()


def test_a_solve_refuses_wrong_sizes_and_keeps_what_is_prepared(monkeypatch):
    prepared, made = prepared_by(monkeypatch, SMALL, engine="cpu")
    expected = prepared.solve()
    for wrong, message in (
        ({"start": np.ones(4)}, "start must hold 5 values"),
        ({"personalization": np.ones(4)}, r"personalization has shape \(4,\)"),
        ({"personalization": [9]}, "node 9 is not in"),
        ({"tol": 0}, "tol is 0"),
        ({"dangling": "none"}, "dangling is 'none'"),
        ({"on_step": 3}, "on_step is 3"),
    ):
        with pytest.raises(InputError, match=message):
            prepared.solve(**wrong)
    same(prepared.solve(), expected)
    assert len(made) == 1
    for wrong in ({"damping": 1.0}, {"engine": "cpus"}, {"method": "sweeps"}, {"storage": "fp63"}):
        with pytest.raises(InputError):
            PageRank(SMALL, **wrong)
    with pytest.raises(InputError, match=r"graph is a list; give a cpms\.Graph"):
        PageRank([[0, 1]])


@pytest.mark.parametrize("method", ["power", "refine"])
def test_an_interrupted_solve_leaves_the_object_usable(method):
    prepared = PageRank(LARGE, engine="cpu", method=method)
    expected = prepared.solve()

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared.solve(personalization=[3], on_step=stop)
    same(prepared.solve(), expected)


def test_lack_of_memory_is_a_sentence_and_passes(monkeypatch):
    prepared = PageRank(SMALL, engine="cpu")

    def full(*_):
        raise MemoryError("Unable to allocate 9 TiB")

    with monkeypatch.context() as patched:
        patched.setattr(CpuEngine, "prepare", full)
        with pytest.raises(
            UnsupportedError, match=r"graph does not fit into memory \(Unable to allocate 9 TiB\); close"
        ):
            prepared.solve()
        patched.setattr("cpms.api.preparation.with_edges", full)
        with pytest.raises(UnsupportedError, match="graph does not fit into memory"):
            prepared.update(([0], [1]))
    assert prepared.solve().converged


def test_a_lost_device_is_a_sentence(monkeypatch):
    """CuPy's errors of the driver and of the runtime are RuntimeErrors, known by their names."""
    prepared = PageRank(SMALL, engine="cpu")
    prepared.solve()
    for name in ("CUDARuntimeError", "CUDADriverError"):
        lost = type(name, (RuntimeError,), {})("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy")
        with monkeypatch.context() as patched:
            patched.setattr("cpms.api.prepared.solve", Mock(side_effect=lost))
            with pytest.raises(
                UnavailableError, match=r"the device failed while .* solved \(cudaErrorDev.*; start again"
            ):
                prepared.solve()
            assert prepared.nbytes == 0
            patched.setattr("cpms.api.prepared.given_graph", Mock(side_effect=lost))
            with pytest.raises(UnavailableError, match="the device failed while its graph was made"):
                cpms.pagerank(([0, 1], [1, 0]))
    with monkeypatch.context() as patched:
        patched.setattr("cpms.api.prepared.solve", Mock(side_effect=RuntimeError("another error")))
        with pytest.raises(RuntimeError, match="another error"):
            prepared.solve()
    assert prepared.solve().converged


def test_one_solve_at_a_time():
    prepared = PageRank(SMALL, engine="cpu")
    refused = "in a solve already; make one for each thread"
    with pytest.raises(InputError, match=refused):
        prepared.solve(on_step=lambda _: prepared.solve())
    errors = []

    def other():
        try:
            prepared.solve()
        except InputError as error:
            errors.append(str(error))

    def in_thread(_):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert prepared.solve(on_step=in_thread).status is Status.CONVERGED
    assert errors
    assert all(refused in error for error in errors)


def test_a_query_alone_has_the_layout_that_was_asked_for():
    prepared = PageRank(SMALL, layout="csr")
    assert [each.layout for each in prepared.solve_many([0])] == ["csr"] == [prepared.solve().layout]
