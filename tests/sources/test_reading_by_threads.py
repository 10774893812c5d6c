"""Any number of threads reads the same graph, and finds the same first error; numbers are the nearest float64."""

import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError
from cpms.base import threads
from cpms.sources.readers import entries, stream
from cpms.sources.readers.edge_lists import reader
from cpms.sources.readers.edge_lists.cleaning import Cleaner
from cpms.sources.readers.edge_lists.form import EdgeListForm
from cpms.sources.readers.entries import LineForm
from cpms.sources.readers.options import ReadOptions

DECIMALS = st.from_regex(r"[-+]?([0-9]{1,19}\.?[0-9]{0,9}|\.[0-9]{1,19})([eE][-+]?[0-9]{1,3})?", fullmatch=True)
KINDS = {
    ".mtx": ("%%MatrixMarket matrix coordinate real general\n40 40 {}\n", " ", 1),
    ".txt": ("", "\t", 0),
    ".csv": ("source,target,weight\n", ",", 0),
    ".gr": ("p sp 40 {}\n", " ", 1),
}


@settings(max_examples=100)
@given(st.lists(DECIMALS, min_size=1, max_size=4), st.sampled_from([" ", ",", "\t"]))
@example(["9007199254740993", "9007199254740992e22", "1e23", "1e-22", "123456789012345678", "-0", "0e999"], " ")
@example(["9" * 40, "1e999", "1e-999", "." + "0" * 30 + "1", "1" + "0" * 18], " ")
def test_numbers_that_the_loop_reads_are_the_nearest(numbers, separator):
    form = LineForm(valued=True, low=0, high=9, separator=None if separator == " " else separator)
    lines = "".join(f"1{separator}2{separator}{number}\n" for number in numbers)
    found = entries.read_block(lines.encode(), form)
    assert (found.offset, found.sources.tolist()) == (-1, [1] * len(numbers))
    if found.numbers is not None:
        assert found.numbers.tobytes() == np.array([float(number) for number in numbers]).tobytes()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(stream, "BLOCK_BYTES", 64)


def written(folder, ending, edges, bad=None):
    head, separator, first = KINDS[ending]
    rows = [separator.join((str(s + first), str(t + first), w)) for s, t, w in edges]
    if bad is not None:
        rows[bad[0]] = bad[1].replace(" ", separator)
    letter = "a " if ending == ".gr" else ""
    path = folder / f"edges{ending}"
    path.write_text(head.format(len(edges)) + "".join(f"{letter}{row}\n" for row in rows))
    return path


def edges_of(seed, count=60):
    random = np.random.default_rng(seed)
    weights = [f"{weight:.17g}" if weight < 0.3 else f"{weight:.3f}" for weight in random.uniform(0.01, 1, count)]
    return [(int(s), int(t), w) for s, t, w in zip(*random.integers(0, 40, (2, count)), weights, strict=True)]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_any_number_of_threads_reads_the_same_graph(tmp_path, ending, seed):
    edges = edges_of(seed)
    path = written(tmp_path, ending, edges)
    sources, targets, weights = zip(*edges, strict=True)
    expected = cpms.Graph.from_edges(sources, targets, list(map(float, weights)), nodes=40)
    for count in (1, 2, 5):
        with threads.limited(count):
            found = cpms.load(path)
        nodes = found.nodes
        assert found.sources.tolist() == expected.sources.tolist()
        assert found.indptr.tolist() == expected.indptr[: nodes + 1].tolist()
        assert found.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.representatives(ending=(".mtx",))
@pytest.mark.representatives(bad=("1 2 -1",))
@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("bad", ["1 x 1", "1 2", "1 2 -1", "1 2 0x1", "1 99999999999999999999 1", "1 2 1 7"])
def test_any_number_of_threads_finds_the_first_bad_line(tmp_path, ending, bad):
    path = written(tmp_path, ending, edges_of(5, 160), (133, bad))
    with path.open("a") as file:
        file.write("what is this\n")  # A later error is not what is reported.
    texts = set()
    for count in (1, 2, 5):
        with threads.limited(count), pytest.raises(InputError) as caught:
            cpms.load(path)
        texts.add(str(caught.value))
    (text,) = texts
    assert f"line {134 + KINDS[ending][0].count(chr(10))}: " in text


