"""CSR with entries reordered in slices of four rows of similar length, for a processor.

As in SELL-C-sigma (Kreutzer et al., SIAM J. Sci. Comput. 36, 2014), rows are sorted by length within a block, shortest
first, and divided into slices of four. The entries that all four rows of a slice have are interleaved: first entries,
second entries, and so on. The further entries of the longer rows follow row by row, so there is no padding, and the
entries of a row keep their order. Four sums are independent, and loop lengths are easy to predict. Building it takes
one sort a block and one pass over the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.compilation import first_call
from cpms.base.jit import compiled
from cpms.formats.formats import FP64, Format
from cpms.graph.graph import Graph
from cpms.sparse.csr import unsigned_indptr, unsigned_sources
from cpms.sparse.row_sorting import interleaved, order_in_blocks
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import SegmentedArray, convert_inplace, encode

BLOCK_ROWS = 1024
"""Rows of a block; their sums fit a core's first-level cache."""
SLICE = 4
"""Rows of a slice, summed at the same time."""


@dataclass(frozen=True, eq=False)
class Sliced:
    """CSR of P with entries reordered within blocks of rows; without values it is the 0/1 pattern.

    ``order[begin + i]`` is the i-th row of a block in sorted order, counted from the first row ``begin`` of the block.
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
        """Return the same matrix in float64; values in a segment format are converted in place."""
        if self.values is None:
            return self
        if self.values.format.exact:
            values = self.values.restore_inplace()
        else:
            values = _reordered(graph, self.order, edge_values(graph))
        return Sliced(self.indptr, self.order, self.sources, convert_inplace(values, FP64))


def build(graph: Graph, storage: Format | None) -> Sliced:
    """Return P with its values in ``storage``, or its pattern alone for None.

    Examples
    --------
    >>> build(Graph.from_edges([0, 0, 1], [0, 1, 1]), None).order.tolist()
    [0, 1]
    """
    order = order_in_blocks(graph.in_degree, BLOCK_ROWS)
    sources = _reordered(graph, order, unsigned_sources(graph))
    values = None if storage is None else encode(_reordered(graph, order, edge_values(graph)), storage)
    return Sliced(unsigned_indptr(graph), order, sources, values)


def _reordered(graph: Graph, order: npt.NDArray[np.uint16], entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if first_call.spares_loops():
        return entries[_order_of_entries(graph, order)]
    rows, reordered = graph.nodes, np.empty_like(entries)

    def reorder(blocks: tuple[int, int]) -> None:
        _reorder_rows(
            graph.indptr, order, entries, reordered, blocks[0] * BLOCK_ROWS, min(blocks[1] * BLOCK_ROWS, rows)
        )

    threads.each(reorder, threads.ranges(-(-rows // BLOCK_ROWS), at_least=16, parts=64))
    return reordered


def _order_of_entries(graph: Graph, order: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """Return the order of the entries that `_reorder_rows` gives them."""
    numbers = np.arange(graph.nodes)
    rows = numbers - numbers % BLOCK_ROWS + order
    cuts = np.zeros(-(-graph.nodes // SLICE), np.int64)
    whole = graph.nodes // SLICE
    cuts[:whole] = graph.in_degree[rows[: whole * SLICE : SLICE]]
    return interleaved(graph, rows, cuts, SLICE)


@compiled(_nrt=False)
def _reorder_rows(indptr, order, entries, reordered, low, high):  # type: ignore[no-untyped-def]
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        at = indptr[begin]
        for first in range(begin, end, SLICE):
            count = min(SLICE, end - first)
            shortest = begin + order[first]
            common = indptr[shortest + 1] - indptr[shortest] if count == SLICE else 0
            for column in range(common):
                for i in range(count):
                    reordered[at] = entries[indptr[begin + order[first + i]] + column]
                    at += 1
            for i in range(count):
                row = begin + order[first + i]
                for k in range(indptr[row] + common, indptr[row + 1]):
                    reordered[at] = entries[k]
                    at += 1
