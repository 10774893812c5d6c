"""A request decides every choice of a solve before an engine prepares anything, and nothing decides it again."""

import inspect
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

import cpms
from cpms import Graph, InputError, UnsupportedError, engines
from cpms.api import prepared
from cpms.api.request import Request, resolve
from cpms.backends.mpi.exchange import agreement
from cpms.contracts.engine import Engine
from cpms.formats.formats import E5M2, FP16, FP32, FP64
from cpms.precision.refinement_policy import AdaptiveReduction

GRAPH = Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 0, 0, 1])
WEIGHTED = Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0])
USUAL = {
    "method": "power",
    "storage": "auto",
    "engine": "cpu",
    "damping": 0.85,
    "tol": 1e-10,
    "norm": "l1",
    "max_iterations": 1000,
    "dangling": "teleport",
    "start": None,
    "precision": None,
}


def resolved(graph=GRAPH, **given):
    return resolve(graph, **{**USUAL, **given})


@pytest.fixture
def unprepared(monkeypatch):
    """Let no engine prepare anything."""
    for name in engines.names():
        if engines.get_any(name).missing() is None:
            for work in ("prepare", "refinement", "batch", "refinement_batch"):
                monkeypatch.setattr(type(engines.get_any(name)), work, lambda *_: pytest.fail("it was prepared"))


@pytest.mark.quick
@pytest.mark.parametrize("engine", ["auto", "cpu", "serial", "reference", "scipy"])
@pytest.mark.parametrize("graph", [GRAPH, WEIGHTED], ids=["pattern", "weighted"])
def test_a_request_is_complete_and_frozen_before_an_engine_prepares(unprepared, engine, graph):
    request = resolved(graph, engine=engine, storage="cpms4" if engine in ("cpu", "reference") else "fp64")
    assert isinstance(request.engine, Engine)
    assert request.layout in request.engine.layouts
    assert request.initial_guess.sum() == pytest.approx(1.0)
    assert request.controller.init(request.storage)
    for field in fields(Request):
        with pytest.raises(FrozenInstanceError):
            setattr(request, field.name, None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("error", "given"),
    [
        (InputError, {"precision": AdaptiveReduction((FP16,))}),
        (InputError, {"method": "refine", "precision": cpms.Threshold()}),
        (InputError, {"layout": 4}),
        (InputError, {"start": np.zeros(5)}),
        (UnsupportedError, {"layout": "coo"}),
        (UnsupportedError, {"method": "refine", "layout": "csr"}),
        (UnsupportedError, {"method": "refine", "engine": "scipy"}),
        (UnsupportedError, {"queries": [[0], [1]], "storage": "fp16"}),
    ],
)
def test_impossible_combinations_are_refused_before_an_engine_prepares(unprepared, error, given):
    with pytest.raises(error):
        resolved(**given)


@pytest.mark.quick
def test_a_prepared_graph_chooses_the_residual_format_only_where_nothing_was_given():
    by_default = resolved(method="refine")
    assert (by_default.storage.name, by_default.policy.formats) == ("fp32", (FP32,))
    changed = by_default.with_residual_format(E5M2)
    assert (changed.storage.name, [each.name for each in changed.policy.formats]) == ("e5m2", ["e5m2", "fp16", "fp32"])
    assert by_default.with_residual_format(None) is by_default
    for given in ({"storage": "fp16"}, {"precision": AdaptiveReduction((FP16,))}):
        request = resolved(method="refine", **given)
        assert request.with_residual_format(E5M2) is request
        assert request.storage.name == "fp16"


@pytest.mark.quick
def test_one_query_for_any_engine_is_a_solve_of_its_own():
    alone = resolved(engine="auto", queries=[[2]])
    assert alone.queries is None
    assert alone.problem.teleport.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    for request in (resolved(queries=[[2]]), resolved(engine="auto", queries=[[2], {0: 1.0, 1: 3.0}])):
        assert request.problem.teleport is None
        assert (request.storage, request.layout) == (FP64, "pattern")
        assert request.queries[0].nodes.tolist() == [2]
    assert resolved(queries=[]).queries == ()


@pytest.mark.quick
@pytest.mark.parametrize("method", ["power", "refine"])
def test_a_call_resolves_once(monkeypatch, method):
    calls = []
    monkeypatch.setattr(prepared, "resolve", lambda *given, **named: calls.append(1) or resolve(*given, **named))
    cpms.pagerank(GRAPH, method=method)
    assert len(calls) == 1
    for queries in ([0], [0, 1]):
        calls.clear()
        cpms.personalized_pagerank(GRAPH, queries, method=method)
        assert len(calls) == 1


@pytest.mark.quick
def test_ranks_compare_the_arguments_of_a_call_and_nothing_else(monkeypatch):
    compared = set()
    monkeypatch.setattr(agreement, "require_same_call", lambda arguments: compared.update(arguments))
    cpms.pagerank(GRAPH)
    assert compared == {*inspect.signature(cpms.pagerank).parameters, "solves"}
