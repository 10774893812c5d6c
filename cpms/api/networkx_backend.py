"""Backend of NetworkX: ``nx.pagerank(G, backend="cpms")`` computes the ranks here and returns them certified.

NetworkX finds the backend by its entry point (`networkx.backends`), converts a graph once by `convert_from_nx`, caches
the conversion on the graph, and calls the function of the same name here
(https://networkx.org/documentation/stable/reference/backends.html). A conversion walks over the adjacency once, in
Python, and takes 16 bytes an edge beside the graph of `cpms`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.api.pagerank import pagerank as certified_pagerank
from cpms.api.result import Result
from cpms.base.types import Floats
from cpms.graph.graph import Graph

Node = Hashable
_ARGUMENTS = ("G", "alpha", "personalization", "max_iter", "tol", "nstart", "weight", "dangling")
"""Those of `networkx.pagerank` by position."""


class CertifiedRanks(dict[Any, float]):
    """Rank by node, as NetworkX returns it, with the certified result that it comes from.

    Attributes
    ----------
    result : Result or None
        Residual, error bound, iterations and history; None for a graph without nodes.
    """

    def __init__(self, ranks: Mapping[Any, float], result: Result | None = None) -> None:
        super().__init__(ranks)
        self.result = result


class ConvertedGraph:
    """A graph of NetworkX as edge arrays; nodes are numbered in NetworkX's order.

    Parameters
    ----------
    graph : networkx graph
        Directed or not, with parallel edges or not.
    attributes : iterable of edge attributes
        Those that hold weights; an edge without one has weight 1.
    """

    __networkx_backend__ = "cpms"

    def __init__(self, graph: Any, attributes: Mapping[Hashable, float]) -> None:
        self.nodes: list[Node] = list(graph)
        self.index = {node: number for number, node in enumerate(self.nodes)}
        self._directed, self._multigraph = bool(graph.is_directed()), bool(graph.is_multigraph())
        self._name = str(graph.name or "graph")
        degrees: list[int] = []
        targets: list[int] = []
        weights: dict[Hashable, list[Any]] = {name: [] for name in attributes}
        for neighbours, data in _rows(graph):
            degrees.append(len(neighbours))
            targets.extend(map(self.index.__getitem__, neighbours))
            for name, default in attributes.items():
                weights[name].extend([edge.get(name, default) for edge in data])
        self._sources = np.repeat(np.arange(len(degrees)), degrees)
        self._targets = np.array(targets, np.int64)
        self._weights = {name: _weights_of(values, name) for name, values in weights.items()}
        self._graphs: dict[Hashable, Graph] = {}

    def is_directed(self) -> bool:
        """Return whether the edges of the given graph had directions."""
        return self._directed

    def is_multigraph(self) -> bool:
        """Return whether the given graph could have parallel edges."""
        return self._multigraph

    def __len__(self) -> int:
        return len(self.nodes)

    def weighted_by(self, attribute: Hashable | None) -> Graph:
        """Return the graph with the weights of an attribute, without its edges of weight 0; None: without weights."""
        if attribute not in self._graphs:
            sources, targets, weights = self._sources, self._targets, None
            if attribute is not None and attribute not in self._weights:
                raise NotImplementedError(f"the graph was converted without edge attribute {attribute!r}")
            if attribute is not None:
                weights = self._weights[attribute]
                if not weights.all():
                    kept = weights != 0.0
                    sources, targets, weights = sources[kept], targets[kept], weights[kept]
                if (weights == 1.0).all():
                    weights = None
            self._graphs[attribute] = Graph.from_edges(
                sources, targets, weights, nodes=len(self.nodes), name=self._name
            )
        return self._graphs[attribute]

    def vector(self, weights: Mapping[Node, Any]) -> Floats:
        """Return weights by node as an array; nodes that are not named have 0."""
        return np.array([weights.get(node, 0) for node in self.nodes], dtype=np.float64)


def convert_from_nx(
    graph: Any,
    *,
    edge_attrs: Mapping[Hashable, float] | None = None,
    preserve_edge_attrs: bool | Mapping[str, Any] = False,
    **_: Any,
) -> ConvertedGraph:
    """Convert a graph of NetworkX, with the edge attributes that a function reads.

    Raises
    ------
    NotImplementedError
        If all attributes are to be kept, or a weight is negative or no finite number.
    """
    if preserve_edge_attrs:
        raise NotImplementedError("backend cpms takes weights by the name of an edge attribute alone")
    return ConvertedGraph(graph, edge_attrs or {})


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Return a result as it is: ranks by node are NetworkX's own form."""
    if isinstance(result, ConvertedGraph):
        raise NotImplementedError("a graph converted for backend cpms has edges alone; use the graph it was made of")
    return result


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return whether the backend computes this call, or why not."""
    if name != "pagerank":
        return False
    given = dict(zip(_ARGUMENTS, args, strict=False)) | kwargs
    alpha = given.get("alpha", 0.85)
    if not 0.0 < alpha < 1.0:
        return f"alpha is {alpha}; backend cpms needs it strictly between 0 and 1"
    for each in ("personalization", "nstart", "dangling"):
        if any(weight < 0 for weight in (given.get(each) or {}).values()):
            return f"{each} has weights below 0, which backend cpms does not take"
    return True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001
    """Return True: a user who prefers the backend gets certified ranks of graphs of any size."""
    return True


def pagerank(
    G: ConvertedGraph,
    alpha: float = 0.85,
    personalization: Mapping[Node, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Mapping[Node, float] | None = None,
    weight: Hashable | None = "weight",
    dangling: Mapping[Node, float] | None = None,
    **options: Any,
) -> CertifiedRanks:
    """Compute PageRank with the arguments and the meaning of `networkx.pagerank`, and certify it.

    Parameters
    ----------
    G : ConvertedGraph
    alpha : float
        Damping, strictly between 0 and 1.
    personalization, nstart, dangling : mapping of node to weight, optional
        Teleport, initial guess and target of dangling mass; nodes that are not named have 0, others are ignored.
    max_iter : int
    tol : float
        The L1 norm of the change is to fall below nodes times ``tol``, as in NetworkX.
    weight : edge attribute, optional
    **options
        ``method``, ``storage``, ``layout``, ``engine``, ``controller`` and ``on_step`` of `cpms.pagerank`.

    Returns
    -------
    CertifiedRanks
        A dictionary of node to rank whose ``result`` is the certified result.

    Raises
    ------
    networkx.PowerIterationFailedConvergence
        If the recomputed residual is not below the tolerance after ``max_iter`` iterations.
    ZeroDivisionError
        If all weights of a distribution are 0.
    """
    import networkx as nx

    if not G.nodes:
        return CertifiedRanks({})
    given = {"personalization": personalization, "start": nstart, "dangling": dangling}
    vectors = {name: G.vector(weights) for name, weights in given.items() if weights is not None}
    if not all(vector.any() for vector in vectors.values()):
        raise ZeroDivisionError("all weights of a distribution are 0; give one node at least a weight above 0")
    if max_iter < 1 or not tol > 0:
        raise nx.PowerIterationFailedConvergence(max_iter)
    result = certified_pagerank(
        G.weighted_by(weight),
        damping=alpha,
        tol=len(G) * tol,
        max_iterations=max_iter,
        **{**options, **vectors},
    )
    if not result.converged:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return CertifiedRanks(dict(zip(G.nodes, result.ranks.tolist(), strict=True)), result)


def _rows(graph: Any) -> Iterator[tuple[list[Node], list[Mapping[Any, Any]]]]:
    """Yield the targets of the edges of each node, and the attributes of these edges."""
    for _, neighbours in graph.adjacency():
        if graph.is_multigraph():
            yield (
                [node for node, keys in neighbours.items() for _ in keys],
                [data for keys in neighbours.values() for data in keys.values()],
            )
        else:
            yield list(neighbours), list(neighbours.values())


def _weights_of(values: list[Any], name: Hashable) -> npt.NDArray[np.float64]:
    try:
        weights = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NotImplementedError(f"edge attribute {name!r} holds what is no number ({error})") from None
    if not ((weights >= 0) & np.isfinite(weights)).all():
        raise NotImplementedError(f"edge attribute {name!r} has weights that are negative or not finite")
    return weights
