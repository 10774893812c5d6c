"""Jagged diagonals within blocks of rows: the pattern of P for a processor.

Jagged diagonal storage (Saad, SIAM J. Sci. Stat. Comput. 10, 1989) sorts rows by length, longest first, and stores the
first entries of all rows, then the second entries of all rows that have two, and so on. Here it is applied within
blocks of rows, whose nodes are renumbered in that order. The sums of many rows are independent, and loops are long
enough for branch prediction, without padding. Once fewer than `FEWEST_ROWS` rows of a block have further entries, the
rest of each row is stored contiguously. The entries of a row keep their order. Building it takes one sort a block and
one pass over the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.compilation import first_call
from cpms.base.jit import compiled
from cpms.graph.graph import Graph
from cpms.sparse.csr import unsigned_sources
from cpms.sparse.row_sorting import interleaved, order_in_blocks

BLOCK_ROWS = 2048
"""Rows of a block; their sums fit a core's first-level cache."""
FEWEST_ROWS = 8
"""Rows of the shortest diagonal."""


@dataclass(frozen=True, eq=False)
class Jagged:
    """The pattern of P with nodes renumbered within blocks.

    ``nodes[i]`` is the node of the graph with the new number ``i``, ``lengths[i]`` its in-degree, and the entries of a
    block begin at ``starts[block]``. ``sources`` holds new numbers.
    """

    nodes: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.uint64]
    sources: npt.NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.nodes.nbytes + self.lengths.nbytes + self.starts.nbytes + self.sources.nbytes


def build(graph: Graph) -> Jagged:
    """Return the pattern of P.

    Examples
    --------
    >>> matrix = build(Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> matrix.nodes.tolist(), matrix.lengths.tolist(), matrix.sources.tolist()
    ([2, 1, 0], [2, 1, 0], [2, 1, 2])
    """
    sources = unsigned_sources(graph)
    rows, numbers, reordered = graph.nodes, np.arange(graph.nodes), np.empty_like(sources)
    longest_first = order_in_blocks(graph.in_degree.max() - graph.in_degree, BLOCK_ROWS)
    nodes = numbers - numbers % BLOCK_ROWS + longest_first
    new_numbers = np.empty(rows, sources.dtype)
    new_numbers[nodes] = numbers

    def reorder(blocks: tuple[int, int]) -> None:
        low, high = blocks[0] * BLOCK_ROWS, min(blocks[1] * BLOCK_ROWS, rows)
        _reorder(graph.indptr, nodes, new_numbers, sources, reordered, low, high)

    lengths = graph.in_degree[nodes].astype(np.uint32)
    if first_call.spares_loops():
        reordered = new_numbers[sources[_order_of_entries(graph, nodes, lengths)]]
    else:
        threads.each(reorder, threads.ranges(-(-rows // BLOCK_ROWS), at_least=8, parts=64))
    starts = np.append(graph.indptr[: graph.nodes : BLOCK_ROWS], graph.edges).astype(np.uint64)
    return Jagged(nodes, lengths, starts, reordered)


def _order_of_entries(
    graph: Graph, nodes: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint32]
) -> npt.NDArray[np.int64]:
    """Return the order of the entries that `_reorder` gives them."""
    cuts = np.zeros(-(-graph.nodes // BLOCK_ROWS), np.int64)
    last = lengths[FEWEST_ROWS - 1 :: BLOCK_ROWS]
    cuts[: len(last)] = last
    return interleaved(graph, nodes, cuts, BLOCK_ROWS)


@compiled(_nrt=False)
def _reorder(indptr, nodes, new_numbers, sources, reordered, low, high):  # type: ignore[no-untyped-def]
    for begin in range(low, high, BLOCK_ROWS):
        at = indptr[begin]
        rows = min(BLOCK_ROWS, high - begin)
        column = 0
        while True:
            while rows > 0 and indptr[nodes[begin + rows - 1] + 1] - indptr[nodes[begin + rows - 1]] <= column:
                rows -= 1
            if rows < FEWEST_ROWS:
                break
            for i in range(rows):
                reordered[at] = new_numbers[sources[indptr[nodes[begin + i]] + column]]
                at += 1
            column += 1
        for i in range(rows):
            node = nodes[begin + i]
            for k in range(indptr[node] + column, indptr[node + 1]):
                reordered[at] = new_numbers[sources[k]]
                at += 1
