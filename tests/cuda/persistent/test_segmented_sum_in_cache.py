"""Segmented sum of graphs in the cache: blocks begin with rows, and warps share sums in shared memory."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cpms
from cpms.backends.cuda.kernels import persistent
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.persistent import load_balance
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.persistent.warp_ranges import WarpRanges
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.spmv import padded_csr
from cpms.engines import cuda_fused
from cpms.formats.formats import E5M2, FP16, FP32
from cpms.graph.graph import Graph
from cpms.precision.controllers import FLOAT64
from cpms.precision.refinement_policy import default_inner_reduction
from cpms.problems.pagerank import Problem

few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_rows(lengths, seed=1, nodes=None):
    """Return a graph whose rows are so long."""
    count = nodes or max(len(lengths), 1)
    sources = np.random.default_rng(seed).integers(0, count, sum(lengths))
    return Graph.from_edges(sources, np.repeat(np.arange(len(lengths)), lengths), nodes=count)


@st.composite
def row_lengths(draw):
    """Draw in-degrees: runs of short rows, with rows of many steps among them."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        most = draw(st.sampled_from([0, 3, 40, 300]))
        parts.append(random.integers(0, most + 1, draw(st.integers(1, 900))))
        if draw(st.booleans()):
            parts.append(np.array([draw(st.sampled_from([256, 700, 6_000, 20_000]))]))
    return np.concatenate(parts).tolist()


