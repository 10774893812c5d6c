"""Web-like graphs: links mostly to near pages, some to hubs, and pages without links."""

from __future__ import annotations

import math

import numpy as np

from cpms.errors import InputError
from cpms.generators._limits import MOST_NODES, check_share, check_size, random_numbers, spelled
from cpms.graph import Graph

_CHUNK = 1 << 22


def weblike(
    *,
    nodes: int,
    edges: int,
    seed: int = 1,
    dangling: float = 0.15,
    hubs: float = 0.2,
    reach: float = 8.0,
    site: int = 200,
    top_hub: float = 0.0,
) -> Graph:
    """Return a graph with the locality, the hubs and the slow modes of a crawled web.

    Pages are numbered site by site. A link goes, with probability ``hubs``, to a page drawn with a
    power law over all pages (popular pages are the first of their sites), else to a near page of the
    same site or its neighbours, at a distance with heavy tails of width ``reach``. Out-degrees are
    log-normal. The many nearly closed sites make the power iteration converge as slowly as on real
    webs.

    Parameters
    ----------
    nodes, edges : int
        Pages and links; repeated links are kept.
    seed : int
    dangling : float
        Share of pages without links.
    hubs : float
        Share of links that go to popular pages.
    reach : float
        Typical distance of a near link, in pages.
    site : int
        Pages of a site.
    top_hub : float
        Share of the pages that link to page 0 besides.

    Raises
    ------
    InputError
        If a number is out of range or the graph would not fit in memory.

    Examples
    --------
    >>> graph = weblike(nodes=1000, edges=5000)
    >>> graph.nodes, graph.edges, len(graph.dangling_nodes) > 100
    (1000, 5000, True)
    """
    check_share("weblike", dangling=dangling, hubs=hubs, top_hub=top_hub)
    check_size("weblike", min(nodes, site), edges)
    check_size("weblike", nodes, edges * 1.5, most_nodes=MOST_NODES)
    if not 0.0 < reach < math.inf:
        raise InputError(f"weblike: reach is {reach}; it must be a positive number of pages")
    generator = random_numbers("weblike", seed)
    activity = generator.lognormal(sigma=1.0, size=nodes)
    activity[generator.random(nodes) < dangling] = 0.0
    activity[0] = 1.0
    fan = int(top_hub * nodes)
    cumulated = np.cumsum(activity)
    drawn = edges - min(fan, edges)
    sources = np.empty(edges, np.int32)
    targets = np.empty(edges, np.int32)
    for begin in range(0, drawn, _CHUNK):
        part = slice(begin, min(begin + _CHUNK, drawn))
        count = part.stop - begin
        at = (np.arange(begin, part.stop) + generator.random(count)) * (cumulated[-1] / drawn)
        page = np.minimum(np.searchsorted(cumulated, at, side="right"), nodes - 1)
        step = np.rint(np.clip(reach * generator.standard_t(1.5, count), -nodes, nodes)).astype(np.int64)
        near = np.where(generator.random(count) < 0.9, _within_site(page, step, site, nodes), (page + step) % nodes)
        place = np.exp(generator.random(count) * np.log(nodes)).astype(np.int64) - 1
        popular = (place * 2654435761 % nodes) // site * site
        sources[part] = page
        targets[part] = np.where(generator.random(count) < hubs, popular, near)
    sources[drawn:] = np.sort(generator.choice(np.flatnonzero(activity), edges - drawn))
    targets[drawn:] = 0
    shares = {"dangling": (dangling, 0.15), "hubs": (hubs, 0.2), "top_hub": (top_hub, 0.0)}
    always = {"nodes": nodes, "edges": edges, "seed": seed}
    name = spelled("weblike", always, **shares, reach=(reach, 8.0), site=(site, 200))
    return Graph.from_edges(sources, targets, nodes=nodes, name=name)


def _within_site(
    page: np.ndarray[tuple[int], np.dtype[np.int64]],
    step: np.ndarray[tuple[int], np.dtype[np.int64]],
    site: int,
    nodes: int,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    first = page // site * site
    size = np.minimum(site, nodes - first)
    return first + (page - first + step) % size
