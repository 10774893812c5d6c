"""Persistent kernels: method refine and power iteration, emulated on this machine and on a GPU."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, Status, UnsupportedError, check, format_named
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.persistent import load_balance
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import reordering
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.contracts.refinement import OuterRequest
from cpms.contracts.stopping import Stopping
from cpms.engines import cpu, cuda_fused, reference
from cpms.formats.formats import E5M2, FP16, FP32, FP64, FloatFormat
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64, Fixed
from cpms.precision.refinement_policy import AdaptiveReduction, FixedReduction
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration
from cpms.testing import distributions, graphs

FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2", "fp32", "cpms4")]
# Each is compiled for this machine, for seconds.
SOME = [*FORMATS[:3], *(pytest.param(storage, marks=pytest.mark.slow) for storage in FORMATS[3:])]
MORE = [quantiser(format_named(name)) for name in ("bf16", "e4m3", "cpms2-nearest", "fp16-zero", "fp16-stochastic")]
TINY = FloatFormat("tiny", 2, 5)
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile what these tests launch on this machine at once: one by one it takes longer."""
    if host_emulation.compiler() is not None:
        each, usual = (False, True), SHAPES[16]
        ways = persistent.DIRECT_GATHER, persistent.IN_CACHE_GATHER
        kernels = [
            persistent.persistent_refine(s, usual, personal=own, strategy=way)
            for s in FORMATS[:3]
            for own in each
            for way in ways
        ]
        kernels += [persistent.persistent_refine(FP16, SHAPES[24], personal=False)]
        powers = [persistent.persistent_power(shape, personal=own) for shape in SHAPES.values() for own in each]
        powers += [persistent.persistent_power(usual, personal=own, strategy=ways[1]) for own in each]
        request.getfixturevalue("host_backend").compile([*kernels, *powers])


@pytest.fixture
def engine(fused_engine):
    return fused_engine


def spread(nodes, edges, power_of_targets, seed=1):
    random = np.random.default_rng(seed)
    targets = (nodes * random.random(edges) ** power_of_targets).astype(np.int64)
    return Graph.from_edges(random.integers(0, nodes, edges), targets, nodes=nodes)


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "hub": Graph.from_edges(np.arange(1, 5000), np.zeros(4999, int)),
    "two hubs": Graph.from_edges(np.arange(210_000) % 3000, np.arange(210_000) % 2 * 2999, nodes=3000),
    "skewed": spread(900, 12_000, 4),
    "few edges": spread(4000, 900, 1),
    "exactly one step": Graph.from_edges(np.arange(256), (np.arange(256) * 7) % 256),
    "rows that end with steps": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 256, nodes=512),
}


def problems(graph):
    teleport = np.random.default_rng(2).random(graph.nodes)
    return [Problem(graph), Problem(graph, 0.6, teleport / teleport.sum(), "uniform")]


@pytest.mark.quick
@pytest.mark.parametrize("storage", SOME, ids=lambda storage: storage.name)
@given(graph=graphs(weighted=False), data=st.data())
@few
def test_outer_steps_are_sound_on_any_graph(engine, storage, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    check.refinement_is_sound(engine, problem, storage)


ONE_WAY = pytest.mark.parametrize("as_large", [False, True], ids=["in the cache", "as if beyond it"])


@pytest.mark.representatives(
    name=("one node", "no edges", "hub", "skewed", "few edges", "exactly one step", "rows that end with steps")
)
@ONE_WAY
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("storage", SOME, ids=lambda storage: storage.name)
def test_outer_steps_are_those_of_the_reference(engine, name, storage, as_large):
    for problem in problems(GRAPHS[name]):
        mine, twin = engine.refinement(problem), reference.ENGINE.refinement(problem)
        if as_large:
            mine = CudaRefinement.of(problem, Arrangement(warps=16, request=StrategyRequest(in_cache=False)))
        for refinement in (mine, twin):
            refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
        options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 30}
        found, expected = mine.outer_step(storage, **options), twin.outer_step(storage, **options)
        np.testing.assert_allclose(found.found, expected.found, rtol=1e-9, atol=1e-14)
        # A value that lies between two of Q's may go either way, and c is kept in float32.
        noise = max(2.0**-23, storage.unit_roundoff())
        np.testing.assert_allclose(found.inner_l1, expected.inner_l1, rtol=noise, atol=1e-12)
        mine.outer_step(None, **options)
        twin.outer_step(None, **options)
        assert np.abs(mine.read() - twin.read()).sum() <= noise * expected.found.l1 + 1e-14


