"""A graph in device memory, for callers whose edges are there, or who want them there.

The graph has the in-edges of each node in CSR and the out-degrees, 4 bytes an edge and 8 a node. It is a `cpms.Graph`
wherever one is expected: arrays that code on processors reads are copied to main memory when they are first read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.graphs import edge_list, edge_updates
from cpms.backends.cuda.graphs.edge_list import DeviceArrays
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import UnsupportedError
from cpms.graph.edge_arrays import Ints, check_labels, distinct_names, first_id_from
from cpms.graph.edge_list import EdgeList, Read, reporting
from cpms.graph.graph import Duplicates, Graph, SelfLoops, read_only


def initialise() -> None:
    """Start the current device and load the kernels that make graphs of edges, which takes longer than they do."""
    edge_list.compile_kernels()


class DeviceGraph(Graph):
    """Directed graph without weights in the memory of CuPy's current device.

    Make one with `from_edges`, `from_csr` or `load`.

    Engines that compute on the device read it there, and its ranks stay there until `cpms.Result.ranks` is first read.
    ``indptr``, ``sources`` and all that depends on them are copies in main memory, made when first read.

    Parameters
    ----------
    device_arrays : DeviceArrays
        Row pointers, sources and out-degrees.
    name, first_id, names
        As in `cpms.Graph`.

    Examples
    --------
    >>> import cupy, cpms  # doctest: +SKIP
    >>> sources, targets = cupy.array([0, 1, 2, 3]), cupy.array([1, 2, 0, 0])  # doctest: +SKIP
    >>> graph = cpms.DeviceGraph.from_edges(sources, targets)  # doctest: +SKIP
    >>> cpms.pagerank(graph, method="refine").device_ranks  # doctest: +SKIP
    array([...])
    """

    def __init__(
        self, device_arrays: DeviceArrays, name: str = "graph", first_id: int = 0, names: npt.ArrayLike | None = None
    ) -> None:
        check_labels(name, None)
        nodes = len(device_arrays.out_degree)
        given = {
            "_device_arrays": device_arrays,
            "weights": None,
            "name": name,
            "first_id": first_id_from(first_id),
            "names": None if names is None else read_only(distinct_names(names, nodes)),
            "stand_in_for": None,
            "lower_triangle": False,
            "read": None,
        }
        for attribute, value in given.items():
            object.__setattr__(self, attribute, value)

    @classmethod
    def from_edges(  # type: ignore[override]
        cls,
        sources: Any,
        targets: Any,
        weights: None = None,
        *,
        nodes: int | None = None,
        duplicates: Duplicates = "keep",
        self_loops: SelfLoops = "keep",
        name: str = "graph",
        first_id: int = 0,
        names: npt.ArrayLike | None = None,
    ) -> DeviceGraph:
        """Build a graph on the device from an edge list in device or main memory, which is copied.

        The edges are uploaded, if they are in main memory, by several threads through pinned buffers, and validated and
        sorted on the device. The graph is that of `cpms.Graph.from_edges`.

        Parameters
        ----------
        sources, targets : array_like of integers, shape (edges,)
            Edge k runs from ``sources[k]`` to ``targets[k]``, counted from ``first_id``. Arrays in device memory are
            known by ``__cuda_array_interface__`` or DLPack.
        weights : None
            Graphs in device memory have no weights.
        nodes : int, optional
            Number of nodes; by default the largest id plus one.
        duplicates : {"keep", "drop", "sum"}
            Repeated edges: keep each, or keep the first. Their sums are weights, so ``sum`` takes no repeated edges.
        self_loops : {"keep", "drop"}
            Edges from a node to itself.
        name, first_id, names
            As in `cpms.Graph`.

        Raises
        ------
        InputError
            On unequal lengths, ids out of range, two nodes of one name, or a graph without nodes.
        UnsupportedError
            On weights, more than 2^31 nodes or 2^32 edges and nodes, or more than fits into device memory.
        UnavailableError
            If there is no device.
        """
        if weights is not None:
            raise UnsupportedError("graphs in device memory have no weights; use Graph.from_edges")
        first = first_id_from(first_id)
        device_arrays = edge_list.from_edges(
            *(sources, targets),
            nodes=nodes,
            duplicates=duplicates,
            self_loops=self_loops,
            first_id=first,
            name=name,
        )
        return cls(device_arrays, name, first, names)

    @classmethod
    def from_csr(
        cls,
        indptr: Any,
        sources: Any,
        *,
        name: str = "graph",
        first_id: int = 0,
        names: npt.ArrayLike | None = None,
    ) -> DeviceGraph:
        """Take a graph in CSR by target, in device or main memory, which is copied.

        Parameters
        ----------
        indptr : array_like of integers, shape (nodes + 1,)
            Where the in-edges of each node begin: those of node j are ``sources[indptr[j]:indptr[j + 1]]``.
        sources : array_like of integers, shape (edges,)
            Source of each edge, from 0.
        name, first_id, names
            As in `cpms.Graph`.

        Raises
        ------
        InputError
            If ``indptr`` does not ascend from 0 to the number of edges, or a source is no node.
        UnsupportedError, UnavailableError
            As `from_edges` does.
        """
        return cls(edge_list.from_csr(indptr, sources, name=name), name, first_id, names)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Any, **options: Any) -> DeviceGraph:
        """Load a graph as `cpms.load` does, without a copy of it in main memory.

        All threads read the edges, which are uploaded as they were read, and validated and sorted on the device.

        Parameters
        ----------
        source, options
            As in `cpms.load`. Values of a file are weights, which graphs in device memory have not:
            ``weights="ignore"`` reads the pattern alone.

        Raises
        ------
        InputError
            As `cpms.load` does.
        UnsupportedError, UnavailableError
            As `from_edges` does.

        Examples
        --------
        >>> import cpms
        >>> graph = cpms.DeviceGraph.load("web.mtx", duplicates="drop")  # doctest: +SKIP
        >>> cpms.pagerank(graph, engine="cuda").converged  # doctest: +SKIP
        True
        """
        from cpms.sources.loading import read
        from cpms.sources.readers.options import ReadOptions

        return cls.of(read(source, ReadOptions.named(options)))

    @classmethod
    def of(cls, graph: Read) -> DeviceGraph:
        """Return a graph with its arrays in device memory; one that is there is returned as it is."""
        if isinstance(graph, DeviceGraph):
            return graph
        if graph.weights is not None:
            raise UnsupportedError(
                f"graphs in device memory have no weights, but {graph.name} has; cpms.load(…, weights='ignore') reads "
                "the pattern alone"
            )
        if isinstance(graph, EdgeList):
            return cls._of_edges(graph)
        made = cls(edge_list.uploaded(graph), graph.name, graph.first_id)
        for attribute in ("names", "stand_in_for", "lower_triangle", "read", "indptr", "sources"):
            object.__setattr__(made, attribute, getattr(graph, attribute))
        return made

    @classmethod
    def _of_edges(cls, edges: EdgeList) -> DeviceGraph:
        with reporting(edges.label):
            made = cls.from_edges(
                *(edges.sources, edges.targets),
                nodes=edges.nodes,
                duplicates=edges.duplicates,
                self_loops=edges.self_loops,
                name=edges.name,
                names=edges.names,
            )
        for attribute in ("first_id", "lower_triangle", "read"):
            object.__setattr__(made, attribute, getattr(edges, attribute))
        return made

    def with_edges(
        self, edges_added: Sequence[Any] | None = None, edges_removed: Sequence[Any] | None = None
    ) -> DeviceGraph:
        """Return a graph of the same nodes without some edges and with others, on the device; this one stays as it is.

        Parameters
        ----------
        edges_added, edges_removed : pair of array_like, optional
            Sources and targets, each of shape (changes,), in main or device memory; as in `cpms.PageRank.update`.

        Raises
        ------
        InputError
            If a node is not in the graph, an edge is removed more often than it is stored, or edges have weights.
        UnsupportedError
            If the edges do not fit into device memory or indices of 32 bits.

        Examples
        --------
        >>> import cpms
        >>> graph = cpms.DeviceGraph.from_edges([0, 0, 1], [1, 2, 2])  # doctest: +SKIP
        >>> graph.with_edges(edges_added=([2], [0]), edges_removed=([0], [2])).sources  # doctest: +SKIP
        array([2, 0, 1], dtype=int32)
        """
        device_arrays = edge_updates.updated(self, self.device_arrays, edges_added, edges_removed)
        changed = DeviceGraph(device_arrays, self.name, self.first_id)
        for attribute in ("names", "stand_in_for", "read"):
            object.__setattr__(changed, attribute, getattr(self, attribute))
        return changed

    @property
    def device_arrays(self) -> DeviceArrays:  # type: ignore[override]
        """Row pointers, sources and out-degrees in device memory, arrays of uint32."""
        arrays: DeviceArrays = self.__dict__["_device_arrays"]
        return arrays

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.device_arrays.out_degree)

    @property
    def edges(self) -> int:
        """Number of stored edges, duplicates and self-loops included."""
        return len(self.device_arrays.sources)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return self.device_arrays.nbytes

    @cached_property
    def indptr(self) -> npt.NDArray[np.int64]:  # type: ignore[override]
        """Where the in-edges of each node begin, in main memory."""
        return read_only(current().to_host(self.device_arrays.indptr).astype(np.int64))

    @cached_property
    def sources(self) -> Ints:  # type: ignore[override]
        """Source of each edge, in main memory."""
        return read_only(current().to_host(self.device_arrays.sources).view(np.int32))

    @cached_property
    def out_degree(self) -> npt.NDArray[np.int64]:
        """Stored edges that leave each node, in main memory."""
        return read_only(current().to_host(self.device_arrays.out_degree).astype(np.int64))
