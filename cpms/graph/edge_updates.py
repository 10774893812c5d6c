"""A graph after some of its edges are removed and others added, by merging sorted edges into compressed rows.

Edges of a target are stored with sources ascending. Binary search within a row finds each changed edge, and one pass
copies the others, as in a merge of two sorted lists (Knuth, The Art of Computer Programming 3, section 5.2.4). For k
changes that takes O(k log edges + edges + nodes) time, without the two sorts of a build from all edges. The
out-degrees, if they were counted before, follow from the changes alone. Graphs in device memory are merged by a kernel
there (`cpms.backends.cuda.graphs.edge_updates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError, UnsupportedError
from cpms.base.real_arrays import plain_array
from cpms.base.types import Floats
from cpms.base.validation import described, require_real
from cpms.graph.edge_arrays import Ints, checked_weights
from cpms.graph.graph import Graph, read_only

Indices = npt.NDArray[np.int64]


class Changes(NamedTuple):
    """Edges to remove and to add, and where they are among the stored ones.

    Parameters
    ----------
    gone : ndarray of int64, shape (removed,)
        Where the removed edges are stored, ascending.
    before : ndarray of int64, shape (added,)
        How many stored edges come before each new edge, ascending.
    sources, targets : ndarray of int64, shape (added,)
        Ends of the new edges, by target, then by source, then as given.
    weights : ndarray of float64, shape (added,), or None
    old_sources, old_targets : ndarray of int64, shape (removed,)
        Ends of the removed edges, by target and source.
    """

    gone: Indices
    before: Indices
    sources: Indices
    targets: Indices
    weights: Floats | None
    old_sources: Indices
    old_targets: Indices


Bounds: TypeAlias = Callable[[Indices, Indices], tuple[Indices, Indices]]
"""Takes sources and targets, and returns where copies of each edge are stored: from the first to before the second."""


def with_edges(graph: Graph, added: Sequence[Any] | None = None, removed: Sequence[Any] | None = None) -> Graph:
    """Return a graph of the same nodes without some edges and with others; removals come first.

    It equals `Graph.from_edges` of the edges that are left, in stored order, and then the added ones.

    Parameters
    ----------
    graph : Graph
    added : pair or triple of array_like, optional
        Sources, targets, and for a graph with weights their weights (1 if there are none), each of shape (changes,).
        An edge that the graph has already is stored once more.
    removed : pair of array_like, optional
        Sources and targets. Each pair removes one stored edge, of repeated ones the first.

    Raises
    ------
    InputError
        If a node is not in the graph, since new nodes would change the teleport distribution; if a removed edge is not
        in it, or is removed more often than it is stored; or if weights are wrong.
    UnsupportedError
        If the graph is in device memory.

    Examples
    --------
    >>> graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    >>> changed = with_edges(graph, added=([2], [0]), removed=([0], [2]))
    >>> changed.sources.tolist(), changed.targets.tolist()
    ([2, 0, 1], [0, 1, 2])
    """
    if graph.device_arrays is not None:
        raise UnsupportedError(
            f"{graph.name} is in device memory, and its edges are changed there; use its method with_edges"
        )

    def bounds(sources: Indices, targets: Indices) -> tuple[Indices, Indices]:
        first, after = (_count_before(graph, sources, targets, or_equal=equal) for equal in (False, True))
        return first, after

    changes = located(graph, added, removed, bounds)
    places = changes.before - np.searchsorted(changes.gone, changes.before) + np.arange(len(changes.before))
    is_kept = np.ones(graph.edges, np.bool_)
    is_kept[changes.gone] = False
    is_old = np.ones(graph.edges - len(changes.gone) + len(places), np.bool_)
    is_old[places] = False

    def merged(stored: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out = np.empty(len(is_old), stored.dtype)
        out[is_old] = stored[is_kept] if len(changes.gone) else stored
        out[places] = new
        out.flags.writeable = False
        return out

    indptr = graph.indptr.copy()
    indptr[1:] += np.cumsum(_changes(changes.targets, changes.old_targets, graph.nodes))
    indptr.flags.writeable = False
    weights = None
    if graph.weights is not None:
        weights = merged(graph.weights, np.ones(len(places)) if changes.weights is None else changes.weights)
    changed = replace(
        graph,
        indptr=indptr,
        sources=merged(graph.sources, changes.sources),
        weights=weights,
        lower_triangle=graph.lower_triangle and bool((changes.sources >= changes.targets).all()),
    )
    if "out_degree" in vars(graph):
        degrees = graph.out_degree + _changes(changes.sources, changes.old_sources, graph.nodes)
        vars(changed)["out_degree"] = read_only(degrees)
    return changed


def located(graph: Graph, added: Sequence[Any] | None, removed: Sequence[Any] | None, bounds: Bounds) -> Changes:
    """Return the changes with their places among the stored edges; parameters and errors are those of `with_edges`."""
    new_sources, new_targets, weights = _edges(graph, "edges_added", added)
    if graph.weights is None and weights is not None:
        raise InputError("edges_added have weights, but the graph has none; give sources and targets alone")
    old_sources, old_targets, surplus = _edges(graph, "edges_removed", removed)
    if surplus is not None:
        raise InputError("edges_removed have weights; give sources and targets alone")
    order = _order(graph, new_sources, new_targets)
    sources, targets = new_sources[order], new_targets[order]
    old_order = _order(graph, old_sources, old_targets)
    old_sources, old_targets = old_sources[old_order], old_targets[old_order]
    first, after = bounds(np.concatenate([sources, old_sources]), np.concatenate([targets, old_targets]))
    added_count = len(sources)
    gone = _stored_at(graph, old_sources, old_targets, first[added_count:], after[added_count:])
    new_weights = None if weights is None else weights[order]
    return Changes(gone, after[:added_count], sources, targets, new_weights, old_sources, old_targets)


def _edges(graph: Graph, argument: str, given: Any) -> tuple[Indices, Indices, Floats | None]:
    """Return the ends of edges as indices of nodes, and their weights, if they have any."""
    if given is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), None
    is_list = isinstance(given, tuple | list) or (isinstance(given, np.ndarray) and given.ndim == 2)
    if not is_list or len(given) not in (2, 3):
        raise InputError(f"{argument} is {described(given)}; give a pair (sources, targets), perhaps with weights")
    sources, targets = (_indices(graph, argument, ends) for ends in (given[0], given[1]))
    if len(sources) != len(targets):
        raise InputError(f"{argument} have {len(sources)} sources but {len(targets)} targets; give one of each an edge")
    return sources, targets, checked_weights(given[2], len(sources)) if len(given) == 3 else None


def _indices(graph: Graph, argument: str, ids: Any) -> Indices:
    """Return the indices of nodes that the user calls ``ids``."""
    require_real(argument, ids)
    array = plain_array(argument, ids)
    if array.ndim != 1:
        raise InputError(f"{argument} have ends of {array.ndim} dimensions; give lists of ids")
    if graph.names is None and array.dtype.kind in "iu" and array.dtype != np.uint64:
        indices = array.astype(np.int64) - graph.first_id
        wrong = np.flatnonzero((indices < 0) | (indices >= graph.nodes))
        if len(wrong):
            graph.index_of(int(array[wrong[0]]))  # Its error says which nodes there are.
        return indices
    listed = ids if isinstance(ids, list) else array.tolist()
    known: dict[Any, int] = {}
    if graph.names is not None and len(listed) > _FEW:
        known = {name: index for index, name in enumerate(graph.names.tolist())}
    return np.array([known[node] if node in known else graph.index_of(node) for node in listed], np.int64)


_MOST_IN_A_KEY = 2**31
"""Nodes of graphs of which 64 bits hold both ends of an edge."""
_FEW = 8
"""Names that are looked for one by one, without a dictionary of all."""


def _count_before(graph: Graph, sources: Indices, targets: Indices, *, or_equal: bool) -> Indices:
    """Return how many stored edges come before each edge, or equal it too, by binary search of all at a time."""
    low, high = graph.indptr[targets], graph.indptr[targets + 1]
    while (is_open := low < high).any():
        middle = (low + high) // 2
        stored: Ints = graph.sources[np.where(is_open, middle, 0)]
        is_before = stored <= sources if or_equal else stored < sources
        low = np.where(is_open & is_before, middle + 1, low)
        high = np.where(is_open & ~is_before, middle, high)
    return low


def _order(graph: Graph, sources: Indices, targets: Indices) -> Indices:
    """Return the order by target, then by source, then as given."""
    if graph.nodes > _MOST_IN_A_KEY:
        return np.lexsort((sources, targets))
    return np.argsort(targets * graph.nodes + sources, kind="stable")


def _stored_at(graph: Graph, sources: Indices, targets: Indices, first: Indices, after: Indices) -> Indices:
    """Return where each edge of a sorted list is stored, ascending; an edge given k times must be stored k times."""
    is_new = np.ones(len(sources), np.bool_)
    is_new[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
    runs = np.flatnonzero(is_new)
    repeats = np.arange(len(sources)) - np.repeat(runs, np.diff(np.append(runs, len(sources))))
    found = first + repeats
    wrong = np.flatnonzero(found >= after)
    if len(wrong):
        edge = wrong[0]
        ends = f"{described(graph.node_id(int(sources[edge])))} to {described(graph.node_id(int(targets[edge])))}"
        stored = int(repeats[edge])
        has = f"stores the edge from {ends} {stored} times" if stored else f"has no edge from {ends}"
        raise InputError(f"{graph.name} {has}, fewer than edges_removed; remove edges that it has")
    return found


def _changes(added: Indices, removed: Indices, nodes: int) -> Indices:
    """Return by how much the number of each node's edges changes."""
    return np.bincount(added, minlength=nodes) - np.bincount(removed, minlength=nodes)
