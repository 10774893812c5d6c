"""What graphs, results and stored arrays look like: one short line, and a small table of HTML in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import cpms
from cpms import Graph, encode
from cpms.backends.mpi.shares.rows import of_graph

HOSTILE = [
    "<script>alert(1)</script>",
    'a"onmouseover="x',
    "two\nlines",
    "x" * 5000,
    "\x1b[31mred",
    "日本 & \u202eabc",
    "",
]


def things(name):
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], name=name, names=[name, "b", "c"], stand_in_for=name or None)
    format = cpms.SegmentFormat(name, (32, 32), 32)
    return [graph, of_graph(graph, 0, 2), cpms.pagerank(graph, engine="cpu"), encode([1.0, 2.0], format)]


class Reader(HTMLParser):
    """Keeps tags, and texts of cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_breaks_neither_line_nor_table(name):
    for thing in things(name):
        line = repr(thing)
        assert len(line) < 200
        assert line.isprintable()
        read = Reader(thing._repr_html_())
        assert {tag for tag, _ in read.tags} <= {"table", "tr", "th", "td"}
        assert not any(attrs for _, attrs in read.tags)
        assert len(thing._repr_html_()) < 2000


def test_lines_say_what_a_thing_is():
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 1.0, 2.0], name="ring")
    assert repr(graph) == "Graph('ring': 3 nodes, 3 edges, weighted)"
    assert repr(encode(np.ones(1000), "cpms4")) == "SegmentedArray(1,000 values of cpms4, 8,000 bytes)"
    line = repr(cpms.pagerank(graph, engine="cpu"))
    assert line == "Result('ring': CONVERGED after 2 iterations, residual 0; power in fp64 on cpu)"


def test_tables_hold_what_a_reader_looks_for():
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], name="<ring>", names=["<a>", "b", "c"])
    graph_text, result_text, array_text = (
        Reader(thing._repr_html_()).texts
        for thing in (graph, cpms.pagerank(graph, engine="cpu"), encode([1.0], "fp16"))
    )
    assert graph_text[:2] == ["graph", "<ring>"]
    assert "3" in graph_text
    assert "<a>" in result_text
    assert any(text.startswith("converged") for text in result_text)
    assert array_text[:4] == ["format", "fp16", "bits of a value", "16"]
