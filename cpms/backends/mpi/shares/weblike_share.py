"""A web-like graph in parts that ranks generate independently; each rank adds the same number of pages and links."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.shares.redistribution import Share, given_numbers
from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.sources.generators._limits import spelled
from cpms.sources.generators.weblike import DANGLING, HUBS, REACH, SITE, candidate_links, page_activity

NAME = "weblike-parts"
_KEYS = ("parts", "nodes", "edges", "seed")
_CHUNK = 1 << 20
_ACROSS = 0.25
"""Share of the links to popular pages that lead to any part rather than to the page's own: 5 % of all links."""


def make(spec: str, rank: int, ranks: int) -> Share:
    """Return the out-edges of the parts of one rank.

    A part is a web as `cpms.sources.generators.weblike` describes it, with the same defaults, of ``nodes`` pages and
    ``edges`` links. Of its links to popular pages a quarter lead to popular pages of a part drawn uniformly. Each part
    is drawn from the seed and its own number, by threads in chunks. So a graph is the same for any number of ranks, and
    a graph of more parts has the same links within each of the first.

    Raises
    ------
    InputError
        If the specification is wrong, or the share would not fit in memory.

    Examples
    --------
    >>> share = make("weblike-parts:parts=3,nodes=1000,edges=5000,seed=1", 1, 3)
    >>> share.nodes, len(share.sources), int(share.sources.min()) >= 1000, bool((share.targets < 1000).any())
    (3000, 5000, True, True)
    """
    given = _arguments(spec)
    parts, nodes, edges, seed = (given[key] for key in _KEYS)
    if min(parts, nodes) < 1 or parts * nodes >= 2**31:
        raise InputError(f"{spec} would have {parts} parts of {nodes} nodes; it has 1 to 2^31 - 1 nodes in all")
    own = range(parts * rank // ranks, parts * (rank + 1) // ranks)
    require_memory(graph_bytes(parts * nodes, len(own) * edges, weighted=False), f"a share of {spec}")
    sources, targets = (np.empty(len(own) * edges, np.int32) for _ in range(2))
    for place, part in enumerate(own):
        span = slice(place * edges, (place + 1) * edges)
        _fill(sources[span], targets[span], part, parts, nodes, seed)
    return Share(sources, targets, None, parts * nodes, spelled(NAME, given))


def _fill(
    sources: npt.NDArray[np.int32], targets: npt.NDArray[np.int32], part: int, parts: int, nodes: int, seed: int
) -> None:
    edges = len(sources)
    generator = np.random.default_rng([seed, part])
    cumulated = np.cumsum(page_activity(generator, nodes, DANGLING))

    def fill_chunk(begin: int) -> None:
        span = slice(begin, min(begin + _CHUNK, edges))
        random = np.random.default_rng([seed, part, begin])
        page, near, popular = candidate_links(random, range(begin, span.stop), edges, cumulated, REACH, SITE)
        count = len(page)
        # The random numbers of a part do not depend on the number of parts.
        leaves, other = random.random(count) < _ACROSS, (random.random(count) * parts).astype(np.int64)
        is_hub = random.random(count) < HUBS
        target = np.where(is_hub, popular, near) + nodes * np.where(is_hub & leaves, other, part)
        sources[span] = page + part * nodes
        targets[span] = target

    threads.each(fill_chunk, range(0, edges, _CHUNK))


def _arguments(spec: str) -> dict[str, int]:
    form = f"it is {NAME}:parts=P,nodes=N,edges=M,seed=S"
    given = {"seed": 1} | given_numbers(spec, _KEYS, form)
    if len(given) < len(_KEYS):
        raise InputError(f"{spec}: {form}, with N pages and M links in each part")
    return {key: given[key] for key in _KEYS}
