"""Deterministic propagation blocking and its SELL slices, emulated on this machine and on a GPU."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, format_named
from cpms.backends.cuda.kernels import persistent, source
from cpms.backends.cuda.kernels.launch_shape import SHARED_MEMORY_SHAPE, BlockingSizes
from cpms.backends.cuda.persistent import propagation_blocking, sell_slices
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.engines import cuda_fused
from cpms.formats.formats import FP16, FP32
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem

FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2")]
GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "a row over many bins": Graph.from_edges(np.arange(1, 4500), np.zeros(4499, int)),
    "two such rows": Graph.from_edges(np.arange(12_000) % 3000, np.arange(12_000) % 2 * 2999, nodes=3000),
    "skewed": cpms.load("rmat:scale=10,edge_factor=12,seed=1"),
    "more rows than edges": Graph.from_edges(np.arange(900), np.arange(900) * 7 % 4000, nodes=4000),
    "long rows": Graph.from_edges(np.arange(3000) * 7 % 100, np.arange(3000) // 30, nodes=100),
    "rows that end with steps": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 256, nodes=512),
}
LEAST = BlockingSizes(256, 260)
"""Few nodes in a range, and small bins."""
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        ways = persistent.DIRECT_GATHER, persistent.INNER_BLOCKED, persistent.ALL_BLOCKED
        kernels = [
            *(
                persistent.persistent_refine(s, SHARED_MEMORY_SHAPE, personal=p, strategy=w)
                for s in FORMATS[:1]
                for p in (False, True)
                for w in ways
            ),
            *(
                persistent.persistent_power(SHARED_MEMORY_SHAPE, personal=personal, strategy=way)
                for personal in (False, True)
                for way in ways[::2]
            ),
        ]
        request.getfixturevalue("host_backend").compile(kernels)


@pytest.fixture(params=[LEAST, None, 33], ids=["many bins", "large bins", "many sections"])
def sizes(request, monkeypatch):
    if request.param == LEAST:
        monkeypatch.setattr(propagation_blocking, "blocking_sizes", lambda _: LEAST)
    elif request.param:
        monkeypatch.setattr(sell_slices, "MAX_WINDOW_SUMS", request.param)


def blocked(graph, blocks, value_bytes=2):
    """Return the deal of a graph, the source of each slot, and the first slot of each row."""
    slots = padded_csr.PaddedCsr.of(graph)
    sources, _, _ = slots.to_device(graph)
    return (
        propagation_blocking.PropagationBlocking.of(sources, slots, graph.nodes, blocks, value_bytes),
        sources,
        slots.starts,
    )


@given(
    spec=st.builds(
        "rmat:scale={},edge_factor={},seed={}".format, st.integers(1, 11), st.integers(1, 10), st.integers(0, 9)
    ),
    blocks=st.integers(1, 9),
    at_once=st.sampled_from([256, 1024, 1 << 24]),
)
@few
def test_binned_values_are_those_of_the_sources_of_entries(host_backend, monkeypatch, spec, blocks, at_once):
    with monkeypatch.context() as patch, current.using(host_backend):
        patch.setattr(propagation_blocking, "blocking_sizes", lambda _: LEAST)
        patch.setattr(propagation_blocking, "_AT_ONCE", at_once)
        check(*blocked(cpms.load(spec), blocks), blocks)


@pytest.mark.representatives(blocks=("7",))
@pytest.mark.parametrize("blocks", [1, 7])
@pytest.mark.parametrize("value_bytes", [2, 8])
@pytest.mark.parametrize("name", GRAPHS)
def test_blocking_of_odd_graphs(host_backend, sizes, name, value_bytes, blocks):
    with current.using(host_backend):
        check(*blocked(GRAPHS[name], blocks, value_bytes), blocks)


def check(found, sources, starts, blocks):
    """Deal the nodes' numbers, and read them as warps do."""
    targets = (found.octet_targets.astype(int)[:, None] + np.arange(found.run_octets)).ravel()
    chunks, begins = len(targets), found.range_begins.astype(int)
    assert (begins[0], begins[-1]) == (0, chunks)
    assert len(np.unique(targets)) == chunks
    range_of = np.searchsorted(begins, np.arange(chunks), side="right") - 1
    of = found.slices
    values = np.full(8 * (of.value_begins[-1].astype(int)), -1)
    into = 8 * targets[:, None] + np.arange(8)
    values[into] = found.local_indices.reshape(-1, 8) + found.range_nodes * range_of[:, None]
    cuts = found.block_begins.astype(int)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, chunks, blocks + 1)
    assert (np.diff(cuts) >= 0).all()
    assert not (cuts % found.run_octets).any()
    assert (begins[found.first_ranges] <= cuts[:-1]).all()
    # A block begins at the range before where all of that is dealt.
    assert (begins[found.first_ranges + 1] >= cuts[:-1]).all()
    value_begins, of_block, bins = (part.astype(int) for part in (of.value_begins, of.block_windows, of.window_bins))
    chunk_begins, first_rows = of.chunk_begins.astype(int), of.first_rows.astype(int)
    assert not (value_begins % 4).any()
    assert (np.diff(value_begins) < of.capacity).all()
    assert (of_block[0], of_block[-1], len(of_block)) == (0, len(chunk_begins) - 1, blocks + 1)
    assert (bins[0], bins[-1]) == (0, len(value_begins) - 1)
    assert np.isin(np.diff(bins), (0, 1)).all()
    # Blocks share no bin.
    busy = of_block[:-1][np.diff(of_block) > 0]
    assert (bins[busy[1:]] > bins[busy[1:] - 1]).all()
    assert (np.diff(chunk_begins) <= sell_slices.MAX_WINDOW_SUMS).all()
    assert (chunk_begins[0], first_rows[0], first_rows[-1]) == (0, 0, len(starts) - 1)
    gathered = [[] for _ in range(chunk_begins[-1])]
    for block, warp in itertools.product(range(blocks), range(SHARED_MEMORY_SHAPE.warps)):
        slice_index, column_group = of.warp_starts[block * SHARED_MEMORY_SHAPE.warps + warp].astype(int)
        for window in range(of_block[block], of_block[block + 1]):
            mine, last = values[slice(*(8 * value_begins[bins[window] : bins[window] + 2]))], False
            while not last:
                rounds, last = of.slice_words[slice_index] & 0x7FFFFFFF, of.slice_words[slice_index] >> 31
                places = of.local_indices.reshape(-1, 32, 4)[column_group : column_group + rounds].astype(int)
                for lane, chunk in enumerate(of.slice_chunks[32 * slice_index : 32 * slice_index + 32]):
                    named = places[:, lane].ravel()
                    named = named[named != 8 * of.capacity - 1]
                    if chunk == sell_slices.NO_CHUNK:
                        assert named.size == 0
                    else:
                        assert not gathered[chunk_begins[window] + chunk]
                        gathered[chunk_begins[window] + chunk] = mine[named].tolist()
                slice_index, column_group = slice_index + 1, column_group + int(rounds)
    assert all(gathered)
    flat = np.concatenate(gathered).astype(int)
    np.testing.assert_array_equal(flat, sources[: len(flat)])
    lengths = np.array([len(chunk) for chunk in gathered])
    ends = np.cumsum(lengths)
    assert lengths.max() <= sell_slices.MAX_CHUNK
    assert ends[-1] == starts[-1]
    if of.last_chunks is None:
        np.testing.assert_array_equal(ends, starts[1:])
    else:
        window = np.searchsorted(np.append(0, ends)[chunk_begins], starts[1:].astype(int) - 1, side="right") - 1
        np.testing.assert_array_equal(ends[chunk_begins[window] + of.last_chunks], starts[1:])
    row_of = np.searchsorted(starts, np.append(0, ends)[chunk_begins], side="right") - 1
    np.testing.assert_array_equal(first_rows, row_of)
    first_slots = np.append(0, ends)[chunk_begins[of_block]]
    begun = starts[(np.searchsorted(starts, first_slots[:-1], side="right") - 1).clip(0, len(starts) - 2)]
    busy = np.diff(of_block) > 0
    expected = np.searchsorted(first_slots[:-1], begun, side="right") - 1
    np.testing.assert_array_equal(of.first_blocks[busy], expected[busy])


