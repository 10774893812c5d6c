"""Twenty malformed files and more of each kind: refused in a sentence, with the name of the file and the place."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError

try:
    from compression import zstd
except ImportError:
    from backports import zstd

TEXT = b"0 1\n1 2\n2 0\n1 1\n"
MATRIX = b"%%MatrixMarket matrix coordinate pattern general\n3 3 3\n1 2\n2 3\n3 1\n"
PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}


def refused(path, content, place):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=place) as caught:
        cpms.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def cases(tables):
    """Return the cases of each kind of file."""
    assert all(len(table) >= 20 for table in tables.values())
    return [
        pytest.param(ending, content, place, id=f"{ending} {content[:40]!a}")
        for ending, table in tables.items()
        for content, place in table.items()
    ]


VALUED = "% asym positive\n"
TEXTS = {
    "out.x": {
        "": "line 1",
        "1 2\n2 3\n": "line 1",
        "% asym\n1 2\n": "line 1",
        "% asym heavy\n1 2\n": "line 1: 'heavy' is no kind of weights",
        "% directed unweighted\n1 2\n": "line 1",
        "% bip unweighted\n1 1\n": "bipartite",
        "% sym unweighted\n": "empty",
        "% sym unweighted\n% 1 2 2\n": "empty",
        "% sym unweighted\n1 2\n0 1\n": "line 3: node id '0' is out of range",
        "% sym unweighted\n1 2\n-1 1\n": "line 3: node id '-1' is negative",
        "% sym unweighted\n1 2\n1.5 1\n": "line 3: '1.5' is not a node id",
        "% sym unweighted\n1 2\nx 1\n": "line 3: 'x' is not a node id",
        "% sym unweighted\n1 2\n+1 1\n": r"line 3: '\+1' is not a node id",
        "% sym unweighted\n1 2\n1\n": "line 3: 1 field",
        "% sym unweighted\n% 1 2 2\n1 3\n": "names node 3, but line 2 declares 2 nodes",
        "% sym unweighted\n1 99999999999999999999\n": "line 2: node id '9+' is out of range",
        "% sym unweighted\n1 \x002\n": "line 2",
        f"{VALUED}1 2 -1\n": "line 2: weight -1.0",
        f"{VALUED}1 2 0\n": "line 2: weight 0.0",
        f"{VALUED}1 2 nan\n": "line 2: 'nan' is not a finite decimal",
        f"{VALUED}1 2 1e999\n": "line 2: weight inf",
        f"{VALUED}1 2 x\n": "line 2: 'x' is not a finite decimal",
        f"{VALUED}1 2 3\n2 3\n": "line 3: 2 fields",
        f"{VALUED}1 2\n2 3 4\n": "line 3: 3 fields",
        "% asym signed\n1 2 1\n2 3 -1\n": "line 3: weight -1.0",
    },
    ".gr": {
        "": "line 1",
        "c x\n": "line 1",
        "a 1 2 3\n": "line 1: 'a 1 2 3' where 'p sp NODES ARCS' belongs",
        "p max 3 1\na 1 2 3\n": "line 1",
        "p sp 3\na 1 2 3\n": "line 1",
        "p sp -3 1\na 1 2 3\n": "line 1",
        "p sp 0 0\n": "empty",
        "p sp 99999999999999 99999999999999\n": "bytes",
        "p sp 3 1\n": "0 of the 1 arcs",
        "p sp 3 1\na 1 2 3\na 2 3 1\n": "line 3: more arcs",
        "p sp 3 1\na 1 2\n": "line 2: 2 fields",
        "p sp 3 1\na 1 2 3 4\n": "line 2: 4 fields",
        "p sp 3 1\na 0 2 3\n": "line 2: node id '0'",
        "p sp 3 1\na 4 2 3\n": "line 2: node id '4'",
        "p sp 3 1\na -1 2 3\n": "line 2: node id '-1'",
        "p sp 3 1\na 1 x 3\n": "line 2: 'x' is not a node id",
        "p sp 3 1\na 1 2 x\n": "line 2: 'x' is not a finite decimal",
        "p sp 3 1\na 1 2 0\n": "line 2: weight 0.0",
        "p sp 3 1\na 1 2 -5\n": "line 2: weight -5.0",
        "p sp 3 1\na 1 2 1e999\n": "line 2: weight inf",
        "p sp 3 1\ne 1 2 3\n": "line 2: 'e 1 2 3' is no arc",
        "p sp 3 1\n1 2 3\n": "line 2: '1 2 3' is no arc",
        "p sp 3 1\na1 2 3\n": "line 2: 'a1 2 3' is no arc",
        "p sp 3 1\np sp 3 1\na 1 2 3\n": "line 2: 'p sp 3 1' is no arc",
        "p sp 3 1\na 1 2\x00 3\n": "line 2",
    },
    ".graph": {
        "": "line 1",
        "% c\n": "line 1",
        "x 1\n": "line 1",
        "1 2 3 4 5\n": "line 1",
        "2 1 2\n2\n1\n": "line 1",
        "-2 1\n2\n1\n": "line 1",
        "0 0\n": "empty",
        "99999999999999 99999999999999\n": "bytes",
        "2 1\n2\nx\n": "line 3: 'x' is not a whole number",
        "2 1\n2\n1.0\n": "line 3: '1.0' is not a whole number",
        "2 1\n2\n-1\n": "line 3: '-1' is not a whole number",
        "2 1\n2\n9999999999999999999\n": "line 3: '9+' is not a whole number",
        "2 1\n2\n1\x00\n": "line 3",
        "3 1\n2\n1\n": "2 of 3 nodes",
        "2 1\n2\n1\n1\n": "line 4: more nodes",
        "2 1\n2\n": "1 of 2 nodes",
        "2 2\n2\n1\n": "2 ends of the 2 edges",
        "3 2\n2 3\n1\n1 1\n": "line 4: more edges",
        "3 1\n2\n3\n\n": "both of its ends",
        "2 1\n2\n3\n": "neighbour 3",
        "2 1\n2\n0\n": "neighbour 0",
        "2 1 1\n2 5\n1\n": "line 3: 1 numbers",
        "2 1 1\n2 0\n1 0\n": "weight 0.0",
        "2 1 1\n2 5\n1 6\n": "both of its ends",
        "2 1 10 3\n1 2\n1\n": "line 2: 2 numbers",
    },
}


@pytest.mark.parametrize(("ending", "content", "place"), cases(TEXTS))
def test_texts_of_collections(tmp_path, ending, content, place):
    refused(tmp_path / (ending if ending.startswith("out") else f"bad{ending}"), content, place)


def graphml(body, keys="", kind="directed"):
    return f"<graphml>{keys}<graph edgedefault='{kind}'><node id='a'/><node id='b'/>{body}</graph></graphml>"


EDGE, WEIGHT = "<edge source='a' target='b'/>", "<key id='w' for='edge' attr.name='weight' attr.type='{}'/>"


def weighted(value, kind="double"):
    return graphml(f"<edge source='a' target='b'><data key='w'>{value}</data></edge>", WEIGHT.format(kind))


def gml(body, head=""):
    return f"graph [ {head} node [ id 0 label 0 ] node [ id 1 label 1 ] {body} ]"


MARKED = {
    ".graphml": {
        "": "GraphML",
        "graph [ ]": "GraphML",
        graphml(EDGE)[:-10]: "GraphML",
        "<graphml></graphml>": "GraphML",
        "<html><body/></html>": "GraphML",
        "<graphml><graph edgedefault='directed'/></graphml>": "empty",
        graphml("<edge source='a' target='b' directed='false'/>"): "GraphML",
        graphml("<edge source='a' target='b' directed='true'/>", kind="undirected"): "GraphML",
        graphml("<hyperedge/>"): "GraphML",
        graphml("<edge target='b'/>"): "edge 1 lacks",
        graphml(f"{EDGE}<edge source='a'/>"): "edge 2 lacks",
        graphml("<node id='a'/>"): "3 nodes and 0 edges",
        graphml("<edge id='e' source='a' target='b'/><edge id='e' source='a' target='b'/>"): "2 edges",
        graphml(f"<node id='c'><graph edgedefault='directed'>{EDGE}</graph></node>"): "3 nodes and 1 edges",
        graphml(EDGE).replace("</graphml>", graphml(EDGE)[9:]): "4 nodes and 2 edges",
        graphml("<edge source='a' target='b'><data key='w'>1</data></edge>"): "GraphML",
        weighted("far"): "GraphML",
        weighted("far", "string"): "no number",
        weighted("-1"): "positive",
        weighted("0"): "weight 0.0",
        weighted("nan"): "positive",
        weighted("INF"): "positive",
        weighted("1", "tensor"): "GraphML",
        graphml(EDGE.replace("'b'", "'&c;'")): "GraphML",
        b"\xff\xfe\x00": "GraphML",
    },
    ".gml": {
        "": "GML",
        "graph": "GML",
        "graph [": "GML",
        "graph [ ] ]": "GML",
        "graph [ ] graph [ ]": "more than one graph",
        "digraph { a -> b }": "GML",
        "graph [ node [ id ": "GML",
        "graph [ ]": "empty",
        "graph [ node [ label 1 ] ]": "GML",
        "graph [ node [ id 1 ] node [ id 1 ] ]": "GML",
        gml("edge [ source 0 ]"): "GML",
        gml("edge [ target 0 ]"): "GML",
        gml("edge [ source 0 target 2 ]"): "GML",
        gml("edge [ source 0 target 1 ] edge [ source 0 target 1 ]"): "GML",
        gml("edge [ source 0 target 1 weight -1 ]"): "positive",
        gml("edge [ source 0 target 1 weight 0 ]"): "weight 0.0",
        gml("edge [ source 0 target 1 weight NAN ]"): "positive",
        gml("edge [ source 0 target 1 weight INF ]"): "positive",
        gml('edge [ source 0 target 1 weight "far" ]'): "no number",
        gml("edge [ source 0 target 1 weight [ x 1 ] ]"): "no number",
        gml("edge [ source 0 target 1 weight 1,5 ]"): "GML",
        gml("edge [ source 0 target 1 ]").replace("label 0", 'label "\u00e9"'): "GML",
        "graph [ \x00 ]": "GML",
    },
}


@pytest.mark.parametrize(("ending", "content", "place"), cases(MARKED))
def test_texts_that_networkx_reads(tmp_path, ending, content, place):
    refused(tmp_path / f"bad{ending}", content, place)


def zipped(*members, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def parquet(columns):
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


WHOLE = {
    **{f".txt{packed}": pack(TEXT) for packed, pack in PACKERS.items()},
    ".txt.zip": zipped(("a.txt", TEXT)),
    ".zip": zipped(("a.mtx", MATRIX), compression=zipfile.ZIP_DEFLATED),
    ".parquet": parquet({"source": [0, 1, 2], "target": [1, 2, 0]}),
    **{f".tar{packed}": pack(tarred(("g/._g.MTX", b"\0"), ("g/g.MTX", MATRIX))) for packed, pack in PACKERS.items()},
    ".tar": tarred(("g/g.mtx", MATRIX)),
    ".graphml": graphml(EDGE).encode(),
    ".gml": gml("edge [ source 0 target 1 ]").encode(),
}


@pytest.mark.parametrize("ending", WHOLE)
def test_files_that_end_early_are_refused_wherever_they_are_cut(tmp_path, ending):
    path, whole = tmp_path / f"cut{ending}", WHOLE[ending]
    path.write_bytes(whole)
    graph = cpms.load(path)
    for end in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:end])
        try:
            found = cpms.load(path)
        except InputError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
        else:  # Zeros end a tar archive.
            assert ending == ".tar"
            assert set(whole[end:]) == {0}
            assert found.sources.tobytes() == graph.sources.tobytes()


@pytest.mark.parametrize("ending", [".txt.gz", ".txt.bz2", ".txt.xz", ".txt.zip", ".zip", ".tar.gz", ".tar.xz"])
@settings(max_examples=60)
@given(data=st.data())
def test_one_wrong_bit_is_noticed_or_changes_nothing(tmp_path_factory, ending, data):
    """These kinds carry checksums of what they hold."""
    path, whole = tmp_path_factory.getbasetemp() / f"bit{ending}", bytearray(WHOLE[ending])
    path.write_bytes(whole)
    graph = cpms.load(path)
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    try:
        found = cpms.load(path)
    except InputError as error:
        assert str(path) in str(error)
    else:
        assert found.sources.tobytes() == graph.sources.tobytes()
        assert found.indptr.tobytes() == graph.indptr.tobytes()


ENDS = {"source": [0, 1], "target": [1, 0]}
TABLES = {
    "one column": ({"source": [0]}, "1 column "),
    "four columns": ({**ENDS, "kg": [1, 2], "m": [1, 2]}, "4 columns.*cpms.load"),
    "no rows": ({"source": [], "target": []}, "empty"),
    "swapped": ({"target": [0], "source": [1]}, "must come first"),
    "times": ({**ENDS, "timestamp": [1, 2]}, "may be no weights"),
    "a missing end": ({"source": ["a", None], "target": ["b", "c"]}, "row 2: .*no value"),
    "a missing number": ({"source": pd.array([0, None], "Int64"), "target": [1, 0]}, "row 2: .*no value"),
    "nan": ({"source": [0.0, float("nan")], "target": [1, 0]}, "row 2: .*no value"),
    "negative": ({"source": [0, -1], "target": [1, 0]}, "row 2: .*-1"),
    "fraction": ({"source": [0, 0.5], "target": [1, 0]}, "row 2: .*0.5"),
    "infinite": ({"source": [0, float("inf")], "target": [1, 0]}, "row 2: .*inf"),
    "huge": ({"source": [0, 2**62], "target": [1, 0]}, "row 2"),
    "unsigned": ({"source": np.array([0, 2**64 - 1], np.uint64), "target": [1, 0]}, "row 2"),
    "truths": ({"source": [True, False], "target": [1, 0]}, "truth"),
    "times as ends": ({"source": pd.to_datetime(["2020-01-01", "2020-01-02"]), "target": [1, 0]}, "named by"),
    "lists": ({"source": [[0], [1]], "target": [1, 0]}, "named by"),
    "bytes": ({"source": [b"a", b"b"], "target": [1, 0]}, "named by"),
    "negative weight": ({**ENDS, "weight": [1, -1]}, "row 2: weight -1.0"),
    "zero weight": ({**ENDS, "weight": [1, 0]}, "row 2: weight 0.0"),
    "infinite weight": ({**ENDS, "weight": [1, float("inf")]}, "row 2: weight inf"),
    "missing weight": ({**ENDS, "weight": [1, None]}, "row 2: .*no value"),
    "text as weight": ({**ENDS, "weight": ["1", "x"]}, "no number"),
    "many nodes": ({"source": [0, 2**40], "target": [1, 0]}, "bytes"),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["parquet", "pandas"])
def test_tables(tmp_path, name, kind):
    columns, place = TABLES[name]
    if kind == "parquet":
        refused(tmp_path / "bad.parquet", parquet(columns), place)
    else:
        with pytest.raises(InputError, match=place):
            cpms.load(pd.DataFrame(columns))


ARCHIVES = {
    "not.zip": (TEXT, "zip archive"),
    "empty.zip": (b"", "zip archive"),
    "two.zip": (zipped(("a.txt", TEXT), ("b.txt", TEXT)), "2 files"),
    "none.zip": (zipped(("__MACOSX/._a.txt", b"x")), "0 files"),
    "folder.zip": (zipped(("a/", b"")), "0 files"),
    "other.zip": (zipped(("a.pdf", b"x")), "a.pdf"),
    "nameless.zip": (zipped(("graph", TEXT)), "unpack"),
    "inner.zip": (zipped(("a.txt.gz", gzip.compress(TEXT))), "unpack"),
    "archive.zip": (zipped(("a.tar", tarred(("g/g.mtx", MATRIX)))), "unpack"),
    "broken.zip": (zipped(("a.mtx", MATRIX + b"1 1\n")), "line 6"),
    "no_edges.zip": (zipped(("a.txt", b"# c\n")), "empty"),
    "sum.txt.zip": (zipped(("a.txt", TEXT)).replace(b"a.txt", b"b.txt", 1), "differ|byte"),
    "not.txt.gz": (TEXT, "byte"),
    "not.txt.bz2": (TEXT, "byte"),
    "not.txt.xz": (TEXT, "byte"),
    "not.txt.zst": (TEXT, "byte"),
    "empty.txt.bz2": (b"", "byte|empty"),
    "empty.txt.xz": (b"", "byte|empty"),
    "empty.txt.zst": (b"", "byte|empty"),
    "tail.txt.gz": (gzip.compress(TEXT) + b"tail", "byte"),
    "tail.txt.zst": (zstd.compress(TEXT) + b"tail", "byte"),
    "other.txt.bz2": (gzip.compress(TEXT), "byte"),
    "other.txt.gz": (bz2.compress(TEXT), "byte"),
    "not.tar": (TEXT, "byte"),
    "fork.tar": (tarred(("g/._g.mtx", MATRIX)), "no .mtx"),
    "two.tar": (tarred(("a/a.mtx", MATRIX), ("b/b.MTX", MATRIX)), "second graph"),
    "konect.tar.bz2": (bz2.compress(tarred(("h/out.h", b"1 2\n"))), "line 1"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_and_compressed_files(tmp_path, name):
    refused(tmp_path / name, *ARCHIVES[name])