@given(lengths=row_lengths(), processors=st.integers(1, 40))
@example(lengths=[1] * 257, processors=2)
@example(lengths=[25] * 10 + [7], processors=2)
@few
def test_no_block_waits_for_an_empty_range(host_backend, monkeypatch, lengths, processors):
    graph = with_rows(lengths)
    with monkeypatch.context() as patch, current.using(host_backend):
        patch.setattr(host_backend, "processors", processors)
        patch.setattr(host_backend, "persistent_blocks", lambda shape: processors * shape.blocks_per_processor)
        given_slots = padded_csr.PaddedCsr.of(graph)
        edges, slots = WarpRanges.of(given_slots, graph, 0, in_cache=True)
    begins, starts = edges.range_begins.astype(np.int64), slots.starts.astype(np.int64)
    assert edges.in_cache
    assert begins[0] == 0
    assert begins[-1] == slots.tiles == edges.tiles
    assert (np.diff(begins) >= 0).all()
    assert len(begins) - 1 <= edges.blocks * edges.block_ranges
    assert edges.blocks <= processors
    assert edges.block_ranges <= SHAPES[16].warps
    # For rows to begin with, a block may lose all but a slot of a step.
    assert given_slots.tiles <= slots.tiles <= given_slots.tiles + edges.blocks
    if max(lengths) <= 32:
        assert np.isin(begins[: -1 : edges.block_ranges] * 256, starts).all()
        assert edges.block_ranges == min(16, np.diff(begins[:: edges.block_ranges]).max())
    with current.using(host_backend):
        sources, row_end_flags, _ = slots.to_device(graph)
        np.testing.assert_array_equal(padded_csr.from_lanes(edges.sources, 32), sources)
    np.testing.assert_array_equal(edges.row_end_flags, row_end_flags)
    for empty in np.flatnonzero(np.diff(begins) == 0):
        assert begins[empty] == slots.tiles or begins[empty] * 256 in starts
        behind = begins[empty : edges.block_ranges * (empty // edges.block_ranges + 1)]
        assert (behind == begins[empty]).all()
    # Whose row goes on, and since when.
    used = np.flatnonzero(np.diff(begins))
    rows = np.searchsorted(starts, begins[used] * 256, side="right") - 1
    np.testing.assert_array_equal(edges.first_rows[used], rows)
    np.testing.assert_array_equal(edges.first_ranges[used], [used[begins[used] * 256 <= s][-1] for s in starts[rows]])


ONE_SWEEP = """
namespace cpms {
// Of a row: its sum, and how often it came to its end; where it was loaded.
struct Recorded {
    struct Operands { u32 row; };
    double* sums;
    u32 *times, rows;
    Operands load(u32 row) const { return Operands{row}; }
    void prefetch(u32) const {}
    void finish(u32 row, double sum, const Operands& operands) {
        if (operands.row != row || row >= rows) host::fail("another row");
        sums[row] = sum * WideningLoad<PackedFloat<5, 10, Rounding::nearest>>::unit();
        ++times[row];
    }
};
void one_sweep(const Edges edges, const u8* x, double* sums, u32* times) {
    __shared__ InCacheWorkspace workspace;
    workspace.begin(edges);
    InCachePrefetch upcoming;
    upcoming.begin(edges, workspace);
    Recorded end{sums, times, edges.rows};
    InCacheSegmentedSum<PackedFloat<5, 10, Rounding::nearest>>{edges, upcoming, x, workspace}.run(end);
}
}
extern "C" void launch_one_sweep(unsigned blocks, unsigned threads, void** arguments) {
    host::launch(cpms::one_sweep, blocks, threads, arguments);
}
"""


@pytest.fixture(scope="session")
def one_sweep(device_code):
    """A sweep that no block begins anew: on this machine blocks run in order, and each waits for earlier ones alone."""
    return device_code("persistent/segmented_sum_in_cache.cuh", "one_sweep", ONE_SWEEP)


@given(lengths=row_lengths(), processors=st.sampled_from([1, 2, 5, 40]))
@few
def test_every_row_is_summed_once_over_many_blocks(host_backend, one_sweep, monkeypatch, lengths, processors):
    graph = with_rows(lengths)
    with monkeypatch.context() as patch, current.using(host_backend):
        patch.setattr(host_backend, "processors", processors)
        patch.setattr(host_backend, "persistent_blocks", lambda shape: processors * shape.blocks_per_processor)
        edges, _ = WarpRanges.of(padded_csr.PaddedCsr.of(graph), graph, 0, in_cache=True)
        argument = edges.argument(graph.nodes)
    values = np.append(np.random.default_rng(5).integers(0, 8, graph.nodes), 0).astype(np.float16)
    sums, times = np.full(graph.nodes, np.nan), np.zeros(graph.nodes, np.uint32)
    for _ in range(2):
        one_sweep(edges.blocks, 512, (argument, values.view(np.uint16), sums, times))
        rows = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
        np.testing.assert_array_equal(sums, np.bincount(rows, values[graph.sources], minlength=graph.nodes))
        assert (edges.carry_out == 2**64 - 1).all()
    assert (times == 2).all()


@given(lengths=row_lengths(), cut=st.lists(st.integers(0, 10**6), max_size=9))
@few
def test_slots_hold_the_edges_wherever_rows_begin(host_backend, lengths, cut):
    graph = with_rows(lengths)
    with current.using(host_backend):
        rows = np.unique(np.append(np.array(cut, np.int64) % graph.nodes, 0))
        slots = padded_csr.PaddedCsr.of(graph).aligned_to_tiles(rows)
        sources, row_end_flags, _ = slots.to_device(graph)
    starts = slots.starts.astype(np.int64)
    assert (starts[rows] % 256 == 0).all()
    ends = np.unpackbits((row_end_flags & 0xFF).astype(np.uint8), bitorder="little")
    np.testing.assert_array_equal(np.flatnonzero(ends), starts[1:] - 1)
    for row in range(graph.nodes):
        edges = graph.sources[graph.indptr[row] : graph.indptr[row + 1]]
        slot = sources[starts[row] : starts[row + 1]]
        np.testing.assert_array_equal(slot[: len(edges)], edges)
        assert (slot[len(edges) :] == graph.nodes).all()


@pytest.mark.parametrize("value_bytes", [2, 8])
def test_steps_cost_the_lines_that_they_touch(device, value_bytes):
    graph = with_rows([3, 0, 700, 5, 1000, 40] * 3, nodes=5_000)
    slots = padded_csr.PaddedCsr.of(graph)
    sources = slots.to_device(graph)[0]
    lines = device.to_host(sources).reshape(-1, 8, 32) * value_bytes // 128
    touched = np.array([sum(len(set(group)) for group in step) for step in lines.tolist()])
    found = np.diff(load_balance.in_cache_costs(slots, sources, value_bytes) - 2 * load_balance.streamed_costs(slots))
    assert found.tolist() == touched.tolist()
    if value_bytes == 2:
        wanted = 10 * (np.diff(slots.rows_ended) + 130) + 3 * touched
        assert np.diff(load_balance.inner_costs(slots, sources, value_bytes)).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("room", "arrangement", "expected"),
    [
        (1, Arrangement(), persistent.IN_CACHE_GATHER),
        (0, Arrangement(), persistent.DIRECT_GATHER),
        (0, Arrangement(warps=16, request=StrategyRequest(in_cache=True)), persistent.IN_CACHE_GATHER),
        (1, Arrangement(request=StrategyRequest(in_cache=False)), persistent.DIRECT_GATHER),
        (1, Arrangement(warps=24), persistent.DIRECT_GATHER),
        (1, Arrangement(range_tiles=2), persistent.DIRECT_GATHER),
    ],
)
def test_graphs_in_the_cache_have_sweeps_of_their_own(host_backend, monkeypatch, room, arrangement, expected):
    graph = with_rows([4] * 3_000)
    with current.using(host_backend):
        edges, _ = WarpRanges.of(padded_csr.PaddedCsr.of(graph), graph, 0)
        streamed = padded_csr.ENTRY_BYTES * edges.tiles * 256 + 16 * graph.nodes
        monkeypatch.setattr(host_backend, "cache_bytes", int(streamed) - 1 + room)
        for value_bytes in (2, 8):
            assert PersistentGraph.of(Problem(graph), arrangement, value_bytes).strategy_data.strategy == expected


@pytest.mark.parametrize(("processors", "cached"), [(255, True), (256, False)])
def test_no_more_blocks_have_such_sweeps_than_a_byte_counts(host_backend, monkeypatch, processors, cached):
    graph = with_rows([4] * 3_000)
    with current.using(host_backend):
        monkeypatch.setattr(host_backend, "processors", processors)
        assert WarpRanges.of(padded_csr.PaddedCsr.of(graph), graph, 0, in_cache=True)[0].in_cache is cached


GRAPHS = {
    "a row over all blocks": lambda: with_rows([300_000]),
    "rows over many blocks": lambda: with_rows([5, 90_000, 3, 0, 0, 70_000, 1, 50_000] + [9] * 4_000),
    "long rows, few steps": lambda: with_rows([2_000, 1, 900, 3_000, 2, 2, 40, 1_500]),
    "a step a warp": lambda: with_rows([6] * 60_000),
    "steps full of rows": lambda: with_rows([1] * 900_000),
    "skewed": lambda: cpms.load("rmat:scale=18,edge_factor=12,seed=1"),
    "mesh": lambda: cpms.load("grid:rows=700,columns=900"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("storage", [FP16, E5M2, FP32], ids=lambda storage: storage.name)
@pytest.mark.parametrize("name", GRAPHS)
def test_many_blocks_find_what_those_of_other_graphs_find(gpu_backend, name, storage):
    graph = GRAPHS[name]()
    personal = np.random.default_rng(3).random(graph.nodes)
    with current.using(gpu_backend):
        for problem in (Problem(graph), Problem(graph, teleport=personal / personal.sum())):
            first, found = np.full(graph.nodes, 1 / graph.nodes), []
            for cached in (False, True, True):
                refinement = CudaRefinement.of(problem, Arrangement(warps=16, request=StrategyRequest(in_cache=cached)))
                assert refinement.graph.edges.in_cache is cached
                refinement.start(first)
                begun = refinement.outer_step(storage, inner_reduction=1e-6, tol=1e-12, norm="l1", max_inner=20)
                last = refinement.outer_step(None, inner_reduction=0.1, tol=1e-12, norm="l1", max_inner=0)
                operator = cuda_fused.operator(problem, refinement.graph)
                x, out = operator.load(first), operator.empty()
                sweeps = operator.sweeps(x, out, FLOAT64, 0, norm="l1", tol=0.0, most=4).found
                found.append((refinement.read(), (begun.inner_l1, begun.sums, last.found), sweeps))
            without, with_it, again = found
            np.testing.assert_allclose(with_it[1][0], without[1][0], rtol=max(2.0**-23, storage.unit_roundoff()))
            # There x gets what z tell, here what r were.
            assert np.abs(with_it[0] - without[0]).sum() <= default_inner_reduction(storage) * begun.found.l1
            np.testing.assert_allclose(with_it[2], without[2], rtol=1e-9, atol=1e-14)
            np.testing.assert_array_equal(again[0], with_it[0])
            assert again[1:] == with_it[1:]
