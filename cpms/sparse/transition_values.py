"""Values of the transition matrix P of the random walk on a graph, one a stored edge.

An entry is the edge's weight over the total weight of the edges of its source (Lovász, Random Walks on
Graphs: A Survey, 1993). It costs a division a node and a gather an edge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.graph.graph import Graph


def edge_values(graph: Graph) -> npt.NDArray[np.float64]:
    """Return weight over the source's total weight for each edge, in stored order, shape (edges,).

    Examples
    --------
    >>> edge_values(Graph.from_edges([0, 0], [0, 1])).tolist()
    [0.5, 0.5]
    """
    with np.errstate(divide="ignore"):
        reciprocal = 1.0 / graph.out_weight
    values: npt.NDArray[np.float64] = reciprocal[graph.sources]
    if graph.weights is not None:
        values *= graph.weights
    return values
