"""Nodes before and behind all cycles, level by level, as far as one pass over them is cheaper than sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.template import TRIMMING, Variant
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import reordering
from cpms.graph.graph import Graph

Levels = npt.NDArray[np.int64]
"""Nodes and entries of each level, shape (levels, 2)."""
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_NO_LEVEL, _LAST_LEVEL = 0x7FFFFFFF, 0xFFFFFFFF
"""As in ``preprocess/trimming.cu``."""
_NARROW = 1024
"""Rows of a level that one block passes over alone; as in ``preprocess/level_solve.cu``."""
_MOST_ENTRIES = 1 << 14
"""A warp sums a row of a level: longer ones are for sweeps, which share them out."""
_BEFORE, _BEHIND = TRIMMING
_MOST_LEVELS = 1 << 16
"""That are looked for: far more than pay."""


class Cost(NamedTuple):
    """What it costs on a device, in microseconds: an H200's by default.

    Parameters
    ----------
    sweeps : int
        That a solve takes, about: 16 to 119 to 1e-10; see `cpms.backends.cuda.reduction.convergence_estimate`.
    sweep, level, narrow_level, launch : float
        Of sweeps and levels without nodes; of passes at all.
    swept, passed, passed_alone : float
        What a node or edge adds to a sweep; to a pass; to a pass by one block alone.
    counted, aimed : float
        What a node adds to a sweep where edges leave the core, and where edges come into it.
    lumped, given : float
        What a node or edge less saves of a sweep where nodes are merged in a closed core, and what a node adds to one
        where teleport is not the same for all.
    """

    sweeps: int = 80
    sweep: float = 6.0
    level: float = 2.5
    narrow_level: float = 0.85
    launch: float = 45.0
    swept: float = 3.3e-6
    passed: float = 1.0e-5
    passed_alone: float = 4.0e-4
    counted: float = 4.5e-6
    aimed: float = 2.0e-6
    lumped: float = 1.8e-6
    given: float = 1.0e-6

    def saved(self, rows: Integers, entries: Integers) -> Floats:
        """Return what levels of so many nodes and edges save."""
        narrow = rows <= _NARROW
        passed = np.where(narrow, self.passed_alone, self.passed)
        level = np.where(narrow, self.narrow_level, self.level)
        saved: Floats = (rows + entries) * (self.sweeps * self.swept - passed) - level
        return saved


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

    @classmethod
    def none(cls, nodes: int, chosen: reordering.Reordering | None) -> Peel:
        """Return that of nodes all of which are to be swept, in the order that is chosen for sweeps."""
        if chosen is None:
            order = place = current().arrays.arange(nodes, dtype=np.uint32)
        else:
            order, place = chosen.order, chosen.position
        return cls(order, place, nodes, [], [])


def peel(graph: Graph, indptr: Any, sources: Any, degree: Any, cost: Cost | None = None) -> Peel | None:
    """Return an order with a smaller core where a pass over the other nodes pays; None where not.

    Parameters
    ----------
    graph : Graph
    indptr, sources, degree : device arrays of uint32
        The graph's; ``degree`` are out-degrees.
    cost : Cost, optional
    """
    cost = cost or Cost()
    at = _Levelled.none(graph, indptr, sources, _MOST_ENTRIES)
    before = _paying(_looked(_BEFORE, at, cost, indptr[:-1].copy()), cost, graph.nodes, cost.aimed)
    at.level[at.level >= len(before)] = _NO_LEVEL
    behind = _behind(at, degree, cost, graph.nodes - _rows(before))
    return _peeled(at.level, before, behind, reordering.chosen(graph, degree)) if len(before) + len(behind) else None


def peel_behind(graph: Graph, indptr: Any, sources: Any, degree: Any, cost: Cost) -> Peel | None:
    """Return one of nodes that lead to no cycle alone, whatever their rows; the others are in the graph's order."""
    at = _Levelled.none(graph, indptr, sources, graph.edges)
    behind = _behind(at, degree, cost, graph.nodes)
    return _peeled(at.level, behind[:0], behind, None) if len(behind) else None


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


def _behind(at: _Levelled, degree: Any, cost: Cost, remaining: int) -> Levels:
    """Give levels to nodes behind the core as far as it pays; return nodes and entries of each, the last one first."""
    level = at.level
    behind = _paying(_looked(_BEHIND, at, cost, degree.copy()), cost, remaining, cost.counted)
    level[(level > _NO_LEVEL) & (level <= _LAST_LEVEL - len(behind))] = _NO_LEVEL
    return behind


def _looked(kernel: Variant, at: _Levelled, cost: Cost, *more: Any) -> Levels:
    """Give nodes levels until there are no more, or they cannot pay; return the nodes and entries of each."""
    blocks = current().persistent_spread(int(at.nodes))
    found = current().arrays.empty(1 + 2 * _MOST_LEVELS, np.float64)
    costs = cost.sweeps, cost.sweep, cost.level, cost.narrow_level, cost.swept, cost.passed, cost.passed_alone
    counts = np.uint32(_NARROW), np.uint32(_MOST_LEVELS)
    current().run_persistent(kernel, blocks, (*at, *more, *map(np.float64, costs), *counts, found, *barrier(blocks)))
    count = int(current().to_host(found[:1])[0])
    levels: Levels = current().to_host(found[1 : 1 + 2 * count]).astype(np.int64).reshape(-1, 2)
    return levels


def _peeled(level: Any, before: Levels, behind: Levels, chosen: reordering.Reordering | None) -> Peel:
    lie = reordering.Reordering.of_order(_order(level, len(before), len(behind), chosen))
    core = len(level) - _rows(before) - _rows(behind)
    return Peel(lie.order, lie.position, core, before[:, 0].tolist(), behind[::-1, 0].tolist())


def _rows(levels: Levels) -> int:
    return int(levels[:, 0].sum())


def _paying(levels: Levels, cost: Cost, nodes: int, each: float) -> Levels:
    """Return the first levels, as many of them as save the most; none where that is no more than what passes cost.

    That is a launch, and so much for ``each`` node of the core a sweep. All levels together also save the sweeps, where
    no other nodes are left of so many.

    Examples
    --------
    >>> levels = np.array([(10**6, 10**6), (1, 1), (1, 1)])
    >>> _paying(levels, Cost(), 3 * 10**6, 0.0).tolist()
    [[1000000, 1000000]]
    >>> len(_paying(levels, Cost(), 10**6 + 2, 0.0))
    3
    """
    gains = np.append(0.0, np.cumsum(cost.saved(*levels.T)))
    fixed = cost.launch + cost.sweeps * each * (nodes - _rows(levels))
    if _rows(levels) == nodes:
        gains[-1] += cost.sweeps * cost.sweep + fixed - cost.launch
    count = int(np.argmax(gains))
    return levels[: count if gains[count] > fixed else 0]


def _order(level: Any, before: int, behind: int, chosen: reordering.Reordering | None) -> Any:
    """Return the nodes of the core, then of each level; those alike in the order that was chosen for sweeps."""
    arrays = current().arrays
    key = arrays.where(level == np.uint32(_NO_LEVEL), np.uint32(0), level + np.uint32(1))
    key = arrays.where(level > np.uint32(_NO_LEVEL), level - np.uint32(_LAST_LEVEL - before - behind), key)
    if chosen is None:
        return arrays.argsort(key, kind="stable").astype(np.uint32)
    return chosen.order[arrays.argsort(key[chosen.order], kind="stable")]
