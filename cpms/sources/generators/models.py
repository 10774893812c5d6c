"""Random graph models of network science, by name: families apart from webs, meshes and R-MAT.

Each is drawn by its textbook construction with array operations alone, so that millions of edges take seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size, random_numbers, spelled

Ends = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

_REWIRED, _WITHIN, _COMMUNITY, _RECENT, _ITEMS = 0.1, 0.9, 1000, 0.01, 0.1
"""Share of rewired edges; share of edges within communities, and their nodes; mean age of cited nodes as a share of all
nodes; share of the nodes that are items."""


def models(*, family: str, nodes: int, degree: int = 10, seed: int = 1) -> Graph:
    """Return a random graph of a family, with ``degree`` edges drawn a node.

    Parameters
    ----------
    family : str
        ``small-world`` (Watts and Strogatz, 1998): a ring whose nodes point to the next ones, one edge in ten rewired.
        ``preferential`` (Barabasi and Albert, 1999): new nodes point to earlier ones in proportion to their degrees.
        ``communities`` (stochastic block model; Holland, Laskey and Leinhardt, 1983): nine in ten edges stay in a
        community of 1000 nodes, whose places are spread over the graph.
        ``citations``: an acyclic graph whose nodes point to earlier ones, of exponentially distributed age.
        ``bipartite``: users point to items by a power law, and items back to users drawn uniformly.
    nodes, degree, seed : int

    Examples
    --------
    >>> models(family="small-world", nodes=100, degree=4).edges
    400
    """
    if family not in FAMILIES:
        raise InputError(unknown("family", family, FAMILIES))
    check_size("models", min(nodes - 1, degree), 0)
    check_size("models", nodes, 3.0 * nodes * degree, most_nodes=MOST_NODES)
    sources, targets = FAMILIES[family](random_numbers("models", seed), nodes, degree)
    name = spelled("models", {"family": family, "nodes": nodes, "degree": degree, "seed": seed})
    return Graph.from_edges(sources, targets, nodes=nodes, name=name)


def _sources(nodes: int, degree: int) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(nodes), degree)


def _small_world(random: np.random.Generator, nodes: int, degree: int) -> Ends:
    sources = _sources(nodes, degree)
    near = (sources + np.tile(np.arange(1, degree + 1), nodes)) % nodes
    rewired = random.random(len(sources)) < _REWIRED
    return sources, np.where(rewired, random.integers(0, nodes, len(sources)), near)


def _preferential(random: np.random.Generator, nodes: int, degree: int) -> Ends:
    """Draw a place among all ends of earlier edges (Batagelj and Brandes, 2005), and follow places to a source.

    End 2 e is the source of edge e, and end 2 e + 1 its target; the target of edge 0 is node 0.
    """
    sources = _sources(nodes, degree)
    ends = 2 * np.arange(len(sources))
    place = (random.random(len(sources)) * ends).astype(np.int64)
    while (follows := place % 2 == 1).any():
        place[follows] = place[place[follows] // 2]
    return sources, sources[place // 2]


def _communities(random: np.random.Generator, nodes: int, degree: int) -> Ends:
    sources = _sources(nodes, degree)
    count = max(1, nodes // _COMMUNITY)
    members = random.integers(0, nodes // count, len(sources)) * count + sources % count
    anywhere = random.integers(0, nodes, len(sources))
    return sources, np.where(random.random(len(sources)) < _WITHIN, members, anywhere)


def _citations(random: np.random.Generator, nodes: int, degree: int) -> Ends:
    sources = _sources(nodes, degree)
    age = 1 + random.exponential(_RECENT * nodes, len(sources)).astype(np.int64)
    cites = age <= sources
    return sources[cites], (sources - age)[cites]


def _bipartite(random: np.random.Generator, nodes: int, degree: int) -> Ends:
    items = max(1, int(_ITEMS * nodes))
    users = nodes - items
    user = _sources(users, degree) + items
    item = (items * random.random(len(user)) ** 3).astype(np.int64)
    reader = items + random.integers(0, users, items * degree)
    return np.concatenate([user, _sources(items, degree)]), np.concatenate([item, reader])


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], Ends]] = {
    "small-world": _small_world,
    "preferential": _preferential,
    "communities": _communities,
    "citations": _citations,
    "bipartite": _bipartite,
}
"""The models by name."""
