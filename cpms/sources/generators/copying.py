"""The copying model of the web: pages that link nearby, or to popular pages, seldom anywhere.

A page links to its neighbours on a site and copies links of others, which leads to hubs whose in-degrees follow a
power law (Kleinberg, Kumar, Raghavan, Rajagopalan and Tomkins, 1999). Here both ends of a link are drawn directly,
without the growth of the model, so that all links are independent. Each thread advances the stream of random numbers to
its part of the links, so the graph depends on the seed alone. It costs one pass over the edges and the sort of
`Graph.from_edges`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base import threads
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size, random_numbers, spelled

_NEAR, _POPULAR = 0.65, 0.9
"""Bounds of the classes of links, cumulated: near pages, popular pages, any page."""
_WIDTH = 200.0
"""Scale of the Laplace distribution of distances to near pages."""
_LEAST_LINKS = 1 << 20
"""Links of a thread."""


def copying(*, nodes: int, degree: int = 10, seed: int = 1) -> Graph:
    """Return a graph of near links, links to the first pages by a power law, and links anywhere.

    Out-degrees are Poisson. Of the links, 65 % have Laplace distances of scale 200, 25 % lead to page floor(nodes u^4)
    with u uniform, and 10 % to any page. Repeated links and self-loops are kept.

    Parameters
    ----------
    nodes : int
    degree : int
        Mean number of links of a page.
    seed : int

    Examples
    --------
    >>> graph = copying(nodes=1000, degree=10)
    >>> graph.nodes, 9000 < graph.edges < 11000, int(graph.in_degree[0]) > 100
    (1000, True, True)
    """
    check_size("copying", min(nodes, degree), 0)
    check_size("copying", nodes, 1.2 * nodes * degree, most_nodes=MOST_NODES)
    drawing = random_numbers("copying", seed)
    sources = np.repeat(np.arange(nodes, dtype=np.int32), drawing.poisson(degree, nodes))
    links, targets = len(sources), np.empty(len(sources), np.int32)
    state: Any = drawing.bit_generator.state

    def draw(part: tuple[int, int]) -> None:
        begin, end = part
        classes, distances, places = (_stream(state, series * links + begin) for series in range(3))
        chosen = classes.random(end - begin)
        near = sources[begin:end] + np.rint(distances.laplace(0, _WIDTH, end - begin)).astype(np.int64)
        popular = (nodes * places.random(end - begin) ** 4).astype(np.int64)
        found = np.where(chosen < _NEAR, near, np.where(chosen < _POPULAR, popular, anywhere[begin:end]))
        targets[begin:end] = np.clip(found, 0, nodes - 1)

    with phase("drawing links anywhere"):
        anywhere = _stream(state, 3 * links).integers(0, nodes, links, dtype=np.int64).astype(np.int32)
    parts = threads.ranges(links, at_least=_LEAST_LINKS)
    with phase("drawing links", len(parts)) as drawn:
        threads.each(drawn.counting(draw), parts)
    name = spelled("copying", {"nodes": nodes, "degree": degree, "seed": seed})
    return Graph.from_edges(sources, targets, nodes=nodes, name=name)


def _stream(state: Any, drawn: int) -> np.random.Generator:
    """Return random numbers from a state of PCG64 on, after so many draws of 64 bits.

    Examples
    --------
    >>> whole = np.random.default_rng(1)
    >>> bool(_stream(whole.bit_generator.state, 2).random() == whole.random(3)[2])
    True
    """
    bits = np.random.PCG64()
    bits.state = state
    bits.advance(drawn)
    return np.random.Generator(bits)
