"""Trimming: substitution solves the nodes upstream and downstream of all cycles, and sweeps go over the core between.

Trimming removes nodes without remaining in-edges, then nodes without remaining out-edges, as in the trim step of
algorithms for strongly connected components. A graph with long chains or many sinks has a much smaller core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cpu.node_loops import each, scatter
from cpms.backends.cpu.small_graphs import trimming
from cpms.backends.cpu.substitution import IN_ORDER, inverse_degree, substitute
from cpms.base.compilation import first_call
from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem
from cpms.sparse.csr import unsigned_sources

_compiled: Any = compiled(error_model="numpy", _nrt=False)
_ROW_COST = 4
"""Cost of a row besides its entries, in entries."""
_WORTH = 0.8
"""Cost of a sweep over the core, over that of a sweep over all nodes, up to which trimming is worthwhile."""
_SMALL_CORE = 0.7
"""Fraction of the nodes up to which a core is worthwhile at any cost.

Mass that returns through acyclic or isolated nodes delays the convergence of sweeps over all nodes.
"""
_MAX_PASSES = 32
"""Most passes of trimming; nodes that later passes would remove remain in the core."""


@dataclass(frozen=True, eq=False)
class Core:
    """The trimmed core of a problem, whose solution gives that of the whole; made by `core`.

    The core's nodes lie on cycles or between them; ``nodes`` lists them in ascending order. Its ``graph`` has the edges
    between them. Of the ``degree[i]`` edges from node i, ``internal_degree[i]`` are in that graph, and the others carry
    mass out of the core. ``entering`` lists the upstream sources of edges into the core, those of row i from
    ``inflow[i]`` on.

    Notes
    -----
    If dangling mass follows teleport v, x is proportional to y = damping P y + v. For upstream nodes, y follows from v
    by substitution. In the core, y = damping P y + b, where b is v and the inflow from upstream: this is PageRank with
    teleport b, to which the mass that leaves returns. Downstream nodes follow by substitution.
    """

    problem: Problem
    graph: Graph
    degree: npt.NDArray[np.int64]
    internal_degree: npt.NDArray[np.int64]
    nodes: npt.NDArray[Any]
    up: npt.NDArray[Any]
    down: npt.NDArray[Any]
    inverse: Floats
    inflow: npt.NDArray[np.int64]
    entering: npt.NDArray[Any]

    @staticmethod
    def solves(problem: Problem) -> bool:
        """Return whether dangling mass follows teleport."""
        return problem.dangling_follows_teleport

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of substitution, without the graph."""
        orders = self.nodes.nbytes + self.up.nbytes + self.down.nbytes
        return orders + self.inverse.nbytes + self.inflow.nbytes + self.entering.nbytes

    def begin(self) -> tuple[Floats, Floats, float]:
        """Return y of the upstream nodes, and b of the core with its sum, which is 0 if no mass reaches the core."""
        problem, b = self.problem, np.empty(len(self.nodes))
        y, contribution = (np.zeros(problem.graph.nodes) for _ in range(2))
        self._add_inflow(self.up, contribution, y)
        teleport, damping = problem.teleport_or_scalar, problem.damping
        if first_call.spares_loops():
            entered = trimming.row_sums(self.inflow, contribution[self.entering])
            b[:] = (teleport[self.nodes] if len(teleport) > 1 else teleport) + damping * entered
        else:
            given = self.inflow, self.entering, contribution, teleport, damping, self.nodes, b
            each(lambda low, high: _enter(*given, low, high), len(b))
        return y, b, float(b.sum())

    def end(self, y: Floats, scale: float, ranks: Floats) -> Floats:
        """Return x, shape (nodes,), of sum 1, from the core's solution."""
        damping, internal_degree, degree, contribution = (
            self.problem.damping,
            self.internal_degree,
            self.degree,
            np.empty_like(y),
        )

        def lost(low: int, high: int) -> float:
            # BLAS would split the dot product over threads, which changes the order of its sum.
            return float((ranks[low:high] * (1.0 - internal_degree[low:high] / degree[low:high])).sum())

        all_lost = sum(each(lost, len(ranks)))
        scatter(ranks, self.nodes, y, times=scale / (damping * all_lost + 1.0 - damping))
        each(lambda low, high: np.multiply(y[low:high], self.inverse[low:high], out=contribution[low:high]), len(y))
        self._add_inflow(self.down, contribution, y)
        total = sum(each(lambda low, high: float(y[low:high].sum()), len(y)))
        each(lambda low, high: np.divide(y[low:high], total, out=y[low:high]), len(y))
        return y

    def _add_inflow(self, nodes: npt.NDArray[Any], contribution: Floats, y: Floats) -> None:
        """Substitute y = v + damping P y for nodes in their order, with their contributions, y over out-degree."""
        graph = self.problem.graph
        sources = unsigned_sources(graph)
        indptr, right, damping = graph.indptr.view(np.uint64), self.problem.teleport_or_scalar, self.problem.damping
        solve = trimming.substitute if first_call.spares_loops() else substitute
        solve(indptr, sources, right, damping, IN_ORDER, nodes, self.inverse, np.ones(1), contribution, y)


