"""Readers against what was written: the same edges, ids and weights come back, or a sentence does."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpms import Graph, InputError
from cpms.sources import readers
from cpms.sources.generators import generate
from cpms.sources.readers import entries, npz
from cpms.sources.readers.edge_lists import reader
from cpms.sources.readers.entries import LineForm, fault
from cpms.sources.readers.options import ReadOptions

SMALL = settings(max_examples=60)
BLANKS = st.sampled_from([" ", "\t", "  ", " \t "])
LINE_ENDS = st.sampled_from(["\n", "\r\n", " \n", "\n\n", "\n \n"])
WEIGHTS = st.one_of(st.floats(5e-324, 9e7), st.floats(1e20, 1e300), st.integers(10**19, 10**20)).map(repr)
"""None that might be a time in seconds to nanoseconds."""


@st.composite
def edge_lists(draw, *, first: int = 0, valued: bool | None = None):
    """Return (nodes, [(source, target)], weights as texts or None), repeated edges and loops included."""
    nodes = draw(st.integers(1, 12))
    node = st.integers(first, first + nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    valued = draw(st.booleans()) if valued is None else valued
    weights = [draw(WEIGHTS) for _ in edges] if valued else None
    return nodes, edges, weights


@contextlib.contextmanager
def block_bytes(size: int):
    """Read in blocks of a few bytes, so that lines lie across their borders."""
    patch = pytest.MonkeyPatch()
    patch.setattr("cpms.sources.readers.stream.BLOCK_BYTES", size)
    try:
        yield
    finally:
        patch.undo()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


def write(path, text: str | bytes):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith("gz") else data)
    return path


def same(found: Graph, expected: Graph) -> None:
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.sources.tolist() == expected.sources.tolist()
    assert (found.weights is None) == (expected.weights is None)
    if expected.weights is not None:
        np.testing.assert_array_equal(found.weights, expected.weights)
    assert [found.node_id(i) for i in range(found.nodes)] == [expected.node_id(i) for i in range(expected.nodes)]


def lines_of(draw, edges, weights, separators) -> str:
    fields = [tuple(map(str, edge)) for edge in edges]
    if weights is not None:
        fields = [(*edge, weight) for edge, weight in zip(fields, weights, strict=True)]
    return "".join(draw(separators).join(line) + draw(LINE_ENDS) for line in fields)


# --- checked lines ---------------------------------------------------------------------------------------------------

LINE_TEXT = st.one_of(
    st.text(alphabet="01289 \t,.-+eE\rx%", max_size=14),
    st.from_regex(r"\A *[0-9]{1,20}[ ,\t]+[0-9]{1,4}([ ,]-?[0-9]*\.?[0-9]*([eE][-+]?[0-9]*)?)?\s{0,2}\Z").map(
        lambda text: text.replace("\n", "")
    ),
)


@settings(max_examples=400)
@given(
    LINE_TEXT, st.booleans(), st.booleans(), st.sampled_from([(0, 2**63 - 1), (0, 2**59 - 1), (1, 9), (0, 20), (1, 1)])
)
@example("1 2 1e5", True, False, (1, 9))
@example("1 2 1e", True, False, (1, 9))
@example("1 2 .", True, False, (1, 9))
@example("1 2\r", False, False, (1, 9))
@example("1 2 \r ", False, False, (1, 9))
@example("1 ,\t2 ", False, True, (1, 9))
@example("0000000000000000000000000000001 2", False, False, (1, 9))
@example("576460752303423488 0", False, False, (0, 2**59 - 1))
@example("99999999999999999999999999 0", False, False, (0, 2**59 - 1))
@example("9223372036854775807 9223372036854775806", False, False, (0, 2**63 - 1))
@example("9223372036854775808 0", False, False, (0, 2**63 - 1))
@example("18446744073709551617 0", False, False, (0, 2**63 - 1))
def test_the_kernel_and_its_slow_twin_agree(line, valued, comma, ids):
    agree(line, LineForm(valued=valued, separator="," if comma else None, low=ids[0], high=ids[1]))


def agree(line: str, form: LineForm) -> None:
    found, lines, offset = entries.first_fault(np.frombuffer(b"\n" + line.encode() + b"\n", np.uint8), form)
    reason = fault(line, form)
    assert (offset >= 0) == (reason is not None), reason
    if reason is None:
        assert (found, lines) == (1 if line.strip(" \t\r") else 0, 2)
    else:
        assert (found, lines, offset) == (0, 1, 1)


@settings(max_examples=600)
@given(
    st.lists(st.sampled_from(["1", "23", "0.5", "x", "", "é", '"', "9" * 19, " 4 "]), min_size=1, max_size=5),
    st.sampled_from([" ", "\t", ",", ";", "\t\t", ", "]),
    st.sampled_from([None, "\t", ",", ";"]),
    st.permutations(range(4)),
    st.booleans(),
    st.sampled_from([None, 4, 5]),
)
@example(["1", "2", "", ""], "\t", "\t", [0, 1, 2, 3], False, 4)
@example(["1", "2", "", ""], "\t", "\t", [0, 1, 2, 3], False, 5)
@example(["1", "2", "", ""], " ", None, [0, 1, 2, 3], False, 4)
def test_they_agree_of_chosen_columns(fields, gap, separator, order, valued, count):
    columns = tuple(order[: 2 + valued])
    if count is None or count > max(columns):
        form = {"valued": valued, "separator": separator, "columns": columns, "fields": count}
        agree(gap.join(fields), LineForm(low=0, high=2**63 - 1, **form))


# --- Matrix Market ---------------------------------------------------------------------------------------------------


@SMALL
@given(st.data(), edge_lists(first=1), st.integers(1, 40), st.sampled_from(["", ".gz"]))
def test_matrix_market_round_trip(folder, data, case, size, gz):
    nodes, edges, weights = case
    field = "pattern" if weights is None else data.draw(st.sampled_from(["real", "Real", "integer"]))
    comments = data.draw(st.sampled_from(["", "% c\n", "%\n\n%%x\n"]))
    text = f"%%MatrixMarket matrix coordinate {field} general\n{comments}{nodes} {nodes} {len(edges)}\n"
    text += lines_of(data.draw, edges, weights, BLANKS)
    if data.draw(st.booleans()):
        text = text.rstrip()
    with block_bytes(size):
        found = readers.read(write(folder / f"round.mtx{gz}", text))
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    values = None if weights is None else list(map(float, weights))
    expected = Graph.from_edges(ends[:, 0], ends[:, 1], values, nodes=nodes, first_id=1)
    same(found, expected)
    assert found.name == "round"


@pytest.mark.quick
@SMALL
@given(edge_lists(first=1), st.sampled_from(["lower", "expand"]), st.sampled_from(["keep", "drop", "sum"]))
def test_symmetric_files(folder, case, symmetric, duplicates):
    nodes, edges, weights = case
    lower = [(max(edge), min(edge)) for edge in edges]
    field = "pattern" if weights is None else "real"
    lines = [" ".join(map(str, edge)) for edge in lower]
    if weights is not None:
        lines = [f"{line} {weight}" for line, weight in zip(lines, weights, strict=True)]
    text = f"%%MatrixMarket matrix coordinate {field} symmetric\n{nodes} {nodes} {len(edges)}\n" + "\n".join(lines)
    found = readers.read(write(folder / "s.mtx", text), ReadOptions(symmetric=symmetric, duplicates=duplicates))
    values = [1.0] * len(edges) if weights is None else list(map(float, weights))
    directed = [(i, j, value) for (i, j), value in zip(lower, values, strict=True)]
    if symmetric == "expand":
        directed += [(j, i, value) for i, j, value in directed if i != j]
    sources, targets, values = zip(*directed, strict=True) if directed else ([], [], [])
    kept = None if weights is None else np.array(values)
    same(found, Graph.from_edges(sources, targets, kept, nodes=nodes, first_id=1, duplicates=duplicates))


def test_symmetric_lower_triangle_with_diagonal_by_hand(folder):
    path = write(folder / "d.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n2 2\n3 1\n")
    lower, expanded = (readers.read(path, ReadOptions(symmetric=way)) for way in ("lower", "expand"))
    assert lower.to_scipy().toarray().tolist() == [[0, 0, 0], [1, 1, 0], [1, 0, 0]]
    assert expanded.to_scipy().toarray().tolist() == [[0, 1, 1], [1, 1, 0], [1, 0, 0]]


def test_options_of_a_file_with_values(folder):
    text = "%%MatrixMarket matrix coordinate real general\n9 9 4\n2 3 -1\n2 3 0\n7 7 1e999\n3 2 1\n"
    path = write(folder / "v.mtx", text)
    graph = readers.read(path, ReadOptions(weights="ignore"))
    assert (graph.nodes, graph.edges, graph.weights) == (9, 4, None)
    less = readers.read(path, ReadOptions(weights="ignore", duplicates="drop", self_loops="drop", ids="compact"))
    assert [less.node_id(i) for i in range(less.nodes)] == [2, 3, 7]
    assert (less.edges, less.index_of(7), less.in_degree.tolist()) == (2, 2, [1, 1, 0])


HEAD = "%%MatrixMarket matrix coordinate pattern general\n"
REAL = "%%MatrixMarket matrix coordinate real general\n% c\n"
SIZES, ENTRIES = "3 3 3\n", "1 2 2.5\n2 3 1\n3 1 4\n"
VARIANTS = {
    "byte order mark": ("\ufeff" + REAL + SIZES + ENTRIES, 1, 0),
    "words after the banner": (REAL.replace("general", "general (by hand)") + SIZES + ENTRIES, 1, 0),
    "mark of DOS at the end": (REAL + SIZES + ENTRIES + "\x1a\r\n", 1, 0),
    "exponents of Fortran": (REAL + SIZES + "1 2 25D-1\n2 3 1.d0\n3 1 .4D+1\n", 1, 0),
    "unsigned": (REAL.replace("real", "unsigned-integer") + SIZES + ENTRIES.replace("2.5", "2"), 1, 0),
    "indented comments": (REAL + "  % x\n\t%\n" + SIZES + ENTRIES, 3, 0),
    "comments below the sizes": (REAL + SIZES + "% x\n" + ENTRIES.replace("\n", "\n  %y\n") + "%", 1, 5),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [5, 4 << 20])
def test_variants_of_matrices(folder, variant, size):
    text, above, below = VARIANTS[variant]
    with block_bytes(size):
        graph = readers.read(write(folder / "variant.mtx", text))
    same(graph, Graph.from_edges([1, 2, 3], [2, 3, 1], [2 if variant == "unsigned" else 2.5, 1, 4], first_id=1))
    assert (graph.read.comment_lines, graph.read.skipped_lines) == (above, below)


BAD_MATRICES = {
    "no banner": ("3 3 1\n1 2\n", "line 1: '3 3 1' is not the banner"),
    "one percent sign": (HEAD[1:] + "1 1 0\n", "line 1: .* is not the banner"),
    "dense": (HEAD.replace("coordinate", "array"), "line 1: the matrix is declared 'array'; only 'coordinate'"),
    "vector": (HEAD.replace(" matrix ", " vector "), "line 1: the matrix is declared 'vector'"),
    "complex": (HEAD.replace("pattern", "complex"), "declared 'complex'; only 'pattern' or 'integer' or "),
    "skew": (HEAD.replace("general", "skew-symmetric"), "declared 'skew-symmetric'; only 'general' or 'symmetric'"),
    "hermitian": (HEAD.replace("general", "hermitian"), "declared 'hermitian'"),
    "no sizes": (HEAD + "% c\n", "the file ends at line 2, before its line of sizes"),
    "two sizes": (HEAD + "3 3\n1 2\n", "line 2: '3 3' where 'rows columns entries' belong"),
    "negative size": (HEAD + "\n3 -3 1\n", "line 3: '3 -3 1' where"),
    "oblong": (HEAD + "3 4 1\n1 2\n", "line 2: the matrix is 3 x 4; a graph needs a square one"),
    "empty": (HEAD + "0 0 0\n", "line 2: the graph is empty"),
    "truncated": (HEAD + "3 3 2\n1 2\n", "the file ends after 1 of the 2 entries that line 2 declares"),
    "surplus": (HEAD + "3 3 2\n1 2\n\n2 3\n3 1\n", "line 6: more entries than the 2 that line 2 declares"),
    "cut in a line": (HEAD + "3 3 2\n1 2\n2", "line 4: 1 fields where 2 belong"),
    "out of range": (HEAD + "3 3 2\n1 2\n2 4\n", "line 4: node id '4' is out of range; ids run from 1 to 3"),
    "zero": (HEAD + "3 3 2\n1 2\n0 3\n", "line 4: node id '0' is out of range; ids run from 1 to 3"),
    "negative": (HEAD + "3 3 2\n1 2\n-2 3\n", "line 4: node id '-2' is negative"),
    "beyond int64": (HEAD + "3 3 2\n1 2\n" + "9" * 30 + " 3\n", "line 4: node id '9*' is out of range"),
    "word": (HEAD + "3 3 2\n1 2\n2 x\n", "line 4: 'x' is not a node id; ids are integers from 1 to 3"),
    "fraction": (HEAD + "3 3 2\n1 2\n2 2.5\n", "line 4: '2.5' is not a node id"),
    "third field": (HEAD + "3 3 2\n1 2\n2 2 7\n", "line 4: 3 fields where 2 belong"),
    "comment in a line": (HEAD + "3 3 2\n1 2\n2 2 % c\n", "line 4: 4 fields where 2 belong"),
    "mark of DOS inside": (HEAD + "3 3 2\n1 2\n\x1a\n2 2\n", "line 4: 1 fields where 2 belong"),
    "half an exponent": (REAL + "3 3 2\n1 2 1D0\n2 2 1D\n", "line 5: '1D' is not a finite decimal number"),
    "null bytes": (HEAD + "3 3 2\n1 2\n2\0003\n", r"line 4: 1 fields"),
    "no value": (REAL + "3 3 2\n1 2 1\n2 2\n", "line 5: 2 fields where 3 belong"),
    "word value": (REAL + "3 3 2\n1 2 1\n2 2 heavy\n", "line 5: 'heavy' is not a finite decimal number"),
    "half a number": (REAL + "3 3 2\n1 2 1\n2 2 1e\n", "line 5: '1e' is not a finite decimal number"),
    "nan": (REAL + "3 3 2\n1 2 1\n2 2 nan\n", "line 5: 'nan' is not a finite decimal number"),
    "inf": (REAL + "3 3 2\n1 2 1\n2 2 -Inf\n", "line 5: '-Inf' is not a finite decimal number"),
    "overflow": (REAL + "3 3 2\n1 2 1\n\n2 2 1e999\n", "line 6: weight inf; weights must be positive and finite"),
    "negative weight": (REAL + "3 3 2\n1 2 1\n2 2 -0.5\n", "line 5: weight -0.5; weights must be"),
    "zero weight": (REAL + "3 3 2\n1 2 0.0\n2 2 1\n", "line 4: weight 0.0; weights must be"),
    "upper": (HEAD.replace("general", "symmetric") + "3 3 2\n2 1\n1 3\n", r"line 4: entry \(1, 3\) lies above"),
    "long line": (HEAD + "%" * (1 << 20) + "\n3 3 0\n", "a line is longer than"),
    "long body line": (HEAD + "3 3 1\n" + " " * (9 << 20), "a line is longer than"),
    "compressed unawares": (gzip.compress(HEAD.encode()), "line 1: .* is not the banner"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_matrices_are_refused_with_file_and_line(folder, case):
    text, message = BAD_MATRICES[case]
    path = write(folder / "bad.mtx", text)
    with pytest.raises(InputError, match=rf"bad\.mtx.*{message}") as caught:
        readers.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [10, 30])
def test_line_numbers_hold_across_blocks(folder, size):
    path = write(folder / "far.mtx", HEAD + "9 9 99\n" + "1 2\n\n" * 50 + "1 x\n")
    with block_bytes(size), pytest.raises(InputError, match="line 103: 'x' is not a node id"):
        readers.read(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("large.mtx", HEAD + "99999999 99999999 1\n1 1\n"),
        ("large.mtx", HEAD + "9 9 99999999\n1 1\n"),
        ("large.txt", "0 99999999\n"),
        ("large.txt", "0 1\n" * 5000),
        ("large.el", "a b\n" * 5000),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_allocated(folder, monkeypatch, name, text):
    path = write(folder / name, text)
    readers.read(write(folder / "fits.txt", "0 1\n"))
    monkeypatch.setattr("cpms.base.host_memory.free_bytes", lambda: 1 << 16)
    monkeypatch.setattr(Graph, "from_edges", None)
    with pytest.raises(InputError, match=rf"{name}.* needs [\d,]+ bytes, but 65,536 are free; "):
        readers.read(path)


def test_generators_and_graphs_are_refused_by_the_same_count_of_free_bytes(monkeypatch):
    monkeypatch.setattr("cpms.base.host_memory.free_bytes", lambda: 1 << 16)
    for make in (lambda: generate("uniform:nodes=100,edges=5000"), lambda: Graph.from_edges([0], [5_000_000])):
        with pytest.raises(InputError, match=r"needs [\d,]+ bytes, but 65,536 are free; "):
            make()


def test_a_sparse_numbering_fits_when_compact(folder, monkeypatch):
    monkeypatch.setattr("cpms.base.host_memory.free_bytes", lambda: 1 << 16)
    for name, text in (("c.txt", "5 40000000000\n"), ("c.mtx", HEAD + "40000000000 40000000000 1\n5 40000000000\n")):
        graph = readers.read(write(folder / name, text), ReadOptions(ids="compact"))
        assert [graph.node_id(0), graph.node_id(1)] == [5, 40000000000]


# --- compressed files ------------------------------------------------------------------------------------------------

WHOLE = HEAD + "3 3 3\n1 2\n2 3\n3 1\n"


@pytest.mark.parametrize("cut", [1, 5, 12, 30, -9, -1])
def test_truncated_gzip(folder, cut):
    path = folder / "cut.mtx.gz"
    path.write_bytes(gzip.compress(WHOLE.encode())[:cut])
    with pytest.raises(InputError, match=r"cut\.mtx\.gz: unreadable near byte \d+ .*fetch the file again"):
        readers.read(path)


@pytest.mark.parametrize("at", [0, 20, -6, -1])
def test_corrupt_gzip(folder, at):
    data = bytearray(gzip.compress(WHOLE.encode()))
    data[at] ^= 0x55
    path = folder / "corrupt.mtx.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"corrupt\.mtx\.gz(: unreadable near byte|, line)"):
        readers.read(path)


def archive(path, *members, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = kind, "elsewhere"
            info.size = len(content or "")
            tar.addfile(info, io.BytesIO((content or "").encode()))
    return path


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("g", [("g/g.mtx", WHOLE)]),
        ("g", [("g", None), ("g/g.mtx", WHOLE), ("g/g_b.mtx", "not a matrix")]),
        ("g", [("g/g_b.mtx", "not a matrix"), ("g/readme", "x"), ("g/g.mtx", WHOLE)]),
        ("g", [("./g/g.mtx", WHOLE)]),
        ("whole", [("deep/folder/other.mtx", "not a matrix"), ("elsewhere/whole.mtx", WHOLE)]),
        ("only", [("only.mtx", WHOLE)]),
    ],
)
def test_the_main_matrix_of_an_archive_is_chosen(folder, name, members):
    graph = readers.read(archive(folder / "whole.tar.gz", *members, kind=tarfile.DIRTYPE))
    assert (graph.nodes, graph.edges, graph.first_id) == (3, 3, 1)
    assert graph.name == name


BAD_ARCHIVES = {
    "no member": ([], "it holds no .mtx file"),
    "no matrix": ([("g/readme", "x")], "it holds no .mtx file"),
    "two others": ([("a.mtx", WHOLE), ("b.mtx", WHOLE)], "none of a.mtx, b.mtx is the NAME/NAME.mtx"),
    "two main": ([("a/a.mtx", WHOLE), ("b/b.mtx", WHOLE)], "a second graph, b/b.mtx"),
    "absolute": ([("/g/g.mtx", WHOLE)], "member '/g/g.mtx' points outside"),
    "upward": ([("g/../../g.mtx", WHOLE)], "points outside"),
    "outside after the matrix": ([("g/g.mtx", WHOLE), ("../x", "")], "member '../x' points outside"),
    "bad matrix": ([("g/g.mtx", WHOLE + "1 1\n")], r", g/g\.mtx, line 6: more entries"),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_bad_archives_are_refused(folder, case):
    members, message = BAD_ARCHIVES[case]
    with pytest.raises(InputError, match=rf"bad\.tgz.*{message}"):
        readers.read(archive(folder / "bad.tgz", *members))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(folder, kind):
    path = archive(folder / "link.tar.gz", ("g/g.mtx", WHOLE), ("g/other", None), kind=kind)
    with pytest.raises(InputError, match="member 'g/other' is a link or device, not a file"):
        readers.read(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated_archives(folder, part):
    lines = "".join(f"{i} {i * 7919 % 3000 + 1}\n" for i in range(1, 3001))
    path = archive(folder / "cut.tar.gz", ("g/g.mtx", f"{HEAD}3000 3000 3000\n{lines}"))
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match=r"cut\.tar\.gz.*unreadable near byte \d+"):
        readers.read(path)


def test_a_wrong_checksum_behind_the_matrix_is_found(folder):
    path = archive(folder / "sum.tar.gz", ("g/g.mtx", WHOLE))
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="CRC check failed"):
        readers.read(path)


def test_an_extended_header_cannot_claim_the_memory(folder):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    path = folder / "claim.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf() + bytes(1 << 16)))
    with pytest.raises(InputError, match="an extended header claims 4,294,967,296 bytes"):
        readers.read(path)


# --- edge lists ------------------------------------------------------------------------------------------------------


def test_weights_are_the_nearest_float64(folder):
    weights = [3.1844912223717456e86, 0.1, 2.2250738585072014e-308, 9007199254740993e-5, 5e-324]
    lines = [f"{node} {node + 1} {weight!r}\n" for node, weight in enumerate(weights)]
    assert readers.read(write(folder / "w.txt", "".join(lines))).weights.tolist() == weights


@SMALL
@given(st.data(), edge_lists(), st.integers(1, 40), st.sampled_from([".txt", ".el.gz", ".csv", ".tsv.gz"]))
def test_numbered_edge_lists(folder, data, case, size, suffix):
    _, edges, weights = case
    if not edges:
        return
    separators = st.sampled_from([",", " ,", ", "]) if suffix == ".csv" else BLANKS
    title = "source,target\n" if weights is None else "# c\nFrom, To, kg\n"
    header = data.draw(st.sampled_from(["", title])) if suffix == ".csv" else ""
    comments = data.draw(st.sampled_from(["", "# c\n", "% 3 4\n\n", "// x\n"]))
    middle = data.draw(st.sampled_from(["", "# 1 2\n", "%\n"]))
    whole = lines_of(data.draw, edges, weights, separators)
    text = comments + header + middle + whole
    with block_bytes(size):
        options = ReadOptions(header="auto" if header else "no")
        found = readers.read(write(folder / f"numbers{suffix}", text), options)
    ends = np.array(edges)
    values = None if weights is None else list(map(float, weights))
    same(found, Graph.from_edges(ends[:, 0], ends[:, 1], values))
    assert found.name == "numbers"


@SMALL
@given(st.lists(st.tuples(*[st.integers(0, 2**63 - 1) | st.integers(0, 5)] * 2), min_size=1, max_size=20))
@example([(2**63 - 1, 2**63 - 2), (0, 2**63 - 1)])
def test_compact_ids_keep_their_order_and_their_numbers(folder, edges):
    text = "".join(f"{i} {j}\n" for i, j in edges)
    graph = readers.read(write(folder / "wide.txt", text), ReadOptions(ids="compact", header="no"))
    used = sorted({node for edge in edges for node in edge})
    assert [graph.node_id(i) for i in range(graph.nodes)] == used
    found = sorted((graph.node_id(s), graph.node_id(t)) for s, t in zip(graph.sources, graph.targets, strict=True))
    assert found == sorted(edges)


NAMES = st.from_regex(r"\A[a-z][a-z0-9./:%?&=_#~é-]{0,12}\Z").filter(lambda name: name not in ("nan", "inf"))


@SMALL
@given(st.data(), st.integers(1, 60), st.sampled_from([" ", "\t", ","]))
def test_named_edge_lists(folder, data, size, separator):
    sites = data.draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    edge = st.tuples(st.sampled_from(sites), st.sampled_from(sites))
    edges = data.draw(st.lists(edge, min_size=1, max_size=25))
    weights = data.draw(st.sampled_from([None, ["1.5"] * len(edges)]))
    text = "# sites\n" + lines_of(data.draw, edges, weights, st.just(separator))
    header = data.draw(st.booleans())
    if header:
        text = "source" + separator + "target" + separator * bool(weights) + "kg" * bool(weights) + "\n" + text
    options = ReadOptions(header="yes" if header else "no", comments="none" if "%" in text else "auto")
    if "%" in text:
        text = text.replace("# sites\n", "")
    with block_bytes(size):
        graph = readers.read(write(folder / "sites.txt", text), options)
    order = list(dict.fromkeys(name for pair in edges for name in pair))
    assert [graph.node_id(i) for i in range(graph.nodes)] == order
    assert all(graph.index_of(name) == i for i, name in enumerate(order))
    found = sorted((graph.node_id(s), graph.node_id(t)) for s, t in zip(graph.sources, graph.targets, strict=True))
    assert found == sorted(edges)
    assert (graph.weights is None) == (weights is None)


def test_quoted_names_of_a_table(folder):
    text = '\ufeff"from","to","weight"\r\n"Rome, IT","Oslo",2\r\nOslo, "a ""b""",1\r\n'
    graph = readers.read(write(folder / "towns.csv", text))
    assert graph.read.header == ("from", "to", "weight")
    assert [graph.node_id(i) for i in range(3)] == ["Rome, IT", "Oslo", 'a "b"']
    assert graph.weights.tolist() == [2, 1]


