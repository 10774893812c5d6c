"""Device arrays of a layout from a graph's rows, and the launchers of ``arrange.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.cuda.backend import THREADS, current
from cpms.cuda.variants import WHOLE_VALUES, Variant
from cpms.cuda.vectors import vector_length
from cpms.errors import UnsupportedError
from cpms.format import FloatFormat, Format
from cpms.graph import Graph
from cpms.segmented import shared_exponent
from cpms.sparse.edge_values import edge_values

Numbers = npt.NDArray[np.uint32]
_NULL = np.uint64(0)


@dataclass(frozen=True, eq=False)
class Slots:
    """Where the edges of each row go when every row has at least one slot.

    Parameters
    ----------
    gaps : ndarray of uint32, shape (nodes + 1,)
        Empty rows before each row.
    starts : ndarray of int64, shape (nodes + 1,)
        First slot of each row.
    """

    gaps: Numbers
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Slots:
        """Count the slots of a graph."""
        gaps = np.zeros(graph.nodes + 1, np.uint32)
        np.cumsum(graph.indptr[1:] == graph.indptr[:-1], out=gaps[1:])
        return cls(gaps, graph.indptr + gaps)

    @property
    def steps(self) -> int:
        """Steps of 256 slots, the last of them perhaps not full."""
        return -(-int(self.starts[-1]) // WHOLE_VALUES)

    def tasks(self, steps: int) -> tuple[Numbers, tuple[Numbers, Numbers, Numbers]]:
        """Return each task's first row, and of rows in several tasks number, first and last task.

        Examples
        --------
        >>> slots = Slots.of(Graph.from_edges(np.zeros(600, int), np.zeros(600, int), nodes=2))
        >>> first_rows, split = slots.tasks(1)
        >>> first_rows.tolist(), [part.tolist() for part in split]
        ([0, 0, 0], [[0], [0], [2]])
        """
        size = steps * WHOLE_VALUES
        bounds = np.arange(0, int(self.starts[-1]), size)
        rows = np.searchsorted(self.starts, bounds, side="right") - 1
        split = np.unique(rows[self.starts[rows] < bounds])
        first, last = self.starts[split] // size, (self.starts[split + 1] - 1) // size
        return rows.astype(np.uint32), (split.astype(np.uint32), first.astype(np.uint32), last.astype(np.uint32))

    def place(self, graph: Graph) -> tuple[Any, Any, Any | None]:
        """Return sources and weights (None without) by slot, and the bits of row ends, on the device."""
        backend = current()
        arrays = backend.arrays
        count = self.steps * WHOLE_VALUES
        if count >= 2**32:
            raise UnsupportedError(f"{graph.name} has {graph.edges:,} edges; engine cuda counts fewer than 2^32")
        sources = arrays.full(count, graph.nodes, np.uint32)
        ends = arrays.zeros(count // 32, np.uint32)
        weights = None if graph.weights is None else arrays.zeros(count, np.float64)
        starts, gaps = arrays.asarray(graph.indptr.astype(np.uint32)), arrays.asarray(self.gaps)
        arguments = (
            *(starts, gaps, arrays.asarray(graph.sources.view(np.uint32))),
            _NULL if graph.weights is None else arrays.asarray(graph.weights),
            *(np.uint32(graph.nodes), np.uint32(graph.edges), sources, _NULL if weights is None else weights),
        )
        if graph.edges:
            backend.run(Variant("place_edges"), backend.spread(graph.edges), arguments)
        backend.run(Variant("mark_ends"), backend.spread(graph.nodes), (starts, gaps, np.uint32(graph.nodes), ends))
        return sources, ends.view(np.uint8), weights


def place_columns(graph: Graph) -> tuple[Any, Any | None]:
    """Return sources and weights (None without) of ELL columns, on the device."""
    backend = current()
    arrays = backend.arrays
    length, width = vector_length(graph.nodes), int(graph.in_degree.max())
    sources = arrays.empty(length * width, np.uint32)
    weights = None if graph.weights is None else arrays.empty(length * width, np.float64)
    arguments = (
        *(arrays.asarray(graph.indptr.astype(np.uint32)), arrays.asarray(graph.sources.view(np.uint32))),
        _NULL if graph.weights is None else arrays.asarray(graph.weights),
        *(np.uint32(graph.nodes), np.uint32(width), np.uint32(length), np.uint32(graph.nodes)),
        *(sources, _NULL if weights is None else weights),
    )
    if width:
        backend.run(Variant("place_columns"), -(-length // THREADS), arguments)
    return sources, weights


def values_at(sources: Any, graph: Graph, weights: Any | None) -> Any:
    """Return the float64 value of each entry: its source's share, times its weight."""
    values = current().arrays.empty(sources.size, np.float64) if weights is None else weights
    fill_values(sources, graph, values)
    return values


def fill_values(sources: Any, graph: Graph, values: Any) -> None:
    """Put the share of each source into ``values``, times the weight that is there in weighted graphs."""
    if sources.size == 0:
        return
    backend = current()
    shares = np.zeros(vector_length(graph.nodes))
    with np.errstate(divide="ignore"):
        shares[: graph.nodes] = 1.0 / graph.out_weight
    arguments = (
        *(sources, backend.arrays.asarray(shares), np.uint64(sources.size)),
        *(np.uint32(graph.weights is not None), values),
    )
    backend.run(Variant("fill_values"), backend.spread(sources.size), arguments)


def value_exponent(graph: Graph, storage: Format) -> int:
    """Return the power of two by which a scaled format stores edge values; 0 for others.

    Examples
    --------
    >>> from cpms.format import format_named
    >>> value_exponent(Graph.from_edges([0, 0], [0, 1]), format_named("fp16-scaled"))
    15
    """
    if not (isinstance(storage, FloatFormat) and storage.scaled) or graph.edges == 0:
        return 0
    weighted = graph.weights is not None
    largest = edge_values(graph).max() if weighted else 1.0 / graph.out_weight[graph.out_weight > 0].min()
    return shared_exponent(np.array([largest]), storage)
