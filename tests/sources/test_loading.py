"""`cpms.load`: a file, else a name, else a generator; else a sentence that says what is possible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cpms
from cpms import InputError
from cpms.sources import datasets
from cpms.sources.loading import load

pytestmark = pytest.mark.quick

MATRIX = "%%MatrixMarket matrix coordinate real symmetric\n4 4 4\n2 1 0.5\n2 1 2\n4 4 1\n4 2 3\n"


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Work in an empty folder, beside an empty data folder and an empty cache."""
    for name in ("work", "data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("CPMS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path


def test_it_is_the_public_load():
    assert cpms.load is load


@pytest.mark.parametrize("kind", [str, Path])
def test_files_by_text_or_path(kind):
    Path("m.mtx").write_text(MATRIX)
    graph = load(kind("m.mtx"))
    assert (graph.name, graph.nodes, graph.edges, graph.first_id) == ("m", 4, 4, 1)


def test_options_reach_the_reader():
    Path("m.mtx").write_text(MATRIX)
    graph = load("m.mtx", symmetric="expand", duplicates="sum", self_loops="drop", ids="compact")
    assert graph.to_scipy().toarray().tolist() == [[0, 2.5, 0], [2.5, 0, 3], [0, 3, 0]]
    assert [graph.node_id(i) for i in range(3)] == [1, 2, 4]
    assert load("m.mtx", weights="ignore").weights is None
    assert load("m.mtx", duplicates="drop").weights.tolist() == [0.5, 3, 1]
    with pytest.raises(InputError, match="duplicates is 'merge'; it can be 'keep' or 'drop' or 'sum'"):
        load("m.mtx", duplicates="merge")


def test_a_name_is_looked_up_and_a_file_of_that_name_wins(folders):
    (folders / "data" / "wiki-Vote.txt").write_text("0 1\n")
    with pytest.raises(InputError, match="nodes, edges and empty rows are"):
        load("wiki-Vote")
    (folders / "data" / "mine.csv").write_text("a,b\nb,c\n")
    assert load("mine").node_id(0) == "a"
    assert load("mine").name == "mine"
    Path("mine.txt").write_text("0 1\n")
    assert load("mine.txt").edges == 1


def test_generators_by_specification_and_by_bare_name():
    graph = load("grid:rows=2,columns=3")
    assert (graph.nodes, graph.edges) == (6, 7)
    with pytest.raises(InputError, match="grid: rows, columns must be given"):
        load("grid")
    with pytest.raises(InputError, match=r"grid:.*: rows is '1.5'; it must be a whole number"):
        load("grid:rows=1.5,columns=3")
    with pytest.raises(InputError, match=r"rmat:.*: a is 'most'; it must be a number"):
        load("rmat:scale=4,a=most")
    with pytest.raises(InputError, match="generator 'gird' is not known"):
        load("gird:rows=2")


def test_options_reach_generated_graphs():
    twice = load("rmat:scale=4,edge_factor=16,seed=1")
    once = load("rmat:scale=4,edge_factor=16,seed=1", duplicates="drop", self_loops="drop")
    edges = {(s, t) for s, t in zip(twice.sources.tolist(), twice.targets.tolist(), strict=True) if s != t}
    assert once.edges == len(edges) < twice.edges
    assert load("rmat:scale=4,seed=1", duplicates="sum").weights is not None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("wiki-vote", "'wiki-vote' is no file, no data set and no generator; did you mean wiki-Vote"),
        ("web-Gogle", "did you mean web-Google"),
        ("qqqq", "'cpms datasets' lists the names; files have an ending such as .mtx, .*generators look like"),
        ("", "'' is no file, no data set and no generator"),
        ("no\0such", "is no file"),
        ("x" * 5000, "is no file"),
        ("missing.mtx", "missing.mtx: there is no such file"),
        ("folder/missing", "folder/missing: there is no such file"),
        (Path("missing"), "'missing' is no file"),
        (Path("wiki-Vote"), "'wiki-Vote' is no file"),
        ("../data", "../data is a folder; give a file, or set CPMS_DATA to it and give a name"),
    ],
)
def test_anything_else_is_refused_with_what_is_possible(source, message):
    with pytest.raises(InputError, match=message) as caught:
        load(source)
    assert "\n" not in str(caught.value)


def test_a_file_of_unknown_kind_is_refused():
    Path("graph.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match=r"graph\.pdf: unknown kind of file; its name can end in \.mtx"):
        load("graph.pdf")


MASKED = np.ma.masked_equal([1, 2], 2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((MASKED, [2, 1]), "a column of the edges is a masked array"),
        (([1, 2], [2, 1], MASKED), "a column of the edges is a masked array"),
        (([1, 2], [2, 1], [1j, 2.0]), "column '3' holds complex numbers"),
        (([1, 2], [2, 1], [10**400, 1]), "holds what is no number.*too large"),
        (([[1]], [[2]]), "a column of 2 dimensions"),
        (([[1], [2, 3]], [1, 2]), "the edges cannot be an array"),
    ],
)
def test_columns_that_a_conversion_would_alter_are_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        load(given)


def test_what_is_no_source_is_a_sentence():
    with pytest.raises(InputError, match="source is 5; give the path"):
        load(5)
