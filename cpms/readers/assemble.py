"""From what a reader found to a `Graph`: the choices that are the same for every file format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.graph import Floats, Graph, Ints
from cpms.readers.memory import graph_bytes, require_memory
from cpms.readers.options import ReadOptions


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
) -> Graph:
    """Build the graph of an edge list whose ids count from 0, as ``options`` ask.

    Parameters
    ----------
    sources, targets : ndarray of int, shape (edges,)
        0-based ends of each edge.
    weights : ndarray of float64, shape (edges,), optional
        Positive finite weights; None for a graph of ones.
    nodes : int
        Number of nodes before ``ids="compact"`` removes those that no edge touches.
    name, first_id, names
        What the graph and its nodes are called, as in `cpms.Graph`.
    label : str
        What errors call the source of the edges: a path.

    Raises
    ------
    InputError
        If the graph is empty or does not fit in memory.
    """
    if options.weights == "ignore":
        weights = None
    if options.ids == "compact":
        used, ends = np.unique(np.concatenate([sources, targets]), return_inverse=True)
        sources, targets = np.split(ends, 2)
        names = used + first_id if names is None else names[used]
        nodes, first_id = len(used), 0
    needed_bytes = graph_bytes(nodes, len(sources), weighted=weights is not None)
    require_memory(
        needed_bytes,
        f"{label}: a graph of {nodes:,} nodes",
        "ids='compact' (--ids compact) drops nodes without edges",
    )
    graph = Graph.from_edges(
        sources,
        targets,
        weights,
        nodes=nodes,
        duplicates=options.duplicates,
        self_loops=options.self_loops,
        name=name,
        names=names,
    )
    return replace(graph, first_id=first_id)


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
    )
    return replace(changed, stand_in_for=graph.stand_in_for, lower_triangle=graph.lower_triangle)
