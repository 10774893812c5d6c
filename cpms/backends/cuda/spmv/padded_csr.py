"""Device arrays of a layout from a graph's rows, and the launchers of ``preprocess/padded_csr.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.streaming import BLOCKS
from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.reordering import Numbering
from cpms.base.errors import InputError, UnsupportedError
from cpms.formats.formats import FloatFormat, Format
from cpms.graph.graph import Graph
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import shared_exponent

_NULL = np.uint64(0)
MARK_BYTES = 0.25
SLOT_BYTES = 4 + MARK_BYTES
"""Source and mark of a slot."""


class Rows(Protocol):
    """What slots are made of: a `Graph`, or part of one that is on the device already."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def nodes(self) -> int:
        """Number of rows."""

    @property
    def edges(self) -> int:
        """Number of edges."""

    @property
    def indptr(self) -> Any:
        """First edge of each row, and behind the last."""

    @property
    def sources(self) -> Any:
        """Source of each edge."""

    @property
    def weights(self) -> Any | None:
        """Weight of each edge, if they have any."""


class OnDevice(NamedTuple):
    """Rows in device memory, which may be read more than once there; arrays of uint32, but for float64 weights."""

    name: str
    nodes: int
    edges: int
    indptr: Any
    sources: Any
    weights: Any | None

    @classmethod
    def of(cls, rows: Rows) -> OnDevice:
        """Upload what is not there yet."""
        weights = None if rows.weights is None else current().upload(rows.weights)
        return cls(rows.name, rows.nodes, rows.edges, *uploaded(rows), weights)


@dataclass(frozen=True, eq=False)
class Columns:
    """Where values of sources lie, in a matrix whose rows are others than its columns.

    Parameters
    ----------
    place : device array of uint32, shape (columns,)
    nowhere : int
        Where there is always a 0.
    """

    place: Any
    nowhere: int


class Tasks(NamedTuple):
    """What warps do one each: so many steps of 256 slots.

    Parameters
    ----------
    steps : int
    blocks : int
        Of warps that a multiprocessor holds at once.
    first_rows, first_tasks : device arrays of uint32
        Row of each task's first slot, and the task in which that row begins.
    """

    steps: int
    blocks: int
    first_rows: Any
    first_tasks: Any


