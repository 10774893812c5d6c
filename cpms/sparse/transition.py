"""The transition matrix of a graph: what a node passes on to its neighbours, as a matrix like any other."""

from __future__ import annotations

import numpy as np

from cpms.graph.graph import Graph
from cpms.sparse.matrix import Matrix
from cpms.sparse.transition_values import edge_values


def transition(graph: Graph) -> Matrix:
    """Return P, whose entry (j, i) is the share of node i's outgoing weight on the edge from i to j.

    Columns of nodes without out-edges are 0; all others sum to 1. Edges between the same nodes are added up.

    Examples
    --------
    >>> transition(Graph.from_edges([0, 0, 1], [0, 1, 1])).to_scipy().toarray().tolist()
    [[0.5, 0.0], [0.5, 1.0]]
    """
    import scipy.sparse

    signed = graph.sources.view(np.dtype(f"i{graph.sources.itemsize}"))
    shape = (graph.nodes, graph.nodes)
    return Matrix.from_scipy(scipy.sparse.csr_array((edge_values(graph), signed, graph.indptr), shape=shape))
