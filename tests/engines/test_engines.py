"""The contract of engines, run over every engine in the folder: agree with the reference, or refuse in a sentence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from format_cases import combinations
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, Level, UnavailableError, UnsupportedError, check, engines, format_named
from cpms.base import threads
from cpms.certify import residual
from cpms.engines import cpu
from cpms.engines.composed import ComposedEngine
from cpms.formats.formats import FP64, FloatFormat
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

LAYOUTS = ["csr", "ell", "pattern", "coo"]


def engine_or_skip(name):
    try:
        return engines.get(name)
    except UnavailableError as error:
        pytest.skip(str(error))


def large_graph(weighted):
    """Return more rows than kernels take at a time, with a hub, dangling nodes, repeated edges and self-loops."""
    random = np.random.default_rng(7)
    sources, targets = random.integers(0, 2000, 9000), random.geometric(0.002, 9000) % 2600
    return Graph.from_edges(sources, targets, random.random(9000) + 0.1 if weighted else None, nodes=2600, name="large")


SMALL = Graph.from_edges([0, 0, 0, 1, 2, 2, 3, 3, 6], [1, 1, 2, 2, 0, 3, 3, 5, 0], nodes=8, name="small")
LARGE = large_graph(weighted=False)
RANDOM = np.random.default_rng(8).random(2600)
PROBLEMS = {
    "small": Problem(SMALL),
    "one node": Problem(Graph.from_edges([], [], nodes=1)),
    "all dangling": Problem(Graph.from_edges([], [], nodes=9), teleport=np.eye(9)[4]),
    "hub": Problem(Graph.from_edges(np.arange(1, 200), np.zeros(199, int)), dangling="uniform", damping=0.5),
    "large": Problem(LARGE),
    "personalised": Problem(LARGE, teleport=RANDOM / RANDOM.sum(), dangling="uniform"),
    "fours": Problem(Graph.from_edges(np.repeat(np.arange(2000), 4), np.arange(8000) * 7919 % 2600, nodes=2600)),
    "weighted": Problem(large_graph(weighted=True), 0.85, RANDOM / RANDOM.sum(), RANDOM[::-1] / RANDOM.sum()),
}


def levels_of(storage):
    """Return every level of up to four segments, and those that controllers choose of more."""
    reads = range(1, storage.segments + 1)
    pairs = [(read, write) for read, write in itertools.product(reads, reads) if read <= write]
    return [Level(*pair) for pair in pairs if storage.segments <= 4 or pair[1] - pair[0] <= 1] + [FLOAT64]


COMBINATIONS = combinations(LAYOUTS)


@pytest.mark.parametrize(("layout", "name"), COMBINATIONS)
@pytest.mark.parametrize("engine", engines.names())
def test_sweeps_agree_with_the_reference_or_are_refused(engine, layout, name):
    executor, storage = engine_or_skip(engine), format_named(name)
    for problem in PROBLEMS.values():
        reason = executor.unsupported(problem, storage, layout)
        if reason is None:
            levels = levels_of(storage)
            if isinstance(executor, ComposedEngine):  # Its products have laws of their own, at every level.
                levels = [levels[0], levels[-2], levels[-1]]
            for level in levels:
                check.sweeps_agree(executor, problem, storage, layout, level)
        else:
            assert len(reason.split()) > 5
            with pytest.raises(UnsupportedError) as refusal:
                executor.prepare(problem, storage, layout)
            assert str(refusal.value) == reason


@pytest.mark.parametrize(("layout", "name"), COMBINATIONS)
@pytest.mark.parametrize("engine", engines.names())
def test_vectors_are_kept_scaled_and_converted(engine, layout, name):
    executor, storage = engine_or_skip(engine), format_named(name)
    problem = PROBLEMS["personalised"]
    if executor.unsupported(problem, storage, layout):
        pytest.skip(executor.unsupported(problem, storage, layout))
    operator = executor.prepare(problem, storage, layout)
    assert operator.nbytes > 0
    values = problem.teleport
    # In the pattern layout x / o is stored, which rounds once more, and may be cut where x was not.
    units = [2 * storage.unit_roundoff(segments) + 1e-15 for segments in range(1, storage.segments + 1)]
    stored = np.array(operator.read(operator.load(values), 0))
    np.testing.assert_allclose(stored, values, rtol=units[-1], atol=tiny(storage))
    for segments, unit in enumerate(units, start=1):
        x = operator.load(values)
        before = np.array(operator.read(x, segments))
        operator.scale(x, 1.3, segments)
        np.testing.assert_allclose(operator.read(x, segments), 1.3 * before, rtol=unit, atol=tiny(storage))
    converted, x, out = operator.to_float64(operator.load(values), operator.empty())
    assert converted.storage == FP64
    np.testing.assert_allclose(converted.read(x, 0), stored, rtol=1e-15, atol=0)
    converted.sweep(x, out, FLOAT64, 0)


def tiny(storage):
    """Return the distance of neighbouring subnormal numbers of a packed format, times the largest out-degree."""
    if not isinstance(storage, FloatFormat):
        return 0.0
    exponent = storage.bias - 1 if storage.scaled else 0
    return float(storage.min_normal * storage.unit_roundoff() * 2.0 ** (1 - exponent) * LARGE.out_degree.max())


@pytest.mark.parametrize("layout", cpu.ENGINE.layouts)
@pytest.mark.parametrize("name", ["fp64", "cpms4", "fp16-scaled"])
@given(graph=graphs(), data=st.data())
@settings(max_examples=40)
def test_sweeps_of_the_default_engine_agree_on_any_graph(layout, name, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem, storage = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule), format_named(name)
    if not (layout == "pattern" and graph.weights is not None):
        level = data.draw(st.sampled_from(levels_of(storage)))
        executor = engines.chosen("auto", problem, "power", storage=storage, layout=layout)
        check.sweeps_agree(executor, problem, storage, layout, level)


def results(executor, storage, layout, threads_used):
    """Return the bits of vectors and norms of a few sweeps, a scaling and a conversion."""
    with threads.limited(threads_used):
        operator = executor.prepare(PROBLEMS["personalised"], storage, layout)
        x, out = operator.load(np.full(2600, 1 / 2600)), operator.empty()
        found = [operator.sweep(x, out, Level(1, 1), 0), operator.sweep(out, x, Level(1, 1), 1)]
        operator.scale(x, 1.1, 1)
        operator, x, out = operator.to_float64(x, out)
        found.append(operator.sweep(x, out, FLOAT64, 2))
        return found, np.array(operator.read(out, 0)).tobytes()


@pytest.mark.representatives(name=("fp64", "fp16-scaled"))
@pytest.mark.representatives(name=("cpms4", "bf16-stochastic"), layout=("csr",))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["fp64", "cpms4", "fp16-scaled", "bf16-stochastic"])
@pytest.mark.parametrize("engine", engines.names())
def test_repeatable_engines_give_the_same_bits_for_any_number_of_threads(engine, layout, name, monkeypatch):
    monkeypatch.setattr(cpu, "_PART_COST", 1000)
    executor, storage = engine_or_skip(engine), format_named(name)
    if not executor.repeatable or executor.unsupported(PROBLEMS["personalised"], storage, layout):
        pytest.skip("not repeatable, or not supported")
    first = results(executor, storage, layout, 1)
    assert all(results(executor, storage, layout, count) == first for count in (1, 2, 5))


def test_the_test_of_threads_splits_the_work(monkeypatch):
    monkeypatch.setattr(cpu, "_PART_COST", 1000)
    assert len(engines.get("cpu").prepare(PROBLEMS["large"], FP64, "csr").parts) > 1


@pytest.mark.parametrize("cost", [1, 3000, 10**9])
def test_parts_cover_the_rows_once_and_begin_at_blocks(cost, monkeypatch):
    monkeypatch.setattr(cpu, "_PART_COST", cost)
    for problem in PROBLEMS.values():
        for layout in ("csr", "ell"):
            parts = engines.get("cpu").prepare(problem, FP64, layout).parts
            assert [row for low, high in parts for row in range(low, high)] == list(range(problem.graph.nodes))
            assert all(low % cpu.BLOCK_ROWS == 0 for low, _ in parts)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["fp16-stochastic", "bf16-stochastic", "e5m2-stochastic-scaled"])
@pytest.mark.parametrize("engine", engines.names())
def test_stochastic_sweeps_round_to_a_neighbour_that_depends_on_the_step(engine, layout, name):
    executor, storage, problem = engine_or_skip(engine), format_named(name), PROBLEMS["fours"]
    if executor.unsupported(problem, storage, layout):
        pytest.skip(executor.unsupported(problem, storage, layout))
    operator = executor.prepare(problem, storage, layout)
    x = operator.load(RANDOM / RANDOM.sum())

    def swept(step):
        out = operator.empty()
        operator.sweep(x, out, Level(1, 1), step)
        return np.array(operator.read(out, 1))

    many = np.array([swept(step) for step in range(40)])
    assert (swept(3) == many[3]).all()
    assert (many[0] != many[1]).any()
    exact = residual.apply_operator(problem, np.array(operator.read(x, 1)))
    step = np.maximum(storage.unit_roundoff() * exact, tiny(storage))
    assert (np.abs(many - exact) <= step).all()
    # A sum of 40 * 2600 errors, each of mean 0 and at most a step, is within 5 standard deviations of 0.
    assert abs((many - exact).sum()) <= 5 * np.sqrt(40 * (step**2).sum())


# The folder is the registry


@pytest.mark.quick
@pytest.mark.parametrize("engine", engines.names())
def test_every_engine_says_what_it_is(engine):
    executor = engine_or_skip(engine)
    assert executor.name == engine
    assert executor.layouts
    assert isinstance(executor.repeatable, bool)
    assert "hexagonal" in executor.unsupported(PROBLEMS["small"], FP64, "hexagonal")
    with pytest.raises(UnsupportedError, match="hexagonal"):
        executor.prepare(PROBLEMS["small"], FP64, "hexagonal")


@pytest.mark.parametrize("engine", engines.names())
def test_no_engine_ranks_weights_by_the_pattern_alone(engine):
    executor = engine_or_skip(engine)
    if "pattern" in executor.layouts:
        assert "weights" in executor.unsupported(PROBLEMS["weighted"], FP64, "pattern")


def test_core_engines_need_nothing_more():
    assert engines.get("cpu").missing() is None
    assert engines.get("reference").missing() is None


@pytest.mark.quick
@pytest.mark.parametrize("work", ["power", "refine", "batch"])
def test_auto_is_the_first_engine_that_does_the_work_here(monkeypatch, work):
    problem, devices = PROBLEMS["small"], [engines.get_any(name) for name in engines.PREFERRED[:-1]]
    asked = []

    def room(*given):
        asked.append(given[-2:])
        return

    for engine in devices:
        monkeypatch.setattr(type(engine), "missing", lambda _: None)
        monkeypatch.setattr(type(engine), "unsupported", room)
    able = [engine.name for engine in devices if engine.supports(work)]
    storage = format_named("cpms4")
    assert engines.chosen("auto", problem, work, storage=storage, layout="csr").name == [*able, "cpu"][0]
    # Only power iteration stores what was asked for.
    assert set(asked) <= {(storage, "csr") if work == "power" else (FP64, "pattern")}
    for engine in devices:
        monkeypatch.setattr(type(engine), "unsupported", lambda *_: "there is no room")
    assert engines.chosen("auto", problem, work).name == "cpu"
    assert engines.chosen("serial", problem, work).name == "serial"


def test_engines_do_what_they_list_and_batches_where_they_have_them():
    for name in engines.names():
        engine = engines.get_any(name)
        assert engine.supports("power")
        assert engine.supports("refine") == ("refine" in engine.methods)
        assert not engine.supports("laundry")
    assert engines.get("cpu").supports("batch")
    assert not engines.get("scipy").supports("batch")


@pytest.mark.parametrize("name", ["", "gpu", "_cpu_kernels", "CPU", "cpu.py", "__init__", "../cpu"])
def test_unknown_engines_are_refused_with_the_names_of_the_others(name):
    with pytest.raises(InputError, match="reference"):
        engines.get(name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    return tmp_path


DROPPED_IN = """
from cpms.engines.reference import ReferenceEngine

