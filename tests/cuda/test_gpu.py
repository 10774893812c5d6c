"""Tests that need a GPU: library engines, device arrays in and out, size, repeatability."""

import threading

import numpy as np
import pytest

import cpms
from cpms import check, engines
from cpms.backends.cuda.arrays import codec
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime import compile as compiling
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr
from cpms.base.errors import InputError, UnavailableError, UnsupportedError
from cpms.engines import cpu, cuda, cusparse
from cpms.engines import reference as obvious
from cpms.formats.formats import CPMS4, FP32, FP64, NAMED, element_type, format_named
from cpms.graph.graph import Graph
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.storage.device import on_device

needs_gpu = pytest.mark.skipif(compiling.missing() is not None, reason=f"no GPU: {compiling.missing()}")
gpu = [pytest.mark.gpu, needs_gpu]


@pytest.mark.skipif(compiling.missing() is None, reason="there is a GPU")
@pytest.mark.parametrize(
    "name",
    [
        *("cuda", "cuda_balanced_rows", "cuda_thread_rows", "cusparse", "cusparse_omega"),
        *("coo_streams", "coo_basic", "reduce_by_key"),
    ],
)
def test_without_a_device_the_engine_says_what_is_missing(name):
    with pytest.raises(UnavailableError, match=f"engine {name} cannot run here: .*(CuPy|device)"):
        engines.get(name)
    with pytest.raises(UnavailableError, match="cannot run here"):
        current()


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(20)
    nodes, edges = 60_000, 700_000
    skewed = Graph.from_edges(
        (nodes * rng.random(edges) ** 3).astype(np.int64),
        (nodes * rng.random(edges) ** 6).astype(np.int64),
        nodes=nodes,
    )
    near = np.repeat(np.arange(nodes), 3)
    mesh = Graph.from_edges(near, np.clip(near + rng.integers(-40, 40, len(near)), 0, nodes - 1), nodes=nodes)
    few = Graph.from_edges(*rng.integers(0, nodes, (2, nodes // 3)), nodes=nodes)
    weighted = Graph.from_edges(*rng.integers(0, 500, (2, 9000)), rng.random(9000) + 0.1, nodes=500)
    return {"skewed": skewed, "mesh": mesh, "few": few, "weighted": weighted}


def problems(graph):
    teleport = np.random.default_rng(21).random(graph.nodes)
    return [Problem(graph), Problem(graph, 0.7, teleport / teleport.sum(), "uniform")]


@pytest.mark.parametrize("layout", ["csr", "ell", "pattern"])
@pytest.mark.parametrize("storage", NAMED, ids=lambda storage: storage.name)
class TestLargeGraphs:
    pytestmark = gpu

    def test_sweeps_are_those_of_the_processor(self, graphs, storage, layout):
        for name, graph in graphs.items():
            engine = engines.get_any("cuda_balanced_rows")
            if layout == "ell" and name == "skewed":
                continue  # Padding would multiply it.
            for problem in problems(graph):
                if engine.unsupported(problem, storage, layout):
                    assert (name, layout) == ("weighted", "pattern")
                    continue
                operator = engine.prepare(problem, storage, layout)
                twin = cpu.ENGINE.prepare(problem, storage, layout)
                values = np.random.default_rng(22).random(graph.nodes)
                values /= values.sum()
                x, x_twin = operator.load(values), twin.load(values)
                np.testing.assert_array_equal(operator.read(x, 0), twin.read(x_twin, 0))
                for level in [Level(r, w) for r, w in streaming.levels(storage)]:
                    out, out_twin = operator.empty(), twin.empty()
                    found = operator.sweep(x, out, level, 0)
                    expected = twin.sweep(x_twin, out_twin, level, 0)
                    mine, theirs = operator.read(out, level.write), twin.read(out_twin, level.write)
                    np.testing.assert_allclose(mine, theirs, rtol=4 * storage.unit_roundoff(level.write) + 1e-12)
                    assert (np.abs(mine - theirs) > 1e-12 * theirs).sum() <= 1 + graph.nodes // 1000
                    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)

    def test_sweeps_repeat_bit_for_bit(self, graphs, storage, layout):
        for engine in (engines.get_any("cuda_balanced_rows"), engines.get_any("cuda_thread_rows")):
            operator = engine.prepare(Problem(graphs["mesh"]), storage, layout)
            x = operator.load(np.random.default_rng(23).random(graphs["mesh"].nodes))
            found, kept = set(), set()
            for _ in range(5):
                out = operator.empty()
                found.add(operator.sweep(x, out, Level(1, 1), 0))
                kept.add(current().to_host(out.memory).tobytes())
            assert len(found) == len(kept) == 1


@pytest.mark.parametrize("layout", ["csr", "pattern"])
@pytest.mark.parametrize("name", ["fp64", "cpms2", "cpms4", "cpms4-planes", "fp32", "fp16-scaled"])
class TestSolves:
    pytestmark = gpu

    def test_whole_solves_are_those_of_the_processor(self, graphs, name, layout):
        for graph in (graphs["skewed"], graphs["few"]):
            mine = cpms.pagerank(graph, storage=name, layout=layout, engine="cuda")
            twin = cpms.pagerank(graph, storage=name, layout=layout, engine="cpu")
            assert mine.converged
            assert mine.iterations_by_bits == twin.iterations_by_bits
            assert np.abs(mine.ranks - twin.ranks).sum() < 1e-9
            again = cpms.pagerank(graph, storage=name, layout=layout, engine="cuda")
            np.testing.assert_array_equal(mine.ranks, again.ranks)


class TestCusparse:
    pytestmark = gpu

    @pytest.mark.parametrize("layout", ["csr", "coo"])
    def test_float64_sweeps_are_those_of_the_reference(self, graphs, layout):
        for graph in (*graphs.values(), Graph.from_edges([], [], nodes=5), Graph.from_edges([0], [0])):
            for problem in problems(graph):
                operator = cusparse.ENGINE.prepare(problem, FP64, layout)
                twin = obvious.ENGINE.prepare(problem, FP64, "csr")
                values = np.random.default_rng(24).random(graph.nodes)
                x, x_twin = operator.load(values), twin.load(values)
                out, out_twin = operator.empty(), twin.empty()
                for _ in range(3):
                    found = operator.sweep(x, out, Level(1, 1), 0)
                    expected = twin.sweep(x_twin, out_twin, Level(1, 1), 0)
                    np.testing.assert_allclose(operator.read(out, 1), out_twin, rtol=1e-11)
                    np.testing.assert_allclose(tuple(found), expected, rtol=1e-10, atol=1e-12)
                    x, out, x_twin, out_twin = out, x, out_twin, x_twin
                operator.scale(x, 1.0 / found.mass, 1)
                assert operator.read(x, 1).sum() == pytest.approx(1.0, abs=1e-12)

    @pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
    @pytest.mark.parametrize("layout", ["csr", "coo"])
    def test_sweeps_are_replayed_as_graphs(self, graphs, layout, storage):
        problem = Problem(graphs["skewed"])
        operator, twin = (cusparse.ENGINE.prepare(problem, storage, layout) for _ in range(2))
        values = np.random.default_rng(31).random(problem.graph.nodes)
        values /= values.sum()
        x, out, y, there = operator.load(values), operator.empty(), twin.load(values), twin.empty()
        for step in range(9):
            found = operator.sweep(x, out, Level(1, 1), step)
            twin.launch(y, there)
            # Sums in another order move values by their roundoff, and the change, however small, by that of all.
            roundoff = 4 * np.finfo(element_type(storage)).eps
            np.testing.assert_allclose(found.l1, current().fetch(twin.found)[0], rtol=0, atol=roundoff)
            np.testing.assert_allclose(operator.read(out, 1), twin.read(there, 1), rtol=1e-4)
            x, out, y, there = out, x, there, y
        assert all(not isinstance(state, int) for state in operator.cuda_graphs._graphs.values())

    @pytest.mark.parametrize("layout", ["csr", "coo"])
    def test_float32_solves_end_in_float64(self, graphs, layout):
        for graph in (graphs["skewed"], graphs["few"]):
            result = cpms.pagerank(graph, storage=FP32, layout=layout, engine="cusparse")
            assert result.converged
            assert set(result.iterations_by_bits) == {32, 64}
            exact = cpms.pagerank(graph, storage=FP64, layout="csr", engine="cpu")
            assert np.abs(result.ranks - exact.ranks).sum() < 1e-9

    def test_float64_solves_take_the_processors_iterations(self, graphs):
        for graph in graphs.values():
            for norm in ("l1", "l2", "linf"):
                mine = cpms.pagerank(graph, layout="csr", engine="cusparse", norm=norm)
                twin = cpms.pagerank(graph, layout="csr", engine="cpu", norm=norm)
                assert mine.converged
                assert abs(mine.iterations - twin.iterations) <= 1

    @pytest.mark.parametrize("layout", ["csr", "coo"])
    def test_every_algorithm_was_tried(self, graphs, layout):
        operator = cusparse.ENGINE.prepare(Problem(graphs["mesh"]), FP64, layout)
        assert {f"{layout}_alg1", f"{layout}_alg2"} <= set(operator.product.trial_ms)
        assert operator.product.plan.name == min(operator.product.trial_ms, key=operator.product.trial_ms.get)

    def test_other_formats_are_refused(self, graphs):
        problem = Problem(graphs["few"])
        assert "use engine cpu or cuda" in cusparse.ENGINE.unsupported(problem, CPMS4, "csr")
        assert "no layout" in cusparse.ENGINE.unsupported(problem, FP64, "pattern")
        with pytest.raises(UnsupportedError, match="not bf16"):
            cusparse.ENGINE.prepare(problem, format_named("bf16"), "csr")


@pytest.mark.parametrize(
    "engine",
    [engines.get_any("coo_streams"), engines.get_any("coo_basic"), engines.get_any("reduce_by_key")],
    ids=lambda e: e.name,
)
@pytest.mark.parametrize("storage", [FP64, FP32], ids=lambda storage: storage.name)
class TestCoo:
    pytestmark = gpu

    def test_sweeps_are_those_of_the_reference(self, graphs, engine, storage):
        for graph in graphs.values():
            for problem in problems(graph):
                check.sweeps_agree(engine, problem, storage, "coo", Level(1, 1))

    def test_sweeps_replayed_are_those_launched(self, graphs, engine, storage):
        problem = Problem(graphs["skewed"], dangling="uniform")
        operator, twin = (engine.prepare(problem, storage, "coo") for _ in range(2))
        values = np.random.default_rng(30).random(problem.graph.nodes)
        values /= values.sum()
        x, out, y, there = operator.load(values), operator.empty(), twin.load(values), twin.empty()
        for step in range(9):
            found = operator.sweep(x, out, Level(1, 1), step)
            twin.launch(y, there)
            expected = current().fetch(twin.found)
            assert expected[0] > 0.0
            if engine.repeatable:
                assert found.l1 == expected[1]
                np.testing.assert_array_equal(operator.read(out, 1), twin.read(there, 1))
            else:
                np.testing.assert_allclose(operator.read(out, 1), twin.read(there, 1), rtol=1e-4)
            x, out, y, there = out, x, there, y
        assert all(not isinstance(state, int) for state in operator.cuda_graphs._graphs.values())

    def test_whole_solves_are_those_of_the_processor(self, graphs, engine, storage):
        for graph in (graphs["skewed"], graphs["few"], graphs["weighted"]):
            mine = cpms.pagerank(graph, storage=storage, engine=engine.name)
            twin = cpms.pagerank(graph, storage="fp64", layout="csr", engine="cpu")
            assert mine.layout == "coo"
            assert mine.converged
            assert np.abs(mine.ranks - twin.ranks).sum() < 1e-9


class Interface:
    """Device memory known by ``__cuda_array_interface__`` alone."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class Capsule:
    """Device memory known by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class TestDeviceArrays:
    pytestmark = gpu

    def test_they_are_adopted_without_a_copy(self):
        cupy = pytest.importorskip("cupy")
        array = cupy.arange(7.0)
        for given in (array, Interface(array), Capsule(array)):
            assert on_device(given)
            assert codec.as_device_array(given).data.ptr == array.data.ptr
        assert not on_device(np.zeros(3))

    def test_they_convert_within_their_own_memory(self):
        cupy = pytest.importorskip("cupy")
        for wrap in (lambda array: array, Interface, Capsule):
            values = cupy.random.default_rng(1).random(5000)
            before = values.copy()
            stored = codec.convert_inplace(wrap(values), CPMS4)
            assert stored.memory.data.ptr == values.data.ptr
            assert cupy.asnumpy(stored.memory).tobytes() == cpms.encode(cupy.asnumpy(before), CPMS4).memory.tobytes()
            assert (codec.restore_inplace(stored) == before).all()

    def test_operators_take_and_give_them(self, graphs):
        cupy = pytest.importorskip("cupy")
        graph = graphs["few"]
        values = np.random.default_rng(25).random(graph.nodes)
        for engine, layout in (
            (engines.get_any("cuda"), "csr"),
            (engines.get_any("cuda"), "pattern"),
            (cusparse.ENGINE, "csr"),
        ):
            operator = engine.prepare(Problem(graph), FP64, layout)
            x = operator.load(Interface(cupy.asarray(values)))
            assert isinstance(operator.read_device(x, 0), cupy.ndarray)
            np.testing.assert_array_equal(operator.read(x, 0), operator.read(operator.load(values), 0))

    @pytest.mark.parametrize(("engine", "layout"), [("cuda", "csr"), ("cuda", "pattern"), ("cusparse", "csr")])
    def test_solves_take_and_give_them(self, graphs, engine, layout):
        cupy = pytest.importorskip("cupy")
        graph = graphs["few"]
        start, teleport = np.random.default_rng(26).random((2, graph.nodes))
        given = {"start": start, "personalization": teleport}
        for wrap in (lambda array: array, Interface, Capsule):
            there = {name: wrap(cupy.asarray(values)) for name, values in given.items()}
            mine = cpms.pagerank(graph, layout=layout, engine=engine, **there)
            assert isinstance(mine.device_ranks, cupy.ndarray)
            np.testing.assert_allclose(cupy.asnumpy(mine.device_ranks), mine.ranks, rtol=1e-14)
            on_host = cpms.pagerank(graph, layout=layout, engine=engine, **given)
            np.testing.assert_allclose(mine.ranks, on_host.ranks, rtol=1e-9)
            of_processor = cpms.pagerank(graph, engine="cpu", **there)
            assert of_processor.device_ranks is None
            np.testing.assert_allclose(mine.ranks, of_processor.ranks, rtol=1e-6)

    def test_an_iterate_in_device_memory_stays_there(self, graphs, monkeypatch):
        cupy = pytest.importorskip("cupy")
        graph = graphs["few"]
        start = cupy.random.default_rng(27).random(graph.nodes)
        seen = []
        monkeypatch.setattr(cuda.CudaOperator, "load", lambda _, values: seen.append(values) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cpms.pagerank(graph, engine="cuda", start=start)
        assert isinstance(seen[0], cupy.ndarray)

    def test_bad_ones_are_refused(self, graphs):
        cupy = pytest.importorskip("cupy")
        graph = graphs["few"]
        for bad in (cupy.zeros(graph.nodes), cupy.ones(3), -cupy.ones(graph.nodes)):
            with pytest.raises(InputError, match="start must hold"):
                cpms.pagerank(graph, engine="cuda", start=bad)


class TestChoice:
    pytestmark = gpu

    def test_auto_is_the_device_where_the_graph_fits(self, graphs, monkeypatch):
        problem = Problem(graphs["few"])
        assert engines.chosen("auto", problem, "power").name == "cuda_fused"
        assert engines.chosen("auto", problem, "power", layout="csr").name == "cuda"
        assert engines.chosen("auto", problem, "batch").name == "cuda"
        assert cpms.pagerank(graphs["few"]).engine == "cuda_fused"
        monkeypatch.setattr(type(current()), "free_bytes", lambda _: 1000)
        assert cpms.pagerank(graphs["few"]).engine == "cpu"
        with pytest.raises(UnsupportedError, match=r"needs about [\d,]+ bytes of device memory .* but 1,000 are free"):
            cpms.pagerank(graphs["few"], engine="cuda")


class TestReplays:
    pytestmark = gpu

    @pytest.mark.parametrize("name", ["fp64", "cpms4"])
    def test_sweeps_replayed_are_those_launched(self, graphs, name):
        problem, storage = Problem(graphs["skewed"]), format_named(name)
        operator, twin = (engines.get_any("cuda").prepare(problem, storage, "csr") for _ in range(2))
        values = np.random.default_rng(28).random(problem.graph.nodes)
        x, out, y, there = operator.load(values), operator.empty(), twin.load(values), twin.empty()
        for step in range(9):
            found = operator.sweep(x, out, Level(1, 1), step)
            twin.launch(y, there, read=1, write=1, step=step)
            assert found.l1 == current().fetch(twin.work.found)[1]
            np.testing.assert_array_equal(operator.read(out, 1), twin.read(there, 1))
            x, out, y, there = out, x, there, y

    def test_graphs_may_go_while_they_run(self, graphs):
        """Operators are let go of when their solve is over, with a sweep under way that nobody waits for."""
        problem = Problem(graphs["skewed"])
        values = np.random.default_rng(32).random(problem.graph.nodes)
        expected = None
        for _ in range(20):
            operator = engines.get_any("cuda").prepare(problem, format_named("cpms2"), "csr")
            x, out = operator.load(values), operator.empty()
            for step in range(8):
                operator.queue(x, out, Level(2, 2), step, "l1")
                x, out = out, x
            operator, x, out = operator.to_float64(x, out)
            found = operator.sweep(x, out, FLOAT64, 0)
            expected = expected or found
            assert found == expected

    def test_vectors_live_as_long_as_their_graphs(self, graphs):
        operator = engines.get_any("cuda").prepare(Problem(graphs["mesh"]), FP64, "csr")
        values = np.random.default_rng(29).random(graphs["mesh"].nodes)
        expected = None
        for _ in range(6):
            x, out = operator.load(values), operator.empty()
            for step in range(6):
                found = operator.sweep(x, out, Level(1, 1), step)
                x, out = out, x
            expected = expected or found
            assert found == expected
            del x, out
            current().arrays.get_default_memory_pool().free_all_blocks()


class TestThreads:
    pytestmark = gpu

    def test_one_that_has_not_met_the_device_may_launch(self, gpu_backend):
        """Its memory may all have been there before, so that no earlier call has set the device of the driver."""
        found = []
        graph = Graph.from_edges([0, 0, 2], [1, 2, 1])
        rows = padded_csr.DeviceRows.of(graph)
        gpu_backend.arrays.zeros(1 << 12, np.uint32)
        thread = threading.Thread(target=lambda: found.append(padded_csr.out_degree(graph, rows).get().tolist()))
        thread.start()
        thread.join()
        assert found == [[2, 0, 1]]


class TestMemory:
    pytestmark = gpu

    def test_running_out_names_bytes_needed_and_free(self):
        with (
            pytest.raises(UnsupportedError, match=r"an array needs about 1,125,899,906,842,624 bytes .* are free"),
            current().memory_for("an array", 1 << 50),
        ):
            current().arrays.empty(1 << 50, np.uint8)

    def test_long_arrays_convert_in_place(self):
        cupy = pytest.importorskip("cupy")
        count = (1 << 25) + 12_345
        bits = cupy.arange(count, dtype=cupy.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for name in ("cpms2", "cpms4", "cpms8", "cpms4-planes"):
            values = (bits & np.uint64(0x7FEFFFFFFFFFFFFF)).view(np.float64)
            before = values.copy()
            stored = codec.convert_inplace(values, format_named(name))
            assert not (values.view(np.uint64) == before.view(np.uint64)).all()
            assert (codec.decode(stored).view(np.uint64) == before.view(np.uint64)).all()
            assert (codec.restore_inplace(stored).view(np.uint64) == before.view(np.uint64)).all()

    def test_float64_after_conversion_is_the_same_operator(self, graphs):
        operator = engines.get_any("cuda").prepare(Problem(graphs["mesh"]), CPMS4, "csr")
        address = operator.matrix.values.memory.data.ptr
        x, out = operator.load(np.full(graphs["mesh"].nodes, 1e-5)), operator.empty()
        converted, x, out = operator.to_float64(x, out)
        assert converted.matrix.values.memory.data.ptr == address
        plain = engines.get_any("cuda").prepare(Problem(graphs["mesh"]), FP64, "csr")
        y, there = plain.load(np.full(graphs["mesh"].nodes, 1e-5)), plain.empty()
        assert converted.sweep(x, out, FLOAT64, 0) == plain.sweep(y, there, FLOAT64, 0)
        np.testing.assert_array_equal(converted.read(out, 0), plain.read(there, 0))
