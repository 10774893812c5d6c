"""Structure alone: 4 bytes an edge, since 1 / out-degree belongs to the node and not to the edge.

Vectors are stored as z = x / ``divisor``, which edges gather; x is ``z * divisor`` for every node.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.graph.graph import Graph


def divisor(graph: Graph) -> npt.NDArray[np.uint32]:
    """Return the out-degree of each node, or 1 for dangling nodes, from which nothing is gathered, shape (nodes,).

    Examples
    --------
    >>> divisor(Graph.from_edges([0, 0], [0, 1])).tolist()
    [2, 1]
    """
    return np.maximum(graph.out_degree, 1).astype(np.uint32)
