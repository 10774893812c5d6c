"""The referee: top-k with its ties, agreement of rankings, and the operator in plain and in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cpms import Graph, InputError
from cpms.analysis import rankings
from cpms.base import threads
from cpms.certify import residual
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs

pytestmark = pytest.mark.quick

scores = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 1e-300, 1e300, -1.0]) | st.floats(0, 1), max_size=40).map(
    np.array
)


def exact_sweep(problem, x):
    """G(x) in rational numbers, edge by edge, as its definition reads."""
    graph = problem.graph
    x = [Fraction(value) for value in x.tolist()]
    weights = [Fraction(1)] * graph.edges if graph.weights is None else [Fraction(w) for w in graph.weights.tolist()]
    leaving = [Fraction(0)] * graph.nodes
    for source, weight in zip(graph.sources.tolist(), weights, strict=True):
        leaving[source] += weight
    dangling = sum((x[node] for node in range(graph.nodes) if leaving[node] == 0), Fraction(0))
    uniform = [Fraction(1, graph.nodes)] * graph.nodes
    teleport = uniform if problem.teleport is None else [Fraction(value) for value in problem.teleport.tolist()]
    sink = uniform if problem.dangling == "uniform" else teleport
    damping = Fraction(problem.damping)
    swept = [damping * dangling * w + (1 - damping) * v for w, v in zip(sink, teleport, strict=True)]
    for source, target, weight in zip(graph.sources.tolist(), graph.targets.tolist(), weights, strict=True):
        swept[target] += damping * x[source] * weight / leaving[source]
    return swept


@st.composite
def problems(draw):
    graph = draw(graphs(max_nodes=8))
    teleport = draw(st.none() | distributions(graph.nodes))
    damping = draw(st.sampled_from([0.85, 0.5, 0.99, 1e-6]))
    problem = Problem(graph, damping, teleport, draw(st.sampled_from(["teleport", "uniform"])))
    return problem, draw(distributions(graph.nodes))


@given(scores, st.integers(0, 45))
@example(np.zeros(5), 3)
def test_top_k_is_the_head_of_the_sorted_list_with_ties_by_index(given_scores, k):
    expected = sorted(range(len(given_scores)), key=lambda i: (-given_scores[i], i))[:k]
    assert rankings.top_k(given_scores, k).tolist() == expected


def test_the_top_minus_one_is_refused():
    with pytest.raises(InputError, match="-1"):
        rankings.top_k(np.ones(3), -1)


@given(scores, st.integers(0, 45))
def test_overlap_counts_what_may_be_in_both_tops(a, k):
    b = a[::-1].copy()
    top = sorted(range(len(b)), key=lambda i: (-b[i], i))[:k]
    least = sorted(a, reverse=True)[:k]
    # Of equals any may be in, and of what rounding might make equal.
    expected = sum(a[i] >= least[-1] - 1e-9 * abs(least[-1]) for i in top) / len(top) if top else 1.0
    assert rankings.top_k_overlap(a, b, k) == pytest.approx(expected)
    assert rankings.top_k_overlap(a, a, k) == 1.0


@given(problems(), st.sampled_from([1, 2, 3, 7, 1 << 22]))
def test_the_operator_is_its_definition_in_exact_arithmetic(given_problem, part):
    problem, x = given_problem
    found = []
    with patch.object(residual, "_part_size", lambda _: part):
        for count in (1, 3):
            with threads.limited(count):
                found.append((residual.apply_operator(problem, x).tobytes(), residual.residual(problem, x)))
        swept = residual.apply_operator(problem, x)
    assert found[0] == found[1]
    expected = exact_sweep(problem, x)
    np.testing.assert_allclose(swept, [float(value) for value in expected], rtol=1e-15, atol=1e-17)


@given(graphs(), st.integers(1, 9))
def test_parts_are_all_rows_in_order_and_smaller_than_asked_for_but_for_their_last_row(graph, part):
    with patch.object(residual, "_part_size", lambda _: part):
        parts = residual._parts(graph)
    assert [low for low, _ in parts] == [0, *(high for _, high in parts[:-1])]
    assert parts[-1][1] == graph.nodes
    for low, high in parts:
        assert high - 1 - low + graph.indptr[high - 1] - graph.indptr[low] < part


@given(st.lists(st.floats(np.finfo(float).smallest_normal, 1e308), min_size=1, max_size=8))
@example([np.finfo(float).smallest_normal, 1.7e308])
def test_out_weights_are_scaled_without_rounding(weights):
    nodes = np.arange(len(weights))
    graph = Graph.from_edges(nodes, nodes, weights, nodes=len(weights) + 1)
    scaled, powers = residual.scaled_out_weight(graph)
    assert all(0.5 <= value < 1.0 for value in scaled[:-1])
    assert [Fraction(value) for value in scaled] == [
        Fraction(weight) * Fraction(power) for weight, power in zip(graph.out_weight, powers, strict=True)
    ]


@given(problems())
def test_the_operator_keeps_mass(given_problem):
    problem, x = given_problem
    assert residual.apply_operator(problem, x).sum() == pytest.approx(1.0, abs=1e-13)


@given(problems())
def test_the_residual_is_a_norm_of_the_change(given_problem):
    problem, x = given_problem
    change = [abs(after - Fraction(before)) for after, before in zip(exact_sweep(problem, x), x.tolist(), strict=True)]
    assert residual.residual(problem, x) == pytest.approx(float(sum(change)), abs=1e-14)
    assert residual.residual(problem, x, "linf") == pytest.approx(float(max(change)), abs=1e-14)
    squares = float(sum(one**2 for one in change))
    assert residual.residual(problem, x, "l2") == pytest.approx(squares**0.5, abs=1e-14)


def test_a_solution_has_no_residual():
    circle = Problem(Graph.from_edges([0, 1, 2], [1, 2, 0]))
    assert residual.residual(circle, np.full(3, 1 / 3)) < 1e-16


def test_a_vector_has_the_highest_of_itself():
    for scores in ([np.inf, 1.0], [np.inf, np.inf, 2.0], [1.0, 0.0, -np.inf]):
        for k in range(1, len(scores) + 1):
            assert rankings.top_k_overlap(np.array(scores), np.array(scores), k) == 1.0


def test_the_norm_of_changes_whose_squares_are_no_numbers():
    graph = Graph.from_edges([0, 1], [1, 0])
    x = np.array([3e-200, 1e-200])
    change = np.abs(residual.apply_operator(Problem(graph, 0.5, x), x) - x)
    assert 0 < residual.residual(Problem(graph, 0.5, x), x, "l2") == pytest.approx(np.hypot(*change), rel=1e-12)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308])
def test_what_is_no_answer_has_no_small_residual(value):
    nodes = 1 << 17
    x = np.full(nodes, value)
    x[::2] *= -1.0
    star = Graph.from_edges(np.zeros(nodes - 1, int), np.arange(1, nodes))
    for norm in ("l1", "l2", "linf"):
        assert not residual.residual(Problem(star), x, norm) < 1.0
