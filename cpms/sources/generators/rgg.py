"""Random geometric graphs as the DIMACS10 collection defines them, as their lower triangle.

Points lie in cells no narrower than the radius, so that each is compared with those of nine cells alone: the time is
proportional to points and edges.
"""

from __future__ import annotations

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.jit import compiled
from cpms.base.text.phases import phase
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size, point_count, random_numbers, spelled

DIMACS10_FACTOR = 0.55


def rgg(*, scale: int | None = None, nodes: int | None = None, radius: float | None = None, seed: int = 1) -> Graph:
    """Return uniform points in the unit square, joined where they are nearer than ``radius``.

    Points are numbered by their x coordinate; the edge of two goes from the larger to the smaller number, which is the
    strictly lower triangle of the symmetric matrix.

    Parameters
    ----------
    scale, nodes : int
        One of them: 2**scale points, or that many.
    radius : float, optional
        0.55 sqrt(ln n / n) by default: the collection's choice, whose note leaves out the root.
    seed : int

    Notes
    -----
    Source: the rgg_n_2_* graphs of the 10th DIMACS implementation challenge.

    Examples
    --------
    >>> graph = rgg(scale=6)
    >>> graph.nodes, bool((graph.sources > graph.targets).all())
    (64, True)
    """
    count = point_count("rgg", scale, nodes, 2)
    if radius is not None and not 0 < radius <= 1:
        raise InputError(f"rgg: radius is {radius}; it must be above 0 and at most 1")
    reach = DIMACS10_FACTOR * np.sqrt(np.log(count) / count) if radius is None else radius
    check_size("rgg", count, count**2 * np.pi * reach**2 / 2, most_nodes=MOST_NODES)
    generator = random_numbers("rgg", seed)
    points = generator.random((2, count))
    points = points[:, np.argsort(points[0], kind="stable")]
    side = max(1, int(min(1 / max(reach, 1e-9), np.sqrt(count))))
    cell = (points * side).astype(np.int32)
    cell_of = cell[0].astype(np.int64) * side + cell[1]
    by_cell = np.argsort(cell_of, kind="stable").astype(np.int32)
    starts = np.searchsorted(cell_of[by_cell], np.arange(side * side + 1)).astype(np.int64)
    indptr = np.zeros(count + 1, np.int64)
    parts = threads.ranges(count, at_least=1 << 14, parts=256)
    given = points, cell, side, starts, by_cell, reach
    with phase("joining points", 2 * len(parts)) as joining:
        none = np.empty(0, np.int32)
        threads.each(joining.counting(lambda part: _neighbours(*given, indptr, none, *part)), parts)
        np.cumsum(indptr, out=indptr)
        sources = np.empty(indptr[-1], np.int32)
        threads.each(joining.counting(lambda part: _neighbours(*given, indptr, sources, *part)), parts)
    return Graph(indptr, sources, None, spelled("rgg", {"nodes": count, "seed": seed}, radius=(radius, None)))


@compiled()
def _neighbours(points, cell, side, starts, by_cell, reach, indptr, sources, low, high):  # type: ignore[no-untyped-def]
    """Write the neighbours of some points from their starts on; into no sources, write their numbers behind these."""
    x, y, counts = points[0], points[1], len(sources) == 0
    for j in range(low, high):
        begin = 0 if counts else indptr[j]
        at = begin
        for cx in range(max(cell[0, j] - 1, 0), min(cell[0, j] + 2, side)):
            for cy in range(max(cell[1, j] - 1, 0), min(cell[1, j] + 2, side)):
                for k in range(starts[cx * side + cy], starts[cx * side + cy + 1]):
                    i = by_cell[k]
                    if i > j and (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 < reach * reach:
                        if not counts:
                            sources[at] = i
                        at += 1
        if counts:
            indptr[j + 1] = at
        else:
            sources[begin:at].sort()
