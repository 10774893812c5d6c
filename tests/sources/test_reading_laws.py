"""What other programs write is read as the graph that they wrote, or refused; never as another graph."""

from __future__ import annotations

import csv
import io

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError
from cpms.sources.readers.edge_lists.lines import is_decimal

SMALL = settings(max_examples=30)
TITLES = ("buyer", "seller", "kg")
PLAIN = st.from_regex(r"\A[a-z][a-z0-9.]{0,6}\Z")
ANY_NAME = st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" \u00a0\u3000#%/\"',;|:->"), min_size=1
)
NAME = ANY_NAME.map(str.strip).filter(lambda name: not is_decimal(name) and bool(name.strip(' \t"')))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("laws")


def edges_of(graph):
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    weights = [None] * graph.edges if graph.weights is None else graph.weights.tolist()
    return sorted((graph.node_id(s), graph.node_id(t), w or 0) for (s, t), w in zip(ends, weights, strict=True))


def lists(node):
    weight = st.floats(1e-9, 9e7) | st.integers(1, 10**6).map(float)
    return st.lists(st.tuples(node, node, weight), min_size=1, max_size=12)


def expected(edges, *, valued):
    return sorted((source, target, weight if valued else 0) for source, target, weight in edges)


@SMALL
@given(lists(NAME), st.sampled_from([",", "\t", ";", "|"]), st.booleans(), st.booleans())
def test_names_of_any_kind_through_csv(folder, edges, delimiter, valued, titled):
    """With the form stated, every name that is no number and has no control character comes back."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    rows = [edge if valued else edge[:2] for edge in edges]
    writer.writerows([TITLES[: 2 + valued]] * titled + rows)
    assume(not titled or all(edge[:2] != TITLES[:2] for edge in edges))
    assume(delimiter == "," or not any(delimiter in name for edge in edges for name in edge[:2]))
    path = folder / "any.csv"
    path.write_text(text.getvalue())
    graph = cpms.load(
        path,
        delimiter=delimiter,
        header="yes" if titled else "no",
        comments="none",
        columns="1,2,3" if valued else "1,2",
    )
    assert edges_of(graph) == expected(edges, valued=valued)


@SMALL
@given(lists(st.integers(0, 40)), st.booleans(), st.booleans(), st.sampled_from([",", "\t", ";", " "]))
def test_frames_of_numbers_through_pandas(folder, edges, valued, floats, delimiter):
    """A column that pandas has made one of floats holds the same ids."""
    frame = pd.DataFrame(edges, columns=["source", "target", "weight"])
    if floats:
        frame["target"] = frame["target"].astype(float)
    path = folder / "frame.csv"
    frame.to_csv(path, index=False, sep=delimiter, columns=["source", "target", "weight"][: 2 + valued])
    assert edges_of(cpms.load(path)) == expected(edges, valued=valued)
    assert edges_of(cpms.load(path, columns="target,source")) == expected(
        [(target, source, weight) for source, target, weight in edges], valued=False
    )
    frame.to_csv(path, sep=delimiter)  # with the index of the frame before all columns
    with pytest.raises(InputError, match=r"must come first|2 or 3 belong|titles|could separate|fields where"):
        cpms.load(path)
    if delimiter == " ":  # between blanks the title of the index is lost
        with pytest.raises(InputError, match="4 fields where 3 belong"):
            cpms.load(path, columns="source,target,weight")
    else:
        assert edges_of(cpms.load(path, columns="source,target,weight")) == expected(edges, valued=True)


@SMALL
@given(
    lists(PLAIN),
    st.booleans(),
    st.sampled_from([",", "\t", ";", " "]),
    st.sampled_from(["", "who-x,who-y\n", "# c d\n"]),
)
def test_what_nothing_is_said_of_is_read_right_or_refused(folder, edges, valued, delimiter, above):
    """Names without a stated form: the graph that was written, or an error; no edge is made up, none is dropped."""
    lines = [delimiter.join([source, target, *([repr(weight)] if valued else [])]) for source, target, weight in edges]
    path = folder / "plain.txt"
    path.write_text(above.replace(",", delimiter) + "\n".join(lines))
    try:
        graph = cpms.load(path)
    except InputError:
        return
    assert edges_of(graph) == expected(edges, valued=valued)


@SMALL
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12), st.booleans())
def test_edge_lists_of_networkx(folder, edges, names):
    written = nx.MultiDiGraph()
    written.add_edges_from((f"n{s}", f"n{t}") for s, t in edges) if names else written.add_edges_from(edges)
    path = folder / "networkx.txt"
    nx.write_edgelist(written, path, data=False)
    graph = cpms.load(path, header="no")
    assert [edge[:2] for edge in edges_of(graph)] == sorted((s, t) for s, t in written.edges())
    nx.write_edgelist(written, path)  # a dictionary comes third
    with pytest.raises(InputError, match="is not a finite decimal number"):
        cpms.load(path, header="no")
    assert cpms.load(path, header="no", columns="1,2").edges == len(edges)
    nx.write_adjlist(written, path)
    try:
        graph = cpms.load(path)
    except InputError:
        return
    if graph.weights is None:  # lines that all have two neighbours look like edges with weights
        assert [edge[:2] for edge in edges_of(graph)] == sorted((s, t) for s, t in written.edges())


@SMALL
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), unique=True))
    ),
    st.sampled_from([np.float64, np.int32, np.uint64]),
    st.booleans(),
)
def test_matrices_of_scipy(folder, case, dtype, zeros):
    """Whatever field SciPy writes, and with stored zeros where the option drops these."""
    nodes, edges = case
    values = (np.arange(len(edges)) + (0 if zeros else 1)).astype(dtype)
    ends = np.array(edges, np.int64).reshape(-1, 2)
    matrix = scipy.sparse.coo_array((values, ends.T), shape=(nodes, nodes))
    kept = [(source, target, float(value)) for (source, target), value in zip(edges, values, strict=True) if value]
    for name, first in (("m.mtx", 1), ("m.npz", 0)):
        scipy.io.mmwrite(folder / name, matrix, symmetry="general") if first else scipy.sparse.save_npz(
            folder / name, matrix
        )
        graph = cpms.load(folder / name, zero_weights="drop")
        assert edges_of(graph) == sorted((s + first, t + first, w) for s, t, w in kept)
        assert graph.read.zero_weights == len(edges) - len(kept)
        if len(kept) < len(edges):
            with pytest.raises(InputError, match="--zero-weights drop"):
                cpms.load(folder / name)