def test_names_may_hold_blanks_between_commas(folder):
    graph = readers.read(write(folder / "towns.csv", "New York,Boston,3\nNew York,Rio,2\n"))
    assert [graph.node_id(i) for i in range(graph.nodes)] == ["New York", "Boston", "Rio"]
    assert sorted(graph.weights) == [2, 3]
    graph = readers.read(write(folder / "quoted.csv", '"Lee, Ann","Ray, Bob"\n"Ray, Bob","b, c"\n'))
    assert [graph.node_id(i) for i in range(graph.nodes)] == ["Lee, Ann", "Ray, Bob", "b, c"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_numbers_may_stand_between_quotes(folder, suffix):
    gap = {".csv": ",", ".tsv": "\t", ".txt": " "}[suffix]
    lines = ['"from","to","kg"', '"1","2","0.5"', '2,"0",3', '"0","1",1']
    text = "\r\n".join(line.replace(",", gap) for line in lines) + "\r\n"
    graph = readers.read(write(folder / f"numbers{suffix}", text))
    same(graph, Graph.from_edges([1, 2, 0], [2, 0, 1], [0.5, 3, 1]))
    with pytest.raises(InputError, match=r"line 2: .* is not a node id"):
        readers.read(write(folder / f"numbers{suffix}", f'1{gap}2\n1"2"3{gap}4\n5{gap}6\n'))


@pytest.mark.parametrize(
    "header", ["target,source", "weight,source,target", ",Source,Target", "edge_id,source id,target_id"]
)
@pytest.mark.parametrize("row", ["1,2,3", "a,b,1"])
def test_a_header_that_names_other_columns_is_refused(folder, header, row):
    row = ",".join(row.split(",")[: header.count(",") + 1])
    with pytest.raises(InputError, match=r"line 2: its header has the columns .* must come first, or be named"):
        readers.read(write(folder / "frame.csv", f"# pandas\n{header}\n{row}\n"))


@pytest.mark.parametrize("name", ["marked.csv", "marked.csv.gz"])
def test_a_byte_order_mark_is_passed_over(folder, name):
    assert readers.read(write(folder / name, "\ufeff0,1\n1,2\n")).edges == 2


def test_names_may_hold_blanks_between_tabs(folder):
    graph = readers.read(write(folder / "towns.tsv", "New York\tLos Angeles\nLos Angeles\tRio\n"))
    assert [graph.node_id(i) for i in range(3)] == ["New York", "Los Angeles", "Rio"]


def test_names_may_hold_semicolons(folder):
    lines = "a.org/x;y=1 b.org\nb.org a.org/x;y=1\n"
    graph = readers.read(write(folder / "paths.txt", lines + "b.org c.org\n"))
    assert [graph.node_id(i) for i in range(2)] == ["a.org/x;y=1", "b.org"]
    with pytest.raises(InputError, match="space or semicolon could separate its fields"):
        readers.read(write(folder / "paths.txt", lines))
    assert readers.read(folder / "paths.txt", ReadOptions(delimiter="space")).node_id(1) == "b.org"


BAD_LISTS = {
    "nothing": (".txt", "", "the graph is empty; it needs at least one edge"),
    "comments only": (".txt", "# c\n% d\n", "the graph is empty"),
    "header only": (".csv", "source,target\n", "the graph is empty"),
    "word among numbers": (".txt", "# c\n0 1\n1 2\nx 2\n", "line 4: 'x' is not a node id"),
    "word first": (".txt", "0 x\n1 2\n2 3\n", "line 1: 'x' is not a node id"),
    "fraction": (".csv", "0,1\n1,2.5\n", "line 2: '2.5' is not a node id"),
    "two decimal points": (".csv", "0,1\n1,2.0\n2,3.1.0\n", "line 3: '3.1.0' is not a node id"),
    "negative": (".el", "0 1\n\n-1 2\n", "line 3: node id '-1' is negative"),
    "too large": (
        ".el",
        "0 1\n0 576460752303423488\n",
        "line 2: node id '576460752303423488' is out .*compact",
    ),
    "missing column": (".txt", "0 1\n2\n", "line 2: 1 fields where 2 belong"),
    "missing weight": (".csv", "a,b,weight\n0,1,2\n1,2\n", "line 3: 2 fields where 3 belong"),
    "surplus column": (".txt", "0 1\n1 2\n1 2 3 4\n", "line 3: 4 fields where 2 belong"),
    "four columns": (".txt", "# c\n0 1 2 3\n", "line 2: 4 fields where 2 or 3 belong .*--columns 1,2 or"),
    "four names": (".csv", "source,target,weight,label\n0,1,2,x\n", "line 1: 4 fields where 2 or 3 belong"),
    "four between semicolons": (".csv", "0;1;2;3\n", "line 1: 4 fields where 2 or 3 belong"),
    "nothing behind a comma": (".csv", "0,1,\n1,0,\n", "line 1: 3 fields, 1 of them empty, where 2 or 3 belong"),
    "carriage returns": (".txt", "0 1\r1 2\r", "line 1: carriage returns end its lines"),
    "one column": (".txt", "7\n8\n", "line 1: 1 fields where 2 or 3 belong"),
    "decimal comma": (
        ".csv",
        "from;to;kg\nNew York;Rio;1,5\nRio;Lima;2\n",
        "line 1 or below: '1,5' in column 3 has a decimal comma",
    ),
    "empty field": (".csv", "0,1\n1,3\n,2\n", "line 3: '' is not a node id"),
    "empty name between commas": (".csv", "a,b\nb, \n", "line 2: 2 fields, 1 of them empty, where 2 belong"),
    "nan": (".csv", "0,1,2\n1,2,nan\n", r"line 2: 'nan' is not a finite decimal number \(weights='ignore'"),
    "negative weight": (".csv", "s,t,w\n0,1,2\n\n1,2,-3\n", "line 4: weight -3.0; weights must be"),
    "zero weight": (".txt", "0 1 0\n", "line 1: weight 0.0; weights must be"),
    "infinite weight": (".txt", "0 1 1\n0 1 1e999\n", "line 2: weight inf; weights must be"),
    "null byte": (".txt", "0 1\n1\x002\n", "line 2: "),
    "name without partner": (".txt", "a.org b.org\nc.org\n", "line 2: 1 fields where 2 belong"),
    "three names": (".txt", "a b\n# c\na b c\n", "line 3: 3 fields where 2 belong"),
    "empty name": (".tsv", "a\tb\n\tc\n", "line 2: 2 fields, 1 of them empty, where 2 belong"),
    "weight of names": (".txt", "a b 1\nb c heavy\n", r"line 2: 'heavy' is not a finite decimal number \(weights='ig"),
    "negative weight of names": (".txt", "a b 1\nb c -1\n", "line 2: weight -1.0"),
    "not UTF-8": (".txt", b"a b\nb \xff\n", "line 2: the text is not UTF-8"),
    "control character": (".txt", "a b\nb \x07c\n", r"line 2: control character '\\x07'"),
    "open quote": (".csv", 'a,b\n"c,d\n', r"line 2: "),
    "quote over lines": (".csv", 'a,b\nb,"c\nd"\ne,f\n', r"line 2: a quoted field runs past|line 3: a quoted"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", BAD_LISTS)
def test_bad_edge_lists_are_refused_with_file_and_line(folder, case):
    suffix, text, message = BAD_LISTS[case]
    path = write(folder / f"bad{suffix}", text)
    with pytest.raises(InputError, match=rf"bad\{suffix}.*({message})") as caught:
        readers.read(path)
    assert "\n" not in str(caught.value)


# --- .npz ------------------------------------------------------------------------------------------------------------


@SMALL
@given(edge_lists(), st.sampled_from(["none", "numbers", "texts", "unicode"]), st.integers(0, 2))
def test_own_npz_round_trip(folder, case, naming, first_id):
    nodes, edges, weights = case
    names = {
        "numbers": np.arange(nodes) * 7,
        "texts": np.array([f"é{'x' * i}" for i in range(nodes)], dtype=object),
        "unicode": np.array([f"site {i}" for i in range(nodes)]),
    }.get(naming)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2) + first_id
    values = None if weights is None else list(map(float, weights))
    graph = Graph.from_edges(
        ends[:, 0],
        ends[:, 1],
        values,
        nodes=nodes,
        first_id=first_id,
        names=names,
        name="copies of é",
        stand_in_for="europe_osm" if first_id else None,
    )
    path = folder / "own.npz"
    npz.save_npz(graph, path)
    again = readers.read(path)
    same(again, graph)
    assert (again.name, again.stand_in_for, again.first_id) == (graph.name, graph.stand_in_for, graph.first_id)
    assert again.sources.dtype == graph.sources.dtype
    assert [file.name for file in folder.glob("*.part")] == []
    with np.load(path) as arrays:
        assert all(arrays[key].dtype.kind in "iufU" for key in arrays.files)


def test_policies_apply_to_npz_files(folder):
    npz.save_npz(Graph.from_edges([0, 0, 3], [3, 3, 3], [1.0, 2.0, 4.0]), folder / "policies.npz")
    options = ReadOptions(duplicates="sum", self_loops="drop", ids="compact")
    graph = readers.read(folder / "policies.npz", options)
    assert (graph.weights.tolist(), graph.node_id(1)) == ([3.0], 3)
    assert readers.read(folder / "policies.npz", ReadOptions(weights="ignore")).weights is None


@SMALL
@given(edge_lists(), st.sampled_from(["csr", "csc", "coo"]), st.booleans(), st.booleans())
def test_scipy_npz(folder, case, layout, compressed, boolean):
    nodes, edges, weights = case
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    values = np.ones(len(edges)) if weights is None else np.array(list(map(float, weights)))
    matrix = scipy.sparse.coo_array((values, ends.T), shape=(nodes, nodes)).asformat(layout)
    if boolean:
        matrix = matrix.astype(bool)
    scipy.sparse.save_npz(folder / "scipy.npz", matrix, compressed=compressed)
    if np.isfinite(matrix.data).all():  # CSR and CSC add up repeated entries
        same(readers.read(folder / "scipy.npz"), Graph.from_scipy(matrix))


OWN = {"cpms_graph": 1, "indptr": [0, 1, 3], "sources": [1, 0, 1], "name": "own", "first_id": 0}
BAD_OWN = {
    "missing": ({"sources": None}, "there is no array 'sources'"),
    "version": ({"cpms_graph": 2}, "format version 2; this program reads 1"),
    "short rows": ({"indptr": [0, 1, 2]}, "row starts do not ascend from 0 to 3"),
    "falling rows": ({"indptr": [0, 4, 3]}, "row starts do not ascend"),
    "no nodes": ({"indptr": [0], "sources": []}, "it holds float64|1 row starts|array sources"),
    "above": ({"sources": [1, 0, 2]}, "node indices are out of range; the graph has 2 nodes"),
    "below": ({"sources": [-1, 0, 1]}, "node indices are out of range"),
    "order": ({"sources": [1, 1, 0]}, "sources do not ascend within a target"),
    "fractions": ({"sources": [1.0, 0.0, 1.0]}, "array sources holds float64; it needs integers"),
    "few weights": ({"weights": [1.0]}, "weights must be float64, one an edge"),
    "zero weight": ({"weights": [1.0, 0.0, 1.0]}, "weights must be positive and finite"),
    "nan weight": ({"weights": [1.0, np.nan, 1.0]}, "weights must be positive and finite"),
    "names": ({"names": [4, 5, 6]}, "3 names for 2 nodes"),
    "two names": ({"name": ["a", "b"]}, "a field holds 2 values where one belongs"),
}


@pytest.mark.parametrize("case", BAD_OWN)
def test_own_npz_whose_arrays_do_not_fit_together(folder, case):
    changes, message = BAD_OWN[case]
    np.savez(folder / "ownbad.npz", **OWN)
    assert readers.read(folder / "ownbad.npz").edges == 3
    arrays = {key: value for key, value in (OWN | changes).items() if value is not None}
    np.savez(folder / "ownbad.npz", **arrays)
    with pytest.raises(InputError, match=rf"ownbad\.npz: .*({message})"):
        readers.read(folder / "ownbad.npz")


def test_npz_that_cannot_be_written_leaves_nothing(folder, tmp_path):
    with pytest.raises(InputError, match="cannot write there"):
        npz.save_npz(Graph.from_edges([0], [1]), tmp_path / "missing" / "g.npz")
    assert list(tmp_path.iterdir()) == []


def test_npz_array_sizes_are_checked_before_allocation(folder):
    with zipfile.ZipFile(folder / "claim.npz", "w") as archive, archive.open("indptr.npy", "w") as member:
        header = {"descr": "<i8", "fortran_order": False, "shape": (10**15,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(bytes(24))
    with pytest.raises(InputError, match=r"claim\.npz: array indptr\.npy declares 1(,000){5} items, but 24 bytes"):
        readers.read(folder / "claim.npz")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (scipy.sparse.coo_array((2, 3)), "shape .2, 3.; a graph needs a square one"),
        (scipy.sparse.dia_array(np.eye(2)), "SciPy's csr, csc or coo"),
        (scipy.sparse.coo_array(np.array([[1j]])), "complex128"),
        (scipy.sparse.coo_array(np.array([[-1.0]])), "weight -1.0; weights must be positive"),
    ],
)
def test_scipy_matrices_that_are_no_graphs(folder, matrix, message):
    scipy.sparse.save_npz(folder / "no.npz", matrix)
    with pytest.raises(InputError, match=rf"no\.npz: .*{message}"):
        readers.read(folder / "no.npz")


# --- all -------------------------------------------------------------------------------------------------------------


def test_kinds_of_files_are_known_by_their_endings(folder):
    with pytest.raises(InputError, match=r"g\.pdf: unknown kind of file; its name can end in \.mtx, "):
        readers.read(folder / "g.pdf")
    with pytest.raises(InputError, match=r"g\.mtx: there is no such file"):
        readers.read(folder / "g.mtx")
    upper = write(folder / "UPPER.MTX", WHOLE)
    assert readers.read(upper).edges == 3


@pytest.mark.parametrize("choice", ["symmetric", "duplicates", "self_loops", "weights", "ids", "progress"])
def test_choices_that_do_not_exist(choice):
    with pytest.raises(InputError, match=f"{choice} is 'some'; it can be .* or "):
        ReadOptions(**{choice: "some"})


@pytest.mark.parametrize("name", ["g.mtx", "g.mtx.gz", "g.txt"])
def test_progress_is_silent_without_a_terminal(folder, capfd, name):
    text = "1 2\n2 3\n3 1\n" if name.endswith("txt") else WHOLE
    assert readers.read(write(folder / name, text), ReadOptions(progress=True)).edges == 3
    assert capfd.readouterr() == ("", "")


def test_own_npz_keeps_what_the_graph_says_of_itself(folder):
    text = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    graph = readers.read(write(folder / "half.mtx", text))
    for each in (graph, readers.read(folder / "half.mtx", ReadOptions(symmetric="expand"))):
        npz.save_npz(each, folder / "half.npz")
        assert readers.read(folder / "half.npz").lower_triangle is each.lower_triangle
    assert graph.lower_triangle
    large = Graph.from_edges([0], [1], names=np.array([2**64 - 1, 5], np.uint64))
    npz.save_npz(large, folder / "large.npz")
    assert readers.read(folder / "large.npz").names.tolist() == large.names.tolist() == [str(2**64 - 1), "5"]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("signed.txt", "0 1 +1.5\n1 0 +.25e+1\n"),
        ("names.txt", "a b +1.5\nb a +.25e+1\n"),
        ("signed.csv", "0,1,+1.5\n1,0, +.25e+1\n"),
        ("signed.mtx", REAL + "2 2 2\n1 2 +1.5\n2 1\t+.25e+1\n"),
    ],
)
def test_weights_may_have_a_plus_sign(folder, name, rows):
    (folder / name).write_text(rows)
    assert sorted(readers.read(folder / name).weights.tolist()) == [1.5, 2.5]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("labels.txt", "# c\n0 1 friend\n1 2\tfoe \n 2 0 nan\r\n"),
        ("labels.csv", "source,target,kind\n0,1,friend\n1,2,\n2,0,a b\n"),
        ("labels.tsv", "0\t1\tfriend\n1\t2\tfoe\n2\t0\t-1\n"),
        ("quoted.csv", '"0","1","friend"\n"1","2","foe"\n"2","0","x"\n'),
        ("half quoted.csv", '0,1,a "friend\n1,2,5" tall\n2,0,"x\n'),
    ],
)
def test_a_third_column_that_is_ignored_may_hold_anything(folder, name, rows):
    (folder / name).write_bytes(rows.encode())
    graph = readers.read(folder / name, ReadOptions(weights="ignore"))
    assert graph.weights is None
    assert [graph.sources.tolist(), graph.indptr.tolist()] == [[2, 0, 1], [0, 1, 2, 3]]
    with pytest.raises(InputError, match=r"not a finite decimal number|weights must be positive|it may be no weights"):
        readers.read(folder / name)