def arranged(problem, value_bytes=2, ways=(persistent.DIRECT_GATHER, persistent.ALL_BLOCKED)):
    """Return the graph in some ways."""
    made = []
    for way in ways:
        wanted = StrategyRequest(False, False, way != persistent.DIRECT_GATHER, in_cache=False, error_feedback=False)
        graph = PersistentGraph.of(problem, Arrangement(warps=16, request=wanted), value_bytes)
        if way == persistent.INNER_BLOCKED:
            graph = replace(graph, strategy_data=graph.strategy_data._replace(residual_blocking=None))
        assert graph.strategy_data.strategy == way
        made.append(graph)
    return made


@pytest.mark.representatives(storage=("fp16",), name=("one node", "a row over many bins", "skewed"))
@pytest.mark.parametrize("way", [persistent.INNER_BLOCKED, persistent.ALL_BLOCKED], ids=["low", "all"])
@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize("name", GRAPHS)
def test_sweeps_with_propagation_blocking_are_those_of_the_direct_gather(device, problems, sizes, name, storage, way):
    for problem in problems(GRAPHS[name]):
        over_sources, with_blocking = map(CudaRefinement, arranged(problem, ways=(persistent.DIRECT_GATHER, way)))
        nodes = np.arange(problem.graph.nodes)
        for begin in (np.ones(len(nodes)), 1.0 + nodes % 7):
            for refinement in (over_sources, with_blocking):
                refinement.start(begin / begin.sum())
            options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 12}
            found, expected = with_blocking.outer_step(storage, **options), over_sources.outer_step(storage, **options)
            np.testing.assert_allclose(found.found, expected.found, rtol=1e-9, atol=1e-14)
            # Sums across blocks are in another order, so that a value between two of Q's may go either way.
            np.testing.assert_allclose(found.inner_l1, expected.inner_l1, rtol=storage.unit_roundoff(), atol=1e-12)
            np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-9, atol=1e-13)


