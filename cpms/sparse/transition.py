"""The transition matrix of a graph: each node divides its weight among its out-neighbours.

The matrix is either stored as it is, or as weights and a divisor for each source, A and d with P = A diag(1/d). Weights
of one digit then stay numbers of one digit, which `cpms.sparse.lossless` stores in 8 bits.
"""

from __future__ import annotations

import numpy as np

from cpms.base.types import Floats
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
    return Matrix.from_scipy(edge_matrix(graph, edge_values(graph)).to_scipy())


def edge_matrix(graph: Graph, values: Floats | None) -> Matrix:
    """Return a matrix with one entry an edge, in stored order, repeated edges and all, on the graph's own arrays.

    Parameters
    ----------
    graph : Graph
    values : ndarray of float64, shape (edges,), or None
        None for a pattern.

    Examples
    --------
    >>> edge_matrix(Graph.from_edges([0, 0], [1, 1]), None).entries
    2
    """
    signed = graph.sources.view(np.dtype(f"i{graph.sources.itemsize}"))
    return Matrix(graph.nodes, graph.nodes, graph.indptr, signed, values)


def weights_and_divisor(graph: Graph) -> tuple[Matrix, Floats]:
    """Return A and d with P = A diag(1/d), d being 0 where a node has no out-edges.

    The weights of a node are scaled by a power of two, so that the largest is from 0.5 to below 1 whatever they were.
    A of a graph without weights is a pattern, and d its out-degrees.

    Examples
    --------
    >>> a, d = weights_and_divisor(Graph.from_edges([0, 0, 1], [0, 1, 0], [3e-300, 1e-300, 4.0]))
    >>> (a.values / d[a.indices]).tolist(), bool(0.5 <= a.values[0] < 1.0), float(d[1])
    ([0.75, 1.0, 0.25], True, 0.5)
    """
    if graph.weights is None:
        return edge_matrix(graph, None), graph.out_degree.astype(np.float64)
    largest = np.zeros(graph.nodes)
    np.maximum.at(largest, graph.sources, graph.weights)
    exponents = -np.frexp(largest)[1]
    scaled = np.ldexp(graph.weights, exponents[graph.sources])
    divisor: Floats = np.ldexp(graph.out_weight, exponents)
    return edge_matrix(graph, scaled), divisor
