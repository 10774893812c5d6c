"""Nodes before and behind all cycles, level by level, as far as one pass over them is cheaper than sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cpms.cuda import numbering
from cpms.cuda.backend import current
from cpms.cuda.variants import PEELING, Variant
from cpms.graph import Graph

_NO_LEVEL, _LAST_LEVEL = 0x7FFFFFFF, 0xFFFFFFFF
"""As in ``peel.cu``."""
_NARROW = 1024
"""Rows of a level that one block passes over alone; as in ``passes.cu``."""
_MOST_ENTRIES = 1 << 14
"""A warp sums a row of a level: longer ones are for sweeps, which share them out."""
_BEFORE, _BEHIND, _EDGES = PEELING


class Cost(NamedTuple):
    """What it costs on a device, in microseconds: an H200's by default.

    Parameters
    ----------
    sweeps : int
        That a solve takes, about: 16 to 119 to 1e-10; see `cpms.cuda.forecast`.
    sweep, level, narrow_level, launch : float
        Of sweeps and levels without nodes; of passes at all.
    swept, passed, passed_alone : float
        What a node or edge adds to a sweep; to a pass; to a pass by one block alone.
    counted, aimed : float
        What a node adds to a sweep where edges leave the core, and where edges come into it.
    """

    sweeps: int = 80
    sweep: float = 6.0
    level: float = 2.5
    narrow_level: float = 0.85
    launch: float = 80.0
    swept: float = 3.3e-6
    passed: float = 1.0e-5
    passed_alone: float = 4.0e-4
    counted: float = 4.5e-6
    aimed: float = 2.0e-6

    def saved(self, rows: int, entries: int) -> float:
        """Return what a level of so many nodes and edges saves."""
        narrow = rows <= _NARROW
        level, passed = (self.narrow_level, self.passed_alone) if narrow else (self.level, self.passed)
        return (rows + entries) * (self.sweeps * self.swept - passed) - level


@dataclass(frozen=True, eq=False)
class Peel:
    """An order of the nodes: those of the core, then level by level those before it and those behind.

    Parameters
    ----------
    order, place : device arrays of uint32, shape (nodes,)
        The node in each place and the place of each node.
    core : int
        How many nodes sweeps are for.
    before, behind : list of int
        Nodes of each level, in the order of the pass.
    """

    order: Any
    place: Any
    core: int
    before: list[int]
    behind: list[int]

    @property
    def begins(self) -> Any:
        """First row of each level and behind the last, counted from the core's end; a device array of uint32."""
        return current().arrays.asarray(np.cumsum([0, *self.before, *self.behind]).astype(np.uint32))


def peel(graph: Graph, indptr: Any, sources: Any, cost: Cost | None = None) -> Peel | None:
    """Return an order with a smaller core where a pass over the other nodes pays; None where not.

    Parameters
    ----------
    graph : Graph
    indptr, sources : device arrays of uint32
        The graph's.
    cost : Cost, optional
    """
    cost = cost or Cost()
    at = _Levelled.none(graph, indptr, sources, _MOST_ENTRIES)
    before = _levels(lambda now: _run(_BEFORE, at, np.uint32(now)), cost)
    inside = graph.nodes - _rows(before)
    before = _paying(before, cost, graph.nodes, cost.launch + cost.sweeps * cost.aimed * inside)
    at.level[at.level >= len(before)] = _NO_LEVEL
    behind = _behind(graph, at, cost, graph.nodes - _rows(before))
    return _peeled(at.level, before, behind, numbering.chosen(graph)) if before or behind else None


def peel_behind(graph: Graph, indptr: Any, sources: Any, cost: Cost) -> Peel | None:
    """Return one of nodes that lead to no cycle alone, whatever their rows; the others are in the graph's order."""
    at = _Levelled.none(graph, indptr, sources, graph.edges)
    behind = _behind(graph, at, cost, graph.nodes)
    return _peeled(at.level, [], behind, None) if behind else None


class _Levelled(NamedTuple):
    """What kernels take of a graph whose nodes get levels, in their order."""

    indptr: Any
    sources: Any
    level: Any
    nodes: np.uint32
    most_entries: np.uint32
    """Of a row that may get a level."""

    @classmethod
    def none(cls, graph: Graph, indptr: Any, sources: Any, most_entries: int) -> _Levelled:
        level = current().arrays.full(graph.nodes, _NO_LEVEL, np.uint32)
        return cls(indptr, sources, level, np.uint32(graph.nodes), np.uint32(most_entries))


