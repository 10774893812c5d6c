"""Padded CSR in device memory: rows of at least one entry, in tiles of 256 entries that warps share equally.

Load-balanced products (merge-based SpMV, Merrill and Garland, SC 2016, is the nearest relative) cut the entries, not
the rows, into equal parts. A bit an entry flags the ends of rows, and a count a group of eight entries gives the row,
so that a warp needs no search. The arrays are built on the device by ``preprocess/padded_csr.cu``, in a few passes over
the edges; they cost 4.25 bytes an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from cpms.backends.cuda.arrays import out_degrees
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.streaming import BLOCKS
from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.base.errors import UnsupportedError
from cpms.formats.formats import FloatFormat, Format, SegmentFormat
from cpms.graph.graph import Graph
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import array_exponent

_NULL = np.uint64(0)
FLAG_BYTES = 0.25
ENTRY_BYTES = 4 + FLAG_BYTES
"""Column index and row-end flag of an entry."""


class Rows(Protocol):
    """Rows in CSR: a `Graph`, or part of one that is on the device already."""

    @property
    def name(self) -> str:
        """The name in error messages."""

    @property
    def nodes(self) -> int:
        """Number of rows."""

    @property
    def edges(self) -> int:
        """Number of edges."""

    @property
    def indptr(self) -> Any:
        """First edge of each row, and the end of the last."""

    @property
    def sources(self) -> Any:
        """Source of each edge."""

    @property
    def weights(self) -> Any | None:
        """Weight of each edge, if they have any."""


class DeviceRows(NamedTuple):
    """Rows in device memory, uploaded once for several readers; arrays of uint32, weights of float64."""

    name: str
    nodes: int
    edges: int
    indptr: Any
    sources: Any
    weights: Any | None

    @classmethod
    def of(cls, rows: Rows) -> DeviceRows:
        """Upload rows; arrays that are on the device already are not copied."""
        if isinstance(rows, DeviceRows):
            return rows
        weights = None if rows.weights is None else current().upload(rows.weights)
        return cls(rows.name, rows.nodes, rows.edges, *uploaded(rows), weights)


@dataclass(frozen=True, eq=False)
class ColumnPositions:
    """Positions of the sources' values in x, for a matrix whose columns are not its rows.

    Parameters
    ----------
    position : device array of uint32, shape (columns,)
    padding : int
        A position whose value is always 0, the index of padding entries.
    """

    position: Any
    padding: int


class Tasks(NamedTuple):
    """Tasks of a load-balanced product, one a warp: so many tiles of 256 entries each.

    Parameters
    ----------
    tiles : int
    blocks : int
        Thread blocks that a multiprocessor holds at once.
    first_rows, first_tasks : device arrays of uint32
        Row of each task's first entry, and the task in which that row begins.
    """

    tiles: int
    blocks: int
    first_rows: Any
    first_tasks: Any


@dataclass(frozen=True, eq=False)
class PaddedCsr:
    """First entries of rows when every row has at least one entry, an empty row a padding entry.

    Parameters
    ----------
    starts : device array of uint32, shape (nodes + 1,)
        First entry of the row at each position.
    count : int
        Entries in all.
    indptr : device array of uint32, shape (nodes + 1,)
        First edge of each row.
    reordering : Reordering or None
        Another order of the rows, and of the nodes that indices name.
    """

    starts: Any
    count: int
    indptr: Any
    reordering: Reordering | None

    @classmethod
    def of(cls, graph: Rows, reordering: Reordering | None = None) -> PaddedCsr:
        """Count the entries of a graph's rows."""
        arrays = current().arrays
        indptr = uploaded_row_pointers(graph)
        lengths = arrays.maximum(indptr[1:] - indptr[:-1], 1)
        if reordering is not None:
            lengths = lengths[reordering.order]
        ends = arrays.cumsum(lengths)
        count = int(current().to_host(ends[-1:])[0]) if graph.nodes else 0
        require_countable(graph.name, graph.edges, count)
        starts = arrays.zeros(graph.nodes + 1, np.uint32)
        starts[1:] = ends
        return cls(starts, count, indptr.astype(np.uint32), reordering)

    @property
    def tiles(self) -> int:
        """Tiles of 256 entries; the last may not be full."""
        return -(-self.count // WHOLE_VALUES)

    @property
    def edges(self) -> int:
        """Edges in all."""
        return int(current().to_host(self.indptr[-1:])[0])

    @cached_property
    def rows_ended(self) -> np.ndarray[Any, Any]:
        """Rows that end before each tile, and before the end; in main memory, shape (tiles + 1,)."""
        arrays = current().arrays
        bounds = (arrays.arange(self.tiles + 1, dtype=np.int64) * WHOLE_VALUES).clip(0, self.count)
        return current().to_host(arrays.searchsorted(self.starts[1:], bounds.astype(np.uint32), side="right"))

    def starts_of(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the first entries of some rows, in main memory."""
        return current().to_host(self.starts[current().arrays.asarray(rows)]).astype(np.int64)

    def rows_at(self, entries: Any) -> Any:
        """Return the rows of some entries, a device array of uint32, on the device."""
        return current().arrays.searchsorted(self.starts, entries, side="right") - 1

    def aligned_to_tiles(self, rows: np.ndarray[Any, Any]) -> PaddedCsr:
        """Return padded rows in which some rows, given in order, begin tiles: padding lengthens the row before each."""
        arrays, starts = current().arrays, self.starts_of(rows)
        tiles = -(-np.diff(starts, prepend=0) // WHOLE_VALUES)
        shift = WHOLE_VALUES * np.cumsum(tiles) - starts
        added = arrays.zeros(len(self.starts), np.uint32)
        added[arrays.asarray(rows)] = arrays.asarray(np.diff(shift, prepend=0).astype(np.uint32))
        moved = self.starts + arrays.cumsum(added, dtype=np.uint32)
        return PaddedCsr(moved, self.count + int(shift[-1]), self.indptr, self.reordering)

    def tasks(self, tiles: int, *, blocks: int = BLOCKS) -> Tasks:
        """Partition the entries into tasks of so many tiles."""
        arrays, size = current().arrays, tiles * WHOLE_VALUES
        bounds = arrays.arange(0, self.count, size, dtype=np.uint32)
        rows = self.rows_at(bounds)
        return Tasks(tiles, blocks, rows.astype(np.uint32), self.starts[rows] // np.uint32(size))

    def to_device(self, graph: Rows, columns: ColumnPositions | None = None) -> tuple[Any, Any, Any | None]:
        """Return sources, row-end flags and weights (None without) of the entries, on the device."""
        backend = current()
        arrays = backend.arrays
        count = self.tiles * WHOLE_VALUES
        sources = arrays.full(count, graph.nodes if columns is None else columns.padding, np.uint32)
        weights = None if graph.weights is None else arrays.zeros(count, np.float64)
        if graph.edges:
            self._place_entries(graph, sources, weights, _NULL if columns is None else columns.position)
        row_end_flags, rows = arrays.zeros(count // 16, np.uint32), np.uint32(graph.nodes)
        backend.run(Variant("flag_row_ends"), backend.grid_size(graph.nodes), (self.starts, rows, row_end_flags))
        backend.run(Variant("count_row_ends"), backend.grid_size(self.tiles), (row_end_flags, np.uint32(self.tiles)))
        return sources, row_end_flags.view(np.uint16), weights

    def _place_entries(self, graph: Rows, sources: Any, weights: Any | None, position: Any) -> None:
        begins = self.starts[:-1]
        if self.reordering is not None:
            position = self.reordering.position
            begins = begins[position]
        arguments = (
            *(self.indptr, begins, position),
            uploaded_sources(graph),
            _NULL if graph.weights is None else current().upload(graph.weights),
            *(np.uint32(graph.nodes), np.uint32(graph.edges), sources, _NULL if weights is None else weights),
        )
        current().run(Variant("place_entries"), current().grid_size(graph.edges), arguments)


def require_countable(name: str, edges: int, entries: int) -> None:
    """Refuse more entries than 32 bits count.

    Raises
    ------
    UnsupportedError
    """
    if entries >= 2**32 - WHOLE_VALUES:
        raise UnsupportedError(
            f"engine cuda counts fewer than 2^32 entries, an edge or an empty row each; {name} has {entries:,} of "
            f"{edges:,} edges; use engine cpu"
        )


def for_lanes(entries: Any, bits: int) -> Any:
    """Return the values of tiles in the order in which a warp's lanes load them, 16 bytes at a time.

    Lane i owns entries i, 32 + i, 64 + i and so on; as many of them are adjacent as 16 bytes hold, eight at most.

    Parameters
    ----------
    entries : device array, shape (tiles * 256,)
    bits : int
        Bits of one value.
    """
    run = _run_entries(bits)
    return _transposed(entries.reshape(-1, WHOLE_VALUES // 32 // run, run, 32))


def from_lanes(loaded: Any, bits: int) -> Any:
    """Return the values in the order of entries: the inverse of `for_lanes`."""
    run = _run_entries(bits)
    return _transposed(loaded.reshape(-1, WHOLE_VALUES // 32 // run, 32, run))


def words(numbers: np.ndarray[Any, Any]) -> Any:
    """Return numbers in device memory, as uint32."""
    return current().arrays.asarray(np.ascontiguousarray(numbers.astype(np.uint32)))


def _run_entries(bits: int) -> int:
    """Return how many of a lane's entries are adjacent, as ``run_entries`` in ``spmv/csr_balanced.cu``."""
    return min(WHOLE_VALUES // 32, 128 // bits)


def _transposed(groups: Any) -> Any:
    return current().arrays.ascontiguousarray(groups.transpose(0, 1, 3, 2)).reshape(-1)


def uploaded(rows: Rows) -> tuple[Any, Any]:
    """Return row pointers and sources as device arrays of uint32."""
    return uploaded_row_pointers(rows).astype(np.uint32, copy=False), uploaded_sources(rows)


def uploaded_row_pointers(rows: Rows) -> Any:
    """Return row pointers on the device, no copies of those that are there."""
    held = getattr(rows, "device_arrays", None)
    return current().upload(rows.indptr) if held is None else held.indptr


def uploaded_sources(rows: Rows) -> Any:
    """Return sources as a device array of uint32, no copy of one that is there."""
    held = getattr(rows, "device_arrays", None)
    return current().upload(rows.sources.view(np.uint32)) if held is None else held.sources


def out_degree(graph: Graph, rows: Rows | None = None) -> Any:
    """Return the out-degree of each node, a device array of uint32; of `DeviceRows` it is counted on the device.

    Raises
    ------
    InputError
        If an edge begins at no node.
    """
    held = graph.device_arrays
    if held is not None:
        return held.out_degree
    if not isinstance(rows, DeviceRows):
        return current().upload(graph.out_degree).astype(np.uint32)
    return out_degrees.counted(rows.sources, graph.nodes, graph.name)


def columns_to_device(graph: Graph) -> tuple[Any, Any | None]:
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


def values_at(sources: Any, graph: Graph, weights: Any | None, reordering: Reordering | None = None) -> Any:
    """Return the float64 value of each entry: its weight over the out-weight of its source."""
    values = current().arrays.empty(sources.size, np.float64) if weights is None else weights
    fill_values(sources, graph, values, reordering)
    return values


def fill_values(sources: Any, graph: Graph, values: Any, reordering: Reordering | None = None) -> None:
    """Write 1 / out-weight of each entry's source into ``values``, in weighted graphs times the weight stored there."""
    if sources.size == 0:
        return
    backend = current()
    divisors = out_degree(graph) if graph.weights is None else backend.upload(graph.out_weight)
    if reordering is not None:
        divisors = divisors[reordering.order]
    inverses = backend.arrays.zeros(vector_length(graph.nodes), np.float64)
    with np.errstate(divide="ignore"):
        inverses[: graph.nodes] = 1.0 / divisors
    arguments = (
        *(sources, inverses, np.uint64(sources.size)),
        *(np.uint32(graph.weights is not None), values),
    )
    backend.run(Variant("fill_values"), backend.grid_size(sources.size), arguments)


def value_exponent(graph: Graph, storage: Format) -> int:
    """Return the power of two by which a scaled format stores edge values; 0 for others.

    Examples
    --------
    >>> from cpms.formats.formats import format_named
    >>> value_exponent(Graph.from_edges([0, 0], [0, 1]), format_named("fp16-scaled"))
    15
    """
    is_scaled = storage.scaled if isinstance(storage, FloatFormat) else not isinstance(storage, SegmentFormat)
    if not is_scaled or graph.edges == 0:
        return 0
    weighted = graph.weights is not None
    largest = edge_values(graph).max() if weighted else 1.0 / graph.out_weight[graph.out_weight > 0].min()
    return array_exponent(np.array([largest]), storage)
