"""The way of a graph through `pagerank`: the rooms that it enters, and the calls that lead it back up.

A graph enters a room when a function of it takes the graph, or a problem or a request that holds it, as an argument.
Besides the room of its class there are seven, by both methods: ``api`` decides and solves, ``problems`` makes the
equation, ``engines`` choose and prepare, ``sparse`` arranges the matrix, ``certify`` recomputes the residual.
``backends`` compare the arguments of MPI ranks, and hold the matrix of method ``refine``. ``contracts`` has what
engines inherit: which combinations they refuse, and in which memory graph and certificate are.
"""

import sys
from pathlib import Path

import pytest
from house_rules import BELOW

import cpms
from cpms.api.request import METHODS, Request
from cpms.problems.pagerank import Problem

PACKAGE = Path(cpms.__file__).parent
OWN = "graph"
"""The room of the class `Graph`, in which a graph is before it enters another one."""
MOST_ENTERED, MOST_CLIMBS = 7, 3


def room(frame):
    path = Path(frame.f_code.co_filename)
    return path.relative_to(PACKAGE).parts[0] if PACKAGE in path.parents else None


def holds(value, graph):
    """Whether an argument is the graph, or the problem or request of it, alone or among named arguments."""
    if isinstance(value, Request):
        value = value.problem
    if isinstance(value, Problem):
        value = value.graph
    return value is graph or (type(value) is dict and any(each is graph for each in value.values()))


def calls_with(graph, method):
    """Solve, and return pairs of rooms: of the caller, and of a function that takes the graph as an argument."""
    found = set()

    def on_call(frame, event, _):
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if event == "call" and room(frame) and any(holds(frame.f_locals.get(name), graph) for name in names):
            caller = frame.f_back
            while caller is not None and room(caller) is None:
                caller = caller.f_back
            found.add((room(caller) if caller else None, room(frame)))

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        cpms.pagerank(graph, method=method, engine="cpu")
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_enters_few_rooms_and_seldom_climbs(method):
    graph = cpms.load("rmat:scale=8,seed=1")
    assert cpms.pagerank(graph, method=method, engine="cpu").converged  # No call below compiles.
    calls = {(caller, callee) for caller, callee in calls_with(graph, method) if caller not in (None, "base", callee)}
    entered = {"api", *(callee for _, callee in calls)} - {OWN}
    assert {"problems", "engines", "certify"} <= entered
    assert len(entered) <= MOST_ENTERED, entered
    climbs = {(caller, callee) for caller, callee in calls if caller in BELOW.get(callee, ())}
    assert len(climbs) <= MOST_CLIMBS, climbs
