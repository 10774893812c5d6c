"""Edges as a reader found them, before a graph is made of them: in main memory, or on the device of an engine.

Readers return edge lists, so that an engine on a GPU gets them without compressed rows made on processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.graph.edge_arrays import Ints
from cpms.graph.graph import Duplicates, Graph, SelfLoops
from cpms.graph.histogram import occurrences
from cpms.graph.read_record import ReadRecord


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges between nodes that count from 0, and what `cpms.Graph.from_edges` is to do with them.

    Parameters
    ----------
    sources, targets : ndarray of integers, shape (edges,)
        Edge k runs from ``sources[k]`` to ``targets[k]``.
    weights : ndarray of float64, shape (edges,), or None
    nodes : int
    duplicates, self_loops
        As in `cpms.Graph.from_edges`.
    label : str
        What errors call the source of the edges, such as a path.
    name, first_id, names, lower_triangle, read
        Of the graph, as in `cpms.Graph`.

    Examples
    --------
    >>> edges = EdgeList(np.array([0, 0]), np.array([1, 1]), None, 2, duplicates="drop")
    >>> edges.edges, edges.graph().edges
    (2, 1)
    """

    sources: Ints
    targets: Ints
    weights: Floats | None
    nodes: int
    duplicates: Duplicates = field(default="keep", kw_only=True)
    self_loops: SelfLoops = field(default="keep", kw_only=True)
    label: str = field(default="the edges", kw_only=True)
    name: str = field(default="graph", kw_only=True)
    first_id: int = field(default=0, kw_only=True)
    names: npt.NDArray[Any] | None = field(default=None, kw_only=True)
    lower_triangle: bool = field(default=False, kw_only=True)
    read: ReadRecord | None = field(default=None, kw_only=True)

    @property
    def edges(self) -> int:
        """Number of edges as they were read."""
        return len(self.sources)

    @property
    def dangling_nodes(self) -> npt.NDArray[np.int64]:
        """Nodes that no edge leaves as they were read, ascending."""
        return np.flatnonzero(occurrences(self.sources, self.nodes) == 0)

    def graph(self) -> Graph:
        """Return the graph in main memory.

        Raises
        ------
        InputError
            As `cpms.Graph.from_edges` does.
        """
        with reporting(self.label):
            made = Graph.from_edges(
                self.sources,
                self.targets,
                self.weights,
                nodes=self.nodes,
                duplicates=self.duplicates,
                self_loops=self.self_loops,
                name=self.name,
                names=self.names,
            )
        return replace(made, first_id=self.first_id, lower_triangle=self.lower_triangle, read=self.read)


@contextmanager
def reporting(label: str) -> Iterator[None]:
    """Name the source of edges in errors of a graph that is made of them.

    Examples
    --------
    >>> try:
    ...     with reporting("web.mtx"):
    ...         Graph.from_edges([0], [5], nodes=3)
    ... except InputError as error:
    ...     print(error)
    web.mtx: an edge names node 5, but the last is 2
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{label}: {error}") from None
    except MemoryError as error:
        raise InputError(f"{label}: its graph does not fit into the memory of this process; use more") from error


Read: TypeAlias = EdgeList | Graph
"""What a reader found: edges, or a graph if they lay in compressed rows."""


def graph_of_read(found: Read) -> Graph:
    """Return the graph of what a reader found; one that is a graph already is returned as it is.

    Examples
    --------
    >>> graph_of_read(EdgeList(np.array([0]), np.array([1]), None, 2)).edges
    1
    """
    return found.graph() if isinstance(found, EdgeList) else found
