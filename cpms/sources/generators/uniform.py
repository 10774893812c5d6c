"""Uniform random directed graphs: both ends of each edge are drawn independently (Erdős and Rényi, 1959)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import check_size, power_of_two, random_numbers, spelled

_CHUNK = 1 << 24
"""Edges whose sources are drawn before their targets."""
_DRAWN = 1 << 20
"""Numbers drawn at a time."""


def uniform(
    *,
    nodes: int | None = None,
    edges: int | None = None,
    scale: int | None = None,
    edge_factor: int = 16,
    seed: int = 1,
    simple: int = 0,
) -> Graph:
    """Return a graph whose edges join two nodes drawn uniformly.

    Give ``nodes`` and ``edges``, or ``scale`` and ``edge_factor`` for 2**scale nodes with that many edges each.
    ``simple=1`` drops repeated edges and self-loops, so that a few fewer remain.

    Examples
    --------
    >>> uniform(nodes=10, edges=30).edges
    30
    """
    if simple not in (0, 1):
        raise InputError(f"uniform: simple is {simple}; it is 0 or 1")
    count, drawn = sizes(nodes, edges, scale, edge_factor)
    check_size("uniform", count, drawn)
    sources, targets = drawn_ends(random_numbers("uniform", seed), count, drawn)
    return Graph.from_edges(
        sources,
        targets,
        nodes=count,
        duplicates="drop" if simple else "keep",
        self_loops="drop" if simple else "keep",
        name=spelled("uniform", {"nodes": count, "edges": drawn, "seed": seed}, simple=(simple, 0)),
    )


def sizes(nodes: int | None, edges: int | None, scale: int | None, edge_factor: int) -> tuple[int, int]:
    """Return the numbers of nodes and edges that `uniform` is asked for.

    Raises
    ------
    InputError
        If they are given in no way or in two.

    Examples
    --------
    >>> sizes(None, None, 3, 2)
    (8, 16)
    """
    if scale is not None and nodes is None and edges is None:
        count = power_of_two("uniform", scale)
        return count, edge_factor * count
    if scale is None and nodes is not None and edges is not None:
        return nodes, edges
    raise InputError("uniform: give nodes and edges, or scale and edge_factor")


def drawn_ends(
    generator: np.random.Generator, nodes: int, edges: int, part: int = 0, parts: int = 1
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Draw the sources and targets of all edges, and return one part's share of them.

    Parts draw the same edges if their generators are in the same state; together, in order within each `_CHUNK`, their
    shares are all edges.

    Examples
    --------
    >>> shares = [drawn_ends(np.random.default_rng(1), 10, 7, part, 3)[0].tolist() for part in range(3)]
    >>> sum(shares, []) == drawn_ends(np.random.default_rng(1), 10, 7)[0].tolist()
    True
    """
    chunks = [min(_CHUNK, edges - begin) for begin in range(0, edges, _CHUNK)]
    kept = [range(count * part // parts, count * (part + 1) // parts) for count in chunks]
    ids = np.int32 if nodes < 2**31 else np.int64
    sources, targets = (np.empty(sum(map(len, kept)), ids) for _ in range(2))
    filled = 0
    with phase("drawing edges", 2 * edges) as drawing:
        for count, wanted in zip(chunks, kept, strict=True):
            for ends in (sources, targets):
                _draw(generator, nodes, count, wanted, ends[filled : filled + len(wanted)])
                drawing.advance(count)
            filled += len(wanted)
    return sources, targets


def _draw(generator: np.random.Generator, nodes: int, count: int, wanted: range, ends: npt.NDArray[Any]) -> None:
    """Draw ``count`` nodes and write those of the places ``wanted`` to ``ends``."""
    filled = 0
    for begin in range(0, count, _DRAWN):
        drawn = generator.integers(0, nodes, min(_DRAWN, count - begin), dtype=ends.dtype)
        here = drawn[max(0, wanted.start - begin) : max(0, wanted.stop - begin)]
        ends[filled : filled + len(here)] = here
        filled += len(here)
