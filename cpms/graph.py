"""A directed graph, stored by target node: what a PageRank sweep reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cpms.counting import occurrences
from cpms.errors import InputError
from cpms.scalars import require_real, whole

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse

    from cpms.readers.record import ReadRecord

Duplicates = Literal["keep", "drop", "sum"]
SelfLoops = Literal["keep", "drop"]
Ints = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
LARGEST_ID = 2**59 - 1
"""Far beyond any memory, and safe to add to in int64."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Directed graph; the in-edges of node ``j`` are ``sources[indptr[j]:indptr[j + 1]]``.

    Make one with `from_edges`, `from_scipy`, `from_networkx` or `cpms.load`; the constructor
    trusts its arguments.

    Parameters
    ----------
    indptr : ndarray of int64, shape (nodes + 1,)
        Where the in-edges of each node begin.
    sources : ndarray of int32 (int64 from 2**31 nodes on), shape (edges,)
        Source of each edge, ascending within a target.
    weights : ndarray of float64, shape (edges,), optional
        Positive edge weights; None for a graph of ones.
    name : str
        What results call this graph.
    first_id : int
        Id of node 0 in the user's numbering: 1 for Matrix Market files.
    names : ndarray, shape (nodes,), optional
        The user's own node ids, where they are not consecutive integers.
    stand_in_for : str, optional
        The published graph that this generated one replaces; figures label it so.
    lower_triangle : bool
        Whether its edges are what a symmetric file stores, the lower triangle alone.
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
        return occurrences(self.sources, self.nodes)

    @cached_property
    def in_degree(self) -> npt.NDArray[np.int64]:
        """Stored edges that enter each node, int64, shape (nodes,)."""
        return np.diff(self.indptr)

    @cached_property
    def out_weight(self) -> Floats:
        """Sum of the weights that leave each node, float64, shape (nodes,)."""
        if self.weights is None:
            return self.out_degree.astype(np.float64)
        from cpms.weight_sums import WeightSums

        sums = WeightSums(self.nodes)
        sums.add(self.sources, self.weights)
        return sums.rounded()

    @cached_property
    def dangling_nodes(self) -> npt.NDArray[np.int64]:
        """Nodes that no edge leaves (the set S), ascending."""
        return np.flatnonzero(self.out_degree == 0)

    @property
    def targets(self) -> Ints:
        """Target of each edge, in stored order; made anew at each call, shape (edges,)."""
        return np.repeat(np.arange(self.nodes, dtype=self.sources.dtype), self.in_degree)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored arrays."""
        weights_bytes = 0 if self.weights is None else self.weights.nbytes
        return self.indptr.nbytes + self.sources.nbytes + weights_bytes

    def node_id(self, index: int) -> int | str:
        """Return the user's id of node ``index`` (0-based).

        Raises
        ------
        InputError
            If there are not so many nodes.

        Examples
        --------
        >>> Graph.from_edges([1], [2], first_id=1).node_id(0)
        1
        """
        if not 0 <= index < self.nodes:
            raise InputError(f"there is no node at place {index}; {self.name} has places 0 to {self.nodes - 1}")
        if self.names is not None:
            name = self.names[index]
            return int(name) if isinstance(name, (int, np.integer)) else str(name)
        return int(index) + self.first_id

    def index_of(self, node: int | str) -> int:
        """Return the 0-based index of the node that the user calls ``node``.

        Raises
        ------
        InputError
            If the graph has no such node.
        """
        if self.names is not None:
            wanted = _as_integer(node) if self.names.dtype.kind in "iu" else str(node)
            matches = np.flatnonzero(np.equal(self.names, wanted)) if wanted is not None else np.empty(0)
            if len(matches):
                return int(matches[0])
            raise InputError(f"node {node!r} is not in {self.name}; its ids look like {self.node_id(0)!r}")
        number = _as_integer(node)
        index = -1 if number is None else number - self.first_id
        if not 0 <= index < self.nodes:
            last = self.nodes - 1 + self.first_id
            raise InputError(f"node {node!r} is not in {self.name}; its ids are {self.first_id} to {last}")
        return index

    @classmethod
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
        """Build a graph from an edge list.

        Parameters
        ----------
        sources, targets : array_like of integers, shape (edges,)
            Edge k runs from ``sources[k]`` to ``targets[k]``, counted from ``first_id``.
        weights : array_like of float64, shape (edges,), optional
            Positive finite weights; None means 1 for every edge.
        nodes : int, optional
            Number of nodes; by default the largest id decides.
        duplicates : {"keep", "drop", "sum"}
            Repeated edges: keep each, keep the first, or add up their weights.
        self_loops : {"keep", "drop"}
            Edges from a node to itself.
        names : array_like, shape (nodes,), optional
            What results and queries call the nodes, each otherwise; integers, or else texts.

        Raises
        ------
        InputError
            On unequal lengths, ids out of range, weights that are not positive and finite, two nodes
            of one name, or a graph without nodes or with more than fit in memory.
        """
        from cpms import compress
        from cpms.readers.memory import graph_bytes, require_memory

        first_id = whole("first_id", first_id)
        source_ids = _ids(sources, "sources", first_id)
        target_ids = _ids(targets, "targets", first_id)
        if len(source_ids) != len(target_ids):
            raise InputError(f"{len(source_ids)} sources but {len(target_ids)} targets; give one of each an edge")
        count = _node_count(source_ids, target_ids, nodes, first_id)
        advice = "number the nodes that occur from 0 on, as numpy.unique(…, return_inverse=True) does"
        require_memory(graph_bytes(count, 0, weighted=False), f"a graph of {count:,} nodes", advice)
        node_names = None if names is None else distinct_names(names, count)
        edge_weights = None if weights is None else _checked_weights(weights, len(source_ids))
        dtype = np.int32 if count < 2**31 else np.int64
        edge = compress.by_target(
            source_ids.astype(dtype, copy=False), target_ids.astype(dtype, copy=False), edge_weights, count
        )
        if self_loops == "drop":
            edge = compress.select(edge, ~compress.is_self_loop(edge))
        elif self_loops != "keep":
            raise InputError(f"self_loops is {self_loops!r}; it can be 'keep' or 'drop'")
        if duplicates == "sum":
            edge = compress.sum_duplicates(edge)
            if edge.weights is not None and not np.isfinite(edge.weights).all():
                raise InputError("the weights of a repeated edge add up to infinity; scale them down")
        elif duplicates == "drop":
            edge = compress.select(edge, ~compress.is_duplicate(edge))
        elif duplicates != "keep":
            raise InputError(f"duplicates is {duplicates!r}; it can be 'keep', 'drop' or 'sum'")
        return cls(*edge, name, first_id, node_names, stand_in_for=stand_in_for)

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
        >>> import scipy.sparse
        >>> Graph.from_scipy(scipy.sparse.coo_array([[0, 2.0], [0, 0]])).weights.tolist()
        [2.0]
        """
        given: Any = matrix
        if not hasattr(given, "tocoo"):
            kind = type(given).__name__
            raise InputError(f"the matrix is of type {kind}, not SciPy's; give scipy.sparse.csr_array(matrix)")
        coordinates = given.tocoo()
        if len(coordinates.shape) != 2 or coordinates.shape[0] != coordinates.shape[1]:
            raise InputError(f"the matrix has shape {coordinates.shape}; a graph needs a square one")
        nodes = coordinates.shape[0]
        if weights not in ("auto", "ignore"):
            raise InputError(f"weights is {weights!r}; it can be 'auto' or 'ignore'")
        values = None if weights == "ignore" or coordinates.data.dtype == np.bool_ else coordinates.data
        return cls.from_edges(coordinates.row, coordinates.col, values, nodes=nodes, **options)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], *, weight: str | None = "weight", **options: Any) -> Graph:
        """Build a graph from a NetworkX one; undirected edges count in both directions.

        Edge attribute ``weight`` is used where any edge has it, with 1 for the others. Nodes keep
        their ids if all are integers; else their texts are their ids, which must differ.

        Raises
        ------
        InputError
            If two nodes have the same text, such as 1 and ``"1"``, or as `from_edges` does.

        Examples
        --------
        >>> import networkx as nx
        >>> Graph.from_networkx(nx.DiGraph([("a", "b")])).node_id(1)
        'b'
        """
        if not hasattr(graph, "to_directed"):
            raise InputError(f"the graph is a {type(graph).__name__}, not NetworkX's; give networkx.DiGraph(edges)")
        index = {node: i for i, node in enumerate(graph)}
        edges = list(graph.to_directed(as_view=True).edges(data=True))
        weights = None
        if weight is not None and any(weight in data for _, _, data in edges):
            weights = [data.get(weight, 1.0) for _, _, data in edges]
        return cls.from_edges(
            np.array([index[s] for s, _, _ in edges], dtype=np.int64),
            np.array([index[t] for _, t, _ in edges], dtype=np.int64),
            weights,
            nodes=len(index),
            names=_names_of(list(index)),
            **options,
        )

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the adjacency matrix A as SciPy CSR: entry (i, j) is the edge i -> j, 1.0 where edges have no weights.

        `from_scipy` makes a graph without weights of that again if it is to ignore them.
        """
        import scipy.sparse

        data = np.ones(self.edges) if self.weights is None else self.weights
        by_target = scipy.sparse.csc_array((data, self.sources, self.indptr), shape=(self.nodes, self.nodes))
        return by_target.tocsr()


def require_graph(graph: Any) -> None:
    """Refuse what is no graph, with what makes one.

    Raises
    ------
    InputError
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}; give a cpms.Graph, which cpms.load makes of files and names, "
            "and Graph.from_networkx, from_scipy and from_edges of what is in memory"
        )


