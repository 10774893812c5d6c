"""From what a reader found to an `EdgeList`: the choices that are the same for every file format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.graph.edge_arrays import Ints, ids_from, node_count
from cpms.graph.edge_list import EdgeList, reporting
from cpms.graph.graph import Graph
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.options import ReadOptions

_PART = 1 << 18
"""Edges that a thread works on at least."""
_IDS_AN_EDGE, _FEW_IDS = 4, 1 << 16
"""Ids for each edge, and others, up to which a table of all ids takes less memory and time than a sort."""


@phase("checking edges")
def assemble(
    sources: Ints,
    targets: Ints,
    weights: Floats | None,
    options: ReadOptions,
    *,
    nodes: int,
    name: str,
    label: str,
    first_id: int = 0,
    names: npt.NDArray[Any] | None = None,
    record: ReadRecord | None = None,
    both_ways: bool = False,
) -> EdgeList:
    """Return an edge list whose ids count from 0 as ``options`` ask, of which a graph can be made.

    Parameters
    ----------
    sources, targets : ndarray of int, shape (edges,)
        0-based ends of each edge.
    weights : ndarray of float64, shape (edges,), optional
        Positive finite weights, or 0 where ``options`` drop these; None for a graph of ones.
    nodes : int
        Number of nodes before ``ids="compact"`` removes those that no edge touches.
    name, first_id, names
        What the graph and its nodes are called, as in `cpms.Graph`.
    label : str
        What errors call the source of the edges: a path.
    record : ReadRecord, optional
        What is known of that source so far.
    both_ways : bool
        Whether each edge counts in the other direction too, except self-loops.

    Raises
    ------
    InputError
        If the graph is empty or does not fit in memory.
    """
    if options.weights == "ignore":
        weights = None
    dropped = 0
    if weights is not None and options.zero_weights == "drop":
        kept = weights != 0
        dropped = len(kept) - int(np.count_nonzero(kept))
        if dropped:
            sources, targets, weights = sources[kept], targets[kept], weights[kept]
    if both_ways:
        by_edge = weights is not None and options.duplicates == "drop"
        sources, targets, weights = _both_ways(sources, targets, weights, by_edge=by_edge)
    if options.ids == "compact":
        with reporting(label):
            used, sources, targets = _compact(sources, targets, nodes)
        names = used + first_id if names is None else names[used]
        nodes, first_id = len(used), 0
        if not nodes:
            raise InputError(f"{label}: the graph is empty; it needs at least one node")
    needed_bytes = graph_bytes(nodes, len(sources), weighted=weights is not None)
    require_memory(
        needed_bytes,
        f"{label}: a graph of {nodes:,} nodes",
        "ids='compact' (--ids compact) drops nodes without edges",
    )
    if record is not None:
        symmetric = "expand" if both_ways else record.symmetric
        record = replace(record, zero_weights=dropped, symmetric=symmetric, ids=options.ids)
    return EdgeList(
        sources,
        targets,
        weights,
        nodes,
        duplicates=options.duplicates,
        self_loops=options.self_loops,
        label=label,
        name=name,
        first_id=first_id,
        names=names,
        read=record,
    )


def _both_ways(
    sources: Ints, targets: Ints, weights: Floats | None, *, by_edge: bool
) -> tuple[Ints, Ints, Floats | None]:
    """Return edges and behind them their other directions, but of self-loops, found and copied by threads.

    With ``by_edge`` each direction lies behind its own edge, so that the first of repeated edges is the same both ways.
    """
    slices = [slice(*part) for part in threads.ranges(len(sources), at_least=_PART, parts=threads.available())]
    if not slices:
        return sources, targets, weights
    kept = threads.each(lambda part: sources[part] != targets[part], slices)

    def joined(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
        mirrored = threads.each(lambda part: second[slices[part]][kept[part]], range(len(slices)))
        return threads.concatenated([*(first[part] for part in slices), *mirrored])

    order: Any = slice(None)
    if by_edge:
        places = np.arange(len(sources))
        order = np.argsort(joined(places, places), kind="stable")
    doubled = None if weights is None else joined(weights, weights)[order]
    return joined(sources, targets)[order], joined(targets, sources)[order], doubled


def _compact(sources: Ints, targets: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """Return the ids that edges touch, ascending, and the edges between their places.

    A table has the place of each id, where there are not many more ids than edges; else ids are sorted.

    Raises
    ------
    InputError
        If the table has no place for an id.
    """
    if nodes > _IDS_AN_EDGE * len(sources) + _FEW_IDS:
        used, ends = np.unique(np.concatenate([sources, targets]), return_inverse=True)
        first, second = np.split(ends, 2)
        return used, first, second
    largest = max(ids_from(ids, name, 0)[1] for ids, name in ((sources, "sources"), (targets, "targets")))
    is_used = np.zeros(node_count(largest, nodes, 0), np.bool_)
    index_type = np.int32 if nodes < 2**31 else np.int64
    numbered = [np.empty(len(sources), index_type) for _ in range(2)]
    parts = [
        (given[slice(*part)], made[slice(*part)])
        for given, made in zip((sources, targets), numbered, strict=True)
        for part in threads.ranges(len(sources), at_least=_PART, parts=threads.available())
    ]

    def mark(part: tuple[Ints, Ints]) -> None:
        is_used[part[0]] = True

    threads.each(mark, parts)
    place = np.cumsum(is_used, dtype=index_type)
    np.subtract(place, 1, out=place)

    def number(part: tuple[Ints, Ints]) -> None:
        part[1][:] = place[part[0]]

    threads.each(number, parts)
    return np.flatnonzero(is_used), numbered[0], numbered[1]


def apply_options(graph: Graph, options: ReadOptions) -> Graph:
    """Return ``graph`` after the choices that do not depend on a file: all but ``symmetric``.

    Examples
    --------
    >>> twice = Graph.from_edges([0, 0], [1, 1])
    >>> apply_options(twice, ReadOptions(duplicates="drop")).edges
    1
    """
    weights = None if options.weights == "ignore" else graph.weights
    if (options.duplicates, options.self_loops, options.ids) == ("keep", "keep", "keep"):
        return graph if weights is graph.weights else replace(graph, weights=None)
    changed = assemble(
        graph.sources,
        graph.targets,
        weights,
        options,
        nodes=graph.nodes,
        name=graph.name,
        label=graph.name,
        first_id=graph.first_id,
        names=graph.names,
        record=graph.read,
    ).graph()
    return replace(changed, stand_in_for=graph.stand_in_for, lower_triangle=graph.lower_triangle)
