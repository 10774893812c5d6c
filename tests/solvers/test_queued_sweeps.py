"""Sweeps begun before the last one's change is known: the same solves, and hardly a sweep for nothing."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms.backends.cuda.runtime.vector_pool import VectorPool
from cpms.contracts.stopping import Stopping
from cpms.engines import reference
from cpms.formats.formats import format_named
from cpms.precision.controllers import WriteAhead, default_controller
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.testing import graphs

FORMATS = ["fp64", "cpms2", "cpms4", "fp32", "fp16-scaled"]
WEB = cpms.load("rmat:scale=7,edge_factor=6,seed=3")
begun, events = [], []


def queue(self, x, out, level, step, norm):
    """Sweep at once, as a device would that nobody waits for."""
    begun.append(step)
    events.append(("begun", step))
    found = self.sweep(x, out, level, step)

    def wait():
        events.append(("waited", step))
        return found

    return wait


def solved(graph, storage, stopping, *, queues, rule=None):
    problem, first = Problem(graph), np.full(graph.nodes, 1.0 / graph.nodes)
    begun.clear()
    events.clear()
    with pytest.MonkeyPatch.context() as patched:
        if queues:
            patched.setattr(reference.ReferenceOperator, "queue", queue)
        operator = reference.ENGINE.prepare(problem, storage, "csr")
        ranks, status, history = power(operator, first, rule or default_controller(storage), stopping)
    return ranks.tolist(), status, [tuple(step)[:-1] for step in history]


@given(
    graphs(),
    st.sampled_from(FORMATS),
    st.sampled_from(["l1", "l2", "linf"]),
    st.sampled_from([1e-3, 1e-6, 1e-12]),
    st.sampled_from([1, 2, 7, 200]),
    st.sampled_from([None, None, 1, 9]),
    st.booleans(),
)
@settings(max_examples=60)
def test_solves_are_those_that_wait(graph, name, norm, tol, most, iterations, writes_ahead):
    storage, stopping = format_named(name), Stopping(tol, norm, most, iterations)
    rule = WriteAhead(default_controller(storage)) if writes_ahead else None
    expected = solved(graph, storage, stopping, queues=False, rule=rule)
    assert solved(graph, storage, stopping, queues=True, rule=rule) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_most_sweeps_are_begun_ahead_and_hardly_one_for_nothing(name):
    storage = format_named(name)
    _, status, history = solved(WEB, storage, Stopping(1e-10), queues=True)
    rises = len({bits for _, _, _, bits, _, _ in history}) - 1
    assert status is cpms.Status.CONVERGED
    assert len(begun) - len(history) <= rises
    assert len(set(begun)) == len(history)
    ahead = [step for step in set(begun) if ("waited", step - 1) in events[events.index(("begun", step)) :]]
    assert len(ahead) >= len(history) - 4 * (rises + 1)


def test_exactly_so_many_iterations_begin_no_other():
    _, _, history = solved(WEB, format_named("fp64"), Stopping(iterations=12), queues=True)
    assert begun == list(range(12))
    assert len(history) == 12


class Vector:
    def __init__(self):
        self.memory = object()


def test_vectors_come_back_when_nobody_has_them():
    pool = VectorPool(Vector)
    own = {vector.memory for vector in pool.pair()}
    x, out = pool.vector(), pool.vector()
    assert {x.memory, out.memory} == own
    third = pool.vector()
    assert third.memory not in own
    kept = x.memory
    del x
    gc.collect()
    assert pool.vector().memory is kept


def test_vectors_are_never_two_borrowers():
    pool = VectorPool(Vector)
    held = [pool.vector() for _ in range(5)]
    del held[1:3]
    gc.collect()
    held += [pool.vector() for _ in range(4)]
    assert len({id(vector.memory) for vector in held}) == len(held)
