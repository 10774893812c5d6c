"""A rank's share of a uniform random graph: every rank draws all edges, the same ones, and keeps a range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cpms.errors import InputError
from cpms.generators import uniform
from cpms.generators._limits import random_numbers, spelled
from cpms.mpi.sharing import Share, given_numbers
from cpms.readers.memory import graph_bytes, require_memory

_KEYS = ("nodes", "edges", "scale", "edge_factor", "seed")
_DRAWN = 1 << 20
"""Numbers drawn at a time."""


def make(spec: str, rank: int, ranks: int) -> Share:
    """Return the edges that one rank keeps of the graph that ``spec`` is to `cpms.load`.

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
    nodes, edges = uniform._sizes(
        given.get("nodes"), given.get("edges"), given.get("scale"), given.get("edge_factor", 16)
    )
    if nodes < 1 or edges < 0:
        raise InputError(f"{spec} would have {nodes} nodes and {edges} edges; it needs at least one node")
    seed = given.get("seed", 1)
    generator = random_numbers("uniform", seed)
    require_memory(graph_bytes(nodes, -(-edges // ranks), weighted=False), f"a share of {spec}")
    ids = np.int32 if nodes < 2**31 else np.int64
    kept: tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]] = ([], [])
    for begin in range(0, edges, uniform._CHUNK):
        count = min(uniform._CHUNK, edges - begin)
        low, high = count * rank // ranks, count * (rank + 1) // ranks
        for end in kept:
            end += _drawn(generator, nodes, ids, count, low, high)
    sources, targets = (np.concatenate([np.zeros(0, ids), *end]) for end in kept)
    name = spelled("uniform", {"nodes": nodes, "edges": edges, "seed": seed})
    return Share(sources, targets, None, nodes, name)


def _drawn(
    generator: np.random.Generator, nodes: int, ids: type[np.signedinteger], count: int, low: int, high: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Draw ``count`` nodes and yield those from ``low`` to ``high``."""
    for begin in range(0, count, _DRAWN):
        drawn = generator.integers(0, nodes, min(_DRAWN, count - begin), dtype=ids)
        wanted = drawn[max(0, low - begin) : max(0, high - begin)]
        if len(wanted):
            yield wanted.copy()
