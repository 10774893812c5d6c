"""Values of the matrix P: what an edge carries from its source."""

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
        share = 1.0 / graph.out_weight
    values: npt.NDArray[np.float64] = share[graph.sources]
    if graph.weights is not None:
        values *= graph.weights
    return values
