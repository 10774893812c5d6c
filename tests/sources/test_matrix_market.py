"""Matrix Market files: round trips, variants, and those that are refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from graph_texts import BLANKS, HEAD, REAL, SMALL, WHOLE, block_bytes, edge_lists, lines_of, same, write
from hypothesis import given
from hypothesis import strategies as st

from cpms import Graph, InputError
from cpms.sources import readers
from cpms.sources.generators import generate
from cpms.sources.readers.options import ReadOptions

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
    "cut in a line": (HEAD + "3 3 2\n1 2\n2", "line 4: 1 field where 2 belong"),
    "out of range": (HEAD + "3 3 2\n1 2\n2 4\n", "line 4: node id '4' is out of range; ids run from 1 to 3"),
    "zero": (HEAD + "3 3 2\n1 2\n0 3\n", "line 4: node id '0' is out of range; ids run from 1 to 3"),
    "negative": (HEAD + "3 3 2\n1 2\n-2 3\n", "line 4: node id '-2' is negative"),
    "beyond int64": (HEAD + "3 3 2\n1 2\n" + "9" * 30 + " 3\n", "line 4: node id '9*' is out of range"),
    "word": (HEAD + "3 3 2\n1 2\n2 x\n", "line 4: 'x' is not a node id; ids are integers from 1 to 3"),
    "fraction": (HEAD + "3 3 2\n1 2\n2 2.5\n", "line 4: '2.5' is not a node id"),
    "third field": (HEAD + "3 3 2\n1 2\n2 2 7\n", "line 4: 3 fields where 2 belong"),
    "comment in a line": (HEAD + "3 3 2\n1 2\n2 2 % c\n", "line 4: 4 fields where 2 belong"),
    "mark of DOS inside": (HEAD + "3 3 2\n1 2\n\x1a\n2 2\n", "line 4: 1 field where 2 belong"),
    "half an exponent": (REAL + "3 3 2\n1 2 1D0\n2 2 1D\n", "line 5: '1D' is not a finite decimal number"),
    "null bytes": (HEAD + "3 3 2\n1 2\n2\0003\n", r"line 4: 1 field"),
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
