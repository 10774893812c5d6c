"""Tiled gather: panels whose values lie in shared memory, emulated on this machine and on a GPU."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, format_named
from cpms.backends.cuda.kernels import persistent
from cpms.backends.cuda.kernels.launch_shape import SHARED_MEMORY_SHAPE
from cpms.backends.cuda.persistent import tiled_gather
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import DIRECT_GATHER_DATA, StrategyRequest
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.formats.formats import FP16, FP32
from cpms.formats.quantization import quantiser
from cpms.problems.pagerank import Problem

FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2")]


GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "a row over many bins": Graph.from_edges(np.arange(1, 9000), np.zeros(8999, int)),
    "two such rows": Graph.from_edges(np.arange(12_000) % 3000, np.arange(12_000) % 2 * 2999, nodes=3000),
    "skewed": cpms.load("rmat:scale=10,edge_factor=12,seed=1"),
    "more rows than edges": Graph.from_edges(np.arange(900), np.arange(900) * 7 % 4000, nodes=4000),
    "rows that end with steps": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 256, nodes=512),
}
LEAST = 260
"""Groups that a list must hold for a step of 256 slots whose sources are all far from each other."""
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        kernels = [
            persistent.persistent_refine(storage, SHARED_MEMORY_SHAPE, personal=personal, strategy=way)
            for storage in FORMATS[:1]
            for personal in (False, True)
            for way in (persistent.DIRECT_GATHER, persistent.INNER_TILED_GATHER)
        ]
        request.getfixturevalue("host_backend").compile(kernels)


@pytest.fixture(params=[LEAST, None], ids=["many bins", "large bins"])
def capacity(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(tiled_gather, "PANEL_OCTETS", request.param)


def panels_of(graph, blocks):
    """Return the bins of a graph, the source of each slot, and the rows' slots."""
    slots = padded_csr.PaddedCsr.of(graph)
    sources, row_end_flags, _ = slots.to_device(graph)
    return tiled_gather.Panels.of(sources, row_end_flags, slots, blocks), sources, slots


@given(
    spec=st.builds(
        "rmat:scale={},edge_factor={},seed={}".format, st.integers(1, 11), st.integers(1, 10), st.integers(0, 9)
    ),
    blocks=st.integers(1, 9),
)
@few
def test_indices_give_sources_and_every_tile_is_in_one_range(host_backend, monkeypatch, spec, blocks):
    with monkeypatch.context() as patch, current.using(host_backend):
        patch.setattr(tiled_gather, "PANEL_OCTETS", LEAST)
        check_panels(*panels_of(cpms.load(spec), blocks), blocks)


@pytest.mark.parametrize("blocks", [1, 7])
@pytest.mark.parametrize("name", GRAPHS)
def test_panels_of_odd_graphs(host_backend, capacity, name, blocks):
    with current.using(host_backend):
        check_panels(*panels_of(GRAPHS[name], blocks), blocks)


def check_panels(found, sources, slots, blocks):
    begins, groups = found.list_begins.astype(int), np.asarray(found.lists)
    assert begins[0] == 0
    assert begins[-1] == len(groups)
    assert not (begins % 4).any()
    assert (np.diff(begins) <= found.capacity).all()
    ranges = np.asarray(found.ranges).reshape(len(begins) - 1, -1, 4).astype(int)
    steps = [range(first, first + count) for part in ranges for first, count, _, _ in part]
    assert [step for part in steps for step in part] == list(range(slots.tiles))
    listed = np.empty(sources.size, np.int64)
    for number, part in enumerate(ranges):
        of_panel = slice(256 * part[0, 0], 256 * (part[-1, 0] + part[-1, 1]))
        local_indices = found.local_indices[of_panel].astype(int)
        listed[of_panel] = 8 * groups[begins[number] : begins[number + 1]][local_indices // 8] + local_indices % 8
    np.testing.assert_array_equal(listed, sources)
    starts = slots.starts.astype(int)
    for first, count, row, _ in ranges.reshape(-1, 4):
        assert not count or starts[row] <= 256 * first < starts[row + 1]
    of_block = found.block_panels.astype(int)
    assert (of_block[0], of_block[-1], len(of_block)) == (0, len(ranges), blocks + 1)
    for block, (first, last) in enumerate(itertools.pairwise(of_block)):
        if first < last:
            row_begins = starts[ranges[first, 0, 2]] // 256
            where = ranges[of_block[found.first_blocks[block]], 0, 0]
            assert where <= row_begins
            assert found.first_blocks[block] == block or row_begins < ranges[first, 0, 0]


@pytest.mark.representatives(storage=("fp16",), name=("one node", "a row over many bins", "skewed"))
@pytest.mark.parametrize("storage", FORMATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize("name", GRAPHS)
def test_inner_sweeps_with_panels_are_those_of_the_direct_gather(device, problems, capacity, name, storage):
    for problem in problems(GRAPHS[name]):
        over_sources, with_panels = (
            CudaRefinement.of(
                problem, Arrangement(warps=16, request=StrategyRequest(False, chosen, False, in_cache=False))
            )
            for chosen in (False, True)
        )
        assert with_panels.graph.strategy_data.panels is not None
        assert over_sources.graph.strategy_data == DIRECT_GATHER_DATA
        for refinement in (over_sources, with_panels):
            refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
        for _ in range(2):
            options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 12}
            found, expected = with_panels.outer_step(storage, **options), over_sources.outer_step(storage, **options)
            np.testing.assert_allclose(found.found, expected.found, rtol=1e-9, atol=1e-14)
            # Sums across blocks are in another order, so that a value between two of Q's may go either way.
            np.testing.assert_allclose(found.inner_l1, expected.inner_l1, rtol=storage.unit_roundoff(), atol=1e-12)
            np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-9, atol=1e-13)


