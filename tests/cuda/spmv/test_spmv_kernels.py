"""Kernels of sparse products of graphs, against the reference engine."""

import numpy as np
import pytest
from spmv_cases import ODD, as_bytes, upload

import cpms
from cpms import check, engines
from cpms.backends.cuda.arrays import access_sampling
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime import current as current_module
from cpms.backends.cuda.spmv import matrices, padded_csr
from cpms.backends.cuda.spmv import reordering as reordering_module
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.base.errors import InputError, UnsupportedError
from cpms.engines import cpu, cuda
from cpms.engines import reference as obvious
from cpms.formats.formats import FP64, format_named
from cpms.graph.graph import Graph
from cpms.precision.controllers import FLOAT64, Level, Schedule, Threshold
from cpms.problems.pagerank import Problem

SWEPT = [*map(format_named, ("fp64", "cpms2", "cpms4-nearest", "cpms8", "cpms4-planes", "bf16", "fp16-scaled")), ODD]


# Sweeps agree with the edge-by-edge engine.


def graphs():
    rng = np.random.default_rng(3)

    def skewed(nodes, edges):
        targets = (nodes * rng.random(edges) ** 4).astype(np.int64)
        return Graph.from_edges(rng.integers(0, nodes, edges), targets, nodes=nodes)

    hub = np.concatenate([np.zeros(6000, np.int64), rng.integers(0, 50, 300)])
    yield "skewed", skewed(300, 3000)
    yield "mostly empty rows", skewed(1000, 900)
    yield "hub", Graph.from_edges(rng.integers(0, 50, 6300), hub, nodes=50)
    yield "chain", Graph.from_edges(np.arange(600), np.arange(1, 601))
    yield "one node", Graph.from_edges([0], [0])
    yield "no edge", Graph.from_edges([], [], nodes=5)
    yield "weighted", Graph.from_edges(*rng.integers(0, 90, (2, 700)), rng.random(700) + 0.1, nodes=90)


GRAPHS = dict(graphs())


def problems(graph):
    teleport = np.random.default_rng(4).random(graph.nodes)
    yield Problem(graph)
    yield Problem(graph, teleport=teleport / teleport.sum(), dangling="uniform", damping=0.6)


def graphs_of(layout):
    """All graphs, but for ELL those whose longest row is not out of all proportion."""
    return [graph for name, graph in GRAPHS.items() if layout != "ell" or name != "hub"]


def close(mine, theirs, storage, write):
    """Whether stored values agree up to rounding of sums, which may change a few of them by one ulp."""
    np.testing.assert_allclose(mine, theirs, rtol=4 * storage.unit_roundoff(write) + 1e-13, atol=1e-300)
    different = np.abs(mine - theirs) > 1e-13 * np.abs(theirs)
    assert different.sum() <= 1 + len(mine) // 200


CASES = [
    *((engines.get_any("cuda_balanced_rows"), layout, storage) for layout in ("csr", "ell") for storage in SWEPT),
    *((engines.get_any("cuda_balanced_rows"), "pattern", storage) for storage in (FP64, SWEPT[2], SWEPT[6], ODD)),
    *((engines.get_any("cuda_thread_rows"), layout, SWEPT[2]) for layout in ("csr", "pattern")),
    (engines.get_any("cuda_thread_rows"), "pattern", FP64),
]


def case_name(case):
    return getattr(case, "name", case)


