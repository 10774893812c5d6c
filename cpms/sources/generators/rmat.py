"""R-MAT: recursive quadrant choices give a skewed degree distribution."""

from __future__ import annotations

import math

import numpy as np

from cpms.base.errors import InputError
from cpms.base.jit import compiled
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import check_share, check_size, random_numbers, spelled

_CHUNK = 1 << 22
_FEWEST_COMPILED = 1 << 20
"""Edges from which a compiled loop repays what it takes to compile."""


def rmat(
    *,
    scale: int,
    edge_factor: int = 16,
    seed: int = 1,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    permute: int = 1,
) -> Graph:
    """Return an R-MAT graph of 2**scale nodes and edge_factor * 2**scale edges, repeats kept.

    Each edge chooses a quadrant of the adjacency matrix ``scale`` times, with probabilities a, b, c and 1 - a - b - c;
    ``permute=0`` leaves the nodes in the order that this gives, where small numbers have high degrees.

    Source: Chakrabarti, Zhan, Faloutsos, "R-MAT: A recursive model for graph mining", 2004, with the
    probabilities of the Graph500 benchmark.

    Examples
    --------
    >>> graph = rmat(scale=6, edge_factor=4)
    >>> graph.nodes, graph.edges
    (64, 256)
    """
    if not 1 <= scale <= 31 or edge_factor < 1 or permute not in (0, 1):
        raise InputError(f"rmat: scale {scale}, edge_factor {edge_factor} and permute {permute} are out of range; "
                         "give 1 to 31, 1 or more, and 0 or 1")  # fmt: skip
    check_share("rmat", **{"a": a, "b": b, "c": c, "1 - a - b - c": math.fsum((1.0, -a, -b, -c))})
    nodes, edges = 2**scale, edge_factor * 2**scale
    check_size(f"rmat of scale {scale}", nodes, edges)
    generator = random_numbers("rmat", seed)
    sources, targets = np.zeros(edges, np.int32), np.zeros(edges, np.int32)
    descend = _descend if edges >= _FEWEST_COMPILED else _descend_few
    with phase("drawing edges", edges * scale) as drawing:
        for begin in range(0, edges, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, edges))
            for _ in range(scale):
                descend(generator.random(part.stop - begin, dtype=np.float32), a, b, c, sources[part], targets[part])
                drawing.advance(part.stop - begin)
    if permute:
        with phase("permuting nodes"):
            label = generator.permutation(nodes).astype(np.int32)
            sources, targets = label[sources], label[targets]
    always = {"scale": scale, "edge_factor": edge_factor, "seed": seed}
    name = spelled("rmat", always, a=(a, 0.57), b=(b, 0.19), c=(c, 0.19), permute=(permute, 1))
    return Graph.from_edges(sources, targets, nodes=nodes, name=name)


@compiled()
def _descend(draws, a, b, c, sources, targets):  # type: ignore[no-untyped-def]
    for k in range(len(draws)):
        draw = draws[k]
        down = draw >= a + b
        right = (a <= draw < a + b) or draw >= a + b + c
        sources[k] = 2 * sources[k] + down
        targets[k] = 2 * targets[k] + right


def _descend_few(draws, a, b, c, sources, targets):  # type: ignore[no-untyped-def]
    """Do the same without compilation; the loop compares in float64, too."""
    draws = draws.astype(np.float64)
    down = draws >= a + b
    right = ((a <= draws) & ~down) | (draws >= a + b + c)
    sources *= 2
    sources += down
    targets *= 2
    targets += right
