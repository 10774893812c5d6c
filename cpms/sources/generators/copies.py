"""Disjoint copies of any graph: more of the same structure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cpms.base.validation import at_least
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import check_size, nested


def copies(*, of: str, count: int) -> Graph:
    """Return ``count`` disjoint copies of a graph, one after the other.

    Parameters
    ----------
    of : str
        A data set, a file or a specification in parentheses; symmetric files as their lower triangle.
    count : int

    Examples
    --------
    >>> copies(of="grid:rows=2,columns=3", count=10).edges
    70
    """
    from cpms.sources.loading import load

    graph = load(of)
    made = of_graph(graph, count, name=f"copies:of={nested(of)},count={count}")
    return replace(made, lower_triangle=graph.lower_triangle)


def of_graph(graph: Graph, count: int, *, name: str) -> Graph:
    """Return ``count`` disjoint copies of ``graph`` under a new name.

    Examples
    --------
    >>> of_graph(Graph.from_edges([0], [1]), 2, name="two").sources.tolist()
    [0, 2]
    """
    at_least(1, f"{name}: count", count)
    check_size(name, count * graph.nodes, count * graph.edges)
    shift = np.arange(count, dtype=np.int64)[:, None]
    dtype = np.dtype(np.int32 if count * graph.nodes < 2**31 else np.int64)
    sources = np.empty((count, graph.edges), dtype)
    for copy in range(count):
        sources[copy] = graph.sources.astype(dtype) + np.array(copy * graph.nodes, dtype)
    starts = (graph.indptr[None, :-1] + shift * graph.edges).ravel()
    indptr = np.append(starts, count * graph.edges)
    weights = None if graph.weights is None else np.tile(graph.weights, count)
    return Graph(indptr, sources.ravel(), weights, name)
