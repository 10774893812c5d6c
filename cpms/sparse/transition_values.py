"""Values of the transition matrix P of the random walk on a graph, one a stored edge, or one a node.

An entry is the edge's weight over the total weight of the edges of its source (Lovász, Random Walks on Graphs: A
Survey, 1993). It costs a division a node and a gather an edge.

Without weights, all entries of a column of P are 1 / out-degree. So P x is the sum of contributions z = x / ``divisor``
over the in-edges, as in the pull kernels of the GAP benchmark suite (Beamer, Asanović and Patterson, arXiv:1508.03619).
An edge costs the 4 bytes of its index, and vectors are stored as z; x is ``z * divisor`` for every node.
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


def divisor(graph: Graph) -> npt.NDArray[np.uint32]:
    """Return the out-degree of each node, or 1 for nodes without out-edges, shape (nodes,).

    Examples
    --------
    >>> divisor(Graph.from_edges([0, 0], [0, 1])).tolist()
    [2, 1]
    """
    return np.maximum(graph.out_degree, 1).astype(np.uint32)