@pytest.mark.parametrize("separator", [" ", ","])
@pytest.mark.parametrize("labels", list(itertools.product(["", "x"], repeat=3)))
def test_a_third_column_that_is_ignored_may_be_missing(folder, separator, labels):
    ends = zip(["0", "1", "2"], ["1", "2", "0"], labels, strict=True)
    head = f"0{separator}1{separator}5\n" * 150  # what form the lines have is seen from the first
    lines = "".join(separator.join(filter(None, fields)) + "\n" for fields in ends)
    (folder / "missing.csv").write_text(head + lines)
    block = entries.Block(lines.encode(), 3, 1)
    form = LineForm(valued=False, labelled=True, separator="," if separator == "," else None, low=0, high=9)
    assert reader.parsed_lines(block, form).to_numpy().tolist() == [[0, 1], [1, 2], [2, 0]]
    assert readers.read(folder / "missing.csv", ReadOptions(weights="ignore")).edges == 153


def test_four_columns_are_refused_though_the_third_is_ignored(folder):
    (folder / "four.txt").write_text("0 1 friend\n1 2 foe x\n2 0 y\n")
    with pytest.raises(InputError, match="line 2: 4 fields where 3 belong"):
        readers.read(folder / "four.txt", ReadOptions(weights="ignore"))
    (folder / "four.txt").write_text("0 1 friend\n" * 150 + "1 2 foe x\n")
    with pytest.raises(InputError, match="line 151: 4 fields where 2 belong"):
        readers.read(folder / "four.txt", ReadOptions(weights="ignore"))
