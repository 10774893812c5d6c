"""Hub cache: values of the first nodes in shared memory, emulated on this machine and on a GPU."""

import numpy as np
import pytest

import cpms
from cpms import Graph, format_named
from cpms.backends.cuda.kernels import persistent
from cpms.backends.cuda.kernels.launch_shape import SHARED_MEMORY_SHAPE
from cpms.backends.cuda.persistent import strategies
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.engines import cuda_fused
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem

FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2", "fp32")]
# Each is compiled for this machine, for seconds.
SOME = [*FORMATS[:2], *(pytest.param(storage, marks=pytest.mark.slow) for storage in FORMATS[2:])]
GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "skewed": cpms.load("rmat:scale=11,edge_factor=8,seed=1"),
    "more rows than edges": Graph.from_edges(np.arange(900), np.arange(900) * 7 % 4000, nodes=4000),
}


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        both, whose = (persistent.DIRECT_GATHER, persistent.HUB_CACHE_GATHER), (False, True)
        kernels = [
            *(
                persistent.persistent_refine(s, SHARED_MEMORY_SHAPE, personal=p, strategy=w)
                for s in FORMATS[:1]
                for p in whose
                for w in both
            ),
            *(persistent.persistent_power(SHARED_MEMORY_SHAPE, personal=p, strategy=w) for p in whose for w in both),
        ]
        request.getfixturevalue("host_backend").compile(kernels)


@pytest.fixture(params=[512, 1 << 16], ids=["few", "all"])
def shared(request, monkeypatch):
    monkeypatch.setattr(strategies, "HUB_SHARED_BYTES", request.param)


def arranged(problem, value_bytes=2):
    """Return the graph without and with hot nodes."""
    both = [
        PersistentGraph.of(
            problem,
            Arrangement(
                warps=16, request=StrategyRequest(hot, tiled_gather=False, propagation_blocking=False, in_cache=False)
            ),
            value_bytes,
        )
        for hot in (False, True)
    ]
    assert [graph.strategy_data.strategy for graph in both] == [persistent.DIRECT_GATHER, persistent.HUB_CACHE_GATHER]
    return both


@pytest.mark.representatives(storage=("fp16",))
@pytest.mark.parametrize("storage", SOME, ids=lambda storage: storage.name)
@pytest.mark.parametrize("name", GRAPHS)
def test_where_values_lie_does_not_change_a_bit(device, problems, shared, name, storage):
    for problem in problems(GRAPHS[name]):
        found = []
        for graph in arranged(problem):
            refinement = CudaRefinement(graph)
            refinement.start(np.full(problem.graph.nodes, 1 / problem.graph.nodes))
            made = [
                refinement.outer_step(storage, inner_reduction=0.1, tol=1e-11, norm="l1", max_inner=9) for _ in range(2)
            ]
            found.append((made, refinement.read()))
        for without, hot in zip(found[0][0], found[1][0], strict=True):
            assert (hot.found, hot.inner_l1, hot.sums) == (without.found, without.inner_l1, without.sums)
        np.testing.assert_array_equal(found[1][1], found[0][1])


@pytest.mark.parametrize("name", GRAPHS)
def test_nor_does_it_in_power_iteration(device, problems, shared, name):
    for problem in problems(GRAPHS[name]):
        found = []
        for graph in arranged(problem, value_bytes=8):
            operator = cuda_fused.operator(problem, graph)
            x, out = operator.load(np.full(problem.graph.nodes, 1 / problem.graph.nodes)), operator.empty()
            sweeps = operator.sweeps(x, out, FLOAT64, 0, norm="l1", tol=0.0, most=5).found
            found.append((sweeps, operator.read(out, 1)))
        assert found[1][0] == found[0][0]
        np.testing.assert_array_equal(found[1][1], found[0][1])


@pytest.mark.parametrize(
    ("cache_bytes", "skewed", "warps", "expected"),
    [
        (0, True, 16, persistent.HUB_CACHE_GATHER),
        (0, False, 16, persistent.DIRECT_GATHER),
        (0, True, 24, persistent.DIRECT_GATHER),
        (1 << 30, True, 16, persistent.DIRECT_GATHER),
    ],
)
def test_hot_nodes_are_for_large_graphs_most_of_whose_edges_begin_at_them(
    host_backend, monkeypatch, cache_bytes, skewed, warps, expected
):
    monkeypatch.setattr(host_backend, "cache_bytes", cache_bytes)
    nodes = 1 << 18
    drawn = np.random.default_rng(1).random(nodes)
    sources = (nodes * drawn ** (4 if skewed else 1)).astype(int)
    graph = Graph.from_edges(sources, np.arange(nodes), nodes=nodes)
    chosen = Arrangement(
        reorder=False,
        warps=warps,
        request=StrategyRequest(tiled_gather=False, propagation_blocking=False, in_cache=False),
    )
    with current.using(host_backend):
        for value_bytes in (2, 8):
            assert PersistentGraph.of(Problem(graph), chosen, value_bytes).strategy_data.strategy == expected
        monkeypatch.setattr(host_backend, "max_shared_bytes", 0)
        assert PersistentGraph.of(Problem(graph), chosen).strategy_data.strategy == persistent.DIRECT_GATHER
