"""Compressed column indices, emulated on this machine and on a GPU."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, format_named
from cpms.backends.cuda.kernels import persistent, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.persistent import compressed_indices
from cpms.backends.cuda.persistent.compressed_indices import CompressedIndices
from cpms.backends.cuda.persistent.device_graph import Arrangement, DeviceGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.reduction import reduced_refinement, trimming
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.engines import cuda_fused
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem

FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2", "fp32")]
FAR = 1 << 31
FREE = trimming.Cost(
    level=0.0, narrow_level=0.0, launch=0.0, external_node=0.0, inflow_node=0.0, solve_entry_one_block=0.0
)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def around(nodes, edges, width, seed=1):
    """Return a graph whose edges begin near where they end, but for a tenth of them; some nodes have none."""
    random = np.random.default_rng(seed)
    targets = np.sort(random.integers(0, nodes, edges))
    near = (targets + random.integers(-width, width + 1, edges)) % nodes
    sources = np.where(targets % 5000 < 500, random.integers(0, nodes, edges), near)
    return Graph.from_edges(sources, targets, nodes=nodes)


def with_degrees(counts, nodes=1200):
    """Return a graph whose first nodes have so many edges each, behind a cycle through all."""
    sources = np.repeat(np.arange(len(counts)), np.array(counts) - 1)
    targets = np.concatenate([np.arange(2, count + 1) for count in counts])
    return Graph.from_edges(np.append(np.arange(nodes), sources), np.append(np.roll(np.arange(nodes), -1), targets))


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "skewed": cpms.load("rmat:scale=11,edge_factor=8,seed=1"),
    "near and far": around(100_000, 20_000, 50),
    "degrees about a byte": with_degrees([254, 255, 256, 257, 1000, 2, 511, 512]),
    "two hubs": Graph.from_edges(np.arange(60_000) % 3000, np.arange(60_000) % 2 * 2999, nodes=3000),
}


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        both, whose = (persistent.DIRECT_GATHER, persistent.COMPRESSED_GATHER), (False, True)
        kernels = [
            *(
                persistent.persistent_refine(s, SHAPES[16], personal=p, strategy=w)
                for s in FORMATS
                for p in whose
                for w in both
            ),
            *(
                persistent.persistent_refine(FORMATS[0], SHAPES[24], personal=p, strategy=w)
                for p in whose
                for w in both
            ),
            *(
                persistent.persistent_power(shape, personal=p, strategy=w)
                for shape in SHAPES.values()
                for p in whose
                for w in both
            ),
            *(
                persistent.persistent_refine(s, SHAPES[16], personal=False, core=True, strategy=w)
                for s in FORMATS[:2]
                for w in both
            ),
            *template.INDEX_COMPRESSION,
            *template.COMPRESSED_GATHERS.values(),
        ]
        request.getfixturevalue("host_backend").compile(kernels)


@st.composite
def slots(draw):
    """Draw sources of whole steps, and where there is always a 0."""
    padding_index = draw(st.sampled_from([1, 40_000, 2**31]))
    widths = st.sampled_from([1, 300, 2**15 - 1, 2**15, 2**15 + 1, 2**16, 2**31])
    steps, random = [], np.random.default_rng(draw(st.integers(0, 2**32)))
    for width in draw(st.lists(widths, min_size=1, max_size=20)):
        begin = int(random.integers(0, padding_index))
        step = random.integers(begin, min(begin + width, padding_index), 256)
        step[:2] = begin, min(begin + width, padding_index) - 1
        step[random.random(256) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = padding_index
        steps.append(step)
    return np.concatenate(steps).astype(np.uint32), padding_index


def sources_by_slot(made):
    """Return the sources that codes stand for."""
    to_host = current.current().to_host
    low, high = (
        to_host(half).reshape(-1, 32, 8).transpose(0, 2, 1).reshape(-1, 256)
        for half in (made.low_offsets, made.high_offsets)
    )
    bases, sources = to_host(made.bases).astype(np.int64), low.astype(np.int64)
    far = bases >= FAR
    sources[~far] = np.where(low[~far] == 0xFFFF, made.padding_index, low[~far] + bases[~far, None])
    sources[far] += high[bases[far] - FAR].astype(np.int64) << 16
    return sources.reshape(-1)


@given(drawn=slots())
@few
def test_compressed_indices_decode_to_the_sources(device, drawn):
    sources, padding_index = drawn
    placed = device.arrays.asarray(sources)
    made = CompressedIndices.of(placed, padding_index, compressed_indices.compute_bases(placed, padding_index))
    np.testing.assert_array_equal(sources_by_slot(made), sources)
    linked = np.where(sources == padding_index, -1, sources.astype(np.int64)).reshape(-1, 256)
    apart = linked.max(axis=1) - np.where(linked < 0, 2**32, linked).min(axis=1)
    np.testing.assert_array_equal(device.to_host(made.bases) >= FAR, apart >= 2**15)
    assert made.wide == np.count_nonzero(apart >= 2**15)
    assert made.nbytes <= 2 * sources.size + 512 * max(made.wide, 1) + 4 * made.tiles + 4


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=30), warps=st.integers(1, 40))
def test_a_warp_processes_its_ranges_in_order(lengths, warps):
    begins = np.cumsum([0, *lengths])
    next_tile = compressed_indices.next_tiles(begins, warps)
    for warp in range(min(warps, len(lengths))):
        step = begins[warp]
        for warp_range in range(warp, len(lengths), warps):
            for expected in range(begins[warp_range], begins[warp_range + 1]):
                assert step == expected
                step = next_tile[step]
        assert 0 <= step < begins[-1]


def arranged(problem, arrangement=None, value_bytes=2):
    """Return the graph without and with codes."""
    chosen = arrangement or Arrangement(warps=16)
    both = [
        DeviceGraph.of(
            problem,
            Arrangement(
                chosen.reorder,
                chosen.range_tiles,
                chosen.warps,
                StrategyRequest(False, False, False, by_codes, in_cache=False),
            ),
            value_bytes,
        )
        for by_codes in (False, True)
    ]
    assert [graph.strategy_data.strategy for graph in both] == [persistent.DIRECT_GATHER, persistent.COMPRESSED_GATHER]
    return both


def rounds_of(graph, problem, storage):
    refinement = CudaRefinement(graph)
    refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
    made = [refinement.outer_step(storage, inner_reduction=0.1, tol=1e-11, norm="l1", max_inner=9) for _ in range(2)]
    return [(each.found, each.inner_l1, each.sums) for each in made], refinement.read()


@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize("name", GRAPHS)
def test_how_sources_are_named_does_not_change_a_bit(device, problems, name, storage):
    for problem in problems(GRAPHS[name]):
        found, expected = (rounds_of(graph, problem, storage) for graph in arranged(problem))
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(("steps", "warps"), [(0, 24), (2, 16), (2, 24), (3, 16)])
@pytest.mark.parametrize("name", ["skewed", "near and far", "two hubs"])
def test_nor_does_it_in_stretches_of_any_length(device, problems, name, steps, warps):
    for problem in problems(GRAPHS[name]):
        found, expected = (
            rounds_of(graph, problem, FORMATS[0])
            for graph in arranged(problem, Arrangement(reorder=False, range_tiles=steps, warps=warps))
        )
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
def test_nor_does_it_where_low_sweeps_are_combined(device, storage):
    problem, found = Problem(GRAPHS["near and far"]), []
    for graph in arranged(problem):
        refinement = CudaRefinement(graph)
        assert refinement.anderson
        refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
        made = refinement.outer_steps(
            storage, inner_reduction=1e-6, noise_tolerance=1e-2, tol=1e-12, norm="l1", most=60
        )
        found.append(([(each.found, each.inner_l1, each.sums) for each in made], refinement.read().tobytes()))
    assert max(len(low) for _, low, _ in found[0][0]) > 8
    assert found[1] == found[0]


@pytest.mark.parametrize("storage", FORMATS[:2], ids=lambda storage: storage.name)
def test_nor_does_it_in_a_core_whose_nodes_keep_few_edges_or_many(device, monkeypatch, storage):
    random = np.random.default_rng(4)
    inside = with_degrees([253, 254, 255, 256, 257, 600])
    leaving = np.append(np.arange(6), random.integers(0, 1200, 500)), 1200 + np.arange(506) % 90
    sources = np.append(inside.sources, leaving[0])
    targets = np.append(np.repeat(np.arange(1200), np.diff(inside.indptr)), leaving[1])
    problem, found = Problem(Graph.from_edges(sources, targets)), []
    monkeypatch.setattr(reduced_refinement, "Cost", lambda: FREE)
    for by_codes in (False, True):
        wanted = StrategyRequest(False, False, False, by_codes, in_cache=False)
        monkeypatch.setattr(reduced_refinement, "StrategyRequest", lambda wanted=wanted, **_: wanted)
        core = reduced_refinement.prepared(problem, "cuda_fused")._core
        assert core.graph.internal_degree is not None
        assert core.graph.nodes == 1200
        assert core.graph.strategy_data.strategy == (
            persistent.COMPRESSED_GATHER if by_codes else persistent.DIRECT_GATHER
        )
        core.start(np.arange(1200.0))
        made = core.outer_step(storage, inner_reduction=1e-300, tol=1e-300, norm="l1", max_inner=9)
        found.append((made.found, made.inner_l1, made.sums, core.read().tobytes()))
    assert found[1] == found[0]


@pytest.mark.parametrize("warps", SHAPES)
@pytest.mark.parametrize("name", GRAPHS)
def test_nor_does_it_in_power_iteration(device, problems, name, warps):
    for problem in problems(GRAPHS[name]):
        found = []
        for graph in arranged(problem, Arrangement(warps=warps), value_bytes=8):
            operator = cuda_fused.operator(problem, graph)
            x, out = operator.load(np.full(problem.graph.nodes, 1 / problem.graph.nodes)), operator.empty()
            sweeps = operator.sweeps(x, out, FLOAT64, 0, norm="l1", tol=0.0, most=5).found
            found.append((sweeps, operator.read(out, 1)))
        assert found[1][0] == found[0][0]
        np.testing.assert_array_equal(found[1][1], found[0][1])


@pytest.mark.parametrize(
    ("cache_bytes", "nodes", "width", "expected"),
    [
        (0, 20_000, 50, persistent.COMPRESSED_GATHER),
        (0, 200_000, 90_000, persistent.DIRECT_GATHER),
        (0, 70_000, 30_000, persistent.DIRECT_GATHER),
        (6 << 20, 200_000, 50, persistent.COMPRESSED_GATHER),  # for what is streamed of nodes
        (1 << 30, 20_000, 50, persistent.DIRECT_GATHER),
    ],
)
@pytest.mark.parametrize("warps", SHAPES)
def test_codes_are_for_large_graphs_that_they_make_smaller(
    host_backend, monkeypatch, cache_bytes, nodes, width, expected, warps
):
    monkeypatch.setattr(host_backend, "cache_bytes", cache_bytes)
    graph = around(nodes, 1_000_000, width)
    chosen = Arrangement(
        reorder=False,
        warps=warps,
        request=StrategyRequest(hub_cache=False, tiled_gather=False, propagation_blocking=False, in_cache=False),
    )
    with current.using(host_backend):
        for value_bytes in (2, 8):
            found = DeviceGraph.of(Problem(graph), chosen, value_bytes)
            assert found.strategy_data.strategy == expected
            assert (found.edges.sources.size == 1) == (expected == persistent.COMPRESSED_GATHER)


@pytest.mark.parametrize(
    ("nodes", "bandwidth", "expected"), [(20_000, 3e12, True), (20_000, 5e12, False), (200_000, 5e12, True)]
)
def test_codes_of_many_edges_a_node_are_for_slow_memory(host_backend, monkeypatch, nodes, bandwidth, expected):
    monkeypatch.setattr(host_backend, "memory_bandwidth", bandwidth)
    with current.using(host_backend):
        slots = padded_csr.PaddedCsr.of(around(nodes, 1_000_000, 50))
        bases = np.zeros(slots.tiles, np.uint32)
        assert compressed_indices.is_worthwhile(bases, nodes) is expected


@pytest.mark.parametrize("bits", template.COMPRESSED_GATHERS)
def test_gathers_by_codes_read_every_edge_once(device, bits):
    for graph in (GRAPHS["near and far"], GRAPHS["skewed"]):
        made = arranged(Problem(graph))[1].strategy_data.compressed.indices
        values = device.arrays.asarray(np.arange(1 << 17, dtype=f"uint{bits}") % 200)
        sums = device.arrays.zeros(2 * 256, np.uint64)
        device.run(template.COMPRESSED_GATHERS[bits], 2, (made.argument, np.uint32(made.tiles), values, sums))
        expected = device.to_host(values)[sources_by_slot(made)].astype(np.uint64).sum()
        assert device.to_host(sums).sum() == expected