def test_answers_come_in_order_and_errors_in_their_turn():
    def parts():
        yield from range(7)
        raise ValueError("parts end here")

    for count in (1, 3):
        with threads.limited(count):
            seen = []
            with pytest.raises(ValueError, match="parts end here"):
                seen.extend(threads.in_order(lambda part: part * part, parts()))
            assert seen == [0, 1, 4, 9, 16, 25, 36]
            with pytest.raises(ZeroDivisionError):
                list(threads.in_order(lambda part: 1 // (3 - part), parts()))
            assert list(threads.in_order(abs, [])) == []


@given(st.lists(st.text("ab", max_size=12), max_size=12), st.booleans(), st.integers(1, 20))
def test_parts_of_a_file_are_its_lines(tmp_path_factory, lines, ends, size):
    text = "\n".join(lines) + "\n" * (ends and bool(lines))
    path = tmp_path_factory.mktemp("text") / "lines"
    path.write_text("head\n" + text)
    with pytest.MonkeyPatch.context() as patch, stream.open_stream(path) as opened:
        patch.setattr(stream, "BLOCK_BYTES", size)
        opened.readline()
        parts = [part() for part in reversed(list(opened.line_parts()))][::-1]
    assert all(part.endswith(b"\n") for part in parts if part)
    assert b"".join(parts).decode() == text + "\n" * (not text.endswith("\n") and bool(text))


def test_a_file_that_changes_under_its_readers_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    path.write_bytes(b"1 2\n" * 40)
    monkeypatch.setattr(stream, "BLOCK_BYTES", 64)
    monkeypatch.setattr(stream, "_LONGEST_LINE_BYTES", 100)
    with stream.open_stream(path) as opened:
        _, _, last = opened.line_parts()
        path.write_bytes(b"1 2\n" * 20)
        with pytest.raises(InputError, match="became shorter while it was read"):
            last()
        path.write_bytes(b"1" * 400)
        with pytest.raises(InputError, match="a line is longer than 100 bytes"):
            next(opened.line_parts())()


PIECES = [
    "1 2\n",
    "3 4 x\n",
    '"5" 6\n',
    "# c\n",
    " # 7 8\n",
    "%\n",
    "\ufeff9 1\n",
    "\n",
    "s t\n",
    '"s" "t"\n',
    "5 6 7\n",
]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.booleans(), st.sampled_from([("#", "%"), ("5",), ()]))
@example(["5 6\n", "1 2\n"], True, ("5",))
def test_blocks_that_are_searched_for_no_comments_hold_none(lines, labelled, marks):
    form = EdgeListForm(*(None, (0, 1), True), header=("s", "t"), header_line=b"s t", marks=marks, labelled=labelled)
    seen = []
    for search_all in (False, True):
        cleaner, found = Cleaner(form, "g.txt"), None
        with pytest.MonkeyPatch.context() as patch:
            if search_all:
                patch.setattr(Cleaner, "may_blank_edges", True)
            data = io.BytesIO("".join(lines).encode())
            try:
                edges = list(reader.numbered_edges(stream.Stream(data, data, "g.txt"), form, ReadOptions(), cleaner, 1))
                found = [[block.sources.tolist(), block.targets.tolist(), block.largest] for block in edges]
            except InputError as error:
                found = str(error)
        seen.append((found, isinstance(found, str) or (cleaner.comment_lines, cleaner.repeated_headers)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("ending", [".mtx", ".txt"])
def test_marks_that_begin_with_a_digit_and_late_comments_are_comments(tmp_path, ending):
    path = tmp_path / f"late{ending}"
    if ending == ".mtx":
        path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n%2 3\n 3 1\n\x1a\n")
        graph = cpms.load(path)
        assert (graph.sources.tolist(), graph.read.skipped_lines) == ([2, 0], 1)
    else:
        path.write_text("0 1\n1 2\n5 5\n2 0\n")
        graph = cpms.load(path, comments="5")
        assert (graph.nodes, graph.edges, graph.read.skipped_lines) == (3, 3, 1)


def test_a_long_line_of_metis_is_refused_with_the_limit_of_metis(tmp_path, monkeypatch):
    monkeypatch.setattr("cpms.sources.readers.graph_files.metis._LONGEST_LINE_BYTES", 50)
    monkeypatch.setattr(stream, "BLOCK_BYTES", 64)
    path = tmp_path / "g.graph"
    path.write_bytes(b"9 8\n" + b"2 " * 400)
    with pytest.raises(InputError, match="a line is longer than 50 bytes"):
        cpms.load(path)
