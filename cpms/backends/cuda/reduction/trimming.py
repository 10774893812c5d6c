"""Trimming of nodes not on or between cycles, level by level, as far as substitution is cheaper than sweeps.

Repeated removal of nodes without remaining in-edges (upstream) or out-edges (downstream) is topological peeling (Kahn,
1962), the trimming step of parallel algorithms for strongly connected components (McLendon et al., 2005). A cost model
in microseconds chooses how many levels to trim. Each level takes one pass over its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.structs import TRIM_COST, TRIM_GRAPH
from cpms.backends.cuda.kernels.template import TRIMMING, Variant
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import reordering
from cpms.base.types import Floats
from cpms.contracts.engine import MANY_SOLVES
from cpms.graph.graph import Graph

Levels = npt.NDArray[np.int64]
"""Nodes and entries of each level, shape (levels, 2)."""
Integers = npt.NDArray[np.int64]
_NO_LEVEL, _LAST_LEVEL = 0x7FFFFFFF, 0xFFFFFFFF
"""Mark of nodes without a level, and the last level, from which downstream levels count down; see
``preprocess/trimming.cu``.
"""
_NARROW = 1024
"""Rows of a level that one block solves alone; as in ``preprocess/level_solve.cu``."""
_MAX_ENTRIES = 1 << 14
"""Entries of a row that can be trimmed: a warp sums a row of a level, while sweeps split longer rows over warps."""
_UPSTREAM, _DOWNSTREAM = TRIMMING
_MAX_LEVELS = 1 << 16
"""Levels that are searched: far more than are worthwhile."""


class Cost(NamedTuple):
    """Cost model of a device, in microseconds; the defaults are those of an H200.

    Parameters
    ----------
    solves : int
        Solves among which the cost of preparation is divided.
    search, reduction, prepared_entry : float
        Cost of preparation: of looking for what can be trimmed, of building a reduced problem, and of an entry in
        both.
    sweeps : int
        Sweeps that a solve takes, between 16 and 119 for a tolerance of 1e-10; see
        `cpms.backends.cuda.reduction.convergence_estimate`.
    sweep, level, narrow_level, launch : float
        Fixed cost of a sweep, of a level, of a level that one block solves, and of the substitution's launch.
    sweep_entry, solve_entry, solve_entry_one_block : float
        Cost of a node or edge in a sweep, in a substitution, and in one by a single block.
    external_node, inflow_node : float
        Additional cost of a node in a sweep where edges leave the core, and where edges enter it.
    lumped_entry, teleport_node : float
        Saving a sweep for each node or edge that lumping removes, and additional cost of a node a sweep where teleport
        is not uniform.
    """

    sweeps: int = 80
    sweep: float = 6.0
    level: float = 2.5
    narrow_level: float = 0.85
    launch: float = 45.0
    sweep_entry: float = 3.3e-6
    solve_entry: float = 1.0e-5
    solve_entry_one_block: float = 4.0e-4
    external_node: float = 4.5e-6
    inflow_node: float = 2.0e-6
    lumped_entry: float = 1.8e-6
    teleport_node: float = 1.0e-6
    solves: int = MANY_SOLVES
    search: float = 3000.0
    reduction: float = 4000.0
    prepared_entry: float = 1.0e-4

    def search_is_worthwhile(self, nodes: int, edges: int) -> bool:
        """Return whether solves save more than the search costs if half of the nodes and edges can be trimmed."""
        if self.solves >= MANY_SOLVES:
            return True
        entries = nodes + edges
        saved = self.solves * self.sweeps * self.sweep_entry * entries / 2
        return saved > self.search + self.reduction + self.prepared_entry * entries

    def saved(self, rows: Integers, entries: Integers) -> Floats:
        """Return the savings of levels of so many nodes and edges."""
        narrow = rows <= _NARROW
        solve_entry = np.where(narrow, self.solve_entry_one_block, self.solve_entry)
        level = np.where(narrow, self.narrow_level, self.level)
        saved: Floats = (rows + entries) * (self.sweeps * self.sweep_entry - solve_entry) - level
        return saved


@dataclass(frozen=True, eq=False)
class Trimming:
    """An order of the nodes: the core, then level by level the upstream and the downstream nodes.

    Parameters
    ----------
    order, position : device arrays of uint32, shape (nodes,)
        Node at each position and position of each node.
    core : int
        Number of nodes of the core.
    upstream, downstream : list of int
        Nodes of each level, in the order of substitution.
    """

    order: Any
    position: Any
    core: int
    upstream: list[int]
    downstream: list[int]

    @classmethod
    def none(cls, nodes: int, chosen: reordering.Reordering | None) -> Trimming:
        """Return the order without trimmed nodes; all nodes are in the order chosen for sweeps."""
        if chosen is None:
            order = position = current().arrays.arange(nodes, dtype=np.uint32)
        else:
            order, position = chosen.order, chosen.position
        return cls(order, position, nodes, [], [])


def trim(graph: Graph, indptr: Any, sources: Any, degree: Any, cost: Cost | None = None) -> Trimming | None:
    """Return an order with a smaller core where substitution is worthwhile; None otherwise.

    Parameters
    ----------
    graph : Graph
    indptr, sources, degree : device arrays of uint32
        The graph's; ``degree`` are out-degrees.
    cost : Cost, optional
    """
    cost = cost or Cost()
    levelled = _Levelled.none(graph, indptr, sources, _MAX_ENTRIES)
    upstream = _worthwhile(
        _assign_levels(_UPSTREAM, levelled, cost, indptr[:-1].copy()), cost, graph.nodes, cost.inflow_node
    )
    levelled.level[levelled.level >= len(upstream)] = _NO_LEVEL
    downstream = _trim_downstream(levelled, degree, cost, graph.nodes - _rows(upstream))
    return (
        _trimming(levelled.level, upstream, downstream, reordering.chosen(graph, degree))
        if len(upstream) + len(downstream)
        else None
    )


def trim_downstream(graph: Graph, indptr: Any, sources: Any, degree: Any, cost: Cost) -> Trimming | None:
    """Return an order in which nodes that lead to no cycle are trimmed, whatever the length of their rows.

    The core is in graph order.
    """
    levelled = _Levelled.none(graph, indptr, sources, graph.edges)
    downstream = _trim_downstream(levelled, degree, cost, graph.nodes)
    return _trimming(levelled.level, downstream[:0], downstream, None) if len(downstream) else None


class _Levelled(NamedTuple):
    """A graph whose nodes are assigned levels."""

    indptr: Any
    sources: Any
    level: Any
    nodes: int
    max_entries: int
    """Entries of a row that may get a level."""

    @classmethod
    def none(cls, graph: Graph, indptr: Any, sources: Any, max_entries: int) -> _Levelled:
        level = current().arrays.full(graph.nodes, _NO_LEVEL, np.uint32)
        return cls(indptr, sources, level, graph.nodes, max_entries)


def _trim_downstream(levelled: _Levelled, degree: Any, cost: Cost, remaining: int) -> Levels:
    """Assign levels to downstream nodes as far as worthwhile; return nodes and entries of each, the last one first."""
    level = levelled.level
    downstream = _worthwhile(
        _assign_levels(_DOWNSTREAM, levelled, cost, degree.copy()), cost, remaining, cost.external_node
    )
    level[(level > _NO_LEVEL) & (level <= _LAST_LEVEL - len(downstream))] = _NO_LEVEL
    return downstream


def _assign_levels(kernel: Variant, levelled: _Levelled, cost: Cost, *more: Any) -> Levels:
    """Assign levels until none is left, or none can be worthwhile; return the nodes and entries of each."""
    blocks = current().persistent_spread(levelled.nodes)
    found = current().arrays.empty(1 + 2 * _MAX_LEVELS, np.float64)
    costs = pack(
        TRIM_COST,
        sweeps=cost.sweeps,
        sweep=cost.sweep,
        level=cost.level,
        narrow_level=cost.narrow_level,
        swept=cost.sweep_entry,
        solved=cost.solve_entry,
        solved_alone=cost.solve_entry_one_block,
        narrow=_NARROW,
    )
    graph = pack(TRIM_GRAPH, **levelled._asdict())
    current().run_persistent(kernel, blocks, (graph, *more, costs, np.uint32(_MAX_LEVELS), found, *barrier(blocks)))
    count = int(current().to_host(found[:1])[0])
    levels: Levels = current().to_host(found[1 : 1 + 2 * count]).astype(np.int64).reshape(-1, 2)
    return levels


def _trimming(level: Any, upstream: Levels, downstream: Levels, chosen: reordering.Reordering | None) -> Trimming:
    numbering = reordering.Reordering.of_order(_order(level, len(upstream), len(downstream), chosen))
    core = len(level) - _rows(upstream) - _rows(downstream)
    return Trimming(numbering.order, numbering.position, core, upstream[:, 0].tolist(), downstream[::-1, 0].tolist())


def _rows(levels: Levels) -> int:
    return int(levels[:, 0].sum())


def _worthwhile(levels: Levels, cost: Cost, nodes: int, node_cost: float) -> Levels:
    """Return the leading levels with the largest saving; none if it does not exceed the cost of substitution.

    That cost is a launch, and ``node_cost`` for each node of the core a sweep. If no other nodes remain, all levels
    together also save the sweeps.

    Examples
    --------
    >>> levels = np.array([(10**6, 10**6), (1, 1), (1, 1)])
    >>> _worthwhile(levels, Cost(), 3 * 10**6, 0.0).tolist()
    [[1000000, 1000000]]
    >>> len(_worthwhile(levels, Cost(), 10**6 + 2, 0.0))
    3
    """
    savings = np.append(0.0, np.cumsum(cost.saved(*levels.T)))
    fixed = cost.launch + cost.sweeps * node_cost * (nodes - _rows(levels))
    if _rows(levels) == nodes:
        savings[-1] += cost.sweeps * cost.sweep + fixed - cost.launch
    count = int(np.argmax(savings))
    return levels[: count if savings[count] > fixed else 0]


def _order(level: Any, upstream: int, downstream: int, chosen: reordering.Reordering | None) -> Any:
    """Return the nodes of the core, then of each level; within these in the order chosen for sweeps."""
    arrays = current().arrays
    key = arrays.where(level == np.uint32(_NO_LEVEL), np.uint32(0), level + np.uint32(1))
    key = arrays.where(level > np.uint32(_NO_LEVEL), level - np.uint32(_LAST_LEVEL - upstream - downstream), key)
    if chosen is None:
        return arrays.argsort(key, kind="stable").astype(np.uint32)
    return chosen.order[arrays.argsort(key[chosen.order], kind="stable")]
