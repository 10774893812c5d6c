"""The graph that a caller gives: a `cpms.Graph`, or a file or an object in memory of which one is made.

Edges without weights make a graph where the engine will read it: on its device, without compressed rows made on
processors. Weighted ones make a graph in main memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms import engines
from cpms.base import threads
from cpms.base.errors import UnsupportedError
from cpms.graph.edge_list import EdgeList, Read, graph_of_read
from cpms.graph.graph import Graph, require_graph
from cpms.sources.in_memory import edges_of
from cpms.sources.loading import read
from cpms.sources.readers.options import ReadOptions
from cpms.storage.device import device_graphs, free_unused, on_device


def given_graph(graph: Any, engine: str) -> Graph:
    """Return a graph as it is, and make one of edges, frames, SciPy's matrices and NetworkX's graphs.

    Edges without weights make a graph in device memory if they are there, or if the engine computes there; ``auto``
    does so where a device is. `cpms.sources.in_memory.edges_of` lists the objects.

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
    made = edges_of(graph)
    if made is None:
        require_graph(graph)
        raise AssertionError(graph)
    return _placed(made, is_on_device=isinstance(made, EdgeList) and _computes_on_device(engine))


def loaded_graph(source: str, engine: str, options: ReadOptions) -> Graph:
    """Return the graph of a file, a name or a generator, in device memory where the engine computes there.

    The device is initialised while the file is read.

    Raises
    ------
    InputError, UnavailableError
        As `cpms.load` does.

    Examples
    --------
    >>> loaded_graph("rmat:scale=4,seed=1", "cpu", ReadOptions()).nodes
    16
    """
    if engine != "auto" and not _computes_on_device(engine):
        return graph_of_read(read(source, options))
    ready: list[bool] = []
    with threads.in_background(lambda: ready.append(_initialised(engine))):
        found = read(source, options)
    return _placed(found, is_on_device=ready[0])


def _placed(found: Read, *, is_on_device: bool) -> Graph:
    """Return the graph of edges on the device if it is to be there and can be, else in main memory."""
    if is_on_device and isinstance(found, EdgeList) and found.weights is None:
        try:
            made: Graph = device_graphs().DeviceGraph.of(found)
        except UnsupportedError:  # Repeated edges whose sums are weights, or too many edges for the device.
            free_unused()
        else:
            return made
    return graph_of_read(found)


def _initialised(engine: str) -> bool:
    """Initialise the device that an engine needs; return whether there is one."""
    is_there = engines.finds_device() if engine == "auto" else not engines.get_any(engine).missing()
    if is_there:
        device_graphs().initialise()
    return is_there


def _numeric(pair: tuple[Any, Any]) -> bool:
    return all(isinstance(each, np.ndarray) and each.dtype.kind in "iu" for each in pair)


def _computes_on_device(engine: str) -> bool:
    if engine == "auto":
        return engines.finds_device()
    engines.check_name(engine)
    return engines.get_any(engine).takes_device_arrays
