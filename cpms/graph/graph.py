"""A directed graph in compressed rows by target (CSR of the transposed adjacency matrix).

Sparse products with a transition matrix read the in-edges of each node, so these are stored contiguously; out-degrees
are counted at the first use. A graph takes 4 bytes an edge, 8 more with weights, and 8 bytes a node.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.real_arrays import read_only as read_only
from cpms.base.text.html_table import html_table
from cpms.base.text.phases import phase
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats
from cpms.base.validation import as_whole, consistent, described, shortened
from cpms.graph.edge_arrays import (
    Ints,
    check_arrays,
    check_choices,
    check_labels,
    checked_weights,
    distinct_names,
    first_id_from,
    ids_from,
    names_of,
    node_count,
    out_degrees,
    row_lengths,
)
from cpms.graph.read_record import ReadRecord

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse

_FEW_NODES = 1 << 20
"""Nodes that need no check of free memory, which takes longer than building a small graph."""
Duplicates = Literal["keep", "drop", "sum"]
SelfLoops = Literal["keep", "drop"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Directed graph; the in-edges of node ``j`` are ``sources[indptr[j]:indptr[j + 1]]``.

    Make one with `from_edges`, `from_scipy`, `from_networkx` or `cpms.load`, which copy their arguments. The
    constructor copies nothing: its arrays and the graph's share their memory. It checks types and lengths; the first
    use checks contents. Arrays of a graph are read-only, except that `targets` is a new array at each call. An array
    given to the constructor remains writable under its own name, and must not be written while the graph is in use.

    Parameters
    ----------
    indptr : ndarray of int64, shape (nodes + 1,)
        Where the in-edges of each node begin.
    sources : ndarray of int32 (int64 from 2**31 nodes on), shape (edges,)
        Source of each edge, ascending within a target.
    weights : ndarray of float64, shape (edges,), optional
        Positive edge weights; None for a graph of ones.
    name : str
        Name of the graph in results.
    first_id : int
        Id of node 0 in the user's numbering: 1 for Matrix Market files.
    names : ndarray, shape (nodes,), optional
        The user's own node ids, where they are not consecutive integers.
    stand_in_for : str, optional
        The published graph that this generated one replaces; figures label it so.
    lower_triangle : bool
        Whether its edges are the lower triangle alone that a symmetric file stores.
    read : ReadRecord, optional
        How its file was read, if it comes from one.

    Examples
    --------
    >>> import cpms
    >>> graph = cpms.Graph.from_edges([0, 0, 1], [1, 2, 2])
    >>> graph.nodes, graph.edges, graph.out_degree.tolist(), graph.dangling_nodes.tolist()
    (3, 3, [2, 1, 0], [2])
    """

    indptr: npt.NDArray[np.int64]
    sources: Ints
    weights: Floats | None = None
    name: str = "graph"
    first_id: int = 0
    names: npt.NDArray[Any] | None = None
    stand_in_for: str | None = field(default=None, kw_only=True)
    lower_triangle: bool = field(default=False, kw_only=True)
    read: ReadRecord | None = field(default=None, kw_only=True)
    device_arrays: ClassVar[Any] = None  # Graphs in device memory have their arrays here.

    def __post_init__(self) -> None:
        check_arrays(self.indptr, self.sources, self.weights, self.names)
        check_labels(self.name, self.stand_in_for)
        object.__setattr__(self, "first_id", first_id_from(self.first_id))
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, part.name, read_only(value))

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        return f"{type(self).__name__}({described(self.name)}: {self.nodes:,} nodes, {self.edges:,} edges{weighted})"

    def _repr_html_(self) -> str:
        """Return name and sizes as a table for notebooks."""
        return html_table(
            [
                ("graph", shortened(self.name)),
                *([("stand-in for", shortened(self.stand_in_for))] if self.stand_in_for else []),
                ("nodes", f"{self.nodes:,}"),
                ("edges", f"{self.edges:,}"),
                ("weights", "none" if self.weights is None else "float64"),
            ]
        )

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """Number of stored edges, duplicates and self-loops included."""
        return len(self.sources)

    @cached_property
    def out_degree(self) -> npt.NDArray[np.int64]:
        """Stored edges that leave each node, int64, shape (nodes,)."""
        return read_only(out_degrees(self.indptr, self.sources, self.weights))

    @cached_property
    def in_degree(self) -> npt.NDArray[np.int64]:
        """Stored edges that enter each node, int64, shape (nodes,)."""
        return read_only(row_lengths(self.indptr))

    @cached_property
    def out_weight(self) -> Floats:
        """Sum of the weights that leave each node, float64, shape (nodes,)."""
        if self.weights is None:
            return read_only(self.out_degree.astype(np.float64))
        from cpms.graph.compensated_sums import WeightSums

        sums = WeightSums(len(self.out_degree))
        sums.add(self.sources, self.weights)
        return read_only(sums.rounded())

    @cached_property
    def dangling_nodes(self) -> npt.NDArray[np.int64]:
        """Nodes that no edge leaves (the set S), ascending."""
        return read_only(np.flatnonzero(self.out_degree == 0))

    @property
    def targets(self) -> Ints:
        """Target of each edge in stored order, shape (edges,); a new array at each call."""
        return np.repeat(np.arange(self.nodes, dtype=self.sources.dtype), self.in_degree)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored arrays."""
        return self.indptr.nbytes + self.sources.nbytes + (0 if self.weights is None else self.weights.nbytes)

    def node_id(self, index: int) -> int | str:
        """Return the user's id of node ``index`` (0-based).

        Raises
        ------
        InputError
            If there is no such node.

        Examples
        --------
        >>> import cpms
        >>> cpms.Graph.from_edges([1], [2], first_id=1).node_id(0)
        1
        """
        position = as_whole(index)
        if position is None or not 0 <= position < self.nodes:
            possible = f"{shortened(self.name)} has indices 0 to {self.nodes - 1}"
            raise InputError(f"there is no node of index {described(index)}; {possible}")
        if self.names is not None:
            name = self.names[position]
            return int(name) if isinstance(name, (int, np.integer)) else str(name)
        return position + self.first_id

    def index_of(self, node: int | str) -> int:
        """Return the 0-based index of the node that the user calls ``node``.

        Raises
        ------
        InputError
            If the graph has no such node.
        """
        graph_name = shortened(self.name)
        if self.names is not None:
            node_name = _as_integer(node) if self.names.dtype.kind in "iu" else _as_text(node)
            matches = np.empty(0) if node_name is None else np.flatnonzero(np.equal(self.names, node_name))
            if len(matches):
                return int(matches[0])
            example = f"its ids look like {described(self.node_id(0))}"
            raise InputError(f"node {described(node)} is not in {graph_name}; {example}")
        number = _as_integer(node)
        index = -1 if number is None else number - self.first_id
        if not 0 <= index < self.nodes:
            last = self.nodes - 1 + self.first_id
            raise InputError(f"node {described(node)} is not in {graph_name}; its ids are {self.first_id} to {last}")
        return index

    @classmethod
    @phase("building the graph")
    def from_edges(
        cls,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        *,
        nodes: int | None = None,
        duplicates: Duplicates = "keep",
        self_loops: SelfLoops = "keep",
        name: str = "graph",
        first_id: int = 0,
        names: npt.ArrayLike | None = None,
        stand_in_for: str | None = None,
    ) -> Graph:
        """Build a graph from an edge list, which is copied.

        Parameters
        ----------
        sources, targets : array_like of integers, shape (edges,)
            Edge k runs from ``sources[k]`` to ``targets[k]``, counted from ``first_id``.
        weights : array_like of float64, shape (edges,), optional
            Positive finite weights; None means 1 for every edge.
        nodes : int, optional
            Number of nodes; by default the largest id plus one.
        duplicates : {"keep", "drop", "sum"}
            Repeated edges: keep each, keep the first, or add up their weights.
        self_loops : {"keep", "drop"}
            Edges from a node to itself.
        names : array_like, shape (nodes,), optional
            Distinct names of the nodes in results and queries; integers, or else texts.
        name, first_id, stand_in_for
            As in `Graph`.

        Raises
        ------
        InputError
            If lengths differ, an id is out of range, a weight is not positive and finite, or two nodes have one name.
            If there is no node, or more than memory holds.

        Examples
        --------
        >>> import cpms
        >>> cpms.Graph.from_edges([0, 0, 1], [1, 1, 2], duplicates="sum").weights.tolist()
        [2.0, 1.0]
        """
        from cpms.base.host_memory import graph_bytes, require_memory
        from cpms.graph import csr_build

        check_choices(duplicates, self_loops)
        first_id = first_id_from(first_id)
        source_ids, largest_source = ids_from(sources, "sources", first_id)
        target_ids, largest_target = ids_from(targets, "targets", first_id)
        if len(source_ids) != len(target_ids):
            raise InputError(f"{len(source_ids)} sources but {len(target_ids)} targets; give one of each an edge")
        count = node_count(max(largest_source, largest_target), nodes, first_id)
        advice = "number the nodes that occur from 0 on, as numpy.unique(…, return_inverse=True) does"
        if count > _FEW_NODES:
            require_memory(graph_bytes(count, 0, weighted=False), f"a graph of {count:,} nodes", advice)
        node_names = None if names is None else distinct_names(names, count)
        edge_weights = None if weights is None else checked_weights(weights, len(source_ids))
        edge = csr_build.by_target(source_ids, target_ids, edge_weights, count)
        if self_loops == "drop":
            with phase("dropping self-loops"):
                edge = csr_build.select(edge, ~csr_build.is_self_loop(edge))
        if duplicates == "sum":
            with phase("summing repeated edges"):
                edge = csr_build.sum_duplicates(edge)
        elif duplicates == "drop":
            with phase("dropping repeated edges"):
                edge = csr_build.select(edge, ~csr_build.is_duplicate(edge))
        return cls(*csr_build.frozen(edge), name, first_id, node_names, stand_in_for=stand_in_for)

    @classmethod
    def from_scipy(
        cls,
        matrix: scipy.sparse.sparray | scipy.sparse.spmatrix,
        *,
        weights: Literal["auto", "ignore"] = "auto",
        **options: Any,
    ) -> Graph:
        """Build a graph from a square SciPy matrix: entry (i, j) is the edge i -> j.

        Boolean matrices give unweighted graphs, others weighted ones, unless ``weights`` are ignored; ``options``
        are those of `from_edges`.

        Examples
        --------
        >>> import cpms, scipy.sparse
        >>> cpms.Graph.from_scipy(scipy.sparse.coo_array([[0, 2.0], [0, 0]])).weights.tolist()
        [2.0]
        """
        given: Any = matrix
        if not hasattr(given, "tocoo"):
            raise InputError(f"matrix is a {type(given).__name__}, not SciPy's; give scipy.sparse.csr_array(matrix)")
        coordinates = consistent(given).tocoo()
        if len(coordinates.shape) != 2 or coordinates.shape[0] != coordinates.shape[1]:
            raise InputError(f"the matrix has shape {coordinates.shape}; a graph needs a square one")
        nodes = coordinates.shape[0]
        require_one_of("weights", weights, ("auto", "ignore"))
        values = None if weights == "ignore" or coordinates.data.dtype == np.bool_ else coordinates.data
        return cls.from_edges(coordinates.row, coordinates.col, values, nodes=nodes, **options)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], *, weight: str | None = "weight", **options: Any) -> Graph:
        """Build a graph from a NetworkX one; undirected edges count in both directions.

        Edge attribute ``weight`` is used where any edge has it, with 1 for the others. Nodes keep their ids if all are
        integers; else their texts are their ids, which must differ.

        Raises
        ------
        InputError
            If two nodes have the same text, such as 1 and ``"1"``, or as `from_edges` does.

        Examples
        --------
        >>> import cpms, networkx as nx
        >>> cpms.Graph.from_networkx(nx.DiGraph([("a", "b")])).node_id(1)
        'b'
        """
        if not hasattr(graph, "to_directed"):
            raise InputError(f"the graph is a {type(graph).__name__}, not NetworkX's; give networkx.DiGraph(edges)")
        try:
            hash(weight)
        except TypeError:
            given = described(weight)
            raise InputError(f"weight is {given}; give the name of an edge attribute, or None") from None
        index = {node: i for i, node in enumerate(graph)}
        edges = list(graph.to_directed(as_view=True).edges(data=True))
        is_weighted = weight is not None and any(weight in data for _, _, data in edges)
        weights = [data.get(weight, 1.0) for _, _, data in edges] if is_weighted else None
        return cls.from_edges(
            np.array([index[s] for s, _, _ in edges], dtype=np.int64),
            np.array([index[t] for _, t, _ in edges], dtype=np.int64),
            weights,
            nodes=len(index),
            names=names_of(list(index)),
            **options,
        )

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the adjacency matrix A as SciPy CSR: entry (i, j) is the edge i -> j, 1.0 where edges have no weights.

        `from_scipy` makes a graph without weights of that again if it is to ignore them.
        """
        import scipy.sparse

        data = np.ones(self.edges) if self.weights is None else self.weights
        shape = len(self.out_degree), self.nodes  # Counting degrees checks sources, which SciPy's loops trust.
        by_target = scipy.sparse.csc_array((data, self.sources, self.indptr), shape=shape)
        return by_target.tocsr()


def require_graph(graph: Any) -> None:
    """Refuse anything but a graph, and name the functions that make one.

    Raises
    ------
    InputError
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}; give a cpms.Graph, which cpms.load makes of files, names, data "
            "frames, tuples (sources, targets) and graphs of SciPy and NetworkX"
        )


def _as_integer(node: Any) -> int | None:
    """Return a node's id as a number, parsed if it is text; None if it is no id."""
    try:
        return int(node) if isinstance(node, str) else as_whole(node)
    except ValueError:
        return None


def _as_text(node: Any) -> str | None:
    """Return a node's id as the text that `from_networkx` gives it; None if conversion fails."""
    try:
        return str(node)
    except Exception:  # noqa: BLE001 - objects of others raise anything, and so do numbers of 5,000 digits
        return None