def core(problem: Problem) -> Core | None:
    """Return the core of a problem if sweeps over it alone are worthwhile, else None.

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
    compiles = not first_call.spares_loops()
    up, down = (None if compiles else trimming.trimmed(graph, sources.dtype)) or _trimmed(graph, sources)
    count = graph.nodes - len(up) - len(down)
    most_edges = graph.edges if count <= _SMALL_CORE * graph.nodes else most_cost - _ROW_COST * count
    # All removed edges begin at upstream nodes or end at downstream nodes.
    fewest = graph.edges - int(degree[up].sum()) - int(graph.in_degree[down].sum())
    if count == 0 or fewest > most_edges:
        return None
    inside = np.ones(graph.nodes, np.bool_)
    inside[up] = inside[down] = False
    nodes = np.flatnonzero(inside)
    starts = (_starts if compiles else trimming.starts)(graph, sources, inside, nodes)
    if starts[-1] > most_edges:
        return None
    inflow = np.append(0, np.cumsum(graph.in_degree[nodes])) - starts
    new_index = (np.cumsum(inside) - 1).astype(sources.dtype)
    if compiles:
        between, entering = (np.empty(bounds[-1], sources.dtype) for bounds in (starts, inflow))
        given = graph.indptr, sources, inside, new_index, nodes, starts, inflow, between, entering
        each(lambda low, high: _part(*given, low, high), count)
    else:
        between, entering = trimming.parted(graph, sources, inside, new_index)
    smaller = Graph(starts, between.view(graph.sources.dtype), None, f"the core of {graph.name}")
    internal_degree = degree.copy()
    if compiles:
        _subtract_edges(graph.indptr, sources, down, internal_degree)
    else:
        internal_degree -= trimming.ends_in(graph, down)
    degree, internal_degree, nodes = degree[nodes], internal_degree[nodes], nodes.astype(sources.dtype)
    return Core(problem, smaller, degree, internal_degree, nodes, up, down, inverse_degree(graph), inflow, entering)


def _starts(
    graph: Graph, sources: Any, inside: npt.NDArray[np.bool_], nodes: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Return the starts of the core's rows, by a count of the entries whose sources lie inside."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    each(lambda low, high: _count_inside(graph.indptr, sources, inside, nodes, starts, low, high), len(nodes))
    return np.cumsum(starts, out=starts)


@_compiled
def _count_inside(indptr, sources, inside, nodes, counts, low, high):  # type: ignore[no-untyped-def]
    # counts[i + 1] becomes the number of entries of row i whose sources lie inside.
    for i in range(low, high):
        count = 0
        for k in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            count += inside[sources[k]]
        counts[i + 1] = count


@_compiled
def _subtract_edges(indptr, sources, down, internal_degree):  # type: ignore[no-untyped-def]
    # Edges that end downstream of the core are not internal.
    for new_index in down:
        node = np.uint64(new_index)
        for k in range(indptr[node], indptr[node + np.uint64(1)]):
            internal_degree[sources[k]] -= 1


@_compiled
def _part(indptr, sources, inside, new_index, nodes, starts, inflow, between, entering, low, high):  # type: ignore[no-untyped-def]
    # Writes the edges of some rows: those between nodes of the core, by new numbers, and those that enter it.
    internal, entered = starts[low], inflow[low]
    for i in range(low, high):
        node = nodes[i]
        for k in range(indptr[node], indptr[node + 1]):
            source = sources[k]
            if inside[source]:
                between[internal] = new_index[source]
                internal += 1
            else:
                entering[entered] = source
                entered += 1


@_compiled
def _enter(inflow, entering, contribution, teleport, damping, nodes, right, low, high):  # type: ignore[no-untyped-def]
    # b of some of the core's nodes: v, and the inflow from upstream.
    step = np.uint64(len(teleport) > 1)
    for i in range(low, high):
        total = 0.0
        for k in range(inflow[i], inflow[i + 1]):
            total += contribution[entering[k]]
        right[i] = teleport[np.uint64(nodes[i]) * step] + damping * total


def _trimmed(graph: Graph, sources: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the upstream and the downstream nodes, each list in topological order."""
    nodes, indptr = graph.nodes, graph.indptr
    up, down = (np.empty(nodes, sources.dtype) for _ in range(2))
    awaited, gone = np.empty(nodes, sources.dtype), np.zeros(nodes + 1, np.bool_)
    each(lambda low, high: _find_awaited(indptr, sources, awaited, low, high), nodes)
    upstream = _trim_upstream(indptr, sources, awaited, gone, up, _MAX_PASSES)
    # The table is read once an edge, so a narrow type keeps more of it in caches.
    rest = graph.out_degree.astype(np.int64 if graph.edges >> 32 else np.uint32)
    downstream = _trim_downstream(indptr, sources, rest, gone, down)
    return up[:upstream], down[:downstream][::-1].copy()


