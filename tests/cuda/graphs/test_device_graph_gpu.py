"""Device graphs on a GPU: arrays of other libraries, ranks beside those of processors, memory that is freed."""

import gc

import numpy as np
import pytest

import cpms
from cpms import DeviceGraph, Graph


def same(made, expected):
    assert (made.nodes, made.edges, made.weights) == (expected.nodes, expected.edges, None)
    for name in ("indptr", "sources", "out_degree", "in_degree", "dangling_nodes"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
        assert getattr(made, name).dtype == getattr(expected, name).dtype
    assert not made.indptr.flags.writeable


@pytest.mark.gpu
def test_other_libraries_arrays_are_taken_where_they_are(gpu_backend):
    cupy = gpu_backend.arrays

    class ByDlpack:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    random = np.random.default_rng(3)
    sources, targets = random.integers(0, 50_000, (2, 700_000))
    expected = Graph.from_edges(sources, targets, nodes=50_000)
    for wrap in (cupy.asarray, lambda values: ByDlpack(cupy.asarray(values)), lambda values: cupy.asarray(values)[:]):
        same(DeviceGraph.from_edges(wrap(sources), wrap(targets), nodes=50_000), expected)
    strided = cupy.asarray(np.repeat(sources, 2))[::2], targets
    same(DeviceGraph.from_edges(*strided, nodes=50_000), expected)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options", [{"method": "refine", "engine": "cuda"}, {"engine": "cuda_fused"}, {"engine": "cuda"}]
)
def test_edges_on_the_device_give_the_ranks_of_processors(gpu_backend, options):
    random = np.random.default_rng(4)
    sources, targets = random.integers(0, 60_000, (2, 400_000), dtype=np.int32)
    on_device = tuple(map(gpu_backend.upload, (sources, targets)))
    expected = cpms.pagerank(Graph.from_edges(sources, targets), engine="cpu", tol=1e-13)
    for edges_given in (on_device, (sources, targets)):
        found = cpms.pagerank(edges_given, **options)
        assert found.converged
        assert isinstance(found.graph, DeviceGraph)
        assert np.abs(gpu_backend.to_host(found.device_ranks) - expected.ranks).sum() < 2 * found.error_bound
        np.testing.assert_array_equal(found.ranks, gpu_backend.to_host(found.device_ranks))
        again = cpms.pagerank(found.graph, certify="host", **options)
        assert abs(again.residual_l1 - found.residual_l1) <= found.residual_roundoff + again.residual_roundoff


@pytest.mark.gpu
def test_device_memory_is_free_after_many_prepared_solves(gpu_backend):
    random = np.random.default_rng(5)
    graph = Graph.from_edges(*random.integers(0, 60_000, (2, 400_000)))
    pool = gpu_backend.arrays.get_default_memory_pool()
    for method, engine in (("refine", "cuda"), ("power", "cuda_fused")):
        cpms.pagerank(graph, method=method, engine=engine)
        gc.collect()
        before = pool.used_bytes()
        with cpms.PageRank(graph, method=method, engine=engine) as prepared:
            prepared.solve()
            held = pool.used_bytes()
            for _ in range(50):
                prepared.solve()
            assert pool.used_bytes() <= held
        del prepared
        assert pool.used_bytes() <= before
