"""Edge lists: the kernel and its slow twin, names, quotes, columns, and lines that are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graph_texts import BLANKS, REAL, SMALL, block_bytes, edge_lists, lines_of, same, write
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpms import Graph, InputError
from cpms.sources import readers
from cpms.sources.readers import entries
from cpms.sources.readers.entries import LineForm, fault
from cpms.sources.readers.options import ReadOptions

# --- checked lines ---------------------------------------------------------------------------------------------------

LINE_TEXT = st.one_of(
    st.text(alphabet="01289 \t,.-+eE\rx%", max_size=14),
    st.from_regex(r"\A *[0-9]{1,20}[ ,\t]+[0-9]{1,4}([ ,]-?[0-9]*\.?[0-9]*([eE][-+]?[0-9]*)?)?\s{0,2}\Z").map(
        lambda text: text.replace("\n", "")
    ),
)


@settings(max_examples=150)
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
    block = entries.read_block(b"\n" + line.encode() + b"\n", form)
    found, lines, offset = len(block.sources), block.lines, block.offset
    reason = fault(line, form)
    assert (offset >= 0) == (reason is not None), reason
    if reason is None:
        assert (found, lines) == (1 if line.strip(" \t\r") else 0, 2)
    else:
        assert (found, lines, offset) == (0, 1, 1)


@settings(max_examples=150)
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
    "no target": (".csv", "from,to\n1,2\n3,\n", "line 3: the target is missing; give both nodes"),
    "word first": (".txt", "0 x\n1 2\n2 3\n", "line 1: 'x' is not a node id"),
    "fraction": (".csv", "0,1\n1,2.5\n", "line 2: '2.5' is not a node id"),
    "two decimal points": (".csv", "0,1\n1,2.0\n2,3.1.0\n", "line 3: '3.1.0' is not a node id"),
    "negative": (".el", "0 1\n\n-1 2\n", "line 3: node id '-1' is negative"),
    "too large": (
        ".el",
        "0 1\n0 576460752303423488\n",
        "line 2: node id '576460752303423488' is out .*compact",
    ),
    "missing column": (".txt", "0 1\n2\n", "line 2: 1 field where 2 belong"),
    "missing weight": (".csv", "a,b,weight\n0,1,2\n1,2\n", "line 3: 2 fields where 3 belong"),
    "surplus column": (".txt", "0 1\n1 2\n1 2 3 4\n", "line 3: 4 fields where 2 belong"),
    "four columns": (".txt", "# c\n0 1 2 3\n", "line 2: 4 fields where 2 or 3 belong .*--columns 1,2 or"),
    "four names": (".csv", "source,target,weight,label\n0,1,2,x\n", "line 1: 4 fields where 2 or 3 belong"),
    "four with titles": (
        ".csv",
        "w,from,since,to\n1,a,2001,b\n",
        "--columns 1,2 or 1,2,3, or by title --columns from,to",
    ),
    "four between semicolons": (".csv", "0;1;2;3\n", "line 1: 4 fields where 2 or 3 belong"),
    "nothing behind a comma": (".csv", "0,1,\n1,0,\n", "line 1: 3 fields, 1 of them empty, where 2 or 3 belong"),
    "carriage returns": (".txt", "0 1\r1 2\r", "line 1: carriage returns end its lines"),
    "one column": (".txt", "7\n8\n", "line 1: 1 field where 2 or 3 belong"),
    "decimal comma": (
        ".csv",
        "from;to;kg\nNew York;Rio;1,5\nRio;Lima;2\n",
        "line 1 or below: '1,5' in column 3 has a decimal comma",
    ),
    "empty field": (".csv", "0,1\n1,3\n,2\n", "line 3: the source is missing; give both nodes"),
    "empty name between commas": (".csv", "a,b\nb, \n", "line 2: 2 fields, 1 of them empty, where 2 belong"),
    "nan": (".csv", "0,1,2\n1,2,nan\n", r"line 2: 'nan' is not a finite decimal number \(weights='ignore'"),
    "negative weight": (".csv", "s,t,w\n0,1,2\n\n1,2,-3\n", "line 4: weight -3.0; weights must be"),
    "zero weight": (".txt", "0 1 0\n", "line 1: weight 0.0; weights must be"),
    "infinite weight": (".txt", "0 1 1\n0 1 1e999\n", "line 2: weight inf; weights must be"),
    "null byte": (".txt", "0 1\n1\x002\n", "line 2: "),
    "name without partner": (".txt", "a.org b.org\nc.org\n", "line 2: 1 field where 2 belong"),
    "three names": (".txt", "a b\n# c\na b c\n", r"line 3: 3 fields where 2 belong .*--columns 1,2\) reads some"),
    "empty name": (".tsv", "a\tb\n\tc\n", r"line 2: 2 fields, 1 of them empty, where 2 belong \(source, target\)(?!;)"),
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
    form = LineForm(valued=False, labelled=True, separator="," if separator == "," else None, low=0, high=9)
    block = entries.read_block(lines.encode(), form)
    assert (block.sources.tolist(), block.targets.tolist()) == ([0, 1, 2], [1, 2, 0])
    assert readers.read(folder / "missing.csv", ReadOptions(weights="ignore")).edges == 153


def test_four_columns_are_refused_though_the_third_is_ignored(folder):
    (folder / "four.txt").write_text("0 1 friend\n1 2 foe x\n2 0 y\n")
    with pytest.raises(InputError, match="line 2: 4 fields where 3 belong"):
        readers.read(folder / "four.txt", ReadOptions(weights="ignore"))
    (folder / "four.txt").write_text("0 1 friend\n" * 150 + "1 2 foe x\n")
    with pytest.raises(InputError, match="line 151: 4 fields where 2 belong"):
        readers.read(folder / "four.txt", ReadOptions(weights="ignore"))