def _as_integer(node: int | str) -> int | None:
    try:
        number = int(node)
    except (ValueError, TypeError, OverflowError):
        return None
    return number if number == node or isinstance(node, str) else None


def _names_of(nodes: list[Any]) -> npt.NDArray[Any] | None:
    if nodes == list(range(len(nodes))):
        return None
    if all(isinstance(node, (int, np.integer)) and abs(int(node)) < 2**63 for node in nodes):
        return np.array(nodes, dtype=np.int64)
    return _as_texts(nodes)


def _as_texts(names: Iterable[Any]) -> npt.NDArray[Any]:
    texts = [str(name) for name in names]
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


_MOST_NUMBER = np.uint64(2**63 - 1)
"""Of a node's name that is kept as a number, as files keep them."""


def distinct_names(names: npt.ArrayLike, nodes: int) -> npt.NDArray[Any]:
    """Return the names of so many nodes as an array of integers or of texts, no two the same.

    Raises
    ------
    InputError
        If they are not one a node, or two nodes have the same.

    Examples
    --------
    >>> distinct_names(["b.org", 7], 2).tolist()
    ['b.org', '7']
    """
    try:
        array = np.asarray(names)
    except ValueError as error:
        raise InputError(f"names are no list: {error}; give one a node") from error
    if array.ndim != 1:
        raise InputError(f"names have {array.ndim} dimensions; give a list, one a node")
    if len(array) != nodes:
        raise InputError(f"{len(array)} names for {nodes} nodes; give one of each a node")
    if array.dtype.kind not in "iuU" or (array.dtype == np.uint64 and (array > _MOST_NUMBER).any()):
        array = _as_texts(array)
    twice = _first_repeated(array)
    if twice is not None:
        raise InputError(f"two nodes are named {twice!r} (as a number or a text); give each a name of its own")
    return array


