"""A graph with some edges removed and others added equals one built from all its edges."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms import Graph, InputError, UnsupportedError
from cpms.graph.edge_updates import with_edges

NODES = 6
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)


def same(found, expected):
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.sources.tolist() == expected.sources.tolist()
    assert found.sources.dtype == expected.sources.dtype
    assert found.out_degree.tolist() == expected.out_degree.tolist()
    assert found.dangling_nodes.tolist() == expected.dangling_nodes.tolist()
    if expected.weights is None:
        assert found.weights is None
    else:
        assert found.weights.tobytes() == expected.weights.tobytes()
        assert found.out_weight.tobytes() == expected.out_weight.tobytes()
    for array in (found.indptr, found.sources, found.weights, found.out_degree):
        assert array is None or not array.flags.writeable


def pair(edges, first_id=0):
    return [edge[0] + first_id for edge in edges], [edge[1] + first_id for edge in edges]


@given(EDGES, EDGES, st.data(), st.booleans(), st.booleans(), st.sampled_from([0, 1, -3]))
def test_an_updated_graph_equals_one_from_scratch(stored, added, data, weighted, counted, first_id):
    removed = data.draw(st.permutations(stored).map(lambda all_edges: all_edges[: len(stored) // 3]))
    weights = [1.0 + place for place in range(len(stored) + len(added))] if weighted else None
    ours = None if weights is None else weights[: len(stored)]
    graph = Graph.from_edges(*pair(stored, first_id), ours, nodes=NODES, first_id=first_id)
    if counted:
        assert len(graph.out_degree) == NODES
    left = list(enumerate(stored))
    for edge in removed:  # The slow twin: each removes the first that is left of its kind.
        left.remove(next(item for item in left if item[1] == edge))
    edges = [edge for _, edge in left] + added
    kept = None if weights is None else [weights[place] for place, _ in left] + weights[len(stored) :]
    new = (*pair(added, first_id), weights[len(stored) :]) if weighted else pair(added, first_id)
    same(
        with_edges(graph, new, pair(removed, first_id)),
        Graph.from_edges(*pair(edges, first_id), kept, nodes=NODES, first_id=first_id),
    )


@pytest.mark.parametrize("names", [list("abcdefghijkl"), [30, 2, 7, 5, 6, 11, 12, 13, 14, 15, 16, 17]])
@pytest.mark.parametrize("copies", [1, 12])
def test_nodes_have_the_names_of_the_graph(names, copies):
    graph = Graph.from_edges([0, 1], [1, 2], nodes=12, names=names)
    changed = with_edges(graph, ([names[2]] * copies, [names[0]] * copies), ([names[1]], [names[2]]))
    assert changed.sources.tolist() == [2] * copies + [0]
    assert changed.names is graph.names or changed.names.tolist() == graph.names.tolist()


def test_no_change_is_the_same_graph():
    graph = Graph.from_edges([0, 1], [1, 2], [2.0, 3.0], name="pair")
    same(with_edges(graph), graph)
    assert with_edges(graph).name == "pair"


PLAIN, WEIGHTED = Graph.from_edges([0, 0, 1], [1, 1, 2]), Graph.from_edges([0], [1], [2.0])


@pytest.mark.parametrize(
    ("graph", "added", "removed", "text"),
    [
        (PLAIN, ([0], [3]), None, "node 3 is not in graph; its ids are 0 to 2"),
        (PLAIN, None, ([-1], [0]), "node -1 is not in graph"),
        (PLAIN, (["a"], [0]), None, "node 'a' is not in graph"),
        (PLAIN, None, ([2], [0]), "graph has no edge from 2 to 0, fewer than edges_removed; remove edges that it has"),
        (PLAIN, None, ([0] * 3, [1] * 3), "graph stores the edge from 0 to 1 2 times, fewer than edges_removed"),
        (PLAIN, ([0], [1, 2]), None, "edges_added have 1 sources but 2 targets"),
        (PLAIN, (np.ma.masked_equal([0], 0), [1]), None, "edges_added is a masked array"),
        (PLAIN, ([[0], [1, 2]], [1, 2]), None, "edges_added cannot be an array"),
        (PLAIN, ([0], [1], [1.0]), None, "the graph has none; give sources and targets alone"),
        (PLAIN, None, ([0], [1], [1.0]), "edges_removed have weights"),
        (PLAIN, [[0, 1]], None, r"give a pair \(sources, targets\)"),
        (PLAIN, {0, 1}, None, r"give a pair \(sources, targets\)"),
        (PLAIN, {0: [1], 1: [2]}, None, r"give a pair \(sources, targets\)"),
        (PLAIN, None, np.array([0, 1]), r"give a pair \(sources, targets\)"),
        (PLAIN, pd.DataFrame({"from": [0, 1], "to": [1, 2]}), None, r"give a pair \(sources, targets\)"),
        (PLAIN, "ab", None, r"give a pair \(sources, targets\)"),
        (PLAIN, ([[0]], [[1]]), None, "edges_added have ends of 2 dimensions"),
        (PLAIN, ([0.5], [1]), None, "node 0.5 is not in graph"),
        (WEIGHTED, ([0], [1], [-1.0]), None, "weights must be positive"),
    ],
)
def test_wrong_edges_are_refused(graph, added, removed, text):
    with pytest.raises(InputError, match=text):
        with_edges(graph, added, removed)


def test_a_graph_in_device_memory_is_refused():
    class OnDevice(Graph):
        device_arrays = "arrays"

    with pytest.raises(UnsupportedError, match="there is in device memory, and its edges are changed there"):
        with_edges(OnDevice(PLAIN.indptr, PLAIN.sources, name="there"), ([0], [1]))


def test_the_lower_triangle_of_a_file_remains_one_only_without_edges_above():
    graph = Graph(np.array([0, 1, 1]), np.array([1], np.int32), lower_triangle=True)
    assert with_edges(graph, ([1], [0])).lower_triangle
    assert not with_edges(graph, ([0], [1])).lower_triangle
