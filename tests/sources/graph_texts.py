"""Texts of graph files, and what a reader should make of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from cpms import Graph

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


HEAD = "%%MatrixMarket matrix coordinate pattern general\n"
REAL = "%%MatrixMarket matrix coordinate real general\n% c\n"


# --- compressed files ------------------------------------------------------------------------------------------------

WHOLE = HEAD + "3 3 3\n1 2\n2 3\n3 1\n"


def archive(path, *members, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = kind, "elsewhere"
            info.size = len(content or "")
            tar.addfile(info, io.BytesIO((content or "").encode()))
    return path
