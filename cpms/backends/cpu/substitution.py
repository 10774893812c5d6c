"""Acyclic graphs: forward substitution in topological order solves the whole system in one pass.

The matrix of an acyclic graph is triangular in that order (Davis, Direct Methods for Sparse Linear Systems, 2006,
section 3.1). The pass reads each edge once, in float64, and replaces all sweeps. It runs on one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu.node_loops import each
from cpms.backends.cpu.small_graphs import trimming
from cpms.base.compilation import first_call
from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem
from cpms.sparse.csr import unsigned_sources

IN_ORDER, _UPWARDS, _DOWNWARDS = 0, 1, -1
_UNSEEN, _OPEN, _DONE = 0, 1, 2
_compiled: Any = compiled(error_model="numpy", _nrt=False)
_allocating: Any = compiled(error_model="numpy")


@dataclass(frozen=True, eq=False)
class Acyclic:
    """A problem whose edges form no cycle other than self-loops; made by `acyclic`.

    If ``direction`` is 1 or -1, ascending or descending numbers of nodes are a topological order; if it is 0, ``order``
    has one. ``factor`` is 1 / (1 - damping loops / out-degree) for each node, or one number if there are no self-loops.
    """

    problem: Problem
    direction: int
    order: npt.NDArray[Any]
    inverse: Floats
    factor: Floats
    contribution: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "contribution", np.zeros_like(self.inverse))

    @property
    def nbytes(self) -> int:
        """Bytes that a pass reads besides the graph."""
        return self.order.nbytes + self.inverse.nbytes + self.factor.nbytes

    def solve_reduced(self) -> Floats:
        """Return x, shape (nodes,), of sum 1.

        With (I - damping P) y = v and (I - damping P) z = w, x is a combination of y and z; if w = v, it is y scaled.
        """
        problem = self.problem
        x = self._solved(problem.teleport_or_scalar)
        if not problem.dangling_follows_teleport:
            of_sink, nodes = self._solved(problem.sink_or_scalar), problem.graph.dangling_nodes
            dangling, returned = problem.damping * x[nodes].sum(), problem.damping * of_sink[nodes].sum()
            x += dangling / (1.0 - returned) * of_sink
        x /= x.sum()
        return x

    def _solved(self, right: Floats) -> Floats:
        graph, y = self.problem.graph, np.empty_like(self.inverse)
        indptr, sources = graph.indptr.view(np.uint64), graph.sources.view(self.order.dtype)
        solve = trimming.substitute if first_call.spares_loops() else substitute
        solve(
            indptr, sources, right, self.problem.damping, self.direction, self.order, self.inverse, self.factor,
            self.contribution, y,
        )  # fmt: skip
        return y


def acyclic(problem: Problem) -> Acyclic | None:
    """Return a problem that one pass of substitution solves; None if edges form a cycle.

    Examples
    --------
    >>> acyclic(Problem(Graph.from_edges([0], [1]))).solve_reduced().round(4).tolist()
    [0.3509, 0.6491]
    >>> acyclic(Problem(Graph.from_edges([0, 1], [1, 0])))
    """
    graph = problem.graph
    sources = unsigned_sources(graph)
    order: npt.NDArray[Any] | None = np.empty(0, sources.dtype)
    compiles = not first_call.spares_loops()
    if compiles:
        up, down = _directions(graph.indptr, sources)
    else:
        up, down = bool((sources <= graph.targets).all()), bool((sources >= graph.targets).all())
    if not (up or down):
        order, is_known = (None, False) if compiles else trimming.order(graph, sources.dtype)
        order = order if is_known else _order(graph.indptr, sources)
    if order is None:
        return None
    inverse, loops = inverse_degree(graph), _loops(graph)
    factor: Floats = 1.0 / (1.0 - problem.damping * loops * inverse) if loops.any() else np.ones(1)
    return Acyclic(problem, _UPWARDS if up else _DOWNWARDS if down else IN_ORDER, order, inverse, factor)


def _loops(graph: Graph) -> npt.NDArray[np.int64]:
    """Return the number of self-loops of each node."""
    targets = graph.targets
    return np.bincount(targets[targets == graph.sources], minlength=graph.nodes)


@_compiled
def _directions(indptr, sources):  # type: ignore[no-untyped-def]
    up = down = True
    for target in range(len(indptr) - 1):
        for k in range(indptr[target], indptr[target + 1]):
            up = up and sources[k] <= target
            down = down and sources[k] >= target
        if not (up or down):
            break
    return up, down


def _order(indptr: npt.NDArray[Any], sources: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    order = np.empty(len(indptr) - 1, sources.dtype)
    return order if _fill_order(indptr, sources, order) else None


@_allocating
def _fill_order(indptr, sources, order):  # type: ignore[no-untyped-def]
    # Depth-first search along in-edges: a node is done after all nodes it depends on. Reaching an open one is a cycle.
    nodes = len(order)
    state = np.zeros(nodes, np.uint8)
    at = indptr[:-1].copy()
    path = np.empty(nodes, order.dtype)
    done = 0
    for root in range(nodes):
        if state[root] != _UNSEEN:
            continue
        path[0], depth = root, 1
        state[root] = _OPEN
        while depth:
            node = path[depth - 1]
            if at[node] == indptr[node + 1]:
                state[node] = _DONE
                order[done] = node
                done += 1
                depth -= 1
                continue
            source = sources[at[node]]
            at[node] += 1
            if state[source] == _UNSEEN:
                state[source] = _OPEN
                path[depth] = source
                depth += 1
            elif state[source] == _OPEN and source != node:
                return False
    return True


def inverse_degree(graph: Graph) -> Floats:
    """Return 1 / out-degree of each node, 0 for dangling ones."""
    degree, inverse = graph.out_degree, np.zeros(graph.nodes)

    def invert(low: int, high: int) -> None:
        np.divide(1.0, degree[low:high], out=inverse[low:high], where=degree[low:high] > 0)

    each(invert, graph.nodes)
    return inverse


@_compiled
def substitute(indptr, sources, right, damping, direction, order, inverse, factor, contribution, y):  # type: ignore[no-untyped-def]
    """Substitute y = right + damping P y along an order, scaled by ``factor``, and the contributions y over out-degree.

    The order is ascending or descending over all nodes, or that of ``order`` where ``direction`` is 0. A node's
    contribution is one multiplication and one addition after its sum, since its successors in the order wait for it.
    """
    nodes = len(y)
    right_step, factor_step = np.uint64(len(right) > 1), np.uint64(len(factor) > 1)
    for i in range(len(order) if direction == 0 else nodes):
        node = np.uint64(i)
        if direction == 0:
            node = np.uint64(order[i])
        elif direction < 0:
            node = np.uint64(nodes - 1 - i)
        contribution[node] = 0.0
        scale = factor[node * factor_step]
        constant, slope = right[node * right_step] * scale, damping * scale
        constant_contribution, slope_contribution = constant * inverse[node], slope * inverse[node]
        total = 0.0
        for k in range(indptr[node], indptr[node + np.uint64(1)]):
            total += contribution[np.uint64(sources[k])]
        contribution[node] = slope_contribution * total + constant_contribution
        y[node] = slope * total + constant
