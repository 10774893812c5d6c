"""The pattern of P for a processor, as jagged diagonals within blocks of rows.

Within a block, rows go by length, longest first, and nodes are renumbered so. Then come the first entries of
all rows, the second ones of all rows that have two, and so on (Saad, SIAM J. Sci. Stat. Comput. 10,
1989): sums of many rows are in flight, in loops long enough to be predicted, without padding. Where
fewer than `FEWEST_ROWS` rows go on, each of them follows whole. A row's entries keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.graph.graph import Graph
from cpms.sparse.csr import unsigned_sources
from cpms.sparse.row_sorting import order_in_blocks

BLOCK_ROWS = 2048
"""Rows sorted together; their sums stay in a core's first cache."""
FEWEST_ROWS = 8
"""Rows that a diagonal has at least."""


@dataclass(frozen=True, eq=False)
class Jagged:
    """The 0/1 structure of P, its nodes renumbered within blocks.

    ``nodes[i]`` is the graph's number of the node that is ``i`` here, ``lengths[i]`` its in-degree, and a
    block's entries begin at ``starts[block]``. ``sources`` are numbers here.
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
    """Return the structure of P.

    Examples
    --------
    >>> matrix = build(Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> matrix.nodes.tolist(), matrix.lengths.tolist(), matrix.sources.tolist()
    ([2, 1, 0], [2, 1, 0], [2, 1, 2])
    """
    sources = unsigned_sources(graph)
    rows, numbers, moved = graph.nodes, np.arange(graph.nodes), np.empty_like(sources)
    longest_first = order_in_blocks(graph.in_degree.max() - graph.in_degree, BLOCK_ROWS)
    nodes = numbers - numbers % BLOCK_ROWS + longest_first
    places = np.empty(rows, sources.dtype)
    places[nodes] = numbers

    def move(blocks: tuple[int, int]) -> None:
        low, high = blocks[0] * BLOCK_ROWS, min(blocks[1] * BLOCK_ROWS, rows)
        _move(graph.indptr, nodes, places, sources, moved, low, high)

    threads.each(move, threads.stretches(-(-rows // BLOCK_ROWS), at_least=8, parts=64))
    lengths = graph.in_degree[nodes].astype(np.uint32)
    starts = np.append(graph.indptr[: graph.nodes : BLOCK_ROWS], graph.edges).astype(np.uint64)
    return Jagged(nodes, lengths, starts, moved)


@compiled()
def _move(indptr, nodes, places, sources, moved, low, high):  # type: ignore[no-untyped-def]
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
                moved[at] = places[sources[indptr[nodes[begin + i]] + column]]
                at += 1
            column += 1
        for i in range(rows):
            node = nodes[begin + i]
            for k in range(indptr[node] + column, indptr[node + 1]):
                moved[at] = places[sources[k]]
                at += 1
