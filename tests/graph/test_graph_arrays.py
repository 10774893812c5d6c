"""Arrays of a graph: read-only everywhere, of the right kind, and what is no place or id is refused in a sentence."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError
from cpms.backends.mpi.shares.rows import of_graph
from cpms.sources.readers.npz import save_npz
from cpms.testing import graphs

HUGE = 10**5000


def repr_of(value):
    return "huge" if value is HUGE else repr(value)[:20]


def arrays_of(graph):
    named = ("indptr", "sources", "weights", "names", "out_degree", "in_degree", "out_weight", "dangling_nodes")
    return [array for name in named if (array := getattr(graph, name)) is not None]


@given(graphs(), st.booleans())
def test_no_array_of_a_graph_can_be_written(graph, named):
    graph = replace(graph, names=np.arange(graph.nodes) + 5 if named else None)
    for made in (graph, replace(graph, name="other"), of_graph(graph, 0, 2)):
        for array in arrays_of(made):
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    graph.targets[...] = 0  # A new array at each call.
    assert graph.targets.tolist() == np.repeat(np.arange(graph.nodes), graph.in_degree).tolist()


def test_graphs_from_files_and_generators_are_read_only_too(tmp_path):
    weighted = Graph.from_edges([0, 1], [1, 0], [1.0, 2.0], names=["a", "b"])
    save_npz(weighted, tmp_path / "graph.npz")
    for graph in (
        cpms.load(tmp_path / "graph.npz"),
        cpms.load("rgg:nodes=20"),
        cpms.load("copies:of=(rmat:scale=4),count=2"),
    ):
        assert not any(array.flags.writeable for array in arrays_of(graph))


def test_what_a_graph_is_made_of_is_copied_and_stays_writable():
    given_ = [np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0]), np.array([7, 8, 9])]
    graph = Graph.from_edges(*given_[:3], names=given_[3])
    kept = [array.copy() for array in arrays_of(graph)]
    for array in given_:
        array[:] = 3
    assert all((one == other).all() for one, other in zip(arrays_of(graph), kept, strict=True))


def test_the_constructor_shares_memory_and_leaves_the_users_arrays_writable():
    indptr, sources = np.array([0, 1, 2]), np.array([1, 0], np.int32)
    graph = Graph(indptr, sources)
    assert np.shares_memory(graph.sources, sources)
    assert indptr.flags.writeable
    assert sources.flags.writeable


@pytest.mark.parametrize(
    "changed",
    [
        {"indptr": [0, 1, 2]},
        {"indptr": np.array([0, 1, 2], np.int32)},
        {"indptr": np.zeros(0, np.int64)},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, 1, 3])},
        {"sources": np.array([1, 0], np.int16)},
        {"sources": np.zeros((2, 1), np.int32)},
        {"weights": [1.0, 2.0]},
        {"weights": np.ones(2, np.float32)},
        {"weights": np.ones(3)},
        {"names": ["a", "b"]},
        {"names": np.array(["a"])},
        {"name": None},
        {"first_id": 0.5},
        {"stand_in_for": 3},
    ],
    ids=lambda changed: " ".join(f"{key} {value!r}" for key, value in changed.items()),
)
def test_arrays_that_are_no_graph_are_refused(changed):
    arguments = {"indptr": np.array([0, 1, 2]), "sources": np.array([1, 0], np.int32)}
    assert Graph(**arguments).edges == 2
    with pytest.raises(InputError, match=f"^{next(iter(changed))} "):
        Graph(**arguments | changed)


@pytest.mark.parametrize("method", ["power", "refine"])
@pytest.mark.parametrize("engine", ["cpu", "cpu_composed", "reference", "scipy", "serial"])
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"indptr": np.array([0, 2, 1, 2])}, "indptr descends after entry 1"),
        ({"indptr": np.array([0, 10**8, 2])}, "indptr descends after entry 1"),
        ({"sources": np.array([1, 10**8], np.int32)}, "a number is not among 0 to 1"),
        ({"sources": np.array([1, -5], np.int32)}, "a number is not among 0 to 1"),
        ({"sources": np.array([1, -5], np.int32), "weights": np.ones(2)}, "a number is not among 0 to 1"),
        ({"sources": np.array([1, 1], np.int32), "weights": np.array([-1.0, 3.0])}, "edge 0 has weight -1.0"),
    ],
    ids=str,
)
def test_contents_that_are_no_graph_are_refused_before_loops_read_them(changed, sentence, engine, method):
    """Such arrays ended the process, and a weight below 0 had a false error bound."""
    if method not in cpms.engines.get(engine).methods:
        pytest.skip("the engine has no such method")
    graph = Graph(**{"indptr": np.array([0, 1, 2]), "sources": np.array([1, 0], np.int32)} | changed)
    for use in (lambda: cpms.pagerank(graph, engine=engine, method=method), graph.to_scipy, lambda: cpms.matrix(graph)):
        with pytest.raises(InputError, match=sentence):
            use()


@pytest.mark.parametrize("method", ["power", "refine"])
def test_a_graph_without_nodes_has_no_ranks(method):
    with pytest.raises(InputError, match="graph is empty; it needs at least one node"):
        cpms.pagerank(Graph(np.array([0]), np.array([], np.int32)), method=method, engine="cpu")


@pytest.mark.parametrize("index", [None, "0", 0.5, True, -1, 3, HUGE, math.nan, [0], np.zeros(1)], ids=repr_of)
def test_places_that_are_none_are_refused(index):
    with pytest.raises(InputError, match=r"there is no node of index .*; graph has indices 0 to 1"):
        Graph.from_edges([0], [1]).node_id(index)


@pytest.mark.parametrize("names", [None, [10, 20], ["a", "b"]])
@pytest.mark.parametrize("node", [None, HUGE, math.nan, 1j, object(), "9" * 5000, [], b"a", np.zeros(2)], ids=repr_of)
def test_ids_that_are_none_are_not_found(names, node):
    with pytest.raises(InputError, match=r"^node .* is not in graph; its ids (are|look like) "):
        Graph.from_edges([0], [1], names=names).index_of(node)
