"""Pajek networks: those that igraph and NetworkX write, all sections of the format, and what is refused."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError

LAW = settings(max_examples=40)
TIES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9)), max_size=12)
NAMES = ["a", "New York", "x,y", "%", "*", 'q"q']


def edges_of(graph):
    ends = [(graph.node_id(s), graph.node_id(t)) for s, t in zip(graph.sources, graph.targets, strict=True)]
    weights = np.ones(graph.edges) if graph.weights is None else graph.weights
    return sorted((*pair, weight) for pair, weight in zip(ends, weights.tolist(), strict=True))


def both(ties):
    return ties + [(t, s, w) for s, t, w in ties if s != t]


@LAW
@given(TIES, st.booleans(), st.booleans())
def test_networks_that_igraph_writes(tmp_path_factory, ties, directed, labelled):
    import igraph  # A second: it imports Matplotlib.

    path = tmp_path_factory.mktemp("pajek") / "theirs.net"
    theirs = igraph.Graph(6, [(s - 1, t - 1) for s, t, _ in ties], directed=directed)
    theirs.es["weight"] = [w for *_, w in ties]
    if labelled:
        theirs.vs["name"] = [f"n {node}" for node in range(6)]
    theirs.write_pajek(str(path))
    graph = cpms.load(path)
    ends = ties if directed else both(ties)
    expected = [(f"n {s - 1}", f"n {t - 1}", float(w)) if labelled else (s, t, float(w)) for s, t, w in ends]
    assert graph.nodes == 6
    assert edges_of(graph) == sorted(expected)
    assert {each[:2] for each in edges_of(cpms.load(path, weights="ignore"))} == {each[:2] for each in expected}


@LAW
@given(TIES, TIES, st.permutations(["arcs", "edges", "lists", "comment"]), st.booleans())
def test_arcs_and_edges_keep_their_meaning_in_any_order(tmp_path_factory, arcs, edges, order, empty):
    """Arcs have a direction and edges have none, wherever they stand; NetworkX and igraph take both for one kind."""
    path = tmp_path_factory.mktemp("pajek") / "mixed.net"
    parts = {
        "arcs": "*Arcs\n" + "".join(f"{s} {t} {w}\n" for s, t, w in arcs),
        "edges": "*Edges\n" + "".join(f"{s} {t} {w}\n" for s, t, w in edges),
        "lists": "*Arcslist\n" * empty,
        "comment": "% 1 2 3\n\n",
    }
    path.write_text("*Vertices 6\n" + "".join(parts[each] for each in order))
    assert edges_of(cpms.load(path)) == sorted((s, t, float(w)) for s, t, w in arcs + both(edges))


@LAW
@given(TIES, st.booleans())
def test_networks_that_networkx_writes(tmp_path_factory, ties, directed):
    path = tmp_path_factory.mktemp("pajek") / "theirs.pajek"
    written = (nx.MultiDiGraph if directed else nx.MultiGraph)()
    written.add_nodes_from(NAMES)
    written.add_weighted_edges_from((NAMES[s - 1], NAMES[t - 1], w) for s, t, w in ties)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nx.write_pajek(written, path)
    ends = ties if directed else both(ties)
    assert edges_of(cpms.load(path)) == sorted((NAMES[s - 1], NAMES[t - 1], float(w)) for s, t, w in ends)


def test_a_backslash_before_a_quote_is_no_part_of_a_label(tmp_path):
    path = tmp_path / "escaped.net"
    path.write_text('*Vertices 3\n1 "q\\"q" 0.0 0.0 ellipse\n2 "a\\b" box\n3 "c\\"\n*Arcs\n1 2\n2 3\n')
    assert edges_of(cpms.load(path)) == [("a\\b", "c\\", 1.0), ('q"q', "a\\b", 1.0)]


HEAD = '*Vertices 3\r\n1 "a" 0.5 0.5 box\r\n2 "b c" \r\n3 d\r\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*Arcs\n1 2\n*Edges\n2 3 2\n", [("a", "b c", 1), ("b c", "d", 2), ("d", "b c", 2)]),
        ('*Arcs :1 "likes"\n1 2 1 l "x"\n*Arcs :2 "knows"\n1 2 3 c Blue\n', [("a", "b c", 1), ("a", "b c", 3)]),
        ("*Arcslist\n1 2\n*Edgeslist\n3 1 3\n", [("a", "b c", 1), ("a", "d", 1), ("d", "a", 1), ("d", "d", 1)]),
        ("*Matrix\n0 1 0\n0 0 2.5\n0.0 0 0\n", [("a", "b c", 1), ("b c", "d", 2.5)]),
        ("*ARCS\n% 1 3\n3 3 1.0\n", [("d", "d", 1)]),
    ],
)  # fmt: skip
def test_each_section_has_its_meaning(tmp_path, text, expected):
    path = tmp_path / "small.net"
    path.write_bytes(b"\xef\xbb\xbf" + ("*Network small\n" + HEAD + text).encode())
    assert edges_of(cpms.load(path)) == sorted(expected)


@pytest.mark.parametrize("vertices", ['1 "a"\n2 "a"\n', '1 "a"\n', "1\n2\n", ""])
def test_vertices_without_labels_of_their_own_are_called_by_their_numbers(tmp_path, vertices):
    path = tmp_path / "numbers.net"
    path.write_text(f"*Vertices 2\n{vertices}*Arcs\n1 2\n")
    assert edges_of(cpms.load(path)) == [(1, 2, 1)]
    assert cpms.load(path).nodes == 2


BAD = {
    "": "no Pajek network",
    "1 2\n": "line 1: '1 2' stands above",
    "*Network x\n*Arcs\n1 2\n": "line 2: '\\*Arcs' stands above",
    "*Vertices\n": "line 1: '' is no number of vertices",
    "*Vertices 0\n": "line 1: '0' is no number",
    "*Vertices -2\n": "line 1: '-2' is no number",
    "*Vertices 99999999999999999\n": "line 1: .* bytes",
    "*Vertices 5 2\n": "line 1: .*bipartite",
    "*Vertices 2\n*Vertices 2\n": "line 2: a second network",
    "*Vertices 2\n*Partition p\n1\n": "line 2: section '\\*Partition'",
    '*Vertices 2\n1 "a\n': "line 2: nothing closes the quote",
    '*Vertices 2\n1 "a"\n1 "b"\n': "line 3: vertex 1 is there twice",
    '*Vertices 2\n3 "a"\n': "line 2: '3' is no vertex; these are 1 to 2",
    "*Vertices 2\n*Arcs\n1\n": "line 3: 1 field",
    "*Vertices 2\n*Arcs\n0 1\n": "line 3: '0' is no vertex",
    "*Vertices 2\n*Arcs\n1 x\n": "line 3: 'x' is no vertex",
    "*Vertices 2\n*Arcs\n1 2.0\n": "line 3: '2.0' is no vertex",
    "*Vertices 2\n*Edges\n1 2 far\n": "line 3: value 'far' is not a finite decimal number",
    "*Vertices 2\n*Edges\n1 2 1,5\n": "line 3: value '1,5'",
    "*Vertices 2\n*Edges\n1 2 nan\n": "line 3: value 'nan'",
    "*Vertices 2\n*Edges\n1 2 -1\n": "line 3: weight -1.0; weights must be positive",
    "*Vertices 2\n*Edges\n1 2 0\n": "line 3: weight 0.0",
    "*Vertices 2\n*Edges\n1 2 1e999\n": "line 3: weight inf",
    "*Vertices 2\n*Arcslist\n1 3\n": "line 3: '3' is no vertex",
    "*Vertices 2\n*Matrix\n0 1\n": "the matrix ends after 1 of 2 rows",
    "*Vertices 2\n*Matrix\n0 1\n*Arcs\n1 2\n": "line 4: the matrix ends after 1 of 2",
    "*Vertices 2\n*Matrix\n0 1\n1 0\n1 1\n": "line 5: the matrix has 2 rows",
    "*Vertices 2\n*Matrix\n0 1 1\n": "line 3: the matrix has 2 rows",
    "*Vertices 2\n*Matrix\n0 x\n": "line 3: value 'x'",
    "*Vertices 2\n*Arcs\n1 2 \x00\n": "line 3: control character",
    b"*Vertices 2\n*Arcs\n1 2\n\xff": "line 4: the text is not UTF-8",
}


@pytest.mark.parametrize("text", BAD)
def test_malformed_networks_are_refused_with_their_line(tmp_path, text):
    path = tmp_path / "bad.net"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=BAD[text]) as caught:
        cpms.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_are_read_as_options_say(tmp_path):
    path = tmp_path / "values.net"
    path.write_text("*Vertices 2\n*Arcs\n1 2 0\n2 1 -3\n")
    assert edges_of(cpms.load(path, weights="ignore")) == [(1, 2, 1), (2, 1, 1)]
    path.write_text("*Vertices 2\n*Arcs\n1 2 0\n2 1 3\n")
    graph = cpms.load(path, zero_weights="drop")
    assert (edges_of(graph), graph.read.zero_weights) == ([(2, 1, 3)], 1)