def test_stretches_are_short_where_values_outgrow_the_cache(host_backend, monkeypatch):
    monkeypatch.setattr(host_backend, "cache_bytes", 1000)
    with current.using(host_backend):
        assert [Arrangement().tiles_per_range(nodes) for nodes in (250, 251)] == [0, 4]
        assert [Arrangement().tiles_per_range(nodes, 8) for nodes in (125, 126)] == [0, 4]
        assert Arrangement(range_tiles=3).tiles_per_range(1) == 3


ARRANGEMENTS = [
    Arrangement(range_tiles=2, warps=16),
    Arrangement(False, 3, 16),
    Arrangement(warps=24),
    Arrangement(True, 2, 24),
    Arrangement(warps=16, request=StrategyRequest(in_cache=False)),
]


@pytest.mark.representatives(name=("skewed", "rows that end with steps"))
@pytest.mark.parametrize("arrangement", ARRANGEMENTS, ids=str)
@pytest.mark.parametrize("name", ["hub", "two hubs", "skewed", "rows that end with steps"])
def test_ranges_may_be_short_and_warps_many(engine, name, arrangement):
    problem = Problem(GRAPHS[name])
    one_each, short = CudaRefinement.of(problem), CudaRefinement.of(problem, arrangement)
    assert short.graph.edges.shape == SHAPES[arrangement.warps]
    for refinement in (one_each, short):
        refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
    options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 30}
    found, expected = short.outer_step(FP16, **options), one_each.outer_step(FP16, **options)
    np.testing.assert_allclose(found.found, expected.found, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.inner_l1, expected.inner_l1, rtol=2.0**-11, atol=1e-12)
    powers = [cuda_fused.operator(problem, graph) for graph in (one_each.graph, short.graph)]
    norms = [
        op.sweeps(op.load(np.full(problem.graph.nodes, 1 / problem.graph.nodes)), op.empty(), FLOAT64, 0, **until).found
        for op in powers
        for until in [{"norm": "l1", "tol": 1e-11, "most": 20}]
    ]
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("cache_bytes", "stride", "bandwidth", "expected"),
    [
        (1 << 20, 1, 0.0, (16, 16)),
        (1 << 20, 4099, 0.0, (16, 16)),
        (0, 4099, 0.0, (16, 16)),
        (8 * 20_000, 1, 0.0, (24, 24)),
        (8 * 20_000 - 1, 1, 0.0, (24, 16)),
        (8 * 20_000, 4099, 4e12, (16, 16)),
        (8 * 20_000, 4099, 5e12, (24, 24)),
    ],
)
def test_warps_are_few_where_gathers_dominate_or_the_cache_has_all_or_lacks_doubles(
    host_backend, monkeypatch, cache_bytes, stride, bandwidth, expected
):
    monkeypatch.setattr(host_backend, "cache_bytes", cache_bytes)
    monkeypatch.setattr(host_backend, "memory_bandwidth", bandwidth)
    nodes = 20_000
    targets = np.repeat(np.arange(nodes), 2)
    graph = Graph.from_edges((targets + np.tile([1, 2], nodes)) * stride % nodes, targets, nodes=nodes)
    with current.using(host_backend):
        for value_bytes, warps in zip((2, 8), expected, strict=True):
            found = PersistentGraph.of(Problem(graph), value_bytes=value_bytes)
            assert found.edges.shape == SHAPES[warps]


