"""An update solves the changed graph from the last ranks: same certificate, same ranks, fewer sweeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, PageRank
from cpms.graph.edge_updates import with_edges


def web(nodes=2000, edges=16000, seed=5):
    random = np.random.default_rng(seed)
    return Graph.from_edges(random.integers(0, nodes * 3 // 4, edges), random.integers(0, nodes, edges), nodes=nodes)


LARGE = web()


def chain(nodes=2000):
    """Edges to the next nodes: ranks spread slowly."""
    ends = np.arange(nodes)
    return Graph.from_edges(np.tile(ends, 2), np.concatenate([(ends + 1) % nodes, (ends * ends) % nodes]))


def changes(graph, count, seed):
    random = np.random.default_rng(seed)
    gone = random.choice(graph.edges, count, replace=False)
    added = random.integers(0, graph.nodes, (2, count))
    return (added[0], added[1]), (graph.sources[gone], graph.targets[gone])


@pytest.mark.parametrize(
    ("method", "engine"), [("power", "cpu"), ("refine", "cpu"), ("power", "scipy"), ("power", "serial")]
)
def test_updates_agree_with_graphs_from_scratch_within_certificates(method, engine):
    @given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 2**32)), min_size=1, max_size=3), st.booleans())
    def law(batches, solved_before):
        prepared, graph = PageRank(LARGE, method=method, engine=engine), LARGE
        if solved_before:
            prepared.solve()
        for count, seed in batches:
            added, removed = changes(graph, count, seed)
            found = prepared.update(added, removed)
            graph = with_edges(graph, added, removed)
            expected = cpms.pagerank(graph, method=method, engine=engine)
            assert found.converged
            assert prepared.graph.sources.tobytes() == graph.sources.tobytes()
            assert np.abs(found.ranks - expected.ranks).sum() <= found.error_bound + expected.error_bound
        # A later solve is that of a fresh call, bit for bit.
        assert prepared.solve().ranks.tobytes() == expected.ranks.tobytes()

    law()


@pytest.mark.parametrize("method", ["power", "refine"])
def test_a_small_change_takes_fewer_sweeps_than_a_start_from_uniform_ranks(method):
    graph = chain()
    prepared = PageRank(graph, method=method, engine="cpu")
    prepared.solve()
    found = prepared.update(*changes(graph, 2, 1))
    from_uniform = cpms.pagerank(found.graph, method=method, engine="cpu", start=np.ones(graph.nodes))
    assert found.iterations < 0.9 * from_uniform.iterations


def test_options_are_those_of_a_solve_and_batches_follow():
    prepared = PageRank(LARGE, engine="cpu")
    queries = prepared.solve_many([1, 2])
    added, removed = changes(LARGE, 100, 3)
    found = prepared.update(added, removed, personalization=[7], tol=1e-12)
    expected = cpms.pagerank(found.graph, personalization=[7], tol=1e-12, engine="cpu")
    assert np.abs(found.ranks - expected.ranks).sum() <= found.error_bound + expected.error_bound
    after = prepared.solve_many([1, 2])
    fresh = cpms.personalized_pagerank(found.graph, [1, 2], engine="cpu")
    assert [each.ranks.tobytes() for each in after] == [each.ranks.tobytes() for each in fresh]
    assert after[0].ranks.tobytes() != queries[0].ranks.tobytes()


def test_weights_are_updated_with_their_edges():
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0])
    prepared = PageRank(graph, engine="cpu")
    prepared.solve()
    found = prepared.update(([0], [2], [5.0]))
    expected = cpms.pagerank(Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2], [1.0, 2.0, 3.0, 5.0]), engine="cpu")
    assert np.abs(found.ranks - expected.ranks).sum() <= found.error_bound + expected.error_bound


def test_wrong_edges_change_nothing():
    prepared = PageRank(LARGE, engine="cpu")
    before = prepared.solve()
    with pytest.raises(InputError, match="node 2000 is not in graph"):
        prepared.update(([2000], [0]))
    assert prepared.graph is LARGE
    assert prepared.solve().ranks.tobytes() == before.ranks.tobytes()


@pytest.mark.parametrize("is_solved", [False, True])
@pytest.mark.parametrize(
    ("options", "text"), [({"tol": -1}, "tol is -1"), ({"tolerance": 1}, "did you mean tol"), ({"start": [1]}, "start")]
)
def test_wrong_options_change_nothing(options, text, is_solved):
    prepared = PageRank(LARGE, engine="cpu")
    if is_solved:
        prepared.solve()
    with pytest.raises(InputError, match=text):
        prepared.update(([0], [1]), **options)
    assert prepared.graph is LARGE
    assert prepared.solve().graph is LARGE
    assert prepared.update(([0], [1])).graph.edges == LARGE.edges + 1


@pytest.mark.parametrize("is_solved", [False, True])
def test_weights_whose_sum_overflows_change_nothing(is_solved):
    prepared = PageRank(Graph.from_edges([0, 1], [1, 0], [1e308, 1.0]), engine="cpu")
    if is_solved:
        prepared.solve()
    with pytest.raises(InputError, match="sum to inf"):
        prepared.update(([0], [0], [1e308]))
    assert prepared.solve().graph is prepared.graph
    assert prepared.graph.edges == 2


def test_an_update_after_an_answer_without_mass_starts_from_uniform_ranks():
    prepared = PageRank(Graph.from_edges([0, 1, 2], [1, 2, 0]), engine="cpu", storage="int16", layout="csr")
    before = prepared.solve()
    assert before.status is cpms.Status.NON_FINITE  # All ranks are rounded to 0.
    assert prepared.update(([0], [2])).status is cpms.Status.NON_FINITE


def test_closed_objects_and_arrays_that_were_written_to_are_refused():
    sources = np.array([1, 0], np.int32)
    prepared = PageRank(Graph(np.array([0, 1, 2]), sources), engine="cpu")
    prepared.solve()
    sources[:] = 0
    with pytest.raises(InputError, match="was written to"):
        prepared.update(([0], [1]))
    prepared.close()
    with pytest.raises(InputError, match="is closed"):
        prepared.update(([0], [1]))
