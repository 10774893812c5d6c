"""Matrices in device memory, built there from a graph's rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import access_sampling, codec
from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.cuda.kernels.streaming import FEW_BLOCKS, NARROW_BITS
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import launch_spmv, padded_csr
from cpms.backends.cuda.spmv.launch_spmv import Update
from cpms.backends.cuda.spmv.padded_csr import Tasks
from cpms.backends.cuda.spmv.reordering import Numbering
from cpms.formats.formats import FP64, FloatFormat, Format
from cpms.graph.graph import Graph
from cpms.storage.array import SegmentedArray

_MOST_STEPS = 8
_MOST_STEPS_OF_SHORT_ROWS = 4
_STEPS_OF_GATHERS = 16
"""Where gathers bring more than streams, and from the device's cache."""
_SOURCE_BITS = 32
_ROW_BYTES = 16
"""What a product in float64 streams of a row."""
_WARPS_A_PROCESSOR = 32
_LONGEST_OF_A_THREAD = 16
"""Rows that one thread walks while the device waits for memory anyway."""
_SHORT_ROW = 4
"""Where rows are this short on average, more tasks pay: writing them takes as long as reading edges."""


@dataclass(frozen=True, eq=False)
class Matrix(ABC):
    """P, or its structure, in one layout.

    Parameters
    ----------
    sources : device array of uint32
        Column of each entry; the first node behind the rows where there is none.
    values : SegmentedArray or None
        In device memory, one for each entry; None for the structure alone.
    """

    sources: Any
    values: SegmentedArray | None

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return int(self.sources.nbytes) + (0 if self.values is None else self.values.nbytes)

    @abstractmethod
    def multiply(self, x: SegmentedArray, out: SegmentedArray, update: Update, *, read: int, write: int) -> None:
        """Write the update of each row's sum into ``out``."""

    def to_float64(self, graph: Graph) -> Matrix:
        """Return the matrix in plain float64, of packed floats.

        Segments need not be converted: read whole, one after the other, they cost what float64 does.
        """
        if self.values is None:
            return self
        return replace(self, values=codec.convert_inplace(self._float64_values(graph), FP64))

    @abstractmethod
    def _float64_values(self, graph: Graph) -> Any:
        """Return the entries' values, made anew from the graph."""