@pytest.mark.parametrize("name", ["hub", "skewed"])
def test_blocks_count_on_from_launch_to_launch_past_the_last_number(engine, name):
    problem, answers = Problem(GRAPHS[name]), []
    for begin in (0, 2**32 - 3):
        refinement = CudaRefinement.of(problem)
        counts = refinement.graph.barrier[1]
        counts[:2] = np.uint32(begin)
        refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
        for _ in range(3):
            refinement.outer_step(FP16, inner_reduction=0.1, tol=1e-12, norm="l1", max_inner=20)
            come, at_end = (int(count) for count in current.current().to_host(counts)[:2])
            assert come == at_end != begin
        answers.append(refinement.read())
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("name", ["hub", "skewed", "few edges"])
def test_nodes_may_lie_in_any_order(engine, monkeypatch, name):
    random = np.random.default_rng(12)
    order = random.permutation(GRAPHS[name].nodes).astype(np.int32)
    for problem in problems(GRAPHS[name]):
        values, answers = random.random(len(order)), []
        for numbered in (None, Reordering.of_order(current.current().upload(order))):
            monkeypatch.setattr(reordering, "chosen", lambda *_, numbered=numbered: numbered)
            refinement = CudaRefinement.of(problem)
            refinement.start(values)
            np.testing.assert_allclose(refinement.read(), values, rtol=1e-15)
            found = refinement.outer_step(FP16, inner_reduction=0.1, tol=1e-12, norm="l1", max_inner=20)
            answers.append((found.found, refinement.read()))
        for plain, shuffled in zip(*answers, strict=True):
            np.testing.assert_allclose(shuffled, plain, rtol=1e-9, atol=1e-14)


@ONE_WAY
@pytest.mark.parametrize("name", GRAPHS)
def test_float64_sweeps_are_those_of_the_reference(engine, name, as_large):
    for problem in problems(GRAPHS[name]):
        operator = engine.prepare(problem, FP64, "pattern")
        if as_large:
            chosen = Arrangement(warps=16, request=StrategyRequest(in_cache=False))
            operator = cuda_fused.operator(problem, PersistentGraph.of(problem, chosen, value_bytes=8))
        twin = reference.ENGINE.prepare(problem, FP64, "pattern")
        values = np.random.default_rng(3).random(problem.graph.nodes)
        x, out, out_twin = operator.load(values), operator.empty(), twin.empty()
        found = operator.sweep(x, out, FLOAT64, 0)
        expected = twin.sweep(twin.load(values), out_twin, FLOAT64, 0)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(operator.read(out, 0), twin.read(out_twin, 0), rtol=1e-12)


