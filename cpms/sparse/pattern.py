"""The pattern of P without values, for graphs without weights.

All entries of a column of P are 1 / out-degree, so P x is the sum of contributions z = x / ``divisor`` over the
in-edges, as in the pull kernels of the GAP benchmark suite (Beamer, Asanović and Patterson, arXiv:1508.03619). An edge
costs the 4 bytes of its index, and vectors are stored as z; x is ``z * divisor`` for every node.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.graph.graph import Graph


def divisor(graph: Graph) -> npt.NDArray[np.uint32]:
    """Return the out-degree of each node, or 1 for nodes without out-edges, shape (nodes,).

    Examples
    --------
    >>> divisor(Graph.from_edges([0, 0], [0, 1])).tolist()
    [2, 1]
    """
    return np.maximum(graph.out_degree, 1).astype(np.uint32)