def _first_repeated(names: npt.NDArray[Any]) -> int | str | None:
    if names.dtype.kind in "iu" and (names[1:] > names[:-1]).all():
        return None
    listed = names.tolist()
    if len(set(listed)) == len(listed):
        return None
    (name, _), *_ = Counter(listed).most_common(1)
    found: int | str = name
    return found


def _ids(values: npt.ArrayLike, what: str, first_id: int) -> Ints:
    require_real(what, values)
    try:
        ids = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} are no list of ids: {error}") from error
    if ids.ndim != 1:
        raise InputError(f"{what} have {ids.ndim} dimensions; give a list of ids")
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int32)
    if ids.dtype.kind not in "iu":
        hint = "for names, give their places as integers and names=…" if ids.dtype.kind in "UO" else "convert them"
        raise InputError(f"{what} are {ids.dtype}; node ids are integers below 2^59: {hint}")
    if max(int(ids.max()), int(ids.max()) - first_id) > LARGEST_ID:
        raise InputError(
            f"{what} hold the id {ids.max()}; ids must be at most {LARGEST_ID}, counted from {min(0, first_id)}"
        )
    if ids.min() < first_id:
        raise InputError(f"{what} hold the id {ids.min()}; the smallest possible is {first_id}")
    return np.subtract(ids, first_id, dtype=np.int64) if first_id else ids


def _node_count(sources: Ints, targets: Ints, nodes: int | None, first_id: int) -> int:
    largest = max((int(ids.max()) for ids in (sources, targets) if len(ids)), default=-1)
    count = largest + 1 if nodes is None else whole("nodes", nodes)
    if count < 1:
        raise InputError("the graph is empty; it needs at least one node")
    if largest >= count:
        raise InputError(f"an edge names node {largest + first_id}, but the last is {count - 1 + first_id}")
    return count


def _checked_weights(weights: npt.ArrayLike, edges: int) -> Floats:
    require_real("weights", weights)
    try:
        given = np.asarray(weights)
        values = given.astype(np.float64, copy=False) if given.dtype.kind in "biuf" else None
    except ValueError:
        values = None
    if values is None:
        raise InputError("weights are no list of real numbers; give one an edge")
    if values.shape != (edges,):
        raise InputError(f"weights have shape {values.shape}; give one an edge, {edges}")
    wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(wrong):
        raise InputError(f"edge {wrong[0]} has weight {values[wrong[0]]}; weights must be positive and finite")
    return values
