"""Values of papers beside ours: half precision edge by edge, quoted rows, and differences from printed counts."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms.base.errors import UnsupportedError
from cpms.base.package_data import folder, show_programs
from cpms.contracts.batch import Query
from cpms.experiment.native_sums import NativeSums
from cpms.experiment.report import show
from cpms.experiment.report.output import printed
from cpms.experiment.rows import quoted, standing
from cpms.graph.graph import Graph

CELL = {"storage": "fp64", "damping": 0.85, "dangling": "uniform", "tol": 1e-12, "norm": "l1", "max_iterations": 500}
edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=30)


def solved(graph, node, **given_):
    solver = NativeSums(graph, {**CELL, **given_}, np.full(graph.nodes, 1 / graph.nodes))
    solver.set_teleport(Query(np.array([node]), np.ones(1)))
    return solver.solve()


@settings(max_examples=15, deadline=None)
@given(edges, st.integers(0, 7))
def test_sums_in_float64_are_the_engines_answer(pairs, node):
    graph = Graph.from_edges(*zip(*pairs, strict=True), nodes=8)
    ranks, status, _ = solved(graph, node)
    (right,) = cpms.personalized_pagerank(graph, [node], engine="cpu", dangling="uniform", tol=1e-13)
    assert status.name == "CONVERGED"
    assert np.abs(ranks - right.ranks).sum() < 1e-10


def test_every_rank_is_a_number_of_the_type_and_small_ones_lose_their_digits():
    graph = cpms.load("weblike:nodes=3000,edges=12000,seed=1")
    exact, _, _ = solved(graph, 5)
    errors = {}
    for storage, kind in (("fp16", np.float16), ("fp32", np.float32)):
        ranks, _, history = solved(graph, 5, storage=storage, max_iterations=30, tol=1e-6)
        assert (ranks == ranks.astype(kind)).all()
        assert {step.bits for step in history} == {8 * np.dtype(kind).itemsize}
        errors[storage] = np.abs(ranks - exact).sum()
    assert errors["fp32"] < 1e-2 * errors["fp16"]


@pytest.mark.parametrize("wrong", [{"storage": "cpms4"}, {"dangling": "teleport"}])
def test_what_no_native_float_can_do_is_refused(wrong):
    with pytest.raises(UnsupportedError, match="sums in the storage's type"):
        solved(Graph.from_edges([0], [1]), 0, **wrong)


def test_quoted_rows_name_their_source_and_are_no_rows_of_ours():
    recorded = standing.Recorded(folder("experiments") / "results")
    found = recorded.of(["cugraph_quoted"])
    assert all("pylibcugraph" in row["source"] and "not certified" in row["source"] for row in found)
    assert {recorded.standing(row) for row in found} == {standing.QUOTED}
    table = quoted.cugraph()
    assert len(found) == table.drop(columns=["graph", "gpu"]).notna().sum().sum()


@pytest.fixture
def table2():
    return show._program(show_programs()["table2"])


def test_differences_from_printed_counts_are_marked(table2):
    known = printed("table2").set_index("graph").loc["road_usa"]
    ours = {
        "fp64": SimpleNamespace(iterations_by_bits_written={"64": 31}),
        "cpms2": SimpleNamespace(iterations_by_bits_written={"32": 15, "64": 16}),
    }
    line = table2._printed(known, ours)
    assert (line["fp64 differs"], line["cpms2 differs"], line["cpms4 differs"]) == ("0", "0 (+1, -1)", "")
    assert line["cpms2"] == "14+17 = 31 (printed 32)"


def test_places_of_segments_are_where_conversion_takes_them():
    fig2 = show._program(show_programs()["fig2"])
    for name in ("cpms2", "cpms4"):
        storage = cpms.CPMS2 if name == "cpms2" else cpms.CPMS4
        places = fig2._places(storage)
        assert sorted(places.ravel()) == list(range(storage.block * storage.segments))
        assert (places // storage.block == np.arange(storage.segments)).all()
