"""A rank's part of a uniform random graph: every rank draws the same edges and stores a range of them."""

from __future__ import annotations

from cpms.backends.mpi.shares.redistribution import Share, given_numbers
from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.sources.generators._limits import random_numbers, spelled
from cpms.sources.generators.uniform import drawn_ends, sizes

_KEYS = ("nodes", "edges", "scale", "edge_factor", "seed")


def make(spec: str, rank: int, ranks: int) -> Share:
    """Return the edges of one rank of the graph that `cpms.load` makes of ``spec``.

    Raises
    ------
    InputError
        If the specification is wrong, or the share would not fit in memory.

    Examples
    --------
    >>> share = make("uniform:nodes=10,edges=30", 1, 3)
    >>> len(share.sources), share.nodes, share.name
    (10, 10, 'uniform:nodes=10,edges=30,seed=1')
    """
    advice = f"ranks make uniform graphs of KEY=NUMBER with the keys {', '.join(_KEYS)}, each once; others need --whole"
    given = given_numbers(spec, _KEYS, advice)
    nodes, edges = sizes(given.get("nodes"), given.get("edges"), given.get("scale"), given.get("edge_factor", 16))
    if nodes < 1 or edges < 0:
        raise InputError(f"{spec} would have {nodes} nodes and {edges} edges; give 1 or more, and 0 or more")
    seed = given.get("seed", 1)
    generator = random_numbers("uniform", seed)
    require_memory(graph_bytes(nodes, -(-edges // ranks), weighted=False), f"a share of {spec}")
    sources, targets = drawn_ends(generator, nodes, edges, rank, ranks)
    name = spelled("uniform", {"nodes": nodes, "edges": edges, "seed": seed})
    return Share(sources, targets, None, nodes, name)