class Mine(ReferenceEngine):
    name = "mine_{0}"

    def missing(self):
        return {1}

ENGINE = Mine()
"""


def test_a_file_dropped_in_is_an_engine(folder):
    (folder / "mine_alone.py").write_text(DROPPED_IN.format("alone", None))
    assert "mine_alone" in engines.names()
    assert cpms.pagerank(SMALL, engine="mine_alone").engine == "mine_alone"


def test_what_an_engine_lacks_is_said(folder):
    (folder / "mine_poor.py").write_text(DROPPED_IN.format("poor", "'a flux capacitor'"))
    with pytest.raises(UnavailableError, match="mine_poor cannot run here: a flux capacitor"):
        engines.get("mine_poor")


def test_a_broken_file_fails_loudly(folder):
    (folder / "mine_broken.py").write_text("import no_such_library_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library_anywhere"):
        engines.get("mine_broken")


# Bad input


@pytest.mark.quick
@pytest.mark.parametrize("damping", [0.0, 1.0, -0.1, 1.1, float("nan"), float("inf")])
def test_damping_lies_strictly_between_0_and_1(damping):
    with pytest.raises(InputError, match="damping"):
        Problem(SMALL, damping)


@pytest.mark.parametrize("rule", ["", "Teleport", "self", None])
def test_dangling_mass_goes_one_of_two_ways(rule):
    with pytest.raises(InputError, match="dangling"):
        Problem(SMALL, dangling=rule)


def test_engines_say_what_they_store():
    """As `Engine.unsupported` does, which looks at the format before it looks at the device."""
    problem = Problem(cpms.Graph.from_edges([0, 1], [1, 0]))
    storages = [cpms.format_named(name) for name in ("fp64", "fp32", "fp16", "cpms2", "posit16", "mxfp4")]
    for engine in map(engines.get_any, engines.own_names()):
        runs_here = not engine.missing()
        for storage in storages:
            refused = engine.never_runs("power", storage)
            if refused or runs_here:
                unsupported = engine.unsupported(problem, storage, engine.layouts[0])
                assert bool(refused) == bool(unsupported), (engine.name, storage.name, unsupported)
    assert "that of fp64 has 64" in engines.get_any("cpu").never_runs("refine", cpms.FP64)
