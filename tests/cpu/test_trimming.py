"""Small graphs are trimmed and solved by NumPy as by compiled loops, to the last bit."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms import Graph
from cpms.backends.cpu.small_graphs import trimming
from cpms.backends.cpu.substitution import acyclic
from cpms.backends.cpu.trimmed_core import core
from cpms.base.compilation import first_call
from cpms.problems.pagerank import Problem
from cpms.testing import distributions, graphs_with_a_core


def of_both(work):
    """Return the results of NumPy and of compiled loops."""
    found = []
    for compiles in (False, True):
        with patch.object(first_call, "spares_loops", lambda compiles=compiles: not compiles):
            found.append(work())
    return found


@given(graph=graphs_with_a_core(), data=st.data())
def test_a_core_is_the_same_trimming_and_by_loops(graph, data):
    problem = Problem(graph, 0.85, data.draw(st.none() | distributions(graph.nodes)))
    one, other = of_both(lambda: core(problem))
    assert (one is None) == (other is None)
    if one is None:
        return
    for name in ("nodes", "degree", "internal_degree", "inflow", "entering", "inverse"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert one.graph.sources.tolist() == other.graph.sources.tolist()
    assert set(one.up) == set(other.up)
    assert set(one.down) == set(other.down)
    (y, b, total), others = of_both(one.begin)
    assert (y.tolist(), b.tolist(), total) == (others[0].tolist(), others[1].tolist(), others[2])
    ranks = np.full(len(one.nodes), 1.0 / len(one.nodes))
    ends = of_both(lambda: one.end(y.copy(), total, ranks))
    assert ends[0].tolist() == ends[1].tolist()


@pytest.mark.parametrize("way", ["up", "down", "mixed"])
@given(nodes=st.integers(2, 40), edges=st.integers(0, 80), loops=st.booleans(), seed=st.integers(0, 99))
def test_an_acyclic_graph_has_the_same_ranks_trimming_and_by_loops(way, nodes, edges, loops, seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, nodes, (2, edges)), axis=0)
    low, high = ends if loops else ends[:, ends[0] < ends[1]]
    low, high = (high, low) if way == "down" else (low, high)
    names = rng.permutation(nodes) if way == "mixed" else np.arange(nodes)
    problem = Problem(Graph.from_edges(names[low], names[high], nodes=nodes))
    found = of_both(lambda: acyclic(problem).solve_reduced().tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("length", [trimming.MOST_LEVELS, trimming.MOST_LEVELS + 1])
def test_graphs_of_many_levels_are_left_to_loops(length):
    names = np.random.default_rng(1).permutation(length)
    graph = Graph.from_edges(names[:-1], names[1:], nodes=length)
    found, is_known = trimming.order(graph, np.uint32)
    assert is_known == (trimming.trimmed(graph, np.uint32) is not None) == (length <= trimming.MOST_LEVELS)
    assert found is None or found.tolist() == names.tolist()
    one, other = of_both(lambda: acyclic(Problem(graph)).solve_reduced().tolist())
    assert one == other
