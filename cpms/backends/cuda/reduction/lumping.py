"""Exact lumping: one node of the core for all nodes with equal columns of the transition matrix.

Nodes whose edges lead to the same targets contribute to the same rows. Ordinary lumping of a Markov chain (Kemeny and
Snell, 1960) replaces them by one: its x is the sum of theirs, its row the union of their rows, its out-degree that of
each. Their own x follow in one level of substitution downstream of the core. Equal columns are found by 64-bit hashes
of the targets and a sort, in a few passes over the edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.kernels.template import LUMPING, Variant
from cpms.backends.cuda.reduction.level_solve import LUMPED, PermutedRows, ReducedOrder
from cpms.backends.cuda.reduction.trimming import Cost, Trimming
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import reordering
from cpms.backends.cuda.spmv.padded_csr import DeviceRows
from cpms.problems.pagerank import Problem

_ABSENT = np.uint32(0xFFFFFFFF)
"""Mark of a node without a place; ``preprocess/lumping.cu`` has the same."""
_MAX_ENTRIES = 0xFFFFFFFF
"""Largest number of entries, some of which occur twice."""
_MAX_ROW_ENTRIES = 256
"""Entries of a row of a node that can be lumped: a warp sums it at once, and few rows are longer."""
_HASH, _MOVE = LUMPING


def lumped(
    problem: Problem, rows: DeviceRows, degree: Any, trimming: Trimming | None, cost: Cost
) -> tuple[ReducedOrder, PermutedRows] | None:
    """Return the reduced order and its rows, with nodes of equal columns lumped; None where that is not worthwhile.

    Columns are compared by hashes of 64 bits. If two different columns have the same hash, the answer is wrong and its
    residual shows it.

    Parameters
    ----------
    problem : Problem
        Nothing is lumped unless its teleport is uniform.
    rows : DeviceRows
        The graph's, without weights.
    degree : device array of uint32, shape (nodes,)
        Out-degrees.
    trimming : Trimming or None
        Nodes that are trimmed from the core beforehand.
    cost : Cost
    """
    nodes = rows.nodes if trimming is None else trimming.core
    max_saved = cost.sweeps * cost.lumped_entry * (nodes + rows.edges)
    if (
        problem.teleport is not None
        or nodes == 0
        or 2 * rows.edges > _MAX_ENTRIES
        or max_saved <= _launch_cost(trimming, cost)
    ):
        return None
    hashes = _hash_targets(rows, degree)
    core = slice(None) if trimming is None else trimming.order[: trimming.core]
    by_hash, begins = _runs(hashes[core])
    if not _is_worthwhile(by_hash[~begins], degree[core], trimming, cost):
        return None
    if trimming is None:
        chosen = reordering.chosen(problem.graph, degree)
        trimming = Trimming.none(rows.nodes, chosen)
        if chosen is not None:
            by_hash, begins = _runs(hashes[trimming.order])
    groups = _Groups.of(by_hash, begins)
    return _reduced_order(trimming, degree, groups), _reduced_rows(rows, trimming, groups)


class _Groups(NamedTuple):
    """Groups of positions of the core whose nodes have the same hash, in the order of their first positions.

    Parameters
    ----------
    number : device array of int64, shape (core,)
        Group of each position.
    is_representative : device array of bool, shape (core,)
        Whether a position is the first of its group.
    is_lumped : device array of bool, shape (core,)
        Whether its group has more than one position.
    sizes : device array of int64
        Size of each group.
    """

    number: Any
    is_representative: Any
    is_lumped: Any
    sizes: Any

    @classmethod
    def of(cls, by_hash: Any, begins: Any) -> _Groups:
        """Return the groups of the runs of equal hashes."""
        arrays, count = current().arrays, len(by_hash)
        firsts, is_representative = by_hash[begins], arrays.zeros(count, bool)
        is_representative[firsts] = True
        number_of_run = (arrays.cumsum(is_representative, dtype=np.int64) - 1)[firsts]
        number, sizes = arrays.empty(count, np.int64), arrays.empty(len(firsts), np.int64)
        number[by_hash] = number_of_run[arrays.cumsum(begins, dtype=np.int64) - 1]
        bounds = arrays.concatenate([arrays.arange(count)[begins], arrays.full(1, count, np.int64)])
        sizes[number_of_run] = _lengths(bounds)
        return cls(number, is_representative, sizes[number] > 1, sizes)


def _runs(hashes: Any) -> tuple[Any, Any]:
    """Return the positions sorted by hash, stably, and whether each is the first with its hash."""
    arrays = current().arrays
    by_hash = arrays.argsort(hashes, kind="stable")
    ordered, begins = hashes[by_hash], arrays.full(len(hashes), True, bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    return by_hash, begins


def _hash_targets(rows: DeviceRows, degree: Any) -> Any:
    """Return a hash of the targets of each node.

    Nodes without edges, or with rows too long to lump, have unique hashes.
    """
    arrays = current().arrays
    hashes = arrays.zeros(rows.nodes, np.uint64)
    _over_edges(_HASH, rows, hashes)
    is_single = (degree == 0) | (_lengths(rows.indptr) > _MAX_ROW_ENTRIES)
    return arrays.where(is_single, arrays.arange(rows.nodes, dtype=np.uint64), hashes)


def _is_worthwhile(represented: Any, degree: Any, trimming: Trimming | None, cost: Cost) -> bool:
    """Return whether smaller sweeps save more than a level and a non-uniform teleport cost.

    A non-uniform teleport carries, in each sweep, the outflow of the core by edges and dangling nodes. ``represented``
    are the positions that a representative replaces.
    """
    removed = len(represented)
    if removed == 0:
        return False
    # There are about as many representatives, and rows have about two entries.
    fixed = _launch_cost(trimming, cost) + cost.level + cost.solve_entry * 6 * removed
    if trimming is None or not trimming.upstream:
        is_open = trimming is not None or bool((degree == 0).any())
        fixed += cost.sweeps * (len(degree) - removed) * (cost.teleport_node + (cost.external_node if is_open else 0.0))
    return cost.sweeps * cost.lumped_entry * (removed + int(degree[represented].sum())) > fixed


def _launch_cost(trimming: Trimming | None, cost: Cost) -> float:
    """Return the cost of a downstream substitution that would not be launched otherwise."""
    return 0.0 if trimming and trimming.downstream else cost.launch


def _reduced_order(trimming: Trimming, degree: Any, groups: _Groups) -> ReducedOrder:
    """Return the reduced order: groups, upstream nodes, lumped nodes, and downstream nodes."""
    arrays, nodes, core = current().arrays, trimming.order, trimming.core
    downstream = core + sum(trimming.upstream)
    degree = degree[nodes]
    lumped_nodes = nodes[:core][groups.is_lumped]
    representative = arrays.where(groups.sizes > 1, np.uint32(LUMPED), nodes[:core][groups.is_representative])
    order = arrays.concatenate([representative, nodes[core:downstream], lumped_nodes, nodes[downstream:]])
    unread = arrays.zeros(len(lumped_nodes), np.uint32)
    teleport = arrays.full(len(order), 1.0 / len(nodes), np.float64)
    teleport[: len(groups.sizes)] *= groups.sizes
    return ReducedOrder(
        order=order,
        core=len(groups.sizes),
        upstream=trimming.upstream,
        downstream=[len(lumped_nodes), *trimming.downstream],
        is_open=bool(trimming.downstream),
        degree=arrays.concatenate(
            [degree[:core][groups.is_representative], degree[core:downstream], unread, degree[downstream:]]
        ),
        teleport=teleport,
    )


def _reduced_rows(rows: DeviceRows, trimming: Trimming, groups: _Groups) -> PermutedRows:
    """Return the rows in the reduced order; a group's row concatenates those of its nodes."""
    arrays, nodes, core = current().arrays, trimming.order, trimming.core
    old, downstream = arrays.arange(len(nodes), dtype=np.int64), core + sum(trimming.upstream)
    lumped_nodes = old[:core][groups.is_lumped]
    new = old + len(groups.sizes) - core
    new[downstream:] += len(lumped_nodes)
    new[:core] = arrays.where(groups.is_representative, groups.number, _ABSENT)
    position = _by_node(nodes, new)
    kept_before = arrays.zeros(rows.edges + 1, np.uint32)
    kept_before[1:] = arrays.cumsum(position[rows.sources] != _ABSENT, dtype=np.uint32)
    # Rows of nodes, in the reduced order: those of lumped nodes occur twice.
    by_group = arrays.argsort(groups.number, kind="stable")
    order_of_rows = arrays.concatenate([by_group, old[core:downstream], lumped_nodes, old[downstream:]])
    lengths = _lengths(kept_before[rows.indptr])[nodes][order_of_rows]
    ends = arrays.cumsum(lengths, dtype=np.int64)
    firsts, second_first, second_last = ends - lengths, downstream, downstream + len(lumped_nodes)
    begins, second_begins = arrays.empty(len(nodes), np.int64), arrays.full(len(nodes), _ABSENT, np.int64)
    begins[order_of_rows[:second_first]] = firsts[:second_first]
    begins[order_of_rows[second_last:]] = firsts[second_last:]
    second_begins[lumped_nodes] = firsts[second_first:second_last]
    row_begins = arrays.zeros(len(groups.sizes) + len(order_of_rows) - core + 1, np.uint32)
    row_begins[1:] = arrays.concatenate([ends[arrays.cumsum(groups.sizes) - 1], ends[core:]])
    sources = arrays.empty(int(current().to_host(row_begins[-1:])[0]), np.uint32)
    _over_edges(_MOVE, rows, position, kept_before, _by_node(nodes, begins), _by_node(nodes, second_begins), sources)
    return PermutedRows(row_begins, sources)


def _by_node(nodes: Any, values: Any) -> Any:
    """Return as uint32 by node values given by position."""
    made = current().arrays.empty(len(nodes), np.uint32)
    made[nodes] = values.astype(np.uint32)
    return made


def _lengths(bounds: Any) -> Any:
    return bounds[1:] - bounds[:-1]


def _over_edges(kernel: Variant, rows: DeviceRows, *more: Any) -> None:
    if rows.edges:
        graph_arguments = rows.indptr, rows.sources, np.uint32(rows.nodes), np.uint32(rows.edges)
        current().run(kernel, current().grid_size(rows.edges), (*graph_arguments, *more))
