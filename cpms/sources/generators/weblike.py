"""Web-like graphs: links mostly to near pages, some to hubs, and pages without links."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_share, check_size, random_numbers, spelled

DANGLING, HUBS, REACH, SITE = 0.15, 0.2, 8.0, 200
"""Defaults of `weblike`."""
_CHUNK = 1 << 22

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def weblike(
    *,
    nodes: int,
    edges: int,
    seed: int = 1,
    dangling: float = DANGLING,
    hubs: float = HUBS,
    reach: float = REACH,
    site: int = SITE,
    top_hub: float = 0.0,
) -> Graph:
    """Return a graph with the locality, the hubs and the slow modes of a crawled web.

    Pages are numbered site by site. A link goes, with probability ``hubs``, to a page drawn with a power law over all
    pages (popular pages are the first of their sites), else to a near page of the same site or its neighbours, at a
    distance with heavy tails of width ``reach``. Out-degrees are log-normal. The many nearly closed sites make the
    power iteration converge as slowly as on real webs.

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
    activity = page_activity(generator, nodes, dangling)
    fan = int(top_hub * nodes)
    cumulated = np.cumsum(activity)
    drawn = edges - min(fan, edges)
    sources = np.empty(edges, np.int32)
    targets = np.empty(edges, np.int32)
    with phase("drawing links", drawn) as drawing:
        for begin in range(0, drawn, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, drawn))
            page, near, popular = candidate_links(generator, range(begin, part.stop), drawn, cumulated, reach, site)
            sources[part] = page
            targets[part] = np.where(generator.random(len(page)) < hubs, popular, near)
            drawing.advance(len(page))
    sources[drawn:] = np.sort(generator.choice(np.flatnonzero(activity), edges - drawn))
    targets[drawn:] = 0
    shares = {"dangling": (dangling, DANGLING), "hubs": (hubs, HUBS), "top_hub": (top_hub, 0.0)}
    always = {"nodes": nodes, "edges": edges, "seed": seed}
    name = spelled("weblike", always, **shares, reach=(reach, REACH), site=(site, SITE))
    return Graph.from_edges(sources, targets, nodes=nodes, name=name)


def page_activity(random: np.random.Generator, nodes: int, dangling: float) -> Floats:
    """Draw what out-degrees are proportional to, 0 for a share of the pages but never for the first; shape (nodes,)."""
    activity = random.lognormal(sigma=1.0, size=nodes)
    activity[random.random(nodes) < dangling] = 0.0
    activity[0] = 1.0
    return activity


def candidate_links(
    random: np.random.Generator, places: range, links: int, cumulated: Floats, reach: float, site: int
) -> tuple[Ints, Ints, Ints]:
    """Draw the pages of a range of all links and, for each link, a near page and a popular one that it may lead to.

    Parameters
    ----------
    places : range
        Which of the ``links`` links, in the order of their pages.
    cumulated : ndarray of float64, shape (nodes,)
        Sums of `page_activity`.
    """
    nodes, count = len(cumulated), len(places)
    site = min(site, nodes)
    at = (np.arange(places.start, places.stop) + random.random(count)) * (cumulated[-1] / links)
    page = np.minimum(np.searchsorted(cumulated, at, side="right"), nodes - 1)
    step = np.rint(np.clip(reach * random.standard_t(1.5, count), -nodes, nodes)).astype(np.int64)
    first = page // site * site
    within = first + (page - first + step) % np.minimum(site, nodes - first)
    near = np.where(random.random(count) < 0.9, within, (page + step) % nodes)
    place = np.exp(random.random(count) * np.log(nodes)).astype(np.int64) - 1
    popular = (place * 2654435761 % nodes) // site * site
    return page, near, popular
