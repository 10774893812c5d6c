"""Results: what is derived from the history and from the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cpms
from cpms import Graph, Level, Status, Step

pytestmark = pytest.mark.quick


@pytest.fixture
def result():
    graph = Graph.from_edges([1, 2, 3, 4], [2, 1, 1, 2], nodes=4, first_id=1, name="four")
    return cpms.pagerank(graph, storage="cpms4", layout="csr")


def step(iteration, read, write, bits, bits_written):
    return Step(iteration, 0.5**iteration, Level(read, write), bits, bits_written, 1.0, 0.1 * iteration)


def test_iterations_are_counted_by_the_bits_they_read_and_wrote(result):
    history = (step(1, 1, 1, 16, 16), step(2, 1, 2, 16, 32), step(3, 2, 2, 32, 32), step(4, 0, 0, 64, 64))
    made = replace(result, history=history)
    assert made.iterations == 4
    assert made.iterations_by_bits == {16: 2, 32: 1, 64: 1}
    assert made.iterations_by_bits_written == {16: 1, 32: 2, 64: 1}
    assert list(made.iterations_by_bits) == [16, 32, 64]


def test_what_is_counted_adds_up(result):
    assert sum(result.iterations_by_bits.values()) == result.iterations == len(result.history)
    assert sum(result.iterations_by_bits_written.values()) == result.iterations
    assert [one.iteration for one in result.history] == list(range(1, result.iterations + 1))
    assert all(one.mass > 0 for one in result.history)
    seconds = [one.seconds for one in result.history]
    assert seconds == sorted(seconds)


def test_the_bound_is_the_residual_and_its_roundoff_over_one_minus_damping(result):
    assert result.error_bound == (result.residual_l1 + result.residual_roundoff) / (1 - 0.85)
    assert replace(result, residual_l1=0.25, residual_roundoff=0.125, damping=0.5).error_bound == 0.75


def test_top_lists_the_users_ids_and_breaks_ties_by_the_smaller(result):
    tied = replace(result, ranks=np.array([0.25, 0.3, 0.25, 0.2]))
    assert tied.top() == [(2, 0.3), (1, 0.25), (3, 0.25), (4, 0.2)]
    assert tied.top(2) == tied.top()[:2]
    assert tied.top(0) == []
    assert all(type(node) is int and type(rank) is float for node, rank in tied.top())


def test_top_lists_names_where_the_graph_has_them():
    named = Graph.from_edges([0], [1], names=np.array(["a", "b"], dtype=object))
    assert [node for node, _ in cpms.pagerank(named).top()] == ["b", "a"]


def test_the_trace_is_the_history_as_a_table(result):
    trace = result.trace()
    assert list(trace.columns[:3]) == ["iteration", "residual", "bits"]
    assert trace["residual"].tolist() == [one.residual for one in result.history]
    assert trace["read"].tolist() == [one.level.read for one in result.history]
    assert len(trace) == result.iterations


@pytest.mark.parametrize("status", Status)
def test_a_status_says_what_happened_and_only_one_is_converged(result, status):
    assert replace(result, status=status).converged == (status is Status.CONVERGED)
    assert len(status.value.split()) > 5


def test_a_result_prints_in_a_line_without_its_arrays(result):
    assert "array" not in repr(result)
    assert "\n" not in repr(result)
