"""Any graph with its nodes in another order: what locality of neighbours is worth."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError, UnavailableError
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import check_size, nested, random_numbers

Order = npt.NDArray[np.int64]
_ORDERS = ("chance", "bandwidth", "communities")
_RESOLUTIONS = (1e-3, 1e-2)
"""Densities of edges that coarse communities, and fine ones within these, have at least."""
_LEIDEN_PASSES = 2


def reordered(*, of: str, by: str, seed: int = 1) -> Graph:
    """Return a graph whose nodes lie in another order, under their old names.

    ``by="chance"`` shuffles them. ``by="bandwidth"`` is SciPy's reverse Cuthill-McKee order. ``by="communities"``
    puts the members of communities that igraph's Leiden algorithm finds side by side, fine ones within coarse ones.

    Parameters
    ----------
    of : str
        A data set, a file or a specification in parentheses; symmetric files as their lower triangle.
    by : {"chance", "bandwidth", "communities"}
    seed : int
        Of what is drawn.

    Raises
    ------
    UnavailableError
        If igraph is needed and not installed.

    Examples
    --------
    >>> path = reordered(of="grid:rows=1,columns=4", by="chance")
    >>> path.edges, sorted(path.node_id(place) for place in range(4))
    (3, [0, 1, 2, 3])
    """
    from cpms.sources.loading import load

    if by not in _ORDERS:
        raise InputError(f"reordered: by is {by!r}; it can be one of {', '.join(_ORDERS)}")
    graph = load(of)
    name = f"reordered:of={nested(of)},by={by}" + (f",seed={seed}" if seed != 1 else "")
    check_size(name, graph.nodes, graph.edges)
    drawn = random_numbers("reordered", seed)
    order = drawn.permutation(graph.nodes) if by == "chance" else _bandwidth(graph)
    if by == "communities":
        order = _communities(graph, order, seed)
    place = np.empty_like(order)
    place[order] = np.arange(graph.nodes)
    made = Graph.from_edges(
        place[graph.sources],
        place[graph.targets],
        graph.weights,
        nodes=graph.nodes,
        name=name,
        names=order + graph.first_id if graph.names is None else graph.names[order],
        stand_in_for=graph.stand_in_for,
    )
    return replace(made, lower_triangle=graph.lower_triangle)


def _bandwidth(graph: Graph) -> Order:
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    matrix = graph.to_scipy()
    found: Order = reverse_cuthill_mckee((matrix + matrix.T).tocsr(), symmetric_mode=True).astype(np.int64)
    return found


def _communities(graph: Graph, order: Order, seed: int) -> Order:
    """Return an order by communities; they, and the nodes within the finest, stay in the order of their first."""
    try:
        igraph: Any = import_module("igraph")
    except ImportError:
        raise UnavailableError(
            "reordered: communities are found by igraph, which is not installed; pip install igraph"
        ) from None
    rank = np.empty_like(order)
    rank[order] = np.arange(graph.nodes)
    igraph.set_random_number_generator(random.Random(seed))  # noqa: S311
    try:
        undirected = igraph.Graph(n=graph.nodes, edges=np.column_stack([graph.sources, graph.targets]))
        undirected.simplify()
        keys = [rank]
        for resolution in reversed(_RESOLUTIONS):
            found = undirected.community_leiden("CPM", resolution=resolution, n_iterations=_LEIDEN_PASSES)
            member = np.array(found.membership)
            first = np.full(len(found), graph.nodes)
            np.minimum.at(first, member, rank)
            keys.append(first[member])
    finally:
        igraph.set_random_number_generator(random)
    return np.lexsort(keys)