@dataclass(frozen=True, eq=False)
class ThreadRows(Matrix):
    """CSR for one thread a row: ``starts`` of shape (nodes + 1,)."""

    starts: Any

    @staticmethod
    def pay(graph: Graph) -> bool:
        """Return whether rows are all short, and too few to keep the device busy in equal shares of edges.

        What such products take is the way from launch to last write, which is shorter without tasks.
        """
        return bool(graph.edges < WHOLE_VALUES * _warps_held() and graph.in_degree.max() <= _LONGEST_OF_A_THREAD)

    @classmethod
    def build(cls, graph: Graph, storage: Format | None) -> ThreadRows:
        """Return the rows as they are; ``storage`` is that of the values, None for the structure."""
        starts, sources = padded_csr.uploaded(graph)
        made = cls(sources, None, starts)
        return made if storage is None else replace(made, values=_stored(made._float64_values(graph), graph, storage))

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return super().nbytes + int(self.starts.nbytes)

    def multiply(self, x: SegmentedArray, out: SegmentedArray, update: Update, *, read: int, write: int) -> None:
        """Launch one kernel."""
        launch_spmv.thread_rows(self.starts, self.sources, self.values, x, out, update, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        values = current().arrays.zeros(padded(graph.edges), np.float64)
        if graph.weights is not None:
            values[: graph.edges] = current().upload(graph.weights)
        padded_csr.fill_values(self.sources, graph, values)
        return values


@dataclass(frozen=True, eq=False)
class BalancedRows(Matrix):
    """CSR for equal shares of edges, whatever the rows; see ``spmv/csr_balanced.cu``.

    Parameters
    ----------
    marks : device array of uint16
        Of each eight slots, where rows end, and how many ended before.
    tasks, wide_tasks : Tasks
        For reads of up to 32 bits, and of more: where those outgrow the device's cache, shorter tasks keep warps near
        each other, and fewer of them leave each more of the first-level cache.
    pieces : device array of uint64
        Room for what tasks leave of rows that go on in the next; all bits 1 between launches.
    numbering : Numbering or None
        The order of rows, and of nodes in vectors.
    """

    marks: Any
    tasks: Tasks
    wide_tasks: Tasks
    pieces: Any
    numbering: Numbering | None

    @classmethod
    def build(
        cls,
        graph: Graph,
        storage: Format | None,
        *,
        numbering: Numbering | None = None,
        steps: int | None = None,
    ) -> BalancedRows:
        """Return the rows cut into tasks; by default as many steps each as keep the device busy."""
        backend = current()
        arrays = backend.arrays
        slots = padded_csr.Slots.of(graph, numbering)
        # As many tasks as warps that the device holds at once, but no longer ones than pay.
        most = _MOST_STEPS if graph.edges >= _SHORT_ROW * graph.nodes else _MOST_STEPS_OF_SHORT_ROWS
        busy = max(1, slots.steps // _warps_held())
        chosen = steps or min(most, busy)
        sources, marks, weights = slots.place(graph)
        tasks = wide = slots.tasks(chosen)
        if FP64.nbytes(graph.nodes) > backend.cache_bytes:
            wide = slots.tasks(max(1, chosen // 2), blocks=FEW_BLOCKS)
        elif steps is None and busy >= _STEPS_OF_GATHERS and _gathers_dominate(sources, graph.nodes):
            wide = slots.tasks(_STEPS_OF_GATHERS, blocks=FEW_BLOCKS)
        made = cls(
            sources=padded_csr.for_lanes(sources, _SOURCE_BITS),
            values=None,
            marks=marks,
            tasks=tasks,
            wide_tasks=wide,
            pieces=arrays.full(max(len(part.first_rows) for part in (tasks, wide)), ~np.uint64(0), np.uint64),
            numbering=numbering,
        )
        if storage is None:
            return made
        values = _values_for_lanes(sources, graph, weights, numbering, storage)
        return replace(made, values=_stored(values, graph, storage))

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        rows = [part for tasks in (self.tasks, self.wide_tasks) for part in (tasks.first_rows, tasks.first_tasks)]
        parts = self.marks, self.pieces, *rows
        return super().nbytes + sum({id(part): int(part.nbytes) for part in parts}.values())

    def multiply(self, x: SegmentedArray, out: SegmentedArray, update: Update, *, read: int, write: int) -> None:
        """Launch one kernel."""
        tasks = self.wide_tasks if x.format.bits(read) > NARROW_BITS else self.tasks
        parts = (self.sources, self.values, self.marks, tasks, self.pieces)
        launch_spmv.balanced(*parts, x, out, update, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        weights = None if graph.weights is None else padded_csr.Slots.of(graph, self.numbering).place(graph)[2]
        return _values_for_lanes(
            padded_csr.from_lanes(self.sources, _SOURCE_BITS), graph, weights, self.numbering, FP64
        )


@dataclass(frozen=True, eq=False)
class Columns(Matrix):
    """ELL: ``width`` columns of as many entries as a vector has values."""

    width: int
    rows: int

    @classmethod
    def build(cls, graph: Graph, storage: Format) -> Columns:
        """Return every row padded to the longest."""
        sources, weights = padded_csr.place_columns(graph)
        made = cls(sources, None, int(graph.in_degree.max()), graph.nodes)
        return replace(made, values=_stored(padded_csr.values_at(sources, graph, weights), graph, storage))

    def multiply(self, x: SegmentedArray, out: SegmentedArray, update: Update, *, read: int, write: int) -> None:
        """Launch one kernel."""
        assert self.values is not None  # noqa: S101  # Columns are never made without.
        launch_spmv.columns(self.sources, self.values, self.width, self.rows, x, out, update, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        return padded_csr.values_at(self.sources, graph, padded_csr.place_columns(graph)[1])


def most_bytes(graph: Graph, storage: Format, layout: str) -> int:
    """Return about how many bytes of device memory a solve needs, that of building included."""
    vectors = 2 * storage.nbytes(graph.nodes) + 28 * graph.nodes
    if layout == "ell":
        entries = padded(graph.nodes + 1) * int(graph.in_degree.max())
    else:
        entries = graph.edges + graph.nodes + WHOLE_VALUES
    if layout == "pattern":
        return vectors + 4 * (entries + graph.edges) + 12 * graph.nodes
    stored = 0 if storage.exact else storage.nbytes(entries)
    # Sources and values, and for a while sources, and weights, in another order.
    entry_bytes = 16 if graph.weights is None else 24
    return vectors + entry_bytes * entries + stored + 4 * graph.edges + 20 * graph.nodes


def _warps_held() -> int:
    """Return how many warps of balanced rows the device holds at once."""
    return current().processors * _WARPS_A_PROCESSOR


def _gathers_dominate(sources: Any, rows: int) -> bool:
    """Return whether a product in float64 gathers more bytes than it streams."""
    streamed = (padded_csr.SLOT_BYTES + 8) * len(sources) + _ROW_BYTES * rows
    return access_sampling.gathered_bytes(sources, 8) > streamed


def _values_for_lanes(
    sources: Any, graph: Graph, weights: Any | None, numbering: Numbering | None, storage: Format
) -> Any:
    """Return float64 edge values in the order in which lanes load them once they are stored."""
    bits = storage.width if isinstance(storage, FloatFormat) else max(storage.widths)
    moved = None if weights is None else padded_csr.for_lanes(weights, bits)
    return padded_csr.values_at(padded_csr.for_lanes(sources, bits), graph, moved, numbering)


def _stored(values: Any, graph: Graph, storage: Format) -> SegmentedArray:
    """Return float64 edge values in a storage format, in place where the format allows it."""
    if storage.exact:
        return codec.convert_inplace(values, storage)  # type: ignore[arg-type]
    memory = current().arrays.zeros(storage.nbytes(len(values)), np.uint8)
    stored = SegmentedArray(memory, len(values), storage, padded_csr.value_exponent(graph, storage))
    codec.write(stored, values)
    return stored
