"""The referee of batches against the referee of one answer, which shares no code with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms import Graph, Status
from cpms.certify import batch, residual
from cpms.certify.batch import BatchCertifier
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

pytestmark = pytest.mark.quick


@given(graph=graphs(), data=st.data())
def test_residuals_are_those_of_one_answer(graph, data):
    rule = data.draw(st.sampled_from(["teleport", "uniform"]) | distributions(graph.nodes))
    norm = data.draw(st.sampled_from(["l1", "l2", "linf"]))
    teleports = data.draw(st.lists(distributions(graph.nodes), min_size=1, max_size=4))
    answers = [data.draw(distributions(graph.nodes)) for _ in teleports]
    queries = [Query(np.flatnonzero(v), v[np.flatnonzero(v)]) for v in teleports]
    tol = data.draw(st.sampled_from([1e-3, 0.3, 3.0]))
    referee = BatchCertifier(Problem(graph, 0.85, None, rule), Stopping(tol, norm))
    found = referee.certify(queries, answers, [Status.CONVERGED] * len(queries))
    for teleport, ranks, (status, residual_l1) in zip(teleports, answers, found, strict=True):
        problem = Problem(graph, 0.85, teleport, rule)
        assert residual_l1 == pytest.approx(residual.residual(problem, ranks), rel=1e-9, abs=1e-14)
        confirmed = residual.residual(problem, ranks, norm) < tol
        assert status is (Status.CONVERGED if confirmed else Status.UNVERIFIED)


@pytest.mark.parametrize(("terms", "weighted"), [(3, False), (128, False), (3, True)])
def test_many_columns_and_parts_add_up(terms, weighted, monkeypatch):
    random = np.random.default_rng(1)
    edges = random.integers(0, 900, 5000), random.integers(0, 1000, 5000)
    graph = Graph.from_edges(*edges, random.random(5000) + 0.1 if weighted else None, nodes=1000)
    monkeypatch.setattr(batch, "_PART_EDGES", 300)
    monkeypatch.setattr(batch, "_MOST_TERMS", terms)
    queries = [Query(np.array([node]), np.ones(1)) for node in range(40)]
    answers = [random.random(1000) / 500 for _ in queries]
    expected = [values / values.sum() for values in answers]
    found = BatchCertifier(Problem(graph), Stopping()).certify(queries, answers, [Status.MAX_ITERATIONS] * 40)
    for query, ranks, scaled, (status, residual_l1) in zip(queries, expected, answers, found, strict=True):
        np.testing.assert_array_equal(ranks, scaled)
        teleport = np.zeros(1000)
        teleport[query.nodes] = 1.0
        assert status is Status.MAX_ITERATIONS
        assert residual_l1 == pytest.approx(residual.residual(Problem(graph, 0.85, teleport), ranks), rel=1e-9)


def test_answers_that_are_none_are_no_answers():
    graph = Graph.from_edges([0, 1], [1, 0])
    queries = [Query(np.array([0]), np.ones(1))] * 4
    answers = [np.array([np.nan, 0.5]), np.zeros(2), np.array([0.5, 0.5]), np.array([9.0, 9.0])]
    statuses = [Status.CONVERGED, Status.CONVERGED, Status.NON_FINITE, Status.CONVERGED]
    found = BatchCertifier(Problem(graph), Stopping()).certify(queries, answers, statuses)
    assert found == [(Status.NON_FINITE, np.inf)] * 4
