"""Trimming, substitution and topological order of small graphs by NumPy, where compiling loops would take longer.

Trimming removes nodes by levels, as Kahn's topological sort does (Comm. ACM 5, 1962). A level has all nodes without a
remaining edge, and costs one pass over the edges. Graphs of more than `MOST_LEVELS` levels are left to the compiled
loops. Sums are added in the order of these loops, so results are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats
from cpms.graph.graph import Graph

Ints = npt.NDArray[Any]
MOST_LEVELS = 32


def _levels(waiting: Ints, others: Ints, left: Ints, gone: npt.NDArray[np.bool_]) -> list[Ints] | None:
    """Return the nodes without remaining edges by levels, or None if there are more than `MOST_LEVELS`.

    Edge k of node ``waiting[k]`` remains until node ``others[k]`` is removed, and ``left`` is the number of remaining
    edges of each node. Nodes that are ``gone`` already are in no level; the nodes of all levels are marked as gone.
    """
    found: list[Ints] = []
    level = np.flatnonzero((left == 0) & ~gone)
    while len(level):
        if len(found) == MOST_LEVELS:
            return None
        found.append(level)
        gone[level] = True
        is_new = np.zeros(len(gone), np.bool_)
        is_new[level] = True
        left = left - np.bincount(waiting[is_new[others]], minlength=len(left))
        level = np.flatnonzero((left == 0) & ~gone)
    return found


def _joined(levels: list[Ints], kind: Any) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *levels]).astype(kind)


def order(graph: Graph, kind: Any) -> tuple[Ints | None, bool]:
    """Return a topological order, without regard to self-loops, and whether the result is known.

    The order is None if edges form a cycle. With too many levels, the result is (None, False).

    Examples
    --------
    >>> order(Graph.from_edges([1, 0], [0, 2]), np.uint32)
    (array([1, 0, 2], dtype=uint32), True)
    """
    targets = graph.targets
    others = targets != graph.sources
    targets, sources = targets[others], graph.sources[others]
    left = np.bincount(targets, minlength=graph.nodes)
    levels = _levels(targets, sources, left, np.zeros(graph.nodes, np.bool_))
    if levels is None:
        return None, False
    found = _joined(levels, kind)
    return (found if len(found) == graph.nodes else None), True


def trimmed(graph: Graph, kind: Any) -> tuple[Ints, Ints] | None:
    """Return the upstream and the downstream nodes in topological order, or None if there are too many levels."""
    targets, gone = graph.targets, np.zeros(graph.nodes, np.bool_)
    up = _levels(targets, graph.sources, graph.in_degree, gone)
    down = None if up is None else _levels(graph.sources, targets, graph.out_degree, gone)
    if up is None or down is None:
        return None
    return _joined(up, kind), _joined(down, kind)[::-1].copy()


def starts(graph: Graph, sources: Ints, inside: npt.NDArray[np.bool_], nodes: Ints) -> Ints:
    """Return where rows of the nodes inside start in the core: their edges from nodes inside, accumulated."""
    inner = np.bincount(graph.targets[inside[sources]], minlength=graph.nodes)
    return np.append(0, np.cumsum(inner[nodes]))


def parted(graph: Graph, sources: Ints, inside: npt.NDArray[np.bool_], new_index: Ints) -> tuple[Ints, Ints]:
    """Return the new indices of sources inside, and the other sources, of edges that end inside."""
    of_rows = sources[inside[graph.targets]]
    is_inner = inside[of_rows]
    return new_index[of_rows[is_inner]], of_rows[~is_inner]


def ends_in(graph: Graph, nodes: Ints) -> Ints:
    """Return how many edges of each node end in some others."""
    is_end = np.zeros(graph.nodes, np.bool_)
    is_end[nodes] = True
    return np.bincount(graph.sources[is_end[graph.targets]], minlength=graph.nodes)


def row_sums(starts: Ints, values: Floats) -> Floats:
    """Return the sums of rows, whose entries NumPy adds one after the other.

    Examples
    --------
    >>> row_sums(np.array([0, 2, 2]), np.array([0.5, 0.25])).tolist()
    [0.75, 0.0]
    """
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.bincount(rows, weights=values, minlength=len(starts) - 1).astype(np.float64, copy=False)


def substitute(  # type: ignore[no-untyped-def]
    indptr, sources, right, damping, direction, order, inverse, factor, contribution, y
) -> None:
    """Substitute as `cpms.backends.cpu.substitution.substitute` does, by Python's numbers."""
    numbers = order.tolist() if direction == 0 else range(len(y))[::direction]
    starts, edges, known = indptr.tolist(), sources.tolist(), contribution.tolist()
    rights, factors, inverses = right.tolist(), factor.tolist(), inverse.tolist()
    right_step, factor_step = int(len(right) > 1), int(len(factor) > 1)
    for node in numbers:
        known[node] = total = 0.0
        scale = factors[node * factor_step]
        constant, slope = rights[node * right_step] * scale, damping * scale
        for k in range(starts[node], starts[node + 1]):
            total += known[edges[k]]
        known[node] = slope * inverses[node] * total + constant * inverses[node]
        y[node] = slope * total + constant
    contribution[:] = known