def test_formats_that_bins_do_not_hold_are_swept_over_sources(device):
    problem = Problem(GRAPHS["skewed"])
    over_sources, with_panels = (
        CudaRefinement.of(problem, Arrangement(warps=16, request=StrategyRequest(False, chosen, False, in_cache=False)))
        for chosen in (False, True)
    )
    for refinement in (over_sources, with_panels):
        refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
    options = {"inner_reduction": 0.1, "tol": 1e-11, "norm": "l1", "max_inner": 12}
    assert with_panels.outer_step(FP32, **options).inner_l1 == over_sources.outer_step(FP32, **options).inner_l1


@pytest.mark.parametrize(
    ("cache_bytes", "warps", "far", "expected"),
    [(0, 24, False, False), (0, 16, False, True), (0, 16, True, False), (1 << 30, 16, False, False)],
)
def test_bins_are_for_gathers_that_dominate_beyond_the_cache_and_lie_near_each_other(
    host_backend, monkeypatch, cache_bytes, warps, far, expected
):
    monkeypatch.setattr(host_backend, "cache_bytes", cache_bytes)
    nodes, each = 120_000, 2
    targets = np.repeat(np.arange(nodes), each)
    near = (targets + 9 * np.tile(np.arange(1, each + 1), nodes)) % nodes
    graph = Graph.from_edges(np.random.default_rng(1).permutation(near) if far else near, targets, nodes=nodes)
    chosen = Arrangement(
        reorder=False,
        warps=warps,
        request=StrategyRequest(hub_cache=False, propagation_blocking=False, in_cache=False),
    )
    with current.using(host_backend):
        assert (PersistentGraph.of(Problem(graph), chosen).strategy_data.panels is not None) is expected
        assert PersistentGraph.of(Problem(graph), chosen, value_bytes=8).strategy_data == DIRECT_GATHER_DATA
        monkeypatch.setattr(host_backend, "max_shared_bytes", 0)
        assert PersistentGraph.of(Problem(graph), chosen).strategy_data == DIRECT_GATHER_DATA


@pytest.mark.gpu
def test_rows_across_blocks_and_many_bins_a_block(gpu_backend):
    graphs_of_size = {
        "skewed": cpms.load("rmat:scale=18,edge_factor=12,seed=1"),
        "hub": Graph.from_edges(np.arange(400_000), np.arange(400_000) % 3, nodes=400_000),
        "few": Graph.from_edges(np.arange(200_000) * 3, np.arange(200_000) * 7 % 700_000, nodes=700_000),
        "mesh": Graph.from_edges(np.repeat(np.arange(200_000), 4), np.arange(800_000) % 199_999, nodes=200_000),
    }
    with current.using(gpu_backend):
        for graph in graphs_of_size.values():
            found = []
            for chosen in (False, True, True):
                refinement = CudaRefinement.of(
                    Problem(graph), Arrangement(warps=16, request=StrategyRequest(False, chosen, False, in_cache=False))
                )
                refinement.start(np.full(graph.nodes, 1 / graph.nodes))
                refinement.outer_step(FP16, inner_reduction=1e-6, tol=1e-12, norm="l1", max_inner=20)
                last = refinement.outer_step(None, inner_reduction=0.1, tol=1e-12, norm="l1", max_inner=0)
                found.append((refinement.read(), last.found.l1))
            assert np.abs(found[1][0] - found[0][0]).sum() <= 1e-3 * found[0][1] + 1e-14
            np.testing.assert_array_equal(found[2][0], found[1][0])
