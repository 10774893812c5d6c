"""Every kind of file and of object in memory: written by another library, read here as the same graph."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import threading
import warnings
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError
from cpms.base.errors import UnavailableError
from cpms.sources.readers import compression

try:
    from compression import zstd
except ImportError:
    from backports import zstd

LAW = settings(max_examples=40)
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=12)
PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}
TEXT = b"0 1\n1 2\n2 0\n1 1\n"
EDGES_OF_TEXT = [(0, 1), (1, 1), (1, 2), (2, 0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(*members, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def edges_of(graph, *, valued=False):
    ends = [(graph.node_id(s), graph.node_id(t)) for s, t in zip(graph.sources, graph.targets, strict=True)]
    if not valued:
        return sorted(ends)
    weights = np.ones(graph.edges) if graph.weights is None else graph.weights
    return sorted((*pair, weight) for pair, weight in zip(ends, weights.tolist(), strict=True))


def of_networkx(graph):
    """Return the edges by the text of their nodes, undirected ones in both directions."""
    edges = graph.to_directed().edges(data=True)
    return sorted((str(s), str(t), float(data.get("weight", 1))) for s, t, data in edges)


def by_text(edges):
    return sorted((str(s), str(t), w) for s, t, w in edges)


@pytest.mark.parametrize("packed", [*PACKERS, ".zip"])
@pytest.mark.parametrize("ending", [".txt", ".edges", ".edgelist", ".mtx", ".MTX"])
def test_compressed_files_are_read_as_the_plain_ones(folder, ending, packed):
    matrix = scipy.sparse.coo_array(([True] * 4, np.array(EDGES_OF_TEXT).T), shape=(3, 3))
    text = TEXT
    if ending.lower() == ".mtx":
        buffer = io.BytesIO()
        scipy.io.mmwrite(buffer, matrix, field="pattern", symmetry="general")
        text = buffer.getvalue()
    plain, file = folder / f"g{ending}", folder / f"g{ending}{packed}"
    plain.write_bytes(text)
    file.write_bytes(
        zipped((f"__MACOSX/._g{ending}", b"x"), (f"in/g{ending}", text)) if packed == ".zip" else PACKERS[packed](text)
    )
    graph = cpms.load(file)
    assert graph.name == "g"
    assert edges_of(graph) == edges_of(cpms.load(plain))
    assert [(s - graph.first_id, t - graph.first_id) for s, t in edges_of(graph)] == EDGES_OF_TEXT


@pytest.mark.parametrize("packed", ["", *PACKERS])
def test_archives_of_suitesparse_and_konect(folder, packed):
    matrix = b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n"
    konect = b"% asym positive\n% 2 3 3\n1 2 4 99\n2 3 1 98\n"
    for name, members in {
        "g": [("g/._g.MTX", b"\0junk"), ("g/g_b.mtx", b"x"), ("g/g.MTX", matrix)],
        "h": [("h/README.h", b"x"), ("h/meta.h", b"y"), ("h/._out.h", b"\0"), ("h/out.h", konect)],
    }.items():
        path = folder / f"{name}.tar{packed}"
        path.write_bytes(PACKERS.get(packed, bytes)(tarred(*members)))
        graph = cpms.load(path)
        assert graph.name == name
        assert edges_of(graph) == [(1, 2), (2, 3)]
    assert graph.weights.tolist() == [4, 1]
    path = folder / "a.zip"
    path.write_bytes(zipped(("a/out.links", konect)))
    assert cpms.load(path).name == "links"


@LAW
@given(EDGES, st.booleans(), st.sampled_from(["unweighted", "positive", "posweighted"]), st.booleans(), st.booleans())
def test_konect(folder, edges, symmetric, weights, sized, timed):
    valued = weights != "unweighted"
    head = f"% {'sym' if symmetric else 'asym'} {weights}\n" + (f"% {len(edges)} 9 9\n" if sized else "")
    tail = "\t1082008561" * timed
    path = folder / "out.small-graph"
    path.write_text(head + "".join(f"{s + 1} {t + 1} {w if valued else 1}{tail}\n" for s, t, w in edges))
    expected = [(s + 1, t + 1, float(w) if valued else 1.0) for s, t, w in edges]
    graph = cpms.load(path)
    assert edges_of(graph, valued=True) == sorted(expected)
    assert graph.nodes == (9 if sized else max(max(edge[:2]) for edge in expected))
    both = expected + [(t, s, w) for s, t, w in expected if s != t and symmetric]
    assert edges_of(cpms.load(path, symmetric="expand"), valued=True) == sorted(both)


@LAW
@given(EDGES, st.booleans())
def test_dimacs(folder, edges, commented):
    path = folder / "roads.gr"
    comment = "c a comment\nc\n" * commented
    lines = "".join(f"a {s + 1} {t + 1} {w}\n{comment}" for s, t, w in edges)
    path.write_text(f"{comment}p sp 8 {len(edges)}\n{lines}")
    graph = cpms.load(path)
    assert graph.nodes == 8
    assert edges_of(graph, valued=True) == sorted((s + 1, t + 1, float(w)) for s, t, w in edges)


@LAW
@given(EDGES, st.booleans(), st.booleans(), st.booleans())
def test_metis(folder, edges, valued, sized, commented):
    """The neighbours that igraph lists, node by node."""
    import igraph  # A second: it imports Matplotlib.

    simple = igraph.Graph(7, [(s, t) for s, t, _ in edges if s != t]).simplify()
    lists = [simple.neighbors(node) for node in range(7)]
    weight = {
        pair: 1 + sum(pair) % 3 for node in range(7) for pair in ((min(node, n), max(node, n)) for n in lists[node])
    }
    form = f" {int(sized)}0{int(valued)}" if sized or valued else ""
    lines = [f"7 {simple.ecount()}{form}"]
    for node in range(7):
        numbers = [9] * sized
        for other in lists[node]:
            numbers += [other + 1, weight[min(node, other), max(node, other)]][: 1 + valued]
        lines += ["% c"] * commented + [" ".join(map(str, numbers))]
    path = folder / "mesh.graph"
    path.write_text("\n".join(lines) + "\n")
    expected = [
        (s + 1, t + 1, float(weight[min(s, t), max(s, t)] if valued else 1)) for s in range(7) for t in lists[s]
    ]
    graph = cpms.load(path)
    assert graph.nodes == 7
    assert edges_of(graph, valued=True) == sorted(expected)


@LAW
@given(EDGES, st.booleans(), st.sampled_from([".graphml", ".gml", ".net"]), st.sampled_from(["", ".gz"]))
def test_files_that_networkx_writes(folder, edges, directed, ending, packed):
    written = (nx.DiGraph if directed else nx.Graph)()
    written.add_weighted_edges_from((f"n{s}", f"n{t}", w) for s, t, w in edges)
    path = folder / f"theirs{ending}{packed}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        {".graphml": nx.write_graphml, ".gml": nx.write_gml, ".net": nx.write_pajek}[ending](written, path)
    assert by_text(edges_of(cpms.load(path), valued=True)) == of_networkx(written)
    pattern = by_text(edges_of(cpms.load(path, weights="ignore"), valued=True))
    assert pattern == [(s, t, 1.0) for s, t, _ in of_networkx(written)]


@pytest.mark.parametrize("kind", ["edge", "all"])
def test_edges_without_a_weight_have_the_default_of_a_graphml_file(folder, kind):
    path = folder / "defaults.graphml"
    key = f"<key id='w' for='{kind}' attr.name='weight' attr.type='double'><default>2.5</default></key>"
    edges = "<edge source='a' target='b'/><edge source='b' target='a'><data key='w'>4</data></edge>"
    path.write_text(f"<graphml>{key}<graph edgedefault='directed'><node id='a'/>{edges}</graph></graphml>")
    assert edges_of(cpms.load(path), valued=True) == [("a", "b", 2.5), ("b", "a", 4.0)]


@pytest.mark.parametrize("ending", [".graphml", ".gml", ".edgelist"])
def test_files_that_igraph_writes(folder, ending):
    import igraph  # A second: it imports Matplotlib.

    theirs = igraph.Graph.Erdos_Renyi(30, 0.1, directed=True)
    path = folder / f"igraph{ending}"
    writer = {".graphml": "write_graphml", ".gml": "write_gml", ".edgelist": "write_edgelist"}
    getattr(theirs, writer[ending])(str(path))
    graph = cpms.load(path)
    found = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    assert sorted(found) == sorted(theirs.get_edgelist())


@LAW
@given(
    EDGES, st.booleans(), st.booleans(), st.sampled_from(["pandas", "polars", "arrow", "parquet", "tuple", "series"])
)
def test_frames(folder, edges, valued, named, kind):
    columns = {"source": [s for s, *_ in edges], "target": [t for _, t, _ in edges], "weight": [w for *_, w in edges]}
    if named:
        columns |= {end: [f"n{node}" for node in columns[end]] for end in ("source", "target")}
    if not valued:
        del columns["weight"]
    weights = columns.get("weight", [1] * len(edges))
    expected = sorted(zip(columns["source"], columns["target"], map(float, weights), strict=True))
    match kind:
        case "pandas":
            given = pd.DataFrame(columns)
        case "polars":
            given = pl.DataFrame(columns)
        case "arrow":
            given = pa.table(columns)
        case "parquet":
            given = folder / "edges.parquet"
            pl.DataFrame({"day": [1] * len(edges), **columns}).write_parquet(given)
        case "tuple":
            given = tuple(np.array(column) for column in columns.values())
        case _:
            given = tuple(pd.Series(column) if valued else pl.Series(column) for column in columns.values())
    chosen = {"columns": list(columns)} if kind == "parquet" else {}
    graph = cpms.load(given, **chosen)
    assert edges_of(graph, valued=True) == expected
    if kind != "parquet":
        ranks = cpms.pagerank(given).ranks
        assert np.array_equal(ranks, cpms.pagerank(graph).ranks)


@pytest.mark.parametrize("kind", [object, "category", "Int64", "float64"])
def test_whole_numbers_are_ids_whatever_the_type_of_their_column(kind):
    numbers = pd.DataFrame({"s": [3, 0], "t": [0, 2]}).astype(kind)
    assert edges_of(cpms.load(numbers)) == [(0, 2), (3, 0)]
    assert cpms.load(numbers).names is None
    names = pd.DataFrame({"s": ["b", 1], "t": [1, "a"]}).astype(object)
    assert edges_of(cpms.load(names)) == [("1", "a"), ("b", "1")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.gr", "p sp 2 1\na 1 2 1\n"),
        ("g.graph", "2 1\n2\n1\n"),
        ("g.gml", "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]"),
        ("g.graphml", "<graphml><graph edgedefault='directed'><edge source='1' target='2'/></graph></graphml>"),
        ("g.net", "*Vertices 2\n*Arcs\n1 2\n"),
        ("out.g", "% asym unweighted\n1 2\n"),
    ],
)
def test_a_byte_order_mark_is_passed_over(folder, name, text):
    (folder / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert ("1", "2") in {tuple(map(str, edge)) for edge in edges_of(cpms.load(folder / name))}


@LAW
@given(EDGES, st.sampled_from(["coo", "csr", "csc", "lil"]), st.booleans())
def test_matrices_and_graphs_in_memory(edges, layout, directed):
    matrix = scipy.sparse.coo_array(([float(w) for *_, w in edges], np.array(edges).T[:2]), shape=(7, 7))
    graph = cpms.load(matrix.asformat(layout), duplicates="sum")
    assert edges_of(graph, valued=True) == edges_of(cpms.Graph.from_scipy(matrix, duplicates="sum"), valued=True)
    theirs = (nx.DiGraph if directed else nx.Graph)()
    theirs.add_weighted_edges_from(edges)
    assert by_text(edges_of(cpms.load(theirs), valued=True)) == of_networkx(theirs)
    assert cpms.pagerank(theirs).converged
    assert cpms.personalized_pagerank(theirs.__class__(list(theirs.edges())), [next(iter(theirs))])[0].converged


@pytest.mark.skipif(os.name != "posix", reason="has no named pipes")
@pytest.mark.parametrize("packed", ["", *PACKERS])
def test_pipes_and_standard_input(folder, monkeypatch, packed):
    pipe = folder / f"pipe{len(packed)}"
    data = PACKERS.get(packed, bytes)(TEXT)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert edges_of(cpms.load(pipe)) == EDGES_OF_TEXT
    writer.join()
    pipe.unlink()
    for text, count in ((data, 4), (b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", 1)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        graph = cpms.load("-")
        assert (graph.edges, graph.name) == (count, "stdin")


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        (pd.DataFrame({"a": [1], "b": [2], "c": [3], "d": [4]}), {}, "4 columns"),
        (pd.DataFrame({"target": [1], "source": [2]}), {}, "must come first"),
        (pd.DataFrame({"source": [1], "target": [2], "time": [3]}), {}, "no weights"),
        (pd.DataFrame({"source": ["a", None], "target": ["b", "c"]}), {}, "row 2"),
        (pd.DataFrame({"source": [0.5], "target": [1]}), {}, "row 1"),
        (pd.DataFrame({"source": [-1], "target": [1]}), {}, "row 1"),
        (pd.DataFrame({"source": [True], "target": [False]}), {}, "truth"),
        (pd.DataFrame({"source": [()], "target": ["b"]}), {}, "named by"),
        (pd.DataFrame({"source": [], "target": []}), {}, "empty"),
        (pd.DataFrame({"source": [1], "target": [2]}), {"columns": "source,to"}, "no column"),
        (pd.DataFrame({"source": [1], "target": [2]}), {"columns": "1,5"}, "no column 5"),
        (pd.DataFrame({"source": [1], "target": [2]}), {"delimiter": "tab"}, "delimiter"),
        (pd.DataFrame({"source": [1], "target": [2], "weight": [-1.0]}), {}, "row 1"),
        (pd.DataFrame({"source": [1], "target": [2], "weight": ["x"]}), {}, "no number"),
        (pd.Series([1, 2]), {}, "no table"),
        (pd.Series([pd.Timestamp(0), 2**63], dtype=object), {}, "no table"),
        ((np.array(["\ud800", "a"]), ["a", "b"]), {}, "no Unicode text"),
        ((pd.Series(["\ud800", "a"], dtype=object), ["a", "b"]), {}, "no Unicode text"),
        (pd.DataFrame({"s": ["\ud800"], "t": ["a"]}, dtype=object), {}, "no Unicode text"),
        (([0, 1], [1]), {}, "alike"),
        (([0, 1],), {}, "alike"),
        (([[0]], [[1]]), {}, "one dimension"),
        ((pd.DataFrame({"a": [0]}), pd.DataFrame({"a": [1]})), {}, "one dimension"),
        (scipy.sparse.coo_array((2, 3)), {}, "square"),
        (scipy.sparse.coo_array([[0, -1.0], [0, 0]]), {}, "positive"),
        (nx.DiGraph(), {}, "empty"),
        (nx.DiGraph([(1, "1")]), {}, "named"),
        (nx.DiGraph([(1, 2, {"weight": "far"})]), {}, "no number"),
        (nx.DiGraph([(1, 2, {"weight": np.ones(2)})]), {}, "no number"),
    ],
)
def test_objects_that_are_no_graph_are_refused(given, options, reason):
    with pytest.raises(InputError, match=reason):
        cpms.load(given, **options)


def test_missing_libraries_are_named(monkeypatch, tmp_path):
    for module in ("networkx", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a.gml").write_text("graph [ ]")
    (tmp_path / "a.txt.zst").write_bytes(zstd.compress(TEXT))
    for name, library in (("a.gml", "pip install networkx"), ("a.txt.zst", "pip install backports.zstd")):
        with pytest.raises(UnavailableError, match=library):
            cpms.load(tmp_path / name)
    assert set(compression.MAGIC.values()) == set(PACKERS)


def test_a_member_compressed_by_an_unknown_method_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        archive.writestr("a.txt", "0 1\n1 2\n")
    content = bytearray((tmp_path / "odd.zip").read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = 1  # The method in the central directory: shrunk.
    (tmp_path / "odd.zip").write_bytes(content)
    with pytest.raises(InputError, match=r"'a\.txt' cannot be read \(That compression method"):
        cpms.load(tmp_path / "odd.zip")
