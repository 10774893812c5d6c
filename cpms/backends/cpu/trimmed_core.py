"""Nodes before and behind all cycles: one pass over them does; sweeps are for the core between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu.node_loops import each, scatter
from cpms.backends.cpu.substitution import IN_ORDER, inverse_degree, one_pass
from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem
from cpms.sparse.csr import unsigned_sources

_compiled: Any = compiled(error_model="numpy")
_ROW_COST = 4
"""What a row costs beside its entries, in entries."""
_WORTH = 0.8
"""Share of a sweep's cost that the core's may have."""
_FEW = 0.7
"""Share of the nodes that the core may have at any cost: mass that goes round through many others without a cycle,
isolated ones above all, makes sweeps over all of them converge late. On an R-MAT graph the core takes half as many."""
_MOST_PASSES = 32
"""Looks at all nodes for such as no cycle leads to; what comes later stays in the core."""


@dataclass(frozen=True, eq=False)
class Core:
    """A problem whose solution follows from that of a smaller one; made by `core`.

    The core's nodes lie on cycles or between them, ``nodes`` in the order of their numbers. Its ``graph`` has the
    edges between them, ``kept`` of each node; what flows along the others that ``degree`` counts is lost to the core.
    Edges from nodes before it begin at ``entering``, those of its row i from ``inflow[i]`` on.

    Notes
    -----
    With teleport v, and dangling mass that goes there too, x is proportional to y = damping P y + v. For nodes that
    no cycle leads to, y follows from v in one pass. In the core, y = damping P y + b, where b is v and what flows in:
    this is PageRank with teleport b, where what is lost returns by b. Nodes that lead to no cycle come last.
    """

    problem: Problem
    graph: Graph
    degree: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    nodes: npt.NDArray[Any]
    up: npt.NDArray[Any]
    down: npt.NDArray[Any]
    inverse: Floats
    inflow: npt.NDArray[np.int64]
    entering: npt.NDArray[Any]

    @staticmethod
    def solves(problem: Problem) -> bool:
        """Return whether dangling mass goes where teleport does."""
        return problem.dangling == "teleport" or problem.teleport is None

    @property
    def nbytes(self) -> int:
        """Bytes of what passes read beside the graph."""
        orders = self.nodes.nbytes + self.up.nbytes + self.down.nbytes
        return orders + self.inverse.nbytes + self.inflow.nbytes + self.entering.nbytes

    def begin(self) -> tuple[Floats, Floats, float]:
        """Return y of the nodes before the core; and b of the core, with its sum, 0 where nothing reaches it."""
        problem, b = self.problem, np.empty(len(self.nodes))
        y, share = (np.zeros(problem.graph.nodes) for _ in range(2))
        self._add_inflow(self.up, share, y)
        given = self.inflow, self.entering, share, problem.teleport_or_scalar, problem.damping, self.nodes, b
        each(lambda low, high: _enter(*given, low, high), len(b))
        return y, b, float(b.sum())

    def end(self, y: Floats, scale: float, ranks: Floats) -> Floats:
        """Return x, shape (nodes,), of sum 1, from the core's solution."""
        damping, kept, degree, share = self.problem.damping, self.kept, self.degree, np.empty_like(y)

        def lost(low: int, high: int) -> float:
            # Not by BLAS, which shares out a product of vectors among processors.
            return float((ranks[low:high] * (1.0 - kept[low:high] / degree[low:high])).sum())

        all_lost = sum(each(lost, len(ranks)))
        scatter(ranks, self.nodes, y, times=scale / (damping * all_lost + 1.0 - damping))
        each(lambda low, high: np.multiply(y[low:high], self.inverse[low:high], out=share[low:high]), len(y))
        self._add_inflow(self.down, share, y)
        total = sum(each(lambda low, high: float(y[low:high].sum()), len(y)))
        each(lambda low, high: np.divide(y[low:high], total, out=y[low:high]), len(y))
        return y

    def _add_inflow(self, nodes: npt.NDArray[Any], share: Floats, y: Floats) -> None:
        """Set y = v + damping P y of some nodes in their order, and their shares, y over out-degree."""
        graph = self.problem.graph
        sources = unsigned_sources(graph)
        indptr, right, damping = graph.indptr.view(np.uint64), self.problem.teleport_or_scalar, self.problem.damping
        one_pass(indptr, sources, right, damping, IN_ORDER, nodes, self.inverse, np.ones(1), share, y)


