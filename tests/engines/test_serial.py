"""The serial program: omega is the mass that a product loses, and gives it back, whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, UnsupportedError, check, engines
from cpms.formats.formats import FP64, format_named
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

SERIAL = engines.get("serial")


@pytest.mark.parametrize("layout", ["csr", "pattern"])
@given(graph=graphs(), data=st.data())
@settings(max_examples=60)
def test_sweeps_agree_with_the_reference_on_any_graph(layout, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    if SERIAL.unsupported(problem, FP64, layout) is None:
        check.sweeps_agree(SERIAL, problem, FP64, layout, Level(1, 1))


@given(graph=graphs())
def test_what_a_product_loses_is_teleport_and_dangling_mass(graph):
    operator = SERIAL.prepare(Problem(graph), FP64, "csr")
    x, y = np.full(graph.nodes, 1 / graph.nodes), operator.empty()
    operator.multiply(x, y, 0, graph.nodes)
    omega = x.sum() - y.sum()
    assert omega == pytest.approx(0.15 + 0.85 * x[graph.dangling_nodes].sum(), abs=1e-14)


def test_mass_stays_what_it_was_through_a_long_solve():
    graph = cpms.load("weblike:nodes=200000,edges=600000,dangling=0.5")
    result = cpms.pagerank(graph, engine="serial", tol=1e-13)
    assert result.converged
    # A running sum over so many equal numbers is off by 2e-12.
    assert all(abs(step.mass - 1.0) < 1e-13 for step in result.history)
    check.answer_is_certified(result)
    np.testing.assert_allclose(result.ranks, cpms.pagerank(graph, engine="cpu", tol=1e-13).ranks, rtol=1e-9)


def test_rows_may_be_multiplied_in_pieces():
    graph = cpms.load("rmat:scale=9,edge_factor=4,seed=3")
    operator = SERIAL.prepare(Problem(graph), FP64, "pattern")
    x, whole, pieces = operator.load(np.full(512, 1 / 512)), operator.empty(), operator.empty()
    operator.multiply(x, whole, 0, 512)
    for low, high in ((0, 1), (1, 100), (100, 512)):
        operator.multiply(x, pieces, low, high)
    assert (whole == pieces).all()


@pytest.mark.parametrize("name", ["cpms2", "fp32", "fp16-scaled"])
def test_other_formats_are_refused(name):
    with pytest.raises(UnsupportedError, match="stores fp64, not"):
        SERIAL.prepare(Problem(Graph.from_edges([0], [1])), format_named(name), "csr")
