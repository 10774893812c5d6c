"""Ranks in every format, layout and engine."""

from __future__ import annotations

import numpy as np
import pytest
from format_cases import combinations
from pagerank_cases import EPSILON, MIXED, l1

from cpms import (
    Graph,
    UnavailableError,
    UnsupportedError,
    check,
    engines,
    format_named,
    pagerank,
)
from cpms.formats.formats import SegmentFormat

LAYOUTS = ["csr", "ell", "pattern"]


# Every format, layout and engine

COMBINATIONS = combinations(LAYOUTS)


@pytest.mark.parametrize(("layout", "name"), COMBINATIONS)
@pytest.mark.parametrize("engine", engines.names())
def test_the_final_error_is_below_1e_9(engine, layout, name, exact_mixed):
    storage = format_named(name)
    try:
        result = pagerank(MIXED, storage=storage, layout=layout, engine=engine, tol=1e-10)
    except (UnavailableError, UnsupportedError) as refusal:
        pytest.skip(str(refusal))
    assert result.converged
    assert l1(result.ranks, exact_mixed) <= 1e-9
    assert l1(result.ranks, exact_mixed) <= result.error_bound + EPSILON * MIXED.nodes
    assert (result.storage, result.layout, result.engine) == (name, layout, engine)
    assert result.matrix_bytes > 0
    check.answer_is_certified(result)
    if isinstance(storage, SegmentFormat):
        through_all_levels = pagerank(MIXED, storage=storage, layout=layout, engine=engine, tol=1e-13)
        assert set(through_all_levels.iterations_by_bits) == {storage.bits(k) for k in range(1, storage.segments + 1)}
        assert l1(through_all_levels.ranks, exact_mixed) <= 1e-12


@pytest.mark.parametrize("storage", ["fp64", "cpms2", "fp32", pytest.param("cpms4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", ["csr", pytest.param("ell", marks=pytest.mark.slow)])
def test_weighted_ranks_have_the_same_error(layout, storage):
    random = np.random.default_rng(10)
    weights = random.random(MIXED.edges) + 0.01
    graph = Graph.from_edges(MIXED.sources, MIXED.targets, weights, nodes=MIXED.nodes)
    exact = pagerank(graph, engine="reference", layout="csr", tol=1e-14)
    assert exact.layout == pagerank(graph).layout == "csr"
    result = pagerank(graph, storage=storage, layout=layout)
    assert result.converged
    assert l1(result.ranks, exact.ranks) <= 1e-9


@pytest.mark.parametrize("storage", ["cpms2", "cpms4"])
def test_reduced_precision_costs_hardly_an_iteration(storage):
    plain = pagerank(MIXED, layout="csr").iterations
    total = pagerank(MIXED, storage=storage, layout="csr").iterations
    assert abs(total - plain) <= max(1, 0.02 * plain)


def test_the_same_call_gives_the_same_bits():
    first, second = (pagerank(MIXED, storage="cpms4", layout="csr") for _ in range(2))
    assert first.ranks.tobytes() == second.ranks.tobytes()
    assert [one.residual for one in first.history] == [one.residual for one in second.history]
