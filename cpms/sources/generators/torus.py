"""Cubic lattices that close on themselves, with edges of random direction.

All nodes are alike but for the directions, so ranks are nearly uniform and nothing can be trimmed: bandwidth and the
latency of sweeps decide. It costs one pass over the edges and the sort of `Graph.from_edges`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size, random_numbers, spelled

_BOTH = 0.3
"""Share of the pairs of neighbours with an edge in either direction."""
_MOST_DIMENSIONS = 8


def torus(*, side: int, dimensions: int = 3, seed: int = 1) -> Graph:
    """Return a periodic lattice of side**dimensions nodes; each pair of neighbours has an edge of random direction.

    Three in ten pairs have an edge in either direction. The first coordinate varies fastest.

    Parameters
    ----------
    side : int
        Nodes along each dimension, 3 or more.
    dimensions : int
        1 to 8.
    seed : int

    Examples
    --------
    >>> graph = torus(side=10)
    >>> graph.nodes, 3600 < graph.edges < 4200, len(graph.dangling_nodes) < 100
    (1000, True, True)
    """
    if side < 3:
        raise InputError(f"torus: side is {side}; it must be 3 or more, for two neighbours along each dimension")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise InputError(f"torus: dimensions is {dimensions}; it must lie between 1 and {_MOST_DIMENSIONS}")
    nodes = side**dimensions
    check_size("torus", nodes, 1.4 * nodes * dimensions, most_nodes=MOST_NODES)
    drawing = random_numbers("torus", seed)
    here = np.arange(nodes, dtype=np.int32).reshape((side,) * dimensions)
    sources: list[npt.NDArray[np.int32]] = []
    targets: list[npt.NDArray[np.int32]] = []
    with phase("drawing edges", dimensions) as directions:
        for axis in reversed(range(dimensions)):
            one, other = here.ravel(), np.roll(here, -1, axis).ravel()
            forward, both = drawing.random(nodes) < 0.5, drawing.random(nodes) < _BOTH
            first, second = np.where(forward, one, other), np.where(forward, other, one)
            sources += [first, second[both]]
            targets += [second, first[both]]
            directions.advance()
    name = spelled("torus", {"side": side, "seed": seed}, dimensions=(dimensions, 3))
    return Graph.from_edges(np.concatenate(sources), np.concatenate(targets), nodes=nodes, name=name)
