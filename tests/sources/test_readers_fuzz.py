"""Nothing but the project's own errors comes out of a reader, whatever the bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpms import CpmsError, Graph, InputError
from cpms.graph.edge_list import graph_of_read
from cpms.sources import readers
from cpms.sources.in_memory import edges_of
from cpms.sources.readers import npz
from cpms.sources.readers.kinds import TEXTS
from cpms.sources.readers.options import ReadOptions

try:
    from compression import zstd
except ImportError:
    from backports import zstd

PATTERN = b"%%MatrixMarket matrix coordinate pattern general\n% c\n4 4 4\n1 2\n2 3\n3 1\n3 3\n"
REAL = b"%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n2 1 1.5\n3 1 2e-3\n3 3 .25\n"
NUMBERED = b"# c\n0 1\n1\t2\n2 0\n"
WEIGHTED = b"source,target,weight\n0,1,1.5\n1,2,0.5\n"
NAMED = b"a.org b.org\r\nb.org c.org/%20\r\n"
QUOTED = b'"a, b",c,1.5\nc,d,2\n'


def _archive(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"}) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _zip(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def _parquet(columns: dict) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def _npz(write) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _own_npz(tmp) -> bytes:
    graph = Graph.from_edges([0, 1], [1, 0], [1.0, 2.0], names=np.array(["a", "b"], dtype=object))
    npz.save_npz(graph, tmp / "own.npz")
    return (tmp / "own.npz").read_bytes()


MATRIX = scipy.sparse.csr_array(np.array([[0, 1.5, 0], [0, 0, 2], [1, 0, 0]]))
TAR = _archive(("g/g_b.mtx", b"x"), ("g/g.mtx", PATTERN), ("g" * 120 + "/readme", b"y"))
# suffix, bytes, whether they are gzipped after the mutation too
SEEDS = {
    "pattern": (".mtx", PATTERN),
    "real": (".mtx", REAL),
    "numbered": (".txt", NUMBERED),
    "weighted": (".csv", WEIGHTED),
    "named": (".el", NAMED),
    "quoted": (".csv", QUOTED),
    "tabbed": (".tsv", NAMED.replace(b" ", b"\t")),
    "tar": (".tar.gz", TAR),
    "metis": (".graph", b"% c\n3 2 001\n2 5\n1 5 3 4\n2 4\n"),
    "dimacs": (".gr", b"c x\np sp 3 2\na 1 2 4\nc y\na 2 3 1\n"),
    "gml": (
        ".gml",
        b'graph [\n node [ id 0 label "a" ]\n node [ id 1 label "b" ]\n edge [ source 0 target 1 ]\n]',
    ),
    "pajek": (".net", b'*vertices 2\n1 "a"\n2 "b"\n*arcs\n1 2 1.5\n*edges\n1 2\n*matrix\n0 1\n2 0\n'),
    "konect": ("out.k", b"% sym positive\n% 3 3 3\n1 2 4 99\n2 3 1 98\n"),
    "graphml": (".graphml", b"<graphml><graph edgedefault='directed'><edge source='a' target='b'/></graph></graphml>"),
    "bz2": (".txt.bz2", bz2.compress(NUMBERED)),
    "xz": (".txt.xz", lzma.compress(NUMBERED)),
    "zst": (".txt.zst", zstd.compress(NUMBERED)),
    "zip": (".zip", _zip("a.txt", NUMBERED)),
    "plain tar": (".tar", _archive(("g/g.mtx", PATTERN))),
    "tar.bz2": (".tar.bz2", bz2.compress(_archive(("g/g.mtx", PATTERN)))),
    "tar.xz": (".tar.xz", lzma.compress(_archive(("g/g.mtx", PATTERN)))),
    "tar.zst": (".tar.zst", zstd.compress(_archive(("g/out.g", b"% asym unweighted\n1 2\n2 3\n")))),
    "parquet": (".parquet", _parquet({"s": [0, 1], "t": [1, 2]})),
    "csr": (".npz", _npz(lambda file: scipy.sparse.save_npz(file, MATRIX, compressed=False))),
    "coo": (".npz", _npz(lambda file: scipy.sparse.save_npz(file, MATRIX.tocoo()))),
}

ENDINGS_OF_SEEDS = ["out.k", ".npz", ".parquet", ".zip", ".txt.bz2", ".txt.xz", ".txt.zst"]
OPTIONS = st.builds(
    ReadOptions,
    symmetric=st.sampled_from(["lower", "expand"]),
    duplicates=st.sampled_from(["keep", "drop", "sum"]),
    self_loops=st.sampled_from(["keep", "drop"]),
    weights=st.sampled_from(["auto", "ignore"]),
    ids=st.sampled_from(["keep", "compact"]),
    zero_weights=st.sampled_from(["refuse", "drop"]),
)
FORMS = st.fixed_dictionaries(
    {
        "header": st.sampled_from(["auto", "auto", "yes", "no"]),
        "comments": st.sampled_from(["auto", "auto", "none", "#"]),
        "delimiter": st.sampled_from(["auto", "auto", "tab", "comma", "space", "|"]),
        "columns": st.sampled_from([None, None, "1,2", "2,1,3", "source,target"]),
    }
)
TELLING = st.sampled_from(
    [
        *(b"\x00", b"\r", b"\n", b" ", b",", b"-", b"%", b"#", b"//", b'"', b"nan", b"1e999", b"0", b"9" * 20),
        *(
            b"\xff",
            b"\xef\xbb\xbf",
            b"\xc2\x85",
            b"2.5",
            b"+1",
            b"1 2 3 4\n",
            b"e",
            b"\x1f\x8b",
            b"..",
            b"/",
            b"4" * 10,
        ),
    ]
)


@st.composite
def mutations(draw: st.DrawFn, seed: bytes) -> bytes:
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        match draw(st.sampled_from(["truncate", "flip", "duplicate", "insert", "delete", "replace"])):
            case "truncate":
                del data[at:]
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "duplicate":
                data[at:at] = data[at : at + 4 * length]
            case "insert":
                data[at:at] = draw(TELLING)
            case "delete":
                del data[at : at + length]
            case "replace":
                data[at : at + length] = draw(st.one_of(TELLING, st.binary(max_size=8)))
    return bytes(data)


@pytest.fixture(autouse=True)
def small_memory(monkeypatch):
    """Let no example allocate much: what would is refused, as on a small machine."""
    monkeypatch.setattr("cpms.base.host_memory.free_bytes", lambda: 1 << 24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def named(stem: str, ending: str) -> str:
    """Return the name of a file of a kind: KONECT has beginnings of names in place of endings."""
    return f"{ending}-{stem}" if ending.startswith("out.") else f"{stem}{ending}"


def read_or_refuse(path, data: bytes, options: ReadOptions) -> None:
    path.write_bytes(data)
    try:
        graph = readers.read(path, options)
    except CpmsError as error:
        text = str(error)
        assert str(path) in text
        assert "\n" not in text
        assert "None" not in text
    else:
        check_whole(graph)


def check_whole(graph: Graph) -> None:
    assert graph.nodes >= 1
    assert graph.indptr[0] == 0
    assert graph.indptr[-1] == graph.edges
    assert (np.diff(graph.indptr) >= 0).all()
    if graph.edges:
        assert 0 <= graph.sources.min() <= graph.sources.max() < graph.nodes
    if graph.weights is not None:
        assert graph.weights.shape == (graph.edges,)
        assert (graph.weights > 0).all()
        assert np.isfinite(graph.weights).all()
    assert graph.names is None or graph.names.shape == (graph.nodes,)


@pytest.mark.parametrize("suffix", [*TEXTS, ".mtx.gz", ".tar", ".tar.gz", *ENDINGS_OF_SEEDS])
@settings(max_examples=40)
@given(data=st.one_of(st.binary(max_size=200), st.text(alphabet='0123 ,\n-.e%#"ab\t\r', max_size=60).map(str.encode)))
@example(data=b"")
@example(data=b"\x00")
@example(data=b"\n\n\n")
def test_any_bytes(folder, suffix, data):
    read_or_refuse(folder / named("bytes", suffix), data, ReadOptions())
    if suffix.endswith(".gz"):
        read_or_refuse(folder / f"zipped{suffix}", gzip.compress(data, 1, mtime=0), ReadOptions())


def test_no_node_is_left_where_no_edge_names_one(folder):
    path, compact = folder / "without_arcs.gr", ReadOptions(ids="compact")
    read_or_refuse(path, b"p sp 3 0\n", ReadOptions())
    read_or_refuse(path, b"p sp 3 0\n", compact)
    with pytest.raises(InputError, match="the graph is empty"):
        readers.read(path, compact)


@pytest.mark.parametrize("seed", SEEDS)
@settings(max_examples=30)
@given(data=st.data(), options=OPTIONS)
def test_mutated_files(folder, seed, data, options):
    suffix, whole = SEEDS[seed]
    mutated = data.draw(mutations(whole))
    if suffix == ".tar.gz":
        mutated = gzip.compress(mutated, 1, mtime=0)
    if readers.module_for(Path(suffix)) == readers.EDGE_LISTS:
        options = replace(options, **data.draw(FORMS))
    read_or_refuse(folder / named("mutated", suffix), mutated, options)


@pytest.mark.parametrize("seed", ["pattern", "numbered", "tar"])
@settings(max_examples=100)
@given(data=st.data())
def test_mutated_gzip_streams(folder, seed, data):
    suffix, whole = SEEDS[seed]
    suffix = suffix if suffix.endswith("gz") else suffix + ".gz"
    mutated = data.draw(mutations(gzip.compress(whole, 1, mtime=0)))
    read_or_refuse(folder / f"stream{suffix}", mutated, ReadOptions())


@settings(max_examples=60)
@given(data=st.data(), options=OPTIONS)
def test_mutated_own_npz(folder, data, options):
    read_or_refuse(folder / "own_mutated.npz", data.draw(mutations(_own_npz(folder))), options)


ARRAYS = st.one_of(
    st.lists(st.integers(-2, 5), max_size=6).map(lambda v: np.array(v, dtype=np.int64)),
    st.lists(st.floats(-1, 3), max_size=6).map(np.array),
    st.sampled_from([np.array(b"csr"), np.array(b"csc"), np.array("coo"), np.array(b"dia"), np.array([], "U1")]),
    st.sampled_from(
        [np.array([3, 3]), np.array(1), np.array([1j]), np.array([[1, 2]]), np.array([2**64 - 1], np.uint64)]
    ),
    st.sampled_from([np.array([True]), np.array(1.5), np.array([0, 1, 1, 1], np.int8), np.array([1], ">i4")]),
)
KEYS = ["format", "shape", "data", "indptr", "indices", "row", "col"]
OWN_KEYS = ["cpms_graph", "indptr", "sources", "weights", "name", "first_id", "names", "names_utf8", "names_ends"]


@pytest.mark.parametrize("keys", [KEYS, OWN_KEYS])
@settings(max_examples=60)
@given(data=st.data())
def test_npz_files_of_wrong_arrays(folder, keys, data):
    """Well-formed files whose arrays do not fit together: the checks of bytes cannot help here."""
    arrays = {key: data.draw(ARRAYS) for key in keys if data.draw(st.integers(0, 9))}
    right = {"format": np.array(b"csr"), "shape": np.array([3, 3]), "cpms_graph": np.array(1), "first_id": np.array(0)}
    arrays |= {key: right[key] for key in arrays if key in right and data.draw(st.integers(0, 3))}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    read_or_refuse(folder / "arrays.npz", buffer.getvalue(), ReadOptions())


VALUES = st.one_of(
    st.integers(-1, 4),
    st.sampled_from(
        ["a", "b", "", " a", "\ud800", "x" * 3000, b"x", None, True, (1,), [1], Decimal(1), date(2020, 1, 1)]
    ),
    st.sampled_from([1.0, 0.5, -0.0, 1j, float("nan"), float("inf"), 2**31, 2**63, 2**70, np.int8(1), pd.NA, pd.NaT]),
)


def columns_of(length: int):
    """Return columns of so many values: ids, names or anything."""
    kinds = (st.integers(0, 4), st.sampled_from("abc\ud800"), VALUES)
    column = st.one_of([st.lists(values, min_size=length, max_size=length) for values in kinds])
    return st.lists(column, min_size=2, max_size=3)


@pytest.mark.parametrize("make", ["frame", "category", "polars", "arrow", "tuple", "series"])
@settings(max_examples=60)
@given(columns=st.integers(1, 3).flatmap(columns_of), options=OPTIONS)
def test_any_objects_in_memory(make, columns, options):
    """What the libraries themselves cannot hold is passed over."""
    table = {f"c{place}": column for place, column in enumerate(columns)}
    try:
        match make:
            case "frame":
                given = pd.DataFrame(table, dtype=object)
            case "category":
                given = pd.DataFrame(table, dtype=object).astype("category")
            case "polars":
                given = pl.DataFrame(table, strict=False)
            case "arrow":
                given = pyarrow.table(table)
            case "tuple":
                given = tuple(map(np.array, columns))
            case _:
                given = tuple(pd.Series(column, dtype=object) for column in columns)
    except (TypeError, ValueError, OverflowError, pyarrow.ArrowException, pl.exceptions.PolarsError):
        return
    try:
        found = edges_of(given, options)
        assert found is not None
        check_whole(graph_of_read(found))
    except CpmsError as error:
        assert "\n" not in str(error)


def test_a_pickle_is_refused(folder):
    buffer = io.BytesIO()
    np.savez(buffer, format=np.array([{"a": 1}], dtype=object))
    read_or_refuse(folder / "pickle.npz", buffer.getvalue(), ReadOptions())
    with pytest.raises(CpmsError):
        readers.read(folder / "pickle.npz")


def test_a_float_beyond_64_bits_is_no_id():
    given = np.array([0.0, 1.0]), np.array([0.0, 2.0**63])
    with pytest.raises(InputError, match=r"9\.22\S+; ids are whole numbers from 0 to 9223372036854775807"):
        edges_of(given, ReadOptions(ids="compact"))
    assert edges_of((given[0], np.array([0.0, 2.0**63 - 1024])), ReadOptions(ids="compact"))
