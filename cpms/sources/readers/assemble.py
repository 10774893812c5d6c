"""From what a reader found to an `EdgeList`: the choices that are the same for every file format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.types import Floats
from cpms.graph.edge_arrays import Ints
from cpms.graph.edge_list import EdgeList
from cpms.graph.graph import Graph
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.options import ReadOptions


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
        mirrored = np.flatnonzero(sources != targets)
        sources, targets = (
            np.concatenate([sources, targets[mirrored]]),
            np.concatenate([targets, sources[mirrored]]),
        )
        weights = None if weights is None else np.concatenate([weights, weights[mirrored]])
    if options.ids == "compact":
        used, ends = np.unique(np.concatenate([sources, targets]), return_inverse=True)
        sources, targets = np.split(ends, 2)
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


def apply(graph: Graph, options: ReadOptions) -> Graph:
    """Return ``graph`` after the choices that do not depend on a file: all but ``symmetric``.

    Examples
    --------
    >>> twice = Graph.from_edges([0, 0], [1, 1])
    >>> apply(twice, ReadOptions(duplicates="drop")).edges
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
