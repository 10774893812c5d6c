"""Rectangular grids, as their lower triangle."""

from __future__ import annotations

import numpy as np

from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size


def grid(*, rows: int, columns: int) -> Graph:
    """Return a grid in which each node points to its left and its upper neighbour.

    Nodes go row by row, so this is the strictly lower triangle of the symmetric grid.

    Examples
    --------
    >>> grid(rows=2, columns=2).targets.tolist()
    [0, 0, 1, 2]
    """
    check_size("grid", min(rows, columns), 0)
    check_size("grid", rows * columns, 2 * rows * columns, most_nodes=MOST_NODES)
    place = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    sources = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    targets = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    return Graph.from_edges(sources, targets, nodes=rows * columns, name=f"grid:rows={rows},columns={columns}")