@pytest.mark.representatives(name=("one node", "a row over many bins", "skewed"))
@pytest.mark.parametrize("name", GRAPHS)
def test_power_iteration_with_propagation_blocking_is_that_of_the_direct_gather(device, problems, sizes, name):
    for problem in problems(GRAPHS[name]):
        found = []
        for graph in arranged(problem, value_bytes=8):
            operator = cuda_fused.operator(problem, graph)
            x, out = operator.load(np.full(problem.graph.nodes, 1 / problem.graph.nodes)), operator.empty()
            sweeps = operator.sweeps(x, out, FLOAT64, 0, norm="l1", tol=0.0, most=5).found
            found.append((np.array(sweeps), operator.read(out, 1)))
        np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-12, atol=1e-16)


def test_formats_too_wide_for_propagation_blocking_are_gathered(device):
    problem = Problem(GRAPHS["skewed"])
    both = list(map(CudaRefinement, arranged(problem)))
    for refinement in both:
        refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
    options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 12}
    assert both[1].outer_step(FP32, **options).inner_l1 == both[0].outer_step(FP32, **options).inner_l1


@pytest.mark.parametrize(
    ("cache_bytes", "near", "small_cells", "expected"),
    [
        (0, False, (), persistent.ALL_BLOCKED),
        (0, True, (), persistent.DIRECT_GATHER),
        (0, False, (8,), persistent.INNER_BLOCKED),
        (0, False, (2, 8), persistent.DIRECT_GATHER),
        (1 << 30, False, (), persistent.DIRECT_GATHER),
    ],
)
def test_propagation_blocking_is_chosen_where_few_share_a_sector_and_cells_are_long(
    host_backend, monkeypatch, cache_bytes, near, small_cells, expected
):
    sizes, nodes = propagation_blocking.blocking_sizes, 1 << 17
    monkeypatch.setattr(
        propagation_blocking, "blocking_sizes", lambda size: LEAST if size in small_cells else sizes(size)
    )
    monkeypatch.setattr(host_backend, "cache_bytes", cache_bytes)
    drawn = np.random.default_rng(1).integers(0, nodes, 1 << 18)
    sources = drawn // 256 + np.arange(drawn.size) % 32 if near else drawn
    graph = Graph.from_edges(sources, np.arange(drawn.size) % nodes, nodes=nodes)
    chosen = Arrangement(
        reorder=False,
        warps=16,
        request=StrategyRequest(hub_cache=False, tiled_gather=False, in_cache=False),
    )
    with current.using(host_backend):
        assert PersistentGraph.of(Problem(graph), chosen).strategy_data.strategy == expected
        monkeypatch.setattr(host_backend, "max_shared_bytes", 0)
        assert PersistentGraph.of(Problem(graph), chosen).strategy_data.strategy == persistent.DIRECT_GATHER


@pytest.mark.gpu
def test_many_ranges_and_bins_a_block(gpu_backend):
    graphs_of_size = {
        "skewed": cpms.load("rmat:scale=18,edge_factor=12,seed=1"),
        "uniform": cpms.load("uniform:scale=19,edge_factor=16,seed=1"),
        "hub": Graph.from_edges(np.arange(400_000), np.arange(400_000) % 3, nodes=400_000),
        "few": Graph.from_edges(np.arange(200_000) * 3, np.arange(200_000) * 7 % 700_000, nodes=700_000),
    }
    with current.using(gpu_backend):
        for graph in graphs_of_size.values():
            found = []
            for chosen in (False, True, True):
                refinement = CudaRefinement.of(
                    Problem(graph),
                    Arrangement(
                        warps=16, request=StrategyRequest(False, False, chosen, in_cache=False, error_feedback=False)
                    ),
                )
                refinement.start(np.full(graph.nodes, 1 / graph.nodes))
                refinement.outer_step(FP16, inner_reduction=1e-6, tol=1e-12, norm="l1", max_inner=20)
                last = refinement.outer_step(None, inner_reduction=0.1, tol=1e-12, norm="l1", max_inner=0)
                found.append((refinement.read(), last.found.l1))
            assert np.abs(found[1][0] - found[0][0]).sum() <= 1e-3 * found[0][1] + 1e-14
            np.testing.assert_array_equal(found[2][0], found[1][0])


def test_kernels_have_room_for_the_sums_of_a_section():
    assert (
        f"max_window_sums = {sell_slices.MAX_WINDOW_SUMS};"
        in (source.folder() / "persistent/sell_slices.cuh").read_text()
    )
