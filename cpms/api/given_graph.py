"""The graph that a caller gives: a `cpms.Graph`, or an object in memory of which one is made.

Numeric edges make a graph where the engine will read it; every other object makes one in main memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms import engines
from cpms.graph.graph import Graph, require_graph
from cpms.sources.in_memory import graph_of
from cpms.storage.device import device_graphs, on_device


def given_graph(graph: Any, engine: str) -> Graph:
    """Return a graph as it is, and make one of edges, frames, SciPy's matrices and NetworkX's graphs.

    A pair of numeric arrays makes a graph in device memory if they are there, or if the engine computes there; ``auto``
    does so where a device is. `cpms.sources.in_memory.graph_of` lists the other objects.

    Raises
    ------
    InputError, UnsupportedError, UnavailableError
        As `cpms.Graph.from_edges` and `cpms.DeviceGraph.from_edges` do.

    Examples
    --------
    >>> given_graph(([0, 1], [1, 0]), "cpu").edges
    2
    """
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, tuple) and len(graph) == 2:
        if any(map(on_device, graph)) or (_numeric(graph) and _computes_on_device(engine)):
            found: Graph = device_graphs().DeviceGraph.from_edges(*graph)
            return found
        if _numeric(graph):
            return Graph.from_edges(*graph)
    made = graph_of(graph)
    require_graph(graph if made is None else made)
    return made  # type: ignore[return-value]  # None was refused.


def _numeric(pair: tuple[Any, Any]) -> bool:
    return all(isinstance(each, np.ndarray) and each.dtype.kind in "iu" for each in pair)


def _computes_on_device(engine: str) -> bool:
    if engine == "auto":
        return engines.finds_device()
    engines.check_name(engine)
    return engines.get_any(engine).takes_device_arrays