@pytest.mark.parametrize("name", ["hub", "skewed", "few edges"])
def test_many_sweeps_in_a_launch_are_as_many_launches(engine, name):
    problem = Problem(GRAPHS[name])
    operator = engine.prepare(problem, FP64, "pattern")
    first = np.full(problem.graph.nodes, 1 / problem.graph.nodes)
    x, out = operator.load(first), operator.empty()
    together = operator.sweeps(x, out, FLOAT64, 0, norm="l2", tol=1e-5, most=20)
    last = out if len(together.found) % 2 else x
    a, b = operator.load(first), operator.empty()
    singly = []
    for _ in together.found:
        singly.append(operator.sweep(a, b, FLOAT64, 0))
        a, b = b, a
    np.testing.assert_allclose(together.found, singly, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(operator.read(last, 0), operator.read(a, 0), rtol=1e-12)
    assert len(together.found) == 20 or together.found[-1].l2 < 1e-5
    assert all(found.l2 >= 1e-5 for found in together.found[:-1])


@pytest.mark.parametrize("storage", [FP16, E5M2], ids=lambda storage: storage.name)
def test_outer_steps_in_one_launch_are_those_of_many(engine, storage):
    problem = Problem(GRAPHS["skewed"])
    first = np.full(problem.graph.nodes, 1 / problem.graph.nodes)
    in_cache = Arrangement(request=StrategyRequest(in_cache=True))
    together, singly = (CudaRefinement.of(problem, in_cache) for _ in range(2))
    together.start(first)
    singly.start(first)
    found = together.outer_steps(storage, OuterRequest(0.05, 3.0, 1e-10, "l1", 200))
    assert len(found) > 2
    for a in found:
        b = singly.outer_step(storage, inner_reduction=0.05, tol=1e-10, norm="l1", max_inner=199)
        assert (a.found, a.inner_l1, a.sums) == (b.found, b.inner_l1, b.sums)
    np.testing.assert_array_equal(together.read(), singly.read())


def test_a_launch_ends_when_outer_steps_do_not_go_as_planned(engine):
    refinement = engine.refinement(Problem(GRAPHS["skewed"]))
    refinement.start(np.full(900, 1 / 900))
    found = refinement.outer_steps(E5M2, OuterRequest(1e-6, 3.0, 1e-10, "l1", 400))
    assert len(found) == 2
    assert found[1].found.l1 > 3.0 * found[0].inner_l1[-1]


@pytest.mark.parametrize(("seed", "storage"), [(10, FP32), (31, E5M2), (35, E5M2)])
def test_where_rounding_feeds_slow_modes_power_iteration_is_not_much_faster(one_that_sends_much, engine, seed, storage):
    graph = one_that_sends_much(seed)
    power = cpms.pagerank(graph, engine="cpu", damping=0.999)
    most, options = 2 * power.iterations + 50, {"damping": 0.999, "storage": storage}
    result = cpms.pagerank(graph, method="refine", engine="cuda_fused", max_iterations=most, **options)
    assert power.converged
    assert result.converged
    check.answer_is_certified(result)


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_no_more_sweeps_than_asked_for(engine, most):
    refinement = engine.refinement(Problem(GRAPHS["skewed"]))
    refinement.start(np.full(900, 1 / 900))
    found = refinement.outer_steps(FP16, OuterRequest(0.3, 3.0, 1e-12, "l1", most))
    assert sum(1 + len(made.inner_l1) for made in found) == most


def test_formats_may_change_between_outer_steps(engine):
    problem = Problem(GRAPHS["skewed"])
    refinement = engine.refinement(problem)
    refinement.start(np.full(900, 1 / 900))
    sizes = []
    for storage in (FP32, E5M2, None, FP16, E5M2):
        found = refinement.outer_step(storage, inner_reduction=0.2, tol=1e-13, norm="linf", max_inner=20)
        sizes.append(found.found.l1)
        np.testing.assert_allclose(found.sums[1:], 0.85 * np.array(found.sums[:-1]), atol=1e-14)
    assert all(after < 0.9 * before for before, after in itertools.pairwise(sizes))


def test_answers_are_certified(engine):
    for name in ("hub", "skewed", "few edges"):
        for problem in problems(GRAPHS[name]):
            first = np.full(problem.graph.nodes, 1 / problem.graph.nodes)
            expected, _, _ = power(
                reference.ENGINE.prepare(problem, FP64, "pattern"), first, Fixed(), Stopping(1e-14, max_iterations=400)
            )
            found, _, history = outer_iteration(
                engine.refinement(problem), first, FixedReduction(FP16), Stopping(1e-10)
            )
            assert np.abs(found - expected).sum() <= history[-1].residual / (1 - problem.damping)
            mine, _, _ = power(engine.prepare(problem, FP64, "pattern"), first, Fixed(), Stopping(1e-10))
            assert np.abs(mine - expected).sum() <= 1e-10 / (1 - problem.damping)


def test_what_does_not_fit_is_a_sentence(engine, monkeypatch):
    monkeypatch.setattr(type(current.current()), "free_bytes", lambda _: 1000)
    problem = Problem(GRAPHS["skewed"])
    for ask in (lambda: engine.refinement(problem), lambda: engine.prepare(problem, FP64, "pattern")):
        with pytest.raises(UnsupportedError, match=r"needs about [\d,]+ bytes of device memory .* but 1,000 are free"):
            ask()


def test_room_for_the_residual_is_made_beforehand_or_refused_by_a_sentence(host_backend, monkeypatch):
    problem, zeros = Problem(GRAPHS["skewed"]), host_backend.arrays.zeros
    with current.using(host_backend):
        ready, refused = CudaRefinement.of(problem), CudaRefinement.of(problem)
        ready.warm_up(FP16)

        def no_room(length, dtype):
            if dtype is np.uint8:
                raise MemoryError
            return zeros(length, dtype)

        monkeypatch.setattr(host_backend.arrays, "zeros", no_room)
        with pytest.raises(UnsupportedError, match=r"the residual, 9 times in fp16, needs about [\d,]+ bytes"):
            refused.warm_up(FP16)
        ready.start(np.full(problem.graph.nodes, 1.0 / problem.graph.nodes))
        assert ready.outer_steps(FP16, OuterRequest(0.1, 2.0, 1e-8, "l1", 20))


def test_power_iteration_is_in_float64_only(engine):
    assert "fp64" in engine.unsupported(Problem(GRAPHS["skewed"]), FP16, "pattern")
    assert "no layout 'csr'" in engine.unsupported(Problem(GRAPHS["skewed"]), FP64, "csr")


@given(
    ended=st.lists(st.integers(0, 256), min_size=1, max_size=60),
    warps=st.integers(1, 60),
)
@few
def test_stretches_are_in_order_and_none_is_empty(ended, warps):
    cost = np.append(0, np.cumsum(np.array(ended) + 100))
    begins = load_balance.split_tiles(cost, warps)
    assert begins[0] == 0
    assert len(begins) == min(warps, len(ended))
    assert (np.diff(np.append(begins, len(ended))) >= 1).all()


@pytest.fixture(scope="module")
def large():
    return {
        "skewed": spread(300_000, 3_000_000, 6),
        "hub": Graph.from_edges(np.arange(400_000), np.arange(400_000) % 3, nodes=400_000),
        "few": spread(700_000, 200_000, 1),
        "mesh": Graph.from_edges(np.repeat(np.arange(200_000), 4), np.arange(800_000) % 199_999, nodes=200_000),
    }


class TestOnAGpu:
    """What one block cannot show: rows across blocks, many blocks that wait for each other."""

    pytestmark = pytest.mark.gpu

    @pytest.fixture(autouse=True)
    def on_gpu(self, gpu_backend):
        with current.using(gpu_backend):
            yield

    @pytest.mark.parametrize("storage", [*FORMATS, *MORE], ids=lambda storage: storage.name)
    def test_solves_are_those_of_the_processor(self, large, storage):
        for graph in large.values():
            for problem in problems(graph):
                first = np.full(graph.nodes, 1 / graph.nodes)
                policy, stopping = AdaptiveReduction((storage, FP32)), Stopping(1e-10)
                for anderson in (False, True):
                    mine, its = CudaRefinement.of(problem), cpu.ENGINE.refinement(problem)
                    mine.anderson = its.anderson = anderson
                    found, status, history = outer_iteration(mine, first, policy, stopping)
                    twin, _, expected = outer_iteration(its, first, policy, stopping)
                    assert status is Status.CONVERGED
                    assert np.abs(found - twin).sum() <= 2e-10 / (1 - problem.damping)
                    # With fewer bits of exponent, last bits decide which values of a hub's sources survive; with few of
                    # mantissa, what is combined.
                    if storage.exponent_bits > 4 and (storage.mantissa_bits > 4 or not anderson):
                        assert abs(len(history) - len(expected)) <= (10 if anderson else 3)
                check.refinement_is_sound(cuda_fused.ENGINE, problem, storage)

    def test_float64_solves_are_those_of_the_processor(self, large):
        for graph in large.values():
            mine = cpms.pagerank(graph, engine="cuda_fused", tol=1e-11)
            twin = cpms.pagerank(graph, engine="cpu", tol=1e-11)
            assert mine.converged
            assert mine.iterations == twin.iterations
            assert np.abs(mine.ranks - twin.ranks).sum() <= mine.error_bound + twin.error_bound + 1e-13

    @pytest.mark.parametrize("engine", ["cuda", "cuda_fused"])
    def test_solves_repeat_bit_for_bit(self, large, engine):
        for graph in large.values():
            answers = [cpms.pagerank(graph, method="refine", engine=engine).ranks.tobytes() for _ in range(4)]
            assert len(set(answers)) == 1

    def test_bad_formats_are_noticed(self, large):
        result = cpms.pagerank(large["skewed"], method="refine", storage=TINY, engine="cuda_fused")
        assert result.converged
        assert len(result.iterations_by_bits) > 2


@pytest.mark.parametrize("bits", template.GATHERS)
def test_gathers_alone_read_every_edge_once(engine, bits):
    backend = current.current()
    graph = PersistentGraph.of(Problem(GRAPHS["skewed"]))
    values = backend.arrays.asarray(np.arange(1024, dtype=f"uint{bits}") % 200)
    sums = backend.arrays.zeros(2 * 256, np.uint64)
    sources = graph.edges.sources
    backend.run(template.GATHERS[bits], 2, (sources, np.uint64(sources.size), values, sums))
    expected = backend.to_host(values)[backend.to_host(sources)].astype(np.uint64).sum()
    assert backend.to_host(sums).sum() == expected
    assert engine.name == "cuda_fused"


def test_an_experiment_times_sweeps(engine):
    from cpms.experiment.kinds import sweeps

    problem = Problem(GRAPHS["skewed"])
    first = np.full(900, 1 / 900)
    assert len(sweeps.inner_seconds(engine.refinement(problem), first, FP16, 7)) == 6
    assert len(sweeps.residual_seconds(engine.prepare(problem, FP64, "pattern"), first, 7)) == 6
