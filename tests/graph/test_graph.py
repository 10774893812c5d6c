"""Laws of `cpms.Graph`: what was given comes out again, in the order promised."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError

pytestmark = pytest.mark.quick

WEIGHTS = st.floats(min_value=1e-300, max_value=1e300)


@st.composite
def edge_lists(draw: st.DrawFn, *, weighted: bool = True):
    """Return (nodes, [(source, target, weight or None)]) with repeated edges and self-loops."""
    nodes = draw(st.integers(1, 8))
    node = st.integers(0, nodes - 1)
    has_weights = weighted and draw(st.booleans())
    weight = WEIGHTS if has_weights else st.none()
    return nodes, draw(st.lists(st.tuples(node, node, weight), max_size=40)), has_weights


def build(nodes: int, edges: list, has_weights: bool, **options) -> Graph:
    sources, targets, weights = ([edge[k] for edge in edges] for k in range(3))
    return Graph.from_edges(sources, targets, weights if has_weights else None, nodes=nodes, **options)


def in_edges(graph: Graph) -> dict[int, list[tuple[int, float | None]]]:
    found = {}
    for target in range(graph.nodes):
        begin, end = graph.indptr[target], graph.indptr[target + 1]
        weights = [None] * (end - begin) if graph.weights is None else graph.weights[begin:end].tolist()
        found[target] = list(zip(graph.sources[begin:end].tolist(), weights, strict=True))
    return found


def oracle(nodes: int, edges: list, duplicates: str, self_loops: str) -> dict:
    """In-edges by the plainest of means: a list for each target, stably sorted by source."""
    grouped: dict[int, list] = {target: [] for target in range(nodes)}
    for source, target, weight in edges:
        if not (self_loops == "drop" and source == target):
            grouped[target].append((source, weight))
    for target, found in grouped.items():
        found.sort(key=lambda pair: pair[0])
        if duplicates == "keep":
            continue
        by_source: dict[int, list] = defaultdict(list)
        for source, weight in found:
            by_source[source].append(weight)
        if duplicates == "drop":
            grouped[target] = [(source, weights[0]) for source, weights in by_source.items()]
        else:
            sums = {s: sum(1.0 if w is None else w for w in weights) for s, weights in by_source.items()}
            grouped[target] = list(sums.items())
    return grouped


@settings(deadline=None)
@given(edge_lists(), st.sampled_from(["keep", "drop", "sum"]), st.sampled_from(["keep", "drop"]))
@example((1, [], False), "sum", "drop")
@example((2, [(0, 1, 2.0), (0, 1, 3.0), (1, 1, 1.0)], True), "drop", "keep")
@example((3, [(2, 0, None), (2, 1, None), (0, 1, None), (2, 1, None)], False), "drop", "keep")
def test_edges_are_those_of_the_oracle(case, duplicates, self_loops):
    nodes, edges, has_weights = case
    graph = build(nodes, edges, has_weights, duplicates=duplicates, self_loops=self_loops)
    expected = oracle(nodes, edges, duplicates, self_loops)
    found = in_edges(graph)
    assert graph.nodes == nodes
    assert graph.edges == sum(map(len, expected.values()))
    kept = oracle(nodes, edges, "keep", self_loops)
    counts = duplicates == "sum" and graph.edges < sum(map(len, kept.values()))
    for target in range(nodes):
        assert [s for s, _ in found[target]] == [s for s, _ in expected[target]]
        if has_weights or counts:
            np.testing.assert_allclose([w for _, w in found[target]], [w for _, w in expected[target]], rtol=1e-14)
        else:
            assert graph.weights is None


@settings(deadline=None)
@given(edge_lists())
def test_degrees_weights_and_dangling_nodes(case):
    nodes, edges, has_weights = case
    graph = build(*case)
    out_weights = defaultdict(list)
    for source, _, weight in edges:
        out_weights[source].append(1.0 if weight is None else weight)
    targets = [target for _, target, _ in edges]
    assert graph.out_degree.tolist() == [len(out_weights[i]) for i in range(nodes)]
    assert graph.in_degree.tolist() == [targets.count(j) for j in range(nodes)]
    assert graph.dangling_nodes.tolist() == [i for i in range(nodes) if not out_weights[i]]
    np.testing.assert_allclose(graph.out_weight, [sum(out_weights[i]) for i in range(nodes)], rtol=1e-14)
    assert graph.targets.tolist() == sorted(targets)
    assert (graph.weights is None) == (not has_weights)
    assert graph.indptr.dtype == np.int64
    assert graph.sources.dtype == np.int32


@settings(deadline=None)
@given(edge_lists(), st.integers(-3, 5), st.sampled_from([np.int8, np.int32, np.int64, np.uint16]))
def test_ids_count_from_first_id_whatever_their_type(case, first_id, dtype):
    nodes, edges, has_weights = case
    if dtype is np.uint16:
        first_id = abs(first_id)
    sources, targets = (np.array([edge[k] + first_id for edge in edges], dtype=dtype) for k in (0, 1))
    weights = [edge[2] for edge in edges] if has_weights else None
    graph = Graph.from_edges(sources, targets, weights, nodes=nodes, first_id=first_id)
    assert in_edges(graph) == in_edges(build(*case))
    for index in range(nodes):
        assert graph.node_id(index) == index + first_id
        assert graph.index_of(index + first_id) == index
        assert graph.index_of(str(index + first_id)) == index
    for outside in (first_id - 1, first_id + nodes, "x", "", None, 0.5 + first_id, float("inf")):
        with pytest.raises(InputError, match="is not in graph"):
            graph.index_of(outside)


@settings(deadline=None)
@given(edge_lists())
def test_the_largest_id_decides_the_number_of_nodes(case):
    _, edges, has_weights = case
    if edges:
        assert build(None, edges, has_weights).nodes == 1 + max(max(s, t) for s, t, _ in edges)


@settings(deadline=None)
@given(edge_lists())
def test_scipy_round_trip(case):
    graph = build(*case)
    matrix = graph.to_scipy()
    dense = np.zeros((graph.nodes, graph.nodes))
    for source, target, weight in case[1]:
        dense[source, target] += 1.0 if weight is None else weight
    np.testing.assert_allclose(matrix.toarray(), dense, rtol=1e-14)
    for layout in ("csr", "csc", "coo"):
        again = Graph.from_scipy(matrix.asformat(layout))
        assert again.indptr.tolist() == graph.indptr.tolist()
        assert again.sources.tolist() == graph.sources.tolist()
        expected = np.ones(graph.edges) if graph.weights is None else graph.weights
        for j in range(graph.nodes):  # repeated edges may change places on the way
            row = slice(graph.indptr[j], graph.indptr[j + 1])
            assert sorted(zip(graph.sources[row], again.weights[row], strict=True)) == sorted(
                zip(graph.sources[row], expected[row], strict=True)
            )


def test_boolean_scipy_matrices_are_unweighted():
    graph = Graph.from_scipy(scipy.sparse.coo_array(np.array([[False, True], [True, True]])))
    assert graph.weights is None
    assert graph.edges == 3


@settings(deadline=None)
@given(
    edge_lists(),
    st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]),
    st.sampled_from(["{}", "site{}", "int", "reversed", "pair"]),
)
def test_networkx(case, kind, naming):
    nodes, edges, has_weights = case
    names = {
        "int": list(range(nodes)),
        "reversed": list(range(nodes, 0, -1)),
        "pair": [(i, "x") for i in range(nodes)],
    }.get(naming) or [naming.format(i) for i in range(nodes)]
    source = kind()
    source.add_nodes_from(names)
    for i, j, weight in edges:
        source.add_edge(names[i], names[j], **({"weight": weight} if has_weights else {}))
    graph = Graph.from_networkx(source)
    adjacency = nx.to_scipy_sparse_array(source, nodelist=names, dtype=float)
    np.testing.assert_allclose(graph.to_scipy().toarray(), adjacency.toarray(), rtol=1e-14)
    assert graph.edges == source.to_directed().number_of_edges()
    for index, name in enumerate(names):
        assert graph.node_id(index) == (name if naming != "pair" else str(name))
        assert graph.index_of(name) == index


def test_networkx_weight_defaults_to_one_and_can_be_ignored():
    source = nx.DiGraph()
    source.add_edge("a", "b", weight=2.5)
    source.add_edge("b", "c")
    assert Graph.from_networkx(source).weights.tolist() == [2.5, 1.0]
    assert Graph.from_networkx(source, weight=None).weights is None
    assert Graph.from_networkx(source, weight="length").weights is None


def test_narrow_ids_do_not_wrap():
    ids = np.array([-100, 100], dtype=np.int8)
    graph = Graph.from_edges(ids, ids[::-1], first_id=-100)
    assert (graph.nodes, graph.index_of(100), np.flatnonzero(graph.in_degree).tolist()) == (201, 200, [0, 200])


def test_names_answer_for_nodes():
    graph = Graph.from_edges([0], [1], names=np.array(["b.org", "a.org"], dtype=object), name="web")
    assert [graph.node_id(i) for i in range(2)] == ["b.org", "a.org"]
    assert graph.index_of("a.org") == 1
    with pytest.raises(InputError, match=r"'c.org' is not in web; its ids look like 'b.org'"):
        graph.index_of("c.org")
    numbers = Graph.from_edges([0], [1], names=np.array([70, 5]))
    assert numbers.node_id(0) == 70
    assert isinstance(numbers.node_id(0), int)
    assert numbers.index_of("5") == numbers.index_of(5) == 1
    for missing in (7, "x", None):
        with pytest.raises(InputError, match="is not in graph"):
            numbers.index_of(missing)


def test_a_list_of_names_answers_as_an_array_does():
    for names in (["a", "b"], ("a", "b"), np.array(["a", "b"])):
        graph = Graph.from_edges([0, 1], [1, 0], names=names)
        assert (graph.node_id(1), graph.index_of("b")) == ("b", 1)
        with pytest.raises(InputError, match="'c' is not in graph"):
            graph.index_of("c")
    mixed = Graph.from_edges([0, 1], [1, 0], names=np.array([7, "b"], dtype=object))
    assert (mixed.node_id(0), mixed.index_of(7), mixed.index_of("b")) == ("7", 0, 1)
    numbers = Graph.from_edges([0, 1], [1, 0], names=[70, 5])
    assert (numbers.node_id(1), numbers.index_of("5")) == (5, 1)
    assert cpms.pagerank(numbers, personalization=[70]).top(1)[0][0] == 70


@pytest.mark.parametrize("nodes", [3.0, np.int16(3), np.float64(3)])
def test_counts_may_be_whole_numbers_of_any_type(nodes):
    graph = Graph.from_edges([1], [2], nodes=nodes, first_id=type(nodes)(1))
    assert (graph.nodes, graph.node_id(0), graph.index_of(3)) == (3, 1, 2)


def test_networkx_nodes_whose_texts_are_the_same_are_refused():
    with pytest.raises(InputError, match="two nodes are named '1'"):
        Graph.from_networkx(nx.DiGraph([(1, "1"), ("1", 2), (2, 1)]))


@pytest.mark.parametrize("matrix", [np.eye(2), [[0, 1], [1, 0]], None])
def test_matrices_must_be_scipys(matrix):
    with pytest.raises(InputError, match=r"not SciPy's; give scipy\.sparse\.csr_array\(matrix\)"):
        Graph.from_scipy(matrix)


def test_read_only_and_strided_input():
    ids = np.array([[0, 1], [1, 2], [2, 2]], dtype=np.int32)
    ids.flags.writeable = False
    graph = Graph.from_edges(ids[:, 0], ids[:, 1])
    assert graph.sources.tolist() == [0, 1, 2]


BAD = {
    "empty": (([], []), {}, "the graph is empty"),
    "no nodes": (([], []), {"nodes": 0}, "the graph is empty"),
    "lengths": (([0, 1], [1]), {}, "2 sources but 1 targets"),
    "negative": (([0, -1], [1, 1]), {}, "sources hold the id -1; the smallest possible is 0"),
    "below first": (([1], [0]), {"first_id": 1}, "targets hold the id 0; the smallest possible is 1"),
    "above last": (([1], [3]), {"nodes": 2, "first_id": 1}, "an edge names node 3, but the last is 2"),
    "floats": (([0.0], [1.0]), {}, "sources are float64; node ids are integers"),
    "texts": ((["a"], ["b"]), {}, "node ids are integers"),
    "huge": (([0], [2**62]), {}, "ids must be at most 576460752303423487"),
    "beyond int64": (([0], [2**63]), {}, "ids must be at most 576460752303423487"),
    "beyond uint64": (([0], [2**70]), {}, "node ids are integers"),
    "ragged": (([[0], [1, 2]], [0]), {}, "sources cannot be an array"),
    "two dimensions": (([[0, 1]], [[0, 1]]), {}, "sources have 2 dimensions"),
    "few weights": (([0, 1], [1, 0], [1.0]), {}, r"weights have shape \(1,\)"),
    "zero weight": (([0, 1], [1, 0], [1.0, 0.0]), {}, r"edge 1 has weight 0\.0"),
    "negative weight": (([0], [1], [-1.0]), {}, "edge 0 has weight -1"),
    "nan weight": (([0], [1], [float("nan")]), {}, "weight nan"),
    "infinite weight": (([0], [1], [float("inf")]), {}, "weight inf"),
    "text weight": (([0], [1], ["heavy"]), {}, "not text"),
    "no weight": (([0], [1], [None]), {}, "such as None"),
    "complex weight": (([0], [1], [1 + 2j]), {}, "not complex"),
    "ragged weight": (([0, 1], [1, 0], [[1.0], [1.0, 2.0]]), {}, "weights cannot be an array"),
    "policy": (([0], [1]), {"duplicates": "merge"}, "duplicates 'merge' is not known"),
    "loop policy": (([0], [1]), {"self_loops": "no"}, "self_loops 'no' is not known"),
    "names": (([0], [1]), {"names": np.array(["a"])}, "1 names for 2 nodes"),
    "one name for all": (([0], [1]), {"names": "ab"}, "names have 0 dimensions"),
    "ragged names": (([0], [1]), {"names": [["a"], ["b", "c"]]}, "names cannot be an array"),
    "name twice": (([0], [2]), {"names": ["b", "a", "b"]}, "two nodes are named 'b'"),
    "number twice": (([0], [2]), {"names": np.array([7, 5, 7])}, "two nodes are named 7"),
    "number and text": (([0], [1]), {"names": np.array([1, "1"], dtype=object)}, "two nodes are named '1'"),
    "half a node": (([0], [1]), {"nodes": 2.5}, "nodes is 2.5; it must be a whole number"),
    "text of nodes": (([0], [1]), {"nodes": "2"}, "nodes is '2'; it must be a whole number"),
    "truth as nodes": (([0], [1]), {"nodes": True}, "nodes is True; it must be a whole number"),
    "half a first id": (([1], [1]), {"first_id": 0.5}, "first_id is 0.5; it must be a whole number"),
    "far id": (([2**40], [0]), {}, "1,099,511,627,777 nodes needs .* bytes, but .* are free; number the nodes"),
    "far from first": (([0], [1]), {"nodes": 2**58}, "nodes needs .* bytes, but .* are free"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_sentence(case):
    arguments, options, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        Graph.from_edges(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_names_are_given_apart_from_edges():
    with pytest.raises(InputError, match=r"sources are <U1.*names="):
        Graph.from_edges(["a", "b"], ["b", "a"])


def test_there_are_no_nodes_beyond_the_last():
    graph = Graph.from_edges([0], [1])
    for index in (2, -1):
        with pytest.raises(InputError, match="no node of index"):
            graph.node_id(index)


def test_weights_of_a_matrix_may_be_ignored():
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    assert Graph.from_scipy(graph.to_scipy()).weights.tolist() == [1.0] * 3
    again = Graph.from_scipy(graph.to_scipy(), weights="ignore")
    assert again.weights is None
    np.testing.assert_array_equal(again.sources, graph.sources)
    with pytest.raises(InputError, match="one of auto, ignore"):
        Graph.from_scipy(graph.to_scipy(), weights="drop")


def test_what_is_no_graph_of_networkx_is_refused():
    with pytest.raises(InputError, match="not NetworkX's"):
        Graph.from_networkx(5)


@pytest.mark.parametrize(
    "matrix",
    [scipy.sparse.coo_array((2, 3)), scipy.sparse.coo_array(np.ones(3)), scipy.sparse.csr_matrix((1, 4))],
)
def test_matrices_must_be_square(matrix):
    with pytest.raises(InputError, match="a graph needs a square one"):
        Graph.from_scipy(matrix)


def test_stand_ins_are_labelled():
    graph = Graph.from_edges([0], [1], name="copies", stand_in_for="europe_osm")
    assert (graph.name, graph.stand_in_for) == ("copies", "europe_osm")


def test_bytes_are_those_of_the_arrays():
    assert Graph.from_edges([0, 0], [1, 2]).nbytes == 4 * 8 + 2 * 4
    assert Graph.from_edges([0, 0], [1, 2], [1.0, 2.0]).nbytes == 4 * 8 + 2 * 4 + 2 * 8


@pytest.mark.parametrize(("source", "target", "first_id"), [(-(2**63), 5, -(2**63)), (1, 0, -(2**63)), (2**59, 0, -1)])
def test_ids_too_far_from_the_first_are_refused(source, target, first_id):
    with pytest.raises(InputError, match="at most"):
        Graph.from_edges([source], [target], first_id=first_id, nodes=3)


@pytest.mark.parametrize("place", range(3))
def test_masked_ids_and_weights_are_refused(place):
    given = [np.array([0, 0]), np.array([1, 2]), np.array([1.0, 9.0])]
    given[place] = np.ma.array(given[place], mask=[0, 1])
    with pytest.raises(InputError, match="masked"):
        Graph.from_edges(*given)
