"""Uniform random directed graphs."""

from __future__ import annotations

import numpy as np

from cpms.errors import InputError
from cpms.generators._limits import check_size, power_of_two, random_numbers, spelled
from cpms.graph import Graph

_CHUNK = 1 << 24


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

    Give ``nodes`` and ``edges``, or ``scale`` and ``edge_factor`` for 2**scale nodes with that many
    edges each. ``simple=1`` drops repeated edges and self-loops, so that a few fewer remain.

    Raises
    ------
    InputError
        If the sizes are missing, out of range, or would not fit in memory.

    Examples
    --------
    >>> uniform(nodes=10, edges=30).edges
    30
    """
    if simple not in (0, 1):
        raise InputError(f"uniform: simple is {simple}; it is 0 or 1")
    count, drawn = _sizes(nodes, edges, scale, edge_factor)
    check_size("uniform", count, drawn)
    generator = random_numbers("uniform", seed)
    ends = np.empty((2, drawn), np.int32 if count < 2**31 else np.int64)
    for begin in range(0, drawn, _CHUNK):
        stop = min(begin + _CHUNK, drawn)
        ends[:, begin:stop] = generator.integers(0, count, (2, stop - begin), dtype=ends.dtype)
    return Graph.from_edges(
        ends[0],
        ends[1],
        nodes=count,
        duplicates="drop" if simple else "keep",
        self_loops="drop" if simple else "keep",
        name=spelled("uniform", {"nodes": count, "edges": drawn, "seed": seed}, simple=(simple, 0)),
    )


def _sizes(nodes: int | None, edges: int | None, scale: int | None, edge_factor: int) -> tuple[int, int]:
    if scale is not None and nodes is None and edges is None:
        count = power_of_two("uniform", scale)
        return count, edge_factor * count
    if scale is None and nodes is not None and edges is not None:
        return nodes, edges
    raise InputError("uniform: give nodes and edges, or scale and edge_factor")
