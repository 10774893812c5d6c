"""Engine opencl: its stages against the reference, whatever the work-groups and cores; what it says where it cannot."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, UnavailableError, check, engines, format_named
from cpms.backends.opencl import chosen, current
from cpms.backends.opencl import device as devices
from cpms.backends.opencl import program as programs
from cpms.backends.opencl.choice import Choice
from cpms.base import threads
from cpms.cli import main
from cpms.engines import opencl
from cpms.formats.formats import FP64
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

STAGES = ["coo", "coo_exchange", "pattern"]
FULL = Level(1, 1)


class Staged(opencl.OpenclEngine):
    """The engine with its stage in place of the layout asked for, so that the reference can be its twin."""

    def __init__(self, stage):
        self.stage = stage

    def prepare(self, problem, storage, layout):
        assert layout == "csr"
        return super().prepare(problem, storage, self.stage)


@pytest.fixture
def device():
    reason = opencl.ENGINE.missing()
    if reason:
        pytest.skip(reason)
    return devices.device(Choice())


def random_graph(nodes=3000, edges=20000):
    random = np.random.default_rng(3)
    return Graph.from_edges(random.integers(0, nodes - 500, edges), random.integers(0, nodes, edges), nodes=nodes)


def star(leaves):
    return Graph.from_edges(np.arange(1, leaves + 1), np.zeros(leaves, int), name="star")


# The stages


@pytest.mark.parametrize("storage", ["fp64", "fp32"])
@pytest.mark.parametrize("stage", STAGES)
@given(graph=graphs(), data=st.data())
@settings(max_examples=15)
def test_stages_agree_with_the_reference_on_any_graph(stage, storage, graph, data):
    if opencl.ENGINE.missing():
        pytest.skip(opencl.ENGINE.missing())
    graph = Graph(graph.indptr, graph.sources)
    teleport = data.draw(st.none() | distributions(graph.nodes))
    problem = Problem(
        graph, data.draw(st.floats(0.01, 0.99)), teleport, data.draw(st.sampled_from(["teleport", "uniform"]))
    )
    level = data.draw(st.sampled_from([FULL, FLOAT64]))
    check.sweeps_agree(Staged(stage), problem, format_named(storage), "csr", level)


@pytest.mark.parametrize("storage", ["fp64", "fp32"])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("graph", [star(4000), random_graph(), Graph.from_edges([], [], nodes=5000)])
def test_no_edge_is_lost_where_many_meet(device, graph, stage, storage):
    check.sweeps_agree(Staged(stage), Problem(graph), format_named(storage), "csr", FULL)


def test_cores_lose_edges_unless_they_add_atomically(device):
    problem = Problem(star(1000000))
    assert masses(device, problem, "add_atomically") == pytest.approx(np.ones(20), abs=1e-10)
    assert (masses(device, problem, "add_nothing") < 0.5).all()
    if masses(device, problem, "add_plainly").min() > 1 - 1e-10:
        pytest.skip("one core ran every work-group of twenty sweeps")


def masses(device, problem, add):
    """Return the mass after each of twenty sweeps, which is 1 if no edge is lost."""
    nodes = problem.graph.nodes
    operator = opencl.prepared(problem, FP64, "coo", device, 64, add)
    x, out = operator.load(np.full(nodes, 1 / nodes)), operator.empty()
    return np.array([operator.sweep(x, out, FULL, 0).mass for _ in range(20)])


@pytest.mark.quick
@pytest.mark.parametrize("layout", [*STAGES, "csr"])
def test_ranks_are_there_in_the_end_and_dangling_mass_is_kept(device, layout):
    graph = random_graph()
    assert len(graph.dangling_nodes) > 0
    options = {"personalization": [0, 7], "dangling": "uniform"}
    right = cpms.pagerank(graph, engine="reference", tol=1e-13, **options).ranks
    result = cpms.pagerank(graph, engine="opencl", layout=layout, tol=1e-12, **options)
    assert result.converged
    assert [step.mass for step in result.history] == pytest.approx([1.0] * result.iterations, abs=1e-13)
    check.answer_is_certified(result, **options)
    np.testing.assert_allclose(result.ranks, right, rtol=1e-9)


# Work-groups, cores, threads


def swept(layout, choice):
    with chosen(choice):
        operator = engines.get("opencl").prepare(Problem(random_graph(), dangling="uniform"), FP64, layout)
    x, out = operator.load(np.full(3000, 1 / 3000)), operator.empty()
    return [operator.sweep(x, out, FULL, 0), operator.sweep(out, x, FULL, 1)], operator.read(x, 0)


def choices(device):
    """Return choices of work-groups and, where the device can be divided, of cores."""
    divided = devices.missing(Choice(cores=1)) is None
    cores = sorted({1, device.max_compute_units}) if divided else [None]
    return [Choice(None, size, count) for size, count in itertools.product([1, 7, 64, 256, None], cores)]


@pytest.mark.parametrize("layout", [*STAGES, "csr"])
def test_work_groups_and_cores_do_not_change_the_answer(device, layout):
    first_found, first = swept(layout, Choice())
    for choice in choices(device):
        found, ranks = swept(layout, choice)
        if layout in ("csr", "pattern"):
            assert ranks.tobytes() == first.tobytes()
            assert found == first_found
        else:
            np.testing.assert_allclose(ranks, first, rtol=1e-14)
            np.testing.assert_allclose(found, first_found, rtol=1e-12)


def test_one_core_is_a_sub_device(device):
    if devices.missing(Choice(cores=1)):
        pytest.skip(devices.missing(Choice(cores=1)))
    assert devices.device(Choice(cores=1)).max_compute_units == 1
    if devices.is_of_type(device, "CPU"):
        with threads.limited(1):
            assert devices.device(Choice()).max_compute_units == 1


def test_two_threads_may_solve_at_once(device):
    graph = random_graph()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda layout: cpms.pagerank(graph, engine="opencl", layout=layout), STAGES * 2))
    for result in results:
        np.testing.assert_allclose(result.ranks, results[2].ranks, rtol=1e-9)


def test_a_sweep_brings_five_numbers_to_the_host(device, monkeypatch):
    operator = engines.get("opencl").prepare(Problem(random_graph()), FP64, "pattern")
    x, out = operator.load(np.full(3000, 1 / 3000)), operator.empty()
    counts = []
    download = programs.Program.download

    def counted(self, buffer, count, dtype):
        counts.append(count)
        return download(self, buffer, count, dtype)

    monkeypatch.setattr(programs.Program, "download", counted)
    operator.sweep(x, out, FULL, 0)
    assert counts == [5]


def test_the_choice_of_the_last_block_does_not_last():
    with chosen(Choice(work_group=2)), chosen(Choice(work_group=3)):
        assert current().work_group == 3
    assert current() == Choice()


# Devices that lack something


def test_without_float64_all_is_float32(device, monkeypatch):
    types = programs.Types("float", "float", "uint")
    monkeypatch.setattr(opencl, "_types", lambda *_: types)
    operator = opencl.prepared(Problem(random_graph()), format_named("fp32"), "coo_exchange", device, 64)
    x, out = operator.load(np.full(3000, 1 / 3000)), operator.empty()
    found = operator.sweep(x, out, FULL, 0)
    twin = engines.get("reference").prepare(Problem(random_graph()), FP64, "csr")
    right = twin.empty()
    expected = twin.sweep(twin.load(np.full(3000, 1 / 3000)), right, FULL, 0)
    np.testing.assert_allclose(operator.read(out, 0), right, rtol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def poor(**lacks):
    """Return what a device says of itself, some of it less than is needed."""
    says = {
        "name": "poor",
        "double_fp_config": 63,
        "extensions": "cl_khr_fp64 cl_khr_int64_base_atomics",
        "max_work_group_size": 256,
        "max_mem_alloc_size": 10**9,
        "global_mem_size": 10**9,
    }
    return SimpleNamespace(**{**says, **lacks})


@pytest.mark.parametrize(
    ("lacks", "layout", "words"),
    [
        ({"double_fp_config": 0}, "csr", "poor has no float64; use storage fp32"),
        ({"extensions": ""}, "coo", "64 bits atomically"),
        ({"max_work_group_size": 32}, "csr", "at most 32 work-items, not 64"),
        ({"max_mem_alloc_size": 1000}, "csr", "needs buffers of"),
        ({"global_mem_size": 1000}, "coo", "needs buffers of"),
    ],
)
def test_a_device_that_lacks_something_refuses_in_a_sentence(monkeypatch, lacks, layout, words):
    monkeypatch.setattr(devices, "device", lambda _: poor(**lacks))
    assert words in opencl.ENGINE.unsupported(Problem(random_graph()), FP64, layout)
    monkeypatch.setattr(devices, "device", lambda _: poor())
    assert opencl.ENGINE.unsupported(Problem(random_graph()), FP64, layout) is None


@pytest.mark.parametrize("layout", ["coo", "coo_exchange", "pattern"])
def test_weights_are_for_csr_alone(layout):
    weighted = Problem(Graph.from_edges([0, 1], [1, 0], [0.5, 2.0]))
    assert "weights" in opencl.ENGINE.unsupported(weighted, FP64, layout)


def test_build_errors_show_the_log(device):
    import pyopencl

    with pytest.raises(UnavailableError, match="no_such_thing"):
        programs.build(pyopencl.Context([device]), "kernel void broken() { no_such_thing(); }", [])


# Machines that lack something


def test_without_pyopencl_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UnavailableError, match=r"PyOpenCL .* not installed .*pip install 'cpms\[opencl\]'"):
        engines.get("opencl")


def test_without_platform_or_device_it_says_so(monkeypatch):
    pyopencl = pytest.importorskip("pyopencl")
    monkeypatch.setattr(pyopencl, "get_platforms", list)
    assert "there is no platform" in opencl.ENGINE.missing()

    def fails():
        raise pyopencl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(pyopencl, "get_platforms", fails)
    assert "PLATFORM_NOT_FOUND_KHR" in opencl.ENGINE.missing()
    empty = SimpleNamespace(name="Empty", get_devices=list)
    monkeypatch.setattr(pyopencl, "get_platforms", lambda: [empty])
    assert "Empty" in opencl.ENGINE.missing()


def test_devices_are_chosen_by_name_and_number(device):
    platform = device.platform.name.upper()
    for text in (platform, platform[:4], f"{platform}:{device.name[-5:]}", f":{device.name}"):
        assert devices.missing(Choice(text)) is None, text
    assert "no OpenCL device is called 'abacus'" in devices.missing(Choice("abacus"))
    assert devices.missing(Choice("97")) is not None
    assert "has" in devices.missing(Choice(cores=device.max_compute_units + 1))


def test_a_compiler_that_does_not_work_is_no_device(device, monkeypatch):
    devices._compiler_fault.cache_clear()
    refused = "the OpenCL compiler refuses the kernels:\nerror: unknown target CPU 'abacus'"

    def refuses(*_):
        raise UnavailableError(refused)

    monkeypatch.setattr(devices, "build", refuses)
    assert "error: unknown target CPU 'abacus'" in devices.missing(Choice())
    devices._compiler_fault.cache_clear()


def test_the_command_line_exits_with_3(monkeypatch, capsys):
    monkeypatch.setenv("PYOPENCL_CTX", "abacus")
    assert main.main(["rank", "grid:rows=3,columns=3", "--engine", "opencl"]) == 3
    assert "opencl" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("work_group", 0), ("work_group", -1), ("cores", 0)])
def test_counts_below_1_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        Choice(**{name: value})
