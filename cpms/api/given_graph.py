"""The graph that a caller gives: a `cpms.Graph`, or edges of which one is made where the engine will read it."""

from __future__ import annotations

from typing import Any

from cpms import engines
from cpms.base.errors import InputError
from cpms.graph.graph import Graph, require_graph
from cpms.storage.device import device_graphs, on_device

_ON_DEVICE = ("cuda_fused", "cuda", "cuda_balanced_rows", "cuda_thread_rows", "cusparse", "cusparse_omega")
"""Engines that read graphs in device memory."""


def given_graph(graph: Any, engine: str) -> Graph:
    """Return a graph as it is, and make one of a pair of sources and targets.

    Edges make a graph in device memory if they are there, or if the engine computes there; ``auto`` does so where a
    device is.

    Raises
    ------
    InputError, UnsupportedError, UnavailableError
        As `cpms.Graph.from_edges` and `cpms.DeviceGraph.from_edges` do.

    Examples
    --------
    >>> given_graph(([0, 1], [1, 0]), "cpu").edges
    2
    """
    if not isinstance(graph, tuple):
        require_graph(graph)
        made: Graph = graph
        return made
    if len(graph) != 2:
        raise InputError(
            f"graph is a tuple of {len(graph)}; give the sources and the targets of edges, or a cpms.Graph"
        )
    if any(map(on_device, graph)) or _computes_on_device(engine):
        found: Graph = device_graphs().DeviceGraph.from_edges(*graph)
        return found
    return Graph.from_edges(*graph)


def _computes_on_device(engine: str) -> bool:
    if engine == "auto":
        return engines.get_any(_ON_DEVICE[0]).missing() is None
    return isinstance(engine, str) and engine in _ON_DEVICE