def _behind(graph: Graph, at: _Levelled, cost: Cost, remaining: int) -> list[tuple[int, int]]:
    """Give levels to nodes behind the core as far as it pays; return nodes and entries of each, the last one first."""
    level, left = at.level, current().arrays.asarray(graph.out_degree.astype(np.uint32))

    def take(now: int) -> tuple[int, int]:
        if now:
            _launch(_EDGES, at, left, np.uint32(_LAST_LEVEL - (now - 1)))
        return _run(_BEHIND, at, left, np.uint32(_LAST_LEVEL - now))

    behind = _levels(take, cost)
    inside = remaining - _rows(behind)
    behind = _paying(behind, cost, remaining, cost.launch + cost.sweeps * cost.counted * inside)
    level[(level > _NO_LEVEL) & (level <= _LAST_LEVEL - len(behind))] = _NO_LEVEL
    return behind


def _peeled(
    level: Any, before: list[tuple[int, int]], behind: list[tuple[int, int]], chosen: numbering.Numbering | None
) -> Peel:
    arrays, nodes = current().arrays, len(level)
    order = _order(level, len(before), len(behind), chosen)
    place = arrays.empty(nodes, np.uint32)
    place[order] = arrays.arange(nodes, dtype=np.uint32)
    core = nodes - _rows(before) - _rows(behind)
    return Peel(order, place, core, [rows for rows, _ in before], [rows for rows, _ in reversed(behind)])


def _levels(take: Callable[[int], tuple[int, int]], cost: Cost) -> list[tuple[int, int]]:
    """Return nodes and entries of each level, until there are no more, or so many thin ones that they cannot pay."""
    found: list[tuple[int, int]] = []
    gain = best = 0.0
    while gain >= best - cost.sweeps * cost.sweep:
        rows, entries = take(len(found))
        if rows == 0:
            break
        found.append((rows, entries))
        gain += cost.saved(rows, entries)
        best = max(best, gain)
    return found


def _rows(levels: list[tuple[int, int]]) -> int:
    return sum(rows for rows, _ in levels)


def _paying(levels: list[tuple[int, int]], cost: Cost, nodes: int, fixed: float) -> list[tuple[int, int]]:
    """Return the first levels, as many of them as save the most; none where that is no more than is ``fixed``.

    All of them together also save the sweeps, where no other nodes are left of so many.

    Examples
    --------
    >>> _paying([(10**6, 10**6), (1, 1), (1, 1)], Cost(), 3 * 10**6, 0.0)
    [(1000000, 1000000)]
    >>> len(_paying([(10**6, 10**6), (1, 1), (1, 1)], Cost(), 10**6 + 2, 0.0))
    3
    """
    gains = np.cumsum([0.0, *(cost.saved(rows, entries) for rows, entries in levels)])
    if _rows(levels) == nodes:
        gains[-1] += cost.sweeps * cost.sweep + fixed - cost.launch
    count = int(np.argmax(gains))
    return levels[:count] if gains[count] > fixed else []


def _order(level: Any, before: int, behind: int, chosen: numbering.Numbering | None) -> Any:
    """Return the nodes of the core, then of each level; those alike in the order that was chosen for sweeps."""
    arrays = current().arrays
    key = arrays.where(level == np.uint32(_NO_LEVEL), np.uint32(0), level + np.uint32(1))
    key = arrays.where(level > np.uint32(_NO_LEVEL), level - np.uint32(_LAST_LEVEL - before - behind), key)
    if chosen is None:
        return arrays.argsort(key, kind="stable").astype(np.uint32)
    first = arrays.asarray(chosen.order.view(np.uint32))
    return first[arrays.argsort(key[first], kind="stable")]


def _launch(kernel: Variant, at: _Levelled, *more: Any) -> None:
    current().run(kernel, current().spread(int(at.nodes)), (*at, *more))


def _run(kernel: Variant, at: _Levelled, *more: Any) -> tuple[int, int]:
    """Launch, and return how many nodes and entries have got a level."""
    found = current().arrays.zeros(2, np.uint64)
    _launch(kernel, at, *more, found)
    rows, entries = current().note(found)().tolist()
    return rows, entries
