"""Delaunay triangulations of random points, as their lower triangle.

The library Qhull makes the triangulation, in O(n log n) time for n points.
"""

from __future__ import annotations

import numpy as np

from cpms.graph.graph import Graph
from cpms.sources.generators._hilbert import insertion_order
from cpms.sources.generators._limits import MOST_NODES, check_size, point_count, random_numbers

_QHULL_BYTES_A_POINT = 2000


def delaunay(*, scale: int | None = None, nodes: int | None = None, seed: int = 1) -> Graph:
    """Return the triangulation of uniform points in the unit square.

    Points are numbered in biased randomised insertion order along a Hilbert curve, as they come out of the collection's
    generator; the edge of two goes from the larger to the smaller number.

    Parameters
    ----------
    scale, nodes : int
        One of them: 2**scale points, or that many; at least 4.
    seed : int

    Notes
    -----
    Source: the delaunay_n* graphs of the 10th DIMACS implementation challenge.

    Examples
    --------
    >>> graph = delaunay(nodes=100)
    >>> 3 * 100 - 3 - 40 < graph.edges < 3 * 100 - 3
    True
    """
    from scipy.spatial import Delaunay

    count = point_count("delaunay", scale, nodes, 4)
    check_size("delaunay", count * (1 + _QHULL_BYTES_A_POINT / 40), 3 * count, most_nodes=MOST_NODES)
    points = random_numbers("delaunay", seed).random((2, count))
    points = points[:, insertion_order(points)]
    starts, neighbours = Delaunay(points.T).vertex_neighbor_vertices
    ends = np.repeat(np.arange(count, dtype=np.int32), np.diff(starts))
    lower = ends > neighbours
    sources, targets = ends[lower], neighbours[lower].astype(np.int32)
    return Graph.from_edges(sources, targets, nodes=count, name=f"delaunay:nodes={count},seed={seed}")