@pytest.mark.representatives(layout=("pattern",), storage=("fp64",))
@pytest.mark.representatives(layout=("ell",), storage=("fp16-scaled",))
@pytest.mark.representatives(layout=("csr",), storage=("odd",))
@pytest.mark.parametrize(("engine", "layout", "storage"), CASES, ids=case_name)
def test_sweeps_agree_with_the_reference_engine(backend, engine, layout, storage):
    rng = np.random.default_rng(9)
    for graph in graphs_of(layout):
        for problem in problems(graph):
            if engine.unsupported(problem, storage, layout):
                assert layout == "pattern"
                continue
            operator = engine.prepare(problem, storage, layout)
            twin = obvious.ENGINE.prepare(problem, storage, layout)
            values = rng.random(graph.nodes)
            values /= values.sum()
            x, x_twin = operator.load(values), twin.load(values)
            np.testing.assert_array_equal(operator.read(x, 0), twin.read(x_twin, 0))
            for read, write in streaming.levels(storage):
                out, out_twin = operator.empty(), twin.empty()
                found = operator.sweep(x, out, Level(read, write), 3)
                expected = twin.sweep(x_twin, out_twin, Level(read, write), 3)
                close(operator.read(out, write), twin.read(out_twin, write), storage, write)
                loose = 4 * storage.unit_roundoff(write) / max(1, graph.nodes // 200) + 1e-12
                np.testing.assert_allclose(found, expected, rtol=loose, atol=loose * expected.mass)
                operator.scale(out, 1.25, write)
                twin.scale(out_twin, 1.25, write)
                close(operator.read(out, write), twin.read(out_twin, write), storage, write)


@pytest.mark.parametrize(("engine", "layout", "storage"), CASES, ids=case_name)
def test_sweeps_under_way_are_those_that_wait(backend, engine, layout, storage):
    for name in ("mostly empty rows", "one node", "no edge", "weighted"):
        problem = Problem(GRAPHS[name])
        if not engine.unsupported(problem, storage, layout):
            most = storage.segments
            check.queued_sweeps_agree(engine, problem, storage, layout, Level(most, most))
            check.queued_sweeps_agree(engine, problem, storage, layout, FLOAT64)


@pytest.mark.parametrize(("engine", "layout", "storage"), CASES, ids=case_name)
def test_conversion_to_float64_keeps_values(backend, engine, layout, storage):
    rng = np.random.default_rng(10)
    for graph in graphs_of(layout):
        problem = Problem(graph)
        if engine.unsupported(problem, storage, layout):
            continue
        operator = engine.prepare(problem, storage, layout)
        x = operator.load(rng.random(graph.nodes))
        before = operator.read(x, 0)
        operator, x, out = operator.to_float64(x, operator.empty())
        np.testing.assert_array_equal(operator.read(x, 0), before)
        twin = obvious.ENGINE.prepare(problem, FP64, layout)
        x_twin, out_twin = twin.load(before), twin.empty()
        found = operator.sweep(x, out, FLOAT64, 0)
        np.testing.assert_allclose(found, twin.sweep(x_twin, out_twin, FLOAT64, 0), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(operator.read(out, 0), twin.read(out_twin, 0), rtol=1e-13)


@pytest.mark.parametrize(("value_bytes", "values"), [(2, 16), (4, 8), (8, 4)])
def test_a_sector_that_a_step_gathers_counts_once(backend, value_bytes, values):
    arrays, steps = current_module.current().arrays, 3
    side_by_side = np.tile(np.arange(256), steps)
    apart = np.arange(256 * steps) * values
    at_random = np.random.default_rng(5).integers(0, 2000, 256 * steps)
    for sources in (side_by_side, apart, at_random):
        expected = 32 * sum(len(np.unique(step // values)) for step in sources.reshape(steps, 256))
        found = access_sampling.gathered_bytes(arrays.asarray(sources.astype(np.uint32)), value_bytes)
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_edges_are_counted_by_source(backend, graph):
    degree = padded_csr.out_degree(graph, padded_csr.DeviceRows.of(graph))
    assert np.asarray(backend.to_host(degree)).tolist() == graph.out_degree.tolist()


def test_edges_that_begin_at_no_node_are_refused(backend):
    graph = Graph(np.array([0, 1, 2]), np.array([2, 0], np.int32))
    with pytest.raises(InputError, match="not among 0 to 1"):
        padded_csr.out_degree(graph, padded_csr.DeviceRows.of(graph))


@pytest.mark.parametrize("cache_bytes", [0, 1 << 40])
@pytest.mark.parametrize("tiles", [1, 2, 3, 64])
def test_rows_may_lie_in_any_number_of_tasks(backend, monkeypatch, tiles, cache_bytes):
    monkeypatch.setattr(current_module.current(), "cache_bytes", cache_bytes)
    for graph in GRAPHS.values():
        problem = Problem(graph)
        values = np.random.default_rng(11).random(graph.nodes)
        matrix = matrices.BalancedCsr.build(graph, FP64, tiles=tiles)
        assert matrix.tasks.tiles == tiles
        assert matrix.wide_tasks.tiles == (tiles if cache_bytes else max(1, tiles // 2))
        assert matrix.wide_tasks.blocks == (4 if cache_bytes else 3) >= matrix.tasks.blocks - 1
        data = cuda.OperatorData.of(problem, pattern=False, reordering=None)
        operator = cuda.CudaOperator.of(problem, FP64, "spmv_csr_balanced", matrix, data)
        twin = obvious.ENGINE.prepare(problem, FP64, "csr")
        x, out, out_twin = operator.load(values), operator.empty(), twin.empty()
        operator.sweep(x, out, FLOAT64, 0)
        twin.sweep(values, out_twin, FLOAT64, 0)
        np.testing.assert_allclose(operator.read(out, 0), out_twin, rtol=1e-12)


def test_no_partial_sum_is_left_for_tasks_of_another_length(backend, monkeypatch):
    monkeypatch.setattr(current_module.current(), "cache_bytes", 0)
    storage = format_named("cpms2")
    for graph in GRAPHS.values():
        matrix = matrices.BalancedCsr.build(graph, storage, tiles=2)
        assert (matrix.tasks.tiles, matrix.wide_tasks.tiles) == (2, 1)
        data = cuda.OperatorData.of(Problem(graph), pattern=False, reordering=None)
        operator = cuda.CudaOperator.of(Problem(graph), storage, "spmv_csr_balanced", matrix, data)
        x, out = operator.load(np.full(graph.nodes, 1 / graph.nodes)), operator.empty()
        for read in (1, 2):
            operator.sweep(x, out, Level(read, 2), 0)
            assert (backend.to_host(matrix.carry_out) == 2**64 - 1).all()


@pytest.mark.representatives(layout=("pattern",))
@pytest.mark.parametrize("layout", ["csr", "pattern"])
def test_nodes_may_lie_in_any_order(backend, monkeypatch, layout):
    storage = format_named("cpms4")
    for graph in GRAPHS.values():
        shuffled = Reordering.of_order(upload(backend, np.random.default_rng(14).permutation(graph.nodes)))
        for problem in problems(graph):
            if engines.get_any("cuda_balanced_rows").unsupported(problem, storage, layout):
                continue
            values = np.random.default_rng(15).random(graph.nodes)
            answers = []
            for reordering in (None, shuffled):
                monkeypatch.setattr(reordering_module, "chosen", lambda *_, reordering=reordering: reordering)
                operator = engines.get_any("cuda_balanced_rows").prepare(problem, storage, layout)
                x, out = operator.load(values), operator.empty()
                found = operator.sweep(x, out, Level(4, 4), 0)
                answers.append((found, operator.read(out, 0)))
                np.testing.assert_allclose(operator.read(x, 0), values, rtol=1e-15)
            np.testing.assert_allclose(answers[0][0], answers[1][0], rtol=1e-12)
            np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-12)


def test_only_skewed_graphs_are_reordered(backend, monkeypatch):
    monkeypatch.setattr(reordering_module, "_MIN_EDGES", 1 << 15)
    rng = np.random.default_rng(16)
    sources = rng.permutation(60_000)[(60_000 * rng.random(200_000) ** 8).astype(np.int64)]
    skewed = Graph.from_edges(sources, rng.integers(0, 60_000, 200_000), nodes=60_000)
    even = Graph.from_edges(*rng.integers(0, 60_000, (2, 200_000)), nodes=60_000)
    assert reordering_module.chosen(even, padded_csr.out_degree(even)) is None
    found = reordering_module.chosen(skewed, padded_csr.out_degree(skewed))
    order, position = backend.to_host(found.order), backend.to_host(found.position)
    assert (np.diff(skewed.out_degree[order]) <= 0).all()
    assert (order[position] == np.arange(60_000)).all()


def test_nothing_is_written_behind_the_rows(backend):
    problem = Problem(GRAPHS["skewed"])
    for layout in ("csr", "ell", "pattern"):
        operator = engines.get_any("cuda_balanced_rows").prepare(problem, FP64, layout)
        x, out = operator.load(np.full(300, 1 / 300)), operator.empty()
        operator.sweep(x, out, FLOAT64, 0)
        operator.scale(out, 2.0, 0)
        assert (backend.to_host(out.memory).view(np.float64)[300:] == 0.0).all()


def test_a_sweep_repeats_bit_for_bit(backend):
    for layout in ("csr", "ell", "pattern"):
        operator = engines.get_any("cuda_balanced_rows").prepare(
            Problem(GRAPHS["skewed"]), format_named("cpms4"), layout
        )
        x = operator.load(np.random.default_rng(12).random(300))
        outs = [operator.empty() for _ in range(3)]
        found = [operator.sweep(x, out, Level(2, 3), 0) for out in outs]
        assert found[0] == found[1] == found[2]
        assert len({as_bytes(backend, out) for out in outs}) == 1


def test_stochastic_sweeps_are_the_processors(backend):
    storage, problem = format_named("fp32-stochastic"), Problem(GRAPHS["skewed"])
    # The pattern: values in matrices of different order are rounded by different numbers.
    mine, twin = (e.prepare(problem, storage, "pattern") for e in (engines.get_any("cuda_balanced_rows"), cpu.ENGINE))
    values = np.random.default_rng(13).random(300)
    x, out, x_twin, out_twin = mine.load(values), mine.empty(), twin.load(values), twin.empty()
    mine.sweep(x, out, Level(1, 1), 17)
    twin.sweep(x_twin, out_twin, Level(1, 1), 17)
    np.testing.assert_allclose(mine.read(out, 0), twin.read(out_twin, 0), rtol=2.0**-22)
    assert (mine.read(out, 0) == twin.read(out_twin, 0)).mean() > 0.9


@pytest.mark.parametrize("layout", ["csr", "ell", "pattern"])
@pytest.mark.parametrize("name", ["fp64", "cpms2", "cpms4", "fp16-scaled"])
def test_a_solve_takes_the_reference_engines_way(backend, monkeypatch, name, layout):
    monkeypatch.setattr(
        engines, "get", {"cuda": engines.get_any("cuda_balanced_rows"), "reference": obvious.ENGINE}.__getitem__
    )
    options = {"storage": name, "layout": layout, "tol": 1e-10}
    mine = cpms.pagerank(GRAPHS["mostly empty rows"], engine="cuda", **options)
    twin = cpms.pagerank(GRAPHS["mostly empty rows"], engine="reference", **options)
    assert mine.status is twin.status
    assert mine.iterations_by_bits == twin.iterations_by_bits
    np.testing.assert_allclose(mine.ranks, twin.ranks, atol=1e-12)
    assert mine.residual_l1 < 1e-10


def test_any_pair_of_segments_can_be_asked_for(backend, monkeypatch):
    monkeypatch.setattr(engines, "get", {"cuda": engines.get_any("cuda_balanced_rows")}.__getitem__)
    controller = Schedule({0: 1, 3: 4})
    found = cpms.pagerank(GRAPHS["skewed"], engine="cuda", storage="cpms4", layout="csr", controller=controller)
    assert found.converged
    assert set(found.iterations_by_bits) == {16, 64}


def test_rows_get_a_thread_each_where_all_are_short_and_few(backend, monkeypatch):
    def kernels(graph):
        return {engines.get_any("cuda").kernel(graph, layout) for layout in ("csr", "pattern")}

    ring, hub = Graph.from_edges(np.arange(600), (np.arange(600) + 1) % 600), GRAPHS["hub"]
    assert kernels(ring) == {"spmv_csr_thread"}
    assert kernels(hub) == {"spmv_csr_balanced"}
    assert type(engines.get_any("cuda").prepare(Problem(ring), FP64, "csr").matrix) is matrices.ThreadCsr
    monkeypatch.setattr(backend, "processors", 0)
    assert kernels(ring) == {"spmv_csr_balanced"}


def test_what_cannot_be_done_is_a_sentence(backend, monkeypatch):
    graph = GRAPHS["skewed"]
    assert "no layout 'coo'" in engines.get_any("cuda").unsupported(Problem(graph), FP64, "coo")
    assert "weights" in engines.get_any("cuda").unsupported(Problem(GRAPHS["weighted"]), FP64, "pattern")
    monkeypatch.setattr(type(backend), "free_bytes", lambda _: 1000)
    for layout in ("csr", "ell", "pattern"):
        reason = engines.get_any("cuda").unsupported(Problem(graph), FP64, layout)
        assert "but 1,000 are free" in reason
        with pytest.raises(UnsupportedError, match="1,000 are free"):
            engines.get_any("cuda").prepare(Problem(graph), FP64, layout)


def test_running_out_of_memory_is_a_sentence(backend):
    with (
        pytest.raises(UnsupportedError, match="a thing needs about 12,345 bytes of device memory"),
        backend.memory_for("a thing", 12345),
    ):
        raise backend.out_of_memory(1, 1, 1) if backend.out_of_memory is not MemoryError else MemoryError


def test_the_paper_rule_ends_in_float64(backend):
    operator = engines.get_any("cuda").prepare(Problem(GRAPHS["chain"]), format_named("cpms2"), "csr")
    assert {Level(1, 1), FLOAT64} <= set(Threshold().replay(operator.storage, [1e-9] * 6))
    assert operator.nbytes > 12 * GRAPHS["chain"].edges
