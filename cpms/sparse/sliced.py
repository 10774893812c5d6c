"""Compressed rows arranged for a processor: four rows of about one length are summed at a time.

Within a block of rows, rows go by length, shortest first. Of each four in turn, the entries that all
four have are interleaved: first entries, second entries, and so on; what the longer ones have
beyond that follows row by row. There is no padding and a row's entries keep their order, so this
is CSR with its entries moved within the block, in the spirit of SELL-C-sigma (Kreutzer et al.,
SIAM J. Sci. Comput. 36, 2014): loops end where the processor expects it, and four sums are in
flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.formats.formats import FP64, Format
from cpms.graph.graph import Graph
from cpms.sparse.csr import unsigned_indptr, unsigned_sources
from cpms.sparse.row_sorting import order_in_blocks
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import SegmentedArray, convert_inplace, encode

BLOCK_ROWS = 1024
"""Rows sorted together; their sums stay in a core's first cache."""
SLICE = 4
"""Rows summed at a time."""


@dataclass(frozen=True, eq=False)
class Sliced:
    """CSR of P, its entries moved within blocks of rows; without values it is the 0/1 pattern.

    ``order[begin + i]`` is the row, counted from its block's first row ``begin``, that comes i-th.
    """

    indptr: npt.NDArray[Any]
    order: npt.NDArray[np.uint16]
    sources: npt.NDArray[Any]
    values: SegmentedArray | None

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        values_bytes = 0 if self.values is None else self.values.nbytes
        return self.indptr.nbytes + self.order.nbytes + self.sources.nbytes + values_bytes

    def to_float64(self, graph: Graph) -> Sliced:
        """Return the same matrix in plain float64; a segment format gives up its memory for it."""
        if self.values is None:
            return self
        if self.values.format.exact:
            values = self.values.restore_inplace()
        else:
            values = _moved(graph, self.order, edge_values(graph))
        return Sliced(self.indptr, self.order, self.sources, convert_inplace(values, FP64))


def build(graph: Graph, storage: Format | None) -> Sliced:
    """Return P with its values in ``storage``, or its pattern alone for None.

    Examples
    --------
    >>> build(Graph.from_edges([0, 0, 1], [0, 1, 1]), None).order.tolist()
    [0, 1]
    """
    order = order_in_blocks(graph.in_degree, BLOCK_ROWS)
    sources = _moved(graph, order, unsigned_sources(graph))
    values = None if storage is None else encode(_moved(graph, order, edge_values(graph)), storage)
    return Sliced(unsigned_indptr(graph), order, sources, values)


def _moved(graph: Graph, order: npt.NDArray[np.uint16], entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, moved = graph.nodes, np.empty_like(entries)

    def move(blocks: tuple[int, int]) -> None:
        _move(graph.indptr, order, entries, moved, blocks[0] * BLOCK_ROWS, min(blocks[1] * BLOCK_ROWS, rows))

    threads.each(move, threads.stretches(-(-rows // BLOCK_ROWS), at_least=16, parts=64))
    return moved


@compiled()
def _move(indptr, order, entries, moved, low, high):  # type: ignore[no-untyped-def]
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        at = indptr[begin]
        for first in range(begin, end, SLICE):
            count = min(SLICE, end - first)
            shortest = begin + order[first]
            common = indptr[shortest + 1] - indptr[shortest] if count == SLICE else 0
            for column in range(common):
                for i in range(count):
                    moved[at] = entries[indptr[begin + order[first + i]] + column]
                    at += 1
            for i in range(count):
                row = begin + order[first + i]
                for k in range(indptr[row] + common, indptr[row + 1]):
                    moved[at] = entries[k]
                    at += 1
