"""Engines on edges in COO: products whose rows cross lanes, tiles, tasks and blocks, emulated here and on a GPU."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, UnsupportedError, check, engines, format_named
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime import backend as backends
from cpms.backends.cuda.runtime import compile as compiling
from cpms.backends.cuda.runtime import current as current_module
from cpms.backends.cuda.runtime import host_emulation
from cpms.backends.cuda.spmv import coo
from cpms.engines import coo as coo_engines
from cpms.engines import cpu, reference
from cpms.formats.formats import CPMS2, FP32, FP64
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.sparse.transition_values import edge_values
from cpms.testing import distributions, graphs

ENGINES = {engine.name: engine for engine in coo_engines.ENGINES}
FULL = Level(1, 1)
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile the kernels of these tests for this machine in one program, which is faster than one by one."""
    if host_emulation.compiler() is not None:
        kernels = [engine.system.variants(real) for engine in ENGINES.values() for real in template.AFFINE]
        request.getfixturevalue("host_backend").compile(itertools.chain(*kernels))


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def backend(request):
    with current_module.using(request.getfixturevalue(f"{request.param}_backend")) as current:
        yield current


@pytest.fixture(params=list(ENGINES))
def engine(request, backend):
    return ENGINES[request.param]


def star(leaves, nodes=None):
    return Graph.from_edges(np.arange(leaves) % 900, np.full(leaves, 5), nodes=nodes or 950, name="star")


def skewed(nodes, edges, weighted=False):
    random = np.random.default_rng(11)
    targets = (nodes * random.random(edges) ** 4).astype(np.int64)
    weights = random.random(edges) + 0.1 if weighted else None
    sources = random.integers(0, nodes * 9 // 10, edges)
    return Graph.from_edges(sources, targets, weights, nodes=nodes, name="skewed")


def rows_of(lengths):
    """Return a graph whose rows have these lengths, one after the other."""
    targets = np.repeat(np.arange(len(lengths)), lengths)
    sources = np.random.default_rng(12).integers(0, len(lengths), len(targets))
    return Graph.from_edges(sources, targets, nodes=len(lengths), name="rows")


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "one edge": Graph.from_edges([0], [1]),
    "one row over many tiles": star(10_000),
    "rows that end with tiles": rows_of([256] * 8 + [2048, 2048, 255, 1, 2047, 1]),
    "rows that begin before the end of tiles": rows_of([255, 2, 255, 2, 1536, 4095, 2, 300]),
    "single edges": Graph.from_edges(np.arange(4400), np.roll(np.arange(4400), 7), nodes=4400),
    "empty rows": rows_of([0, 0, 3, 0, 600, 0, 0, 2100, 0]),
    "skewed": skewed(900, 9000),
    "weighted": skewed(300, 3000, weighted=True),
}


def problems(graph):
    teleport = np.random.default_rng(13).random(graph.nodes)
    yield Problem(graph)
    yield Problem(graph, 0.6, teleport / teleport.sum(), "uniform")


@pytest.mark.representatives(storage=("fp64",))
@pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_sweeps_agree_with_the_reference(engine, graph, storage):
    for problem in problems(graph):
        check.sweeps_agree(engine, problem, storage, "coo", FULL)
        check.queued_sweeps_agree(engine, problem, storage, "coo", FULL)


@pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
@few
@given(graph=graphs(), data=st.data())
def test_sweeps_agree_with_the_reference_on_any_graph(engine, storage, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    check.sweeps_agree(engine, problem, storage, "coo", data.draw(st.sampled_from([FULL, FLOAT64])))


PRODUCTS = {"warps": coo.WarpProduct, "atomics": coo.AtomicProduct, "keys": coo.KeyProduct}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
@few
@given(lengths=st.lists(st.integers(0, 5) | st.sampled_from([31, 63, 256, 700, 2048, 2500]), min_size=1, max_size=12))
@example(lengths=[1] * 12)
@example(lengths=[2048] * 3)
def test_products_are_those_of_the_edges_one_by_one(backend, product, lengths):
    graph = rows_of(lengths)
    values = np.random.default_rng(14).random(graph.nodes)
    made = product.of(graph, "float64")
    x = np.append(values, np.zeros(1))
    for _ in range(2):  # A second product reads the workspace that the first has written.
        made.multiply(backend.arrays.asarray(x))
        found = backend.to_host(made.edges.sums)
        terms = edge_values(graph) * values[graph.sources]
        np.testing.assert_allclose(found, np.bincount(graph.targets, terms, graph.nodes), rtol=1e-13)


@pytest.mark.parametrize("tiles", [1, 2, 3, 4])
def test_tasks_of_any_length_give_the_same_product(backend, tiles):
    graph = skewed(500, 6000)
    x = backend.arrays.asarray(np.append(np.random.default_rng(15).random(500), 0.0))
    edges, carry_out = coo.Edges.of(graph, "float64", coo.TILE_EDGES), coo.CarryOut.of(graph, tiles * coo.TILE_EDGES)
    coo.WarpProduct(edges, carry_out, tiles).multiply(x)
    terms = edge_values(graph) * backend.to_host(x)[graph.sources]
    np.testing.assert_allclose(
        backend.to_host(edges.sums), np.bincount(graph.targets, terms, graph.nodes), rtol=1e-13, atol=1e-300
    )


@pytest.mark.quick
@given(graph=graphs(), task=st.integers(1, 9))
def test_each_partial_sum_belongs_to_the_row_at_its_end_of_a_task(graph, task):
    rows, begins = coo._owners(graph, task)
    owners = np.repeat(rows, np.diff(begins))
    ends = [end for first in range(0, graph.edges, task) for end in (first, min(first + task, graph.edges) - 1)]
    assert owners.tolist() == graph.targets[ends].tolist()
    assert (np.diff(rows.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_whole_solves_are_those_of_the_processor(engine, name, monkeypatch):
    monkeypatch.setattr("cpms.engines.get", lambda _: engine)
    graph = skewed(200, 1500)
    options = {"personalization": [3, 7], "dangling": "uniform", "tol": 1e-8}
    result = cpms.pagerank(graph, storage=name, layout="coo", engine=engine.name, **options)
    monkeypatch.undo()
    twin = cpms.pagerank(graph, storage="fp64", layout="csr", engine="cpu", **options)
    check.answer_is_certified(result, personalization=[3, 7], dangling="uniform")
    assert result.converged
    assert result.storage == name
    assert abs(result.iterations - twin.iterations) <= 2
    assert np.abs(result.ranks - twin.ranks).sum() < 1e-7
    assert [step.mass for step in result.history] == pytest.approx([1.0] * result.iterations, abs=1e-5)


def test_float32_alone_meets_the_tolerance_of_the_report(engine):
    """Its change in L2 falls below 1e-6 within its 30 iterations, and agrees with the vectors."""
    graph = skewed(900, 9000)
    operator = engine.prepare(Problem(graph), FP32, "coo")
    twin = cpu.ENGINE.prepare(Problem(graph), FP64, "csr")
    x, out = operator.load(np.full(900, 1 / 900)), operator.empty()
    y, there = twin.load(np.full(900, 1 / 900)), twin.empty()
    distances = []
    for step in range(30):
        distances.append(operator.sweep(x, out, FULL, step).l2)
        twin.sweep(y, there, FULL, step)
        x, out, y, there = out, x, there, y
    assert min(distances) < 1e-6
    np.testing.assert_allclose(operator.read(x, 0), twin.read(y, 0), rtol=1e-5)


@pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
def test_repeatable_engines_give_the_same_bits(engine, storage):
    if not engine.repeatable:
        pytest.skip("atomics add in any order")
    values = np.random.default_rng(16).random(900)
    found, kept = set(), set()
    for _ in range(3):
        operator = engine.prepare(Problem(GRAPHS["skewed"]), storage, "coo")
        x, out = operator.load(values / values.sum()), operator.empty()
        for step in range(4):  # The last two are replayed on a GPU.
            found_now = operator.sweep(x, out, FULL, step)
        found.add(found_now)
        kept.add(operator.read(out, 0).tobytes())
    assert len(found) == len(kept) == 1


@pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
def test_vectors_are_kept_scaled_and_converted(engine, storage):
    problem = Problem(GRAPHS["weighted"])
    operator = engine.prepare(problem, storage, "coo")
    values = np.random.default_rng(18).random(300)
    x, unit = operator.load(values), storage.unit_roundoff() + 1e-15
    kept = operator.read(x, 0)
    np.testing.assert_allclose(kept, values, rtol=unit)
    operator.scale(x, 1.3, 1)
    np.testing.assert_allclose(operator.read(x, 0), 1.3 * kept, rtol=2 * unit)
    # The matrix, and the values that kernels read in the padding.
    assert operator.nbytes >= problem.graph.edges * (8 + storage.bytes_read())
    assert not current_module.current().to_host(x.values[300:]).any()
    converted, x, out = operator.to_float64(x, operator.empty())
    assert (converted is operator) == (storage == FP64)
    assert converted.storage == FP64
    np.testing.assert_allclose(converted.read(x, 0), 1.3 * kept, rtol=2 * unit)
    found, twin = converted.sweep(x, out, FLOAT64, 0), reference.ENGINE.prepare(problem, FP64, "coo")
    right = twin.empty()
    twin.sweep(twin.load(converted.read(x, 0)), right, FULL, 0)
    np.testing.assert_allclose(converted.read(out, 0), right, rtol=1e-13)
    assert found.mass == pytest.approx(right.sum(), rel=1e-13)


def test_blocks_change_no_product(backend, monkeypatch):
    graph, answers = GRAPHS["skewed"], set()
    x = backend.arrays.asarray(np.append(np.random.default_rng(17).random(900), 0.0))
    product = coo.WarpProduct.of(graph, "float64")
    for blocks in (1, 2, 5, 40):
        monkeypatch.setattr(backends.Backend, "grid_size", lambda *_, blocks=blocks, **__: blocks)
        product.multiply(x)
        answers.add(backend.to_host(product.edges.sums).tobytes())
    assert len(answers) == 1


def test_dangling_mass_is_summed_beside_the_product(backend, monkeypatch):
    """The second stream ends before it is joined, and joins before the kernels that read its result."""
    calls = []
    run = type(backend).run
    monkeypatch.setattr(type(backend), "run", lambda self, v, b, a: calls.append(v.kernel) or run(self, v, b, a))
    join_streams = type(backend).join_streams
    monkeypatch.setattr(type(backend), "join_streams", lambda self: calls.append("join_streams") or join_streams(self))
    operator = engines.get_any("coo_streams").prepare(Problem(GRAPHS["skewed"]), FP64, "coo")
    x, out = operator.load(np.full(900, 1 / 900)), operator.empty()
    calls.clear()
    operator.launch(x, out)
    stages = ["coo_dangling", "coo_product", "coo_carry_out", "join_streams", "coo_epilogue", "coo_distance"]
    assert [name for name in calls if name in stages] == stages


def test_stages_one_after_another_are_a_sweep(engine):
    for graph, stages in (
        (GRAPHS["skewed"], ["product", "dangling", "update", "distance"]),
        (GRAPHS["single edges"], ["product", "update", "distance"]),
    ):
        values = np.random.default_rng(19).random(graph.nodes)
        found = []
        for launched in (stages, ["sweep"]):
            operator = engine.prepare(Problem(graph), FP64, "coo")
            x, out = operator.load(values / values.sum()), operator.empty()
            works = operator.stages(x, out)
            assert list(works) == [*stages, "sweep"]
            for stage in launched:
                works[stage]()
            sums = current_module.current().to_host(operator.found)
            found.append((operator.read(out, 0), sums))
            assert sums[1] > 0
        for mine, right in zip(*found, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-13)


class Stream:
    """Records its calls; within its context launches run on it."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def wait_event(self, event):
        self.calls.append(f"{self.name} waits for {event.name}")

    def __enter__(self):
        self.calls.append(f"to {self.name}")

    def __exit__(self, *_):
        self.calls.append("back")


class Event:
    def __init__(self, name):
        self.name = name

    def record(self, stream):
        stream.calls.append(f"{stream.name} records {self.name}")


def test_streams_fork_and_join_by_events():
    calls = []
    first, device = Stream("first", calls), compiling.CudaBackend.__new__(compiling.CudaBackend)
    device.arrays = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: first))
    device._own = SimpleNamespace(second=Stream("second", calls), forked=Event("fork"), joined=Event("join"))
    with device.second_stream():
        calls.append("launch")
    device.join_streams()
    fork = ["first records fork", "second waits for fork"]
    aside = ["to second", "launch", "back", "second records join"]
    assert calls == [*fork, *aside, "first waits for join"]


def test_the_atomic_engine_says_that_it_is_rougher():
    assert engines.get_any("coo_basic").sum_roundoff(FP32) == 2.0**-24
    assert engines.get_any("coo_basic").sum_roundoff(FP64) == engines.get_any("coo_streams").sum_roundoff(FP32) == 0.0
    assert [executor.repeatable for executor in ENGINES.values()] == [True, False, True]


# Bad input


def test_what_engines_do_not_do_is_a_sentence(engine, monkeypatch):
    problem = Problem(GRAPHS["skewed"])
    for storage, layout, message in (
        (CPMS2, "coo", f"engine {engine.name} stores fp64 and fp32, not cpms2; use engine cpu or cuda"),
        (format_named("fp16-scaled"), "coo", "stores fp64 and fp32, not fp16-scaled"),
        (format_named("fp32-zero"), "coo", "not fp32-zero"),
        (FP64, "csr", f"engine {engine.name} has no layout 'csr'; it has coo"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            engine.prepare(problem, storage, layout)
    monkeypatch.setattr(type(current_module.current()), "free_bytes", lambda _: 1000)
    with pytest.raises(UnsupportedError, match=r"needs about [\d,]+ bytes of device memory .* but 1,000 are free"):
        engine.prepare(problem, FP64, "coo")