@_compiled
def _find_awaited(indptr, sources, awaited, low, high):  # type: ignore[no-untyped-def]
    # The first in-neighbour with in-edges of its own, on which a node waits; the number of nodes if there is none.
    nothing = len(awaited)
    for node in range(low, high):
        awaited[node] = nothing
        for k in range(indptr[node], indptr[node + 1]):
            source = np.uint64(sources[k])
            if indptr[source] != indptr[source + np.uint64(1)]:
                awaited[node] = source
                break


@_compiled
def _trim_upstream(indptr, sources, awaited, gone, up, max_passes):  # type: ignore[no-untyped-def]
    # Passes over all nodes in ascending order; a node is trimmed once all its in-neighbours are.
    nodes = len(awaited)
    gone[nodes] = True
    upstream = 0
    for _ in range(max_passes):
        found = upstream
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
                up[upstream] = node
                upstream += 1
        if upstream == found:
            break
    return upstream


@_compiled
def _trim_downstream(indptr, sources, rest, gone, down):  # type: ignore[no-untyped-def]
    # The list is its own queue, of nodes without a remaining out-edge.
    downstream = processed = 0
    for node in range(len(rest)):
        if rest[node] == 0 and not gone[node]:
            down[downstream] = node
            downstream += 1
    while processed < downstream:
        removed = np.uint64(down[processed])
        processed += 1
        for k in range(indptr[removed], indptr[removed + np.uint64(1)]):
            source = sources[k]
            if not gone[source]:
                rest[source] -= 1
                if rest[source] == 0:
                    down[downstream] = source
                    downstream += 1
    return downstream
