"""The rows of one rank: a range of targets, with about the same number of edges on every rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats
from cpms.graph.edge_arrays import Ints
from cpms.graph.graph import Graph, read_only
from cpms.sparse.sliced import BLOCK_ROWS

Bounds = npt.NDArray[np.int64]
_ROW_COST = 4
"""The cost of a row beside its edges, in edges."""


@dataclass(frozen=True, eq=False, repr=False)
class GraphRows(Graph):
    """A graph of all nodes whose only edges are those into rows ``low`` to ``high``.

    Parameters
    ----------
    bounds : ndarray of int64, shape (ranks + 1,)
        Where the rows of each rank begin.
    rank : int
        Whose rows these are.
    leaving : ndarray of int64, shape (nodes,)
        Out-degree of each node in the whole graph.
    leaving_weight : ndarray of float64, shape (nodes,), optional
        Sum of the weights that leave it there, if there are weights.
    """

    bounds: Bounds = field(kw_only=True)
    rank: int = field(kw_only=True)
    leaving: npt.NDArray[np.int64] = field(kw_only=True)
    leaving_weight: Floats | None = field(default=None, kw_only=True)

    @property
    def low(self) -> int:
        """The first row."""
        return int(self.bounds[self.rank])

    @property
    def high(self) -> int:
        """The row after the last."""
        return int(self.bounds[self.rank + 1])

    @cached_property
    def out_degree(self) -> npt.NDArray[np.int64]:
        """Out-degrees in the whole graph."""
        return self.leaving

    @cached_property
    def out_weight(self) -> Floats:
        """Out-weights in the whole graph."""
        return read_only(self.leaving.astype(np.float64)) if self.leaving_weight is None else self.leaving_weight

    @cached_property
    def dangling_nodes(self) -> npt.NDArray[np.int64]:
        """No node: `cpms.backends.mpi.sweeps.operator` sums the dangling mass over ranks, not a rank's product."""
        return read_only(np.zeros(0, np.int64))


def of_graph(graph: Graph, rank: int, ranks: int) -> GraphRows:
    """Return the rows of one rank of a graph in memory.

    Examples
    --------
    >>> share = of_graph(Graph.from_edges([0, 1, 2], [1, 2, 0]), rank=0, ranks=2)
    >>> share.low, share.high, share.edges
    (0, 3, 3)
    """
    starts = graph.indptr[_block_starts(graph.nodes)]
    bounds = cut(np.diff(starts), graph.nodes, ranks)
    begin, end = graph.indptr[bounds[rank : rank + 2]]
    weights = graph.weights
    return GraphRows(
        np.clip(graph.indptr, begin, end) - begin,
        graph.sources[begin:end],
        None if weights is None else weights[begin:end],
        graph.name,
        graph.first_id,
        graph.names,
        stand_in_for=graph.stand_in_for,
        read=graph.read,
        bounds=bounds,
        rank=rank,
        leaving=graph.out_degree,
        leaving_weight=None if weights is None else graph.out_weight,
    )


def cut(block_edges: Ints, nodes: int, ranks: int) -> Bounds:
    """Return the first row of each rank, given the edges into each block of `BLOCK_ROWS` rows.

    Ranks begin at blocks, so that rows and sums over blocks are the same for any number of ranks; a rank may be left
    without rows.

    Examples
    --------
    >>> cut(np.array([9000, 100, 100, 9000]), 4096, 2).tolist()
    [0, 2048, 4096]
    """
    starts = _block_starts(nodes)
    cost = np.append(0, np.cumsum(block_edges)) + _ROW_COST * starts
    ideal = np.linspace(0, cost[-1], ranks + 1)[1:-1]
    after = np.searchsorted(cost, ideal)
    nearer = after - (ideal - cost[after - 1] < cost[after] - ideal)
    chosen: Bounds = starts[np.concatenate([[0], nearer, [len(starts) - 1]])]
    return chosen


def _block_starts(nodes: int) -> Bounds:
    return np.append(np.arange(0, nodes, BLOCK_ROWS, dtype=np.int64), nodes)