def core(problem: Problem) -> Core | None:
    """Return the core of a problem where sweeping it alone pays; None where not.

    Examples
    --------
    >>> edges = [0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 1, 0, 0, 0, 0, 1]
    >>> core(Problem(Graph.from_edges(*edges))).nodes.tolist()
    [1, 2]
    >>> core(Problem(Graph.from_edges([0, 1], [1, 0])))
    """
    graph = problem.graph
    if not Core.solves(problem):
        return None
    degree, most_cost = graph.out_degree, _WORTH * (graph.edges + _ROW_COST * graph.nodes)
    sources = unsigned_sources(graph)
    up, down = _peeled(graph, sources)
    count = graph.nodes - len(up) - len(down)
    most_edges = graph.edges if count <= _FEW * graph.nodes else most_cost - _ROW_COST * count
    # All edges that go begin at nodes before the core or end at nodes behind it.
    fewest = graph.edges - int(degree[up].sum()) - int(graph.in_degree[down].sum())
    if count == 0 or fewest > most_edges:
        return None
    inside = np.ones(graph.nodes, np.bool_)
    inside[up] = inside[down] = False
    nodes, starts = np.flatnonzero(inside), np.zeros(count + 1, np.int64)
    each(lambda low, high: _count_inside(graph.indptr, sources, inside, nodes, starts, low, high), count)
    np.cumsum(starts, out=starts)
    if starts[-1] > most_edges:
        return None
    inflow = np.append(0, np.cumsum(graph.in_degree[nodes])) - starts
    between, entering = (np.empty(bounds[-1], sources.dtype) for bounds in (starts, inflow))
    place = (np.cumsum(inside) - 1).astype(sources.dtype)
    given = graph.indptr, sources, inside, place, nodes, starts, inflow, between, entering
    each(lambda low, high: _part(*given, low, high), count)
    smaller = Graph(starts, between.view(graph.sources.dtype), None, f"the core of {graph.name}")
    kept = degree.copy()
    _take_away(graph.indptr, sources, down, kept)
    degree, kept, nodes = degree[nodes], kept[nodes], nodes.astype(sources.dtype)
    return Core(problem, smaller, degree, kept, nodes, up, down, inverse_degree(graph), inflow, entering)


@_compiled
def _count_inside(indptr, sources, inside, nodes, counts, low, high):  # type: ignore[no-untyped-def]
    # The entries of row i whose sources lie inside, at i + 1.
    for i in range(low, high):
        count = 0
        for k in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            count += inside[sources[k]]
        counts[i + 1] = count


@_compiled
def _take_away(indptr, sources, down, kept):  # type: ignore[no-untyped-def]
    # Of each node's edges those that end behind the core.
    for place in down:
        node = np.uint64(place)
        for k in range(indptr[node], indptr[node + np.uint64(1)]):
            kept[sources[k]] -= 1


@_compiled
def _part(indptr, sources, inside, place, nodes, starts, inflow, between, entering, low, high):  # type: ignore[no-untyped-def]
    # Of some rows the edges between nodes inside, by place, and those that enter from others.
    kept, entered = starts[low], inflow[low]
    for i in range(low, high):
        node = nodes[i]
        for k in range(indptr[node], indptr[node + 1]):
            source = sources[k]
            if inside[source]:
                between[kept] = place[source]
                kept += 1
            else:
                entering[entered] = source
                entered += 1


@_compiled
def _enter(inflow, entering, share, teleport, damping, nodes, right, low, high):  # type: ignore[no-untyped-def]
    # v of some of the core's nodes, and what flows in.
    step = np.uint64(len(teleport) > 1)
    for i in range(low, high):
        total = 0.0
        for k in range(inflow[i], inflow[i + 1]):
            total += share[entering[k]]
        right[i] = teleport[np.uint64(nodes[i]) * step] + damping * total


def _peeled(graph: Graph, sources: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the nodes before the core, and those behind it, each after all that it gets something from."""
    nodes, indptr = graph.nodes, graph.indptr
    up, down = (np.empty(nodes, sources.dtype) for _ in range(2))
    awaited, gone = np.empty(nodes, sources.dtype), np.zeros(nodes + 1, np.bool_)
    each(lambda low, high: _await(indptr, sources, awaited, low, high), nodes)
    before = _go_before(indptr, sources, awaited, gone, up, _MOST_PASSES)
    # A node is met once for each of its edges: the smaller the table, the more of it caches hold.
    rest = graph.out_degree.astype(np.int64 if graph.edges >> 32 else np.uint32)
    behind = _go_behind(indptr, sources, rest, gone, down)
    return up[:before], down[:behind][::-1].copy()


@_compiled
def _await(indptr, sources, awaited, low, high):  # type: ignore[no-untyped-def]
    # What some nodes wait for first: the source of an edge that has edges itself; the number after all if none has.
    nothing = len(awaited)
    for node in range(low, high):
        awaited[node] = nothing
        for k in range(indptr[node], indptr[node + 1]):
            source = np.uint64(sources[k])
            if indptr[source] != indptr[source + np.uint64(1)]:
                awaited[node] = source
                break


@_compiled
def _go_before(indptr, sources, awaited, gone, up, most_passes):  # type: ignore[no-untyped-def]
    # Nodes in the order of their numbers, again and again: those all of whose edges come from such as went before.
    nodes = len(awaited)
    gone[nodes] = True
    before = 0
    for _ in range(most_passes):
        found = before
        for node in range(nodes):
            if gone[node] or not gone[awaited[node]]:
                continue
            ready = True
            for k in range(indptr[node], indptr[node + 1]):
                if not gone[sources[k]]:
                    ready = False
                    awaited[node] = sources[k]
                    break
            if ready:
                gone[node] = True
                up[before] = node
                before += 1
        if before == found:
            break
    return before


@_compiled
def _go_behind(indptr, sources, rest, gone, down):  # type: ignore[no-untyped-def]
    # The list is its own queue: nodes whose last edge to what is left has gone.
    behind = done = 0
    for node in range(len(rest)):
        if rest[node] == 0 and not gone[node]:
            down[behind] = node
            behind += 1
    while done < behind:
        taken = np.uint64(down[done])
        done += 1
        for k in range(indptr[taken], indptr[taken + np.uint64(1)]):
            source = sources[k]
            if not gone[source]:
                rest[source] -= 1
                if rest[source] == 0:
                    down[behind] = source
                    behind += 1
    return behind