@dataclass(frozen=True, eq=False)
class Slots:
    """Where the edges of each row go when every row has at least one slot.

    Parameters
    ----------
    starts : device array of uint32, shape (nodes + 1,)
        First slot of the row in each place.
    count : int
        Slots in all.
    indptr : device array of uint32, shape (nodes + 1,)
        First edge of each row.
    numbering : Numbering or None
        Another order of the rows, and of the nodes they name.
    """

    starts: Any
    count: int
    indptr: Any
    numbering: Numbering | None

    @classmethod
    def of(cls, graph: Rows, numbering: Numbering | None = None) -> Slots:
        """Count the slots of a graph."""
        arrays = current().arrays
        indptr = current().upload(graph.indptr)
        lengths = arrays.maximum(indptr[1:] - indptr[:-1], 1)
        if numbering is not None:
            lengths = lengths[numbering.order]
        ends = arrays.cumsum(lengths)
        count = int(current().to_host(ends[-1:])[0]) if graph.nodes else 0
        if count >= 2**32 - WHOLE_VALUES:
            raise UnsupportedError(f"{graph.name} has {graph.edges:,} edges; engine cuda counts fewer than 2^32")
        starts = arrays.zeros(graph.nodes + 1, np.uint32)
        starts[1:] = ends
        return cls(starts, count, indptr.astype(np.uint32), numbering)

    @property
    def steps(self) -> int:
        """Steps of 256 slots, the last of them perhaps not full."""
        return -(-self.count // WHOLE_VALUES)

    @property
    def edges(self) -> int:
        """Edges in all."""
        return int(current().to_host(self.indptr[-1:])[0])

    @cached_property
    def rows_before(self) -> np.ndarray[Any, Any]:
        """How many rows end before each step, and before the end; in main memory, shape (steps + 1,)."""
        arrays = current().arrays
        bounds = (arrays.arange(self.steps + 1, dtype=np.int64) * WHOLE_VALUES).clip(0, self.count)
        return current().to_host(arrays.searchsorted(self.starts[1:], bounds.astype(np.uint32), side="right"))

    def starts_of(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the first slots of some rows, in main memory."""
        return current().to_host(self.starts[current().arrays.asarray(rows)]).astype(np.int64)

    def rows_at(self, slots: Any) -> Any:
        """Return the rows of some slots, a device array of uint32, on the device."""
        return current().arrays.searchsorted(self.starts, slots, side="right") - 1

    def beginning_steps(self, rows: np.ndarray[Any, Any]) -> Slots:
        """Return slots in which some rows, given in order, begin steps: the row before each is longer."""
        arrays, starts = current().arrays, self.starts_of(rows)
        steps = -(-np.diff(starts, prepend=0) // WHOLE_VALUES)
        shift = WHOLE_VALUES * np.cumsum(steps) - starts
        added = arrays.zeros(len(self.starts), np.uint32)
        added[arrays.asarray(rows)] = arrays.asarray(np.diff(shift, prepend=0).astype(np.uint32))
        moved = self.starts + arrays.cumsum(added, dtype=np.uint32)
        return Slots(moved, self.count + int(shift[-1]), self.indptr, self.numbering)

    def tasks(self, steps: int, *, blocks: int = BLOCKS) -> Tasks:
        """Cut the slots into tasks of so many steps."""
        arrays, size = current().arrays, steps * WHOLE_VALUES
        bounds = arrays.arange(0, self.count, size, dtype=np.uint32)
        rows = self.rows_at(bounds)
        return Tasks(steps, blocks, rows.astype(np.uint32), self.starts[rows] // np.uint32(size))

    def place(self, graph: Rows, columns: Columns | None = None) -> tuple[Any, Any, Any | None]:
        """Return sources, marks and weights (None without) by slot, on the device."""
        backend = current()
        arrays = backend.arrays
        count = self.steps * WHOLE_VALUES
        sources = arrays.full(count, graph.nodes if columns is None else columns.nowhere, np.uint32)
        weights = None if graph.weights is None else arrays.zeros(count, np.float64)
        if graph.edges:
            self._place_edges(graph, sources, weights, _NULL if columns is None else columns.place)
        marks, rows = arrays.zeros(count // 16, np.uint32), np.uint32(graph.nodes)
        backend.run(Variant("flag_row_ends"), backend.spread(graph.nodes), (self.starts, rows, marks))
        backend.run(Variant("count_row_ends"), backend.spread(self.steps), (marks, np.uint32(self.steps)))
        return sources, marks.view(np.uint16), weights

    def _place_edges(self, graph: Rows, sources: Any, weights: Any | None, place: Any) -> None:
        begins = self.starts[:-1]
        if self.numbering is not None:
            place = self.numbering.place
            begins = begins[place]
        arguments = (
            *(self.indptr, begins, place),
            current().upload(graph.sources.view(np.uint32)),
            _NULL if graph.weights is None else current().upload(graph.weights),
            *(np.uint32(graph.nodes), np.uint32(graph.edges), sources, _NULL if weights is None else weights),
        )
        current().run(Variant("place_entries"), current().spread(graph.edges), arguments)


def for_lanes(slots: Any, bits: int) -> Any:
    """Return what steps of 256 slots have, in the order in which a warp's lanes load it, 16 bytes at a time.

    Lane i takes slots i, 32 + i, 64 + i and so on: as many side by side as 16 bytes hold, eight at most.

    Parameters
    ----------
    slots : device array, shape (steps * 256,)
    bits : int
        What one slot's value has.
    """
    run = _run_slots(bits)
    return _turned(slots.reshape(-1, WHOLE_VALUES // 32 // run, run, 32))


def from_lanes(loaded: Any, bits: int) -> Any:
    """Return by slot what `for_lanes` has ordered."""
    run = _run_slots(bits)
    return _turned(loaded.reshape(-1, WHOLE_VALUES // 32 // run, 32, run))


def words(numbers: np.ndarray[Any, Any]) -> Any:
    """Return numbers in device memory, as uint32."""
    return current().arrays.asarray(np.ascontiguousarray(numbers.astype(np.uint32)))


def _run_slots(bits: int) -> int:
    """Return how many of a lane's slots lie side by side, as ``run_entries`` in ``spmv/csr_balanced.cu``."""
    return min(WHOLE_VALUES // 32, 128 // bits)


def _turned(rounds: Any) -> Any:
    return current().arrays.ascontiguousarray(rounds.transpose(0, 1, 3, 2)).reshape(-1)


def uploaded(rows: Rows) -> tuple[Any, Any]:
    """Return where rows begin, and the sources of their edges, as device arrays of uint32."""
    upload = current().upload
    return upload(rows.indptr).astype(np.uint32, copy=False), upload(rows.sources.view(np.uint32))


def out_degree(graph: Graph, rows: Rows | None = None) -> Any:
    """Return the out-degree of each node, a device array of uint32; counted there of rows that are there.

    Raises
    ------
    InputError
        If an edge begins at no node.
    """
    if not isinstance(rows, OnDevice):
        return current().upload(graph.out_degree).astype(np.uint32)
    counts = current().arrays.zeros(graph.nodes + 1, np.uint32)
    arguments = rows.sources, np.uint64(rows.edges), np.uint32(graph.nodes), counts
    current().run(Variant("count_sources"), current().spread(rows.edges), arguments)
    if current().to_host(counts[-1:])[0]:
        raise InputError(f"a source of {graph.name} is not among 0 to {graph.nodes - 1}; each must be one of these")
    return counts[:-1]


def place_columns(graph: Graph) -> tuple[Any, Any | None]:
    """Return sources and weights (None without) of ELL columns, on the device."""
    backend = current()
    arrays = backend.arrays
    length, width = vector_length(graph.nodes), int(graph.in_degree.max())
    sources = arrays.empty(length * width, np.uint32)
    weights = None if graph.weights is None else arrays.empty(length * width, np.float64)
    arguments = (
        *uploaded(graph),
        _NULL if graph.weights is None else current().upload(graph.weights),
        *(np.uint32(graph.nodes), np.uint32(width), np.uint32(length), np.uint32(graph.nodes)),
        *(sources, _NULL if weights is None else weights),
    )
    if width:
        backend.run(Variant("place_columns"), -(-length // THREADS), arguments)
    return sources, weights


def values_at(sources: Any, graph: Graph, weights: Any | None, numbering: Numbering | None = None) -> Any:
    """Return the float64 value of each entry: its source's share, times its weight."""
    values = current().arrays.empty(sources.size, np.float64) if weights is None else weights
    fill_values(sources, graph, values, numbering)
    return values


def fill_values(sources: Any, graph: Graph, values: Any, numbering: Numbering | None = None) -> None:
    """Put the share of each source into ``values``, times the weight that is there in weighted graphs."""
    if sources.size == 0:
        return
    backend = current()
    divisors = out_degree(graph) if graph.weights is None else backend.upload(graph.out_weight)
    if numbering is not None:
        divisors = divisors[numbering.order]
    shares = backend.arrays.zeros(vector_length(graph.nodes), np.float64)
    with np.errstate(divide="ignore"):
        shares[: graph.nodes] = 1.0 / divisors
    arguments = (
        *(sources, shares, np.uint64(sources.size)),
        *(np.uint32(graph.weights is not None), values),
    )
    backend.run(Variant("fill_values"), backend.spread(sources.size), arguments)


def value_exponent(graph: Graph, storage: Format) -> int:
    """Return the power of two by which a scaled format stores edge values; 0 for others.

    Examples
    --------
    >>> from cpms.formats.formats import format_named
    >>> value_exponent(Graph.from_edges([0, 0], [0, 1]), format_named("fp16-scaled"))
    15
    """
    if not (isinstance(storage, FloatFormat) and storage.scaled) or graph.edges == 0:
        return 0
    weighted = graph.weights is not None
    largest = edge_values(graph).max() if weighted else 1.0 / graph.out_weight[graph.out_weight > 0].min()
    return shared_exponent(np.array([largest]), storage)
