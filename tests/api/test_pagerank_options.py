"""Options of cpms.pagerank: personalisation, norms, starts, and arguments that are refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from pagerank_cases import EPSILON, MIXED, distance, exact_ranks, l1

import cpms
from cpms import (
    Graph,
    InputError,
    StartAt,
    Status,
    Threshold,
    UnsupportedError,
    check,
    pagerank,
)
from cpms.certify.residual import apply_operator, residual
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import teleport_distribution

SMALL = Graph.from_edges([1, 1, 2, 3, 4], [2, 3, 3, 1, 5], nodes=6, first_id=1, name="small")


# Options


@pytest.mark.parametrize("rule", ["teleport", "uniform"])
@pytest.mark.parametrize(
    ("personalization", "weights"),
    [
        (None, [1, 1, 1, 1, 1, 1]),
        ([2], [0, 1, 0, 0, 0, 0]),
        ((2, 5), [0, 1, 0, 0, 1, 0]),
        (["2", 5], [0, 1, 0, 0, 1, 0]),
        ({2: 3.0, 6: 1.0}, [0, 3, 0, 0, 0, 1]),
        ({2: 0, 5: 2}, [0, 0, 0, 0, 2, 0]),
        (np.array([0, 3.0, 0, 0, 0, 1]), [0, 3, 0, 0, 0, 1]),
        ([0.0, 3.0, 0.0, 0.0, 0.0, 1.0], [0, 3, 0, 0, 0, 1]),
        ([False, True, False, False, True, False], [0, 1, 0, 0, 1, 0]),
        (np.array([2, 5]), [0, 1, 0, 0, 1, 0]),
        (np.ones(6, np.float32), [1, 1, 1, 1, 1, 1]),
        (np.array([False, True, False, False, True, False]), [0, 1, 0, 0, 1, 0]),
        (pd.Series({2: 3.0, 6: 1.0}), [0, 3, 0, 0, 0, 1]),
        (pd.Series([1.0, 1.0], index=[2, 5]), [0, 1, 0, 0, 1, 0]),
        (scipy.sparse.csr_array([[0, 3.0, 0, 0, 0, 1]]), [0, 3, 0, 0, 0, 1]),
        (scipy.sparse.csc_matrix([[0], [3], [0], [0], [0], [1]]), [0, 3, 0, 0, 0, 1]),
        (scipy.sparse.coo_array([0, 3, 0, 0, 0, 1]), [0, 3, 0, 0, 0, 1]),
        (np.array([0.0, 3.0, 0.0, 0.0, 0.0, 1.0], object), [0, 3, 0, 0, 0, 1]),
        (np.array([2, "5"], object), [0, 1, 0, 0, 1, 0]),
        ({2: None, 5: None}.keys(), [0, 1, 0, 0, 1, 0]),
    ],
    ids=repr,
)
def test_personalisation_takes_ids_weights_or_an_array(personalization, weights, rule):
    result = pagerank(SMALL, personalization=personalization, dangling=rule, tol=1e-13)
    assert distance(result.ranks, exact_ranks(SMALL, 0.85, np.array(weights, float), rule)) < 1e-12


def test_personalisation_goes_by_name_where_nodes_have_names():
    graph = Graph.from_edges([0], [1], names=np.array(["a", "b"], dtype=object))
    assert teleport_distribution(graph, ["b"]).tolist() == [0.0, 1.0]


def test_the_two_rules_for_dangling_mass_differ():
    assert l1(*(pagerank(SMALL, personalization=[4], dangling=rule).ranks for rule in ("teleport", "uniform"))) > 0.1


@pytest.mark.parametrize(("storage", "controller"), [("fp64", None), ("cpms4", StartAt(Threshold(), 4))])
def test_a_warm_start_saves_iterations_and_changes_nothing_else(storage, controller):
    cold = pagerank(MIXED, storage=storage)
    warm = pagerank(MIXED, storage=storage, start=cold.ranks, controller=controller)
    scaled = pagerank(MIXED, storage=storage, start=cold.ranks * 1024.0, controller=controller)
    assert warm.iterations < cold.iterations // 4
    assert l1(warm.ranks, cold.ranks) <= warm.error_bound + cold.error_bound
    assert l1(scaled.ranks, warm.ranks) < EPSILON
    assert pagerank(SMALL, start=[0, 0, 0, 1, 0, 0]).converged


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_the_norm_asked_for_stops_the_iteration(norm, engine):
    result = pagerank(MIXED, norm=norm, engine=engine, tol=1e-8)
    residuals = [one.residual for one in result.history]
    assert result.converged
    assert residuals[-1] < 1e-8 <= residuals[-2]
    exact = residual(Problem(MIXED), pagerank(MIXED, iterations=20).ranks, norm)
    assert pagerank(MIXED, norm=norm, iterations=21).history[-1].residual == pytest.approx(exact, rel=1e-9)
    check.answer_is_certified(result)


def test_larger_norms_take_no_fewer_iterations():
    counts = [pagerank(MIXED, norm=norm).iterations for norm in ("l1", "l2", "linf")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2]


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("storage", ["fp64", "cpms4"])
def test_a_fixed_number_of_iterations_is_done_whatever_the_residual(count, storage):
    result = pagerank(SMALL, storage=storage, iterations=count, tol=0.9, max_iterations=3)
    assert (result.iterations, result.status) == (count, Status.FIXED)
    x = np.full(6, 1 / 6)
    if storage == "fp64":
        for _ in range(count):
            x = apply_operator(Problem(SMALL), x)
        assert l1(result.ranks, x / x.sum()) < 1e-15


def test_the_stop_is_first_looked_at_after_the_second_iteration():
    alone = Graph.from_edges([], [], nodes=5)
    assert pagerank(alone).iterations == 2


def test_every_step_is_reported_as_it_is_made():
    seen = []
    result = pagerank(MIXED, storage="cpms4", on_step=seen.append)
    assert tuple(seen) == result.history


@pytest.mark.parametrize("damping", [Fraction(1, 2), Decimal("0.5"), np.float16(0.5), np.float32(0.5)], ids=repr)
@pytest.mark.parametrize("method", ["power", "refine"])
def test_numbers_of_any_type_are_floats(method, damping):
    result, plain = (pagerank(SMALL, method=method, damping=given) for given in (damping, 0.5))
    assert type(result.error_bound) is float
    assert (result.iterations, result.error_bound) == (plain.iterations, plain.error_bound)
    np.testing.assert_array_equal(result.ranks, plain.ranks)


# Bad input


@pytest.mark.parametrize("graph", ["wiki-Vote", 3, None], ids=lambda graph: type(graph).__name__)
def test_what_is_no_graph_is_refused_with_what_makes_one(graph):
    for solve in (pagerank, lambda graph: cpms.personalized_pagerank(graph, [0])):
        with pytest.raises(InputError, match=r"graph is a .*; give a cpms.Graph, which cpms.load makes"):
            solve(graph)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"damping": damping}, "damping") for damping in (0, 1, -0.5, 1.5, float("nan"))),
        *(({"tol": tol}, "tol") for tol in (0.0, -1e-10, float("nan"), float("inf"))),
        *(({"norm": norm}, "norm") for norm in ("l3", "L1", "", None)),
        *(({"damping": damping}, "damping is .* must be a number") for damping in (None, "0.85", [0.85])),
        *(({"tol": tol}, "tol is .* must be a number") for tol in (None, "1e-9")),
        *(({"max_iterations": count}, "max_iterations") for count in (0, -1, 5.5, "5", None)),
        *(({"iterations": count}, "iterations") for count in (0, -1, 5.5, "5")),
        ({"dangling": "nowhere"}, "dangling"),
        ({"storage": "fp65"}, "fp65"),
        *(({"storage": what}, "give a format such as") for what in (5, None)),
        *(({"controller": what}, "controller is") for what in (5, cpms.Fixed)),
        ({"controller": "no-such-rule"}, "did you mean schedule"),
        ({"method": "refine", "controller": 5}, "give a policy such as"),
        ({"engine": "steam"}, "steam"),
        *(({"personalization": nodes}, "not in small") for nodes in ([0], [7], ["1.5"], ["x"], {99: 1.0}, [-1])),
        *(({"personalization": nodes}, "twice") for nodes in ([1, 1], [1, "1"], {1: 0.5, "1": 0.5})),
        *(({"personalization": weights}, "weights") for weights in ([], {}, {1: 0.0}, {1: -1.0}, np.zeros(6))),
        *(({"personalization": {1: weight}}, "weights") for weight in (float("nan"), float("inf"))),
        ({"personalization": {1: 1e308, 2: 1e308}}, "finite sum"),
        ({"personalization": np.array([1, 2, np.nan, 1, 1, 1])}, "weights"),
        *(({"personalization": weights}, "one weight a node") for weights in ([1.5], [0.25] * 4, [True, False])),
        *(({"personalization": np.ones(shape)}, "shape") for shape in (5, 7, (6, 1), (2, 3))),
        *(({"personalization": what}, "list of node ids") for what in ("1", b"1", 1, np.ones((2, 2), int))),
        *(({"personalization": {1: weight}}, "weight is .*; it must be a number") for weight in ("much", None)),
        ({"personalization": scipy.sparse.csr_array(np.ones((2, 3)))}, r"shape \(2, 3\); give one weight a node, 6"),
        ({"dangling": scipy.sparse.csr_array(np.ones((1, 5)))}, "dangling, personalization has shape"),
        ({"personalization": scipy.sparse.csr_array(1j * np.ones((1, 6)))}, "complex"),
        ({"personalization": scipy.sparse.csr_array(-np.ones((1, 6)))}, "0 or more, of a finite sum"),
        ({"personalization": np.arange(6)}, "6 integers, which may be ids or one weight a node"),
        ({"personalization": pd.Series([1.0, 2.0], index=[3, 3])}, "twice"),
        *(({"start": np.ones(shape)}, "start must hold 6") for shape in (5, 7, (6, 1))),
        *(({"start": np.full(6, value)}, "start must hold 6") for value in (0.0, -1.0, np.nan, np.inf, 1e308)),
        *(({"start": what}, "start") for what in ("abc", ["a"] * 6, 1.0)),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_arguments_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        pagerank(SMALL, **options)


@pytest.mark.parametrize("layout", ["dia", "", "CSR"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_unknown_layouts_are_refused_with_the_names_of_the_others(layout, engine):
    with pytest.raises(UnsupportedError, match="csr, ell, pattern"):
        pagerank(SMALL, layout=layout, engine=engine)


def test_an_engine_without_the_automatic_layout_takes_its_own():
    assert pagerank(SMALL, engine="scipy").layout == "csr"
    assert pagerank(SMALL, engine="cpu").layout == "pattern"
    with pytest.raises(UnsupportedError, match="no layout 'pattern'"):
        pagerank(SMALL, engine="scipy", layout="pattern")


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_weights_are_not_dropped_silently(engine):
    with pytest.raises(UnsupportedError, match="weights"):
        pagerank(Graph.from_edges([0], [1], [2.0]), layout="pattern", engine=engine)


@pytest.mark.parametrize("weights", [[1e308, 1e308], [1e-310, 1e-310]])
def test_weights_whose_sum_float64_cannot_divide_by_are_refused(weights):
    graph = Graph.from_edges([7, 7], [8, 7], weights, first_id=7)
    with pytest.raises(InputError, match="leave node 7 sum to"):
        pagerank(graph)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_weights_of_any_other_size_are_ranked_alike(size):
    weights = np.arange(1.0, 6.0)
    plain, scaled = (pagerank(Graph.from_edges([0, 0, 1, 2, 2], [1, 2, 2, 0, 1], weights * by)) for by in (1.0, size))
    assert l1(plain.ranks, scaled.ranks) < 1e-12
