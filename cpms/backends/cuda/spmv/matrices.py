"""Sparse matrices of composed sweeps: CSR by a thread a row, load-balanced CSR, and ELL, built on the device.

Each is P or its sparsity pattern. CSR by a thread a row has the shortest latency and serves small graphs of short rows;
load-balanced CSR serves all others at 4.25 bytes an entry besides the values; ELL pads each row to the longest.
"""

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
from cpms.backends.cuda.spmv.launch_spmv import Epilogue
from cpms.backends.cuda.spmv.padded_csr import Tasks
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.formats.formats import FP64, Format, SegmentFormat
from cpms.graph.graph import Graph
from cpms.storage.array import SegmentedArray

_MAX_TASK_TILES = 8
_SHORT_ROW_TASK_TILES = 4
_GATHER_TASK_TILES = 16
"""Tiles of a task where gathers from the device's cache bring more bytes than streams."""
_SOURCE_BITS = 32
_ROW_BYTES = 16
"""Bytes of a row that a product in float64 streams."""
_WARPS_A_PROCESSOR = 32
_MAX_THREAD_ROW = 16
"""Entries of the longest row that one thread sums while the device waits for memory anyway."""
_SHORT_ROW = 4
"""Mean row length below which shorter tasks are faster: writing rows takes as long as reading entries."""


@dataclass(frozen=True, eq=False)
class Matrix(ABC):
    """P, or its sparsity pattern, in one layout.

    Parameters
    ----------
    sources : device array of uint32
        Column index of each entry; of padding, the first index after the nodes.
    values : SegmentedArray or None
        In device memory, one for each entry; None for the pattern alone.
    """

    sources: Any
    values: SegmentedArray | None

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return int(self.sources.nbytes) + (0 if self.values is None else self.values.nbytes)

    @abstractmethod
    def multiply(self, x: SegmentedArray, out: SegmentedArray, epilogue: Epilogue, *, read: int, write: int) -> None:
        """Write the epilogue of each row's sum into ``out``."""

    def to_float64(self, graph: Graph) -> Matrix:
        """Return the matrix of packed floats in native float64.

        Segments need no conversion: read whole, they cost as many bytes as float64.
        """
        if self.values is None:
            return self
        return replace(self, values=codec.convert_inplace(self._float64_values(graph), FP64))

    @abstractmethod
    def _float64_values(self, graph: Graph) -> Any:
        """Return the entries' values, computed again from the graph."""


@dataclass(frozen=True, eq=False)
class ThreadCsr(Matrix):
    """CSR multiplied by a thread a row; ``starts`` has shape (nodes + 1,)."""

    starts: Any

    @staticmethod
    def is_faster(graph: Graph) -> bool:
        """Return whether all rows are short, and the edges too few to occupy the device in tasks.

        The time of such a product is latency from launch to last write, which is shorter without tasks.
        """
        return bool(graph.edges < WHOLE_VALUES * _warps_held() and graph.in_degree.max() <= _MAX_THREAD_ROW)

    @classmethod
    def build(cls, graph: Graph, storage: Format | None) -> ThreadCsr:
        """Return the rows without padding; ``storage`` is that of the values, None for the pattern."""
        starts, sources = padded_csr.uploaded(graph)
        made = cls(sources, None, starts)
        return made if storage is None else replace(made, values=_stored(made._float64_values(graph), graph, storage))

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return super().nbytes + int(self.starts.nbytes)

    def multiply(self, x: SegmentedArray, out: SegmentedArray, epilogue: Epilogue, *, read: int, write: int) -> None:
        """Launch one kernel."""
        launch_spmv.csr_thread_per_row(self.starts, self.sources, self.values, x, out, epilogue, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        values = current().arrays.zeros(padded(graph.edges), np.float64)
        if graph.weights is not None:
            values[: graph.edges] = current().upload(graph.weights)
        padded_csr.fill_values(self.sources, graph, values)
        return values


@dataclass(frozen=True, eq=False)
class BalancedCsr(Matrix):
    """Padded CSR in tasks of equally many entries; see ``spmv/csr_balanced.cu``.

    Parameters
    ----------
    row_end_flags : device array of uint16
        Of each eight entries: the ends of rows, and the count of rows that end before them in the tile.
    tasks, wide_tasks : Tasks
        For reads of up to 32 bits, and of more. Where wide vectors outgrow the device's cache, shorter tasks keep the
        gathers of concurrent warps near each other, and fewer warps have more of the first-level cache each.
    carry_out : device array of uint64
        Partial sums of rows that continue in the next task; all bits 1 between launches.
    reordering : Reordering or None
        The order of rows, and of nodes in vectors.
    """

    row_end_flags: Any
    tasks: Tasks
    wide_tasks: Tasks
    carry_out: Any
    reordering: Reordering | None

    @classmethod
    def build(
        cls,
        graph: Graph,
        storage: Format | None,
        *,
        reordering: Reordering | None = None,
        tiles: int | None = None,
    ) -> BalancedCsr:
        """Return the rows partitioned into tasks; by default of so many tiles that they occupy the device."""
        backend = current()
        arrays = backend.arrays
        rows = padded_csr.PaddedCsr.of(graph, reordering)
        # As many tasks as warps that the device holds at once, up to the length beyond which tasks gain nothing.
        longest = _MAX_TASK_TILES if graph.edges >= _SHORT_ROW * graph.nodes else _SHORT_ROW_TASK_TILES
        busy = max(1, rows.tiles // _warps_held())
        chosen = tiles or min(longest, busy)
        sources, row_end_flags, weights = rows.to_device(graph)
        tasks = wide = rows.tasks(chosen)
        if FP64.nbytes(graph.nodes) > backend.cache_bytes:
            wide = rows.tasks(max(1, chosen // 2), blocks=FEW_BLOCKS)
        elif tiles is None and busy >= _GATHER_TASK_TILES and _gathers_dominate(sources, graph.nodes):
            wide = rows.tasks(_GATHER_TASK_TILES, blocks=FEW_BLOCKS)
        made = cls(
            sources=padded_csr.for_lanes(sources, _SOURCE_BITS),
            values=None,
            row_end_flags=row_end_flags,
            tasks=tasks,
            wide_tasks=wide,
            carry_out=arrays.full(max(len(part.first_rows) for part in (tasks, wide)), ~np.uint64(0), np.uint64),
            reordering=reordering,
        )
        if storage is None:
            return made
        values = _values_for_lanes(sources, graph, weights, reordering, storage)
        return replace(made, values=_stored(values, graph, storage))

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        rows = [part for tasks in (self.tasks, self.wide_tasks) for part in (tasks.first_rows, tasks.first_tasks)]
        parts = self.row_end_flags, self.carry_out, *rows
        return super().nbytes + sum({id(part): int(part.nbytes) for part in parts}.values())

    def multiply(self, x: SegmentedArray, out: SegmentedArray, epilogue: Epilogue, *, read: int, write: int) -> None:
        """Launch one kernel."""
        tasks = self.wide_tasks if x.format.bits(read) > NARROW_BITS else self.tasks
        parts = (self.sources, self.values, self.row_end_flags, tasks, self.carry_out)
        launch_spmv.csr_balanced(*parts, x, out, epilogue, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        weights = None if graph.weights is None else padded_csr.PaddedCsr.of(graph, self.reordering).to_device(graph)[2]
        return _values_for_lanes(
            padded_csr.from_lanes(self.sources, _SOURCE_BITS), graph, weights, self.reordering, FP64
        )


@dataclass(frozen=True, eq=False)
class Ell(Matrix):
    """ELL: ``width`` columns, each of as many entries as a vector has values."""

    width: int
    rows: int

    @classmethod
    def build(cls, graph: Graph, storage: Format) -> Ell:
        """Return every row padded to the longest."""
        sources, weights = padded_csr.columns_to_device(graph)
        made = cls(sources, None, int(graph.in_degree.max()), graph.nodes)
        return replace(made, values=_stored(padded_csr.values_at(sources, graph, weights), graph, storage))

    def multiply(self, x: SegmentedArray, out: SegmentedArray, epilogue: Epilogue, *, read: int, write: int) -> None:
        """Launch one kernel."""
        assert self.values is not None  # noqa: S101  # ELL always has values.
        launch_spmv.ell(self.sources, self.values, self.width, self.rows, x, out, epilogue, read=read, write=write)

    def _float64_values(self, graph: Graph) -> Any:
        return padded_csr.values_at(self.sources, graph, padded_csr.columns_to_device(graph)[1])


def device_bytes(graph: Graph, storage: Format, layout: str) -> int:
    """Return about how many bytes of device memory a solve needs, temporary arrays of building included."""
    vectors = 2 * storage.nbytes(graph.nodes) + 28 * graph.nodes
    if layout == "ell":
        entries = padded(graph.nodes + 1) * int(graph.in_degree.max())
    else:
        entries = graph.edges + graph.nodes + WHOLE_VALUES
    if layout == "pattern":
        return vectors + 4 * (entries + graph.edges) + 12 * graph.nodes
    stored = 0 if storage.exact else storage.nbytes(entries)
    # Sources and values, and while building sources and weights in the order of lanes.
    entry_bytes = 16 if graph.weights is None else 24
    return vectors + entry_bytes * entries + stored + 4 * graph.edges + 20 * graph.nodes


def _warps_held() -> int:
    """Return how many warps of a load-balanced product the device holds at once."""
    return current().processors * _WARPS_A_PROCESSOR


def _gathers_dominate(sources: Any, rows: int) -> bool:
    """Return whether a product in float64 gathers more bytes than it streams."""
    streamed = (padded_csr.ENTRY_BYTES + 8) * len(sources) + _ROW_BYTES * rows
    return access_sampling.gathered_bytes(sources, 8) > streamed


def _values_for_lanes(
    sources: Any, graph: Graph, weights: Any | None, reordering: Reordering | None, storage: Format
) -> Any:
    """Return float64 edge values in the order in which lanes load them in a storage format."""
    bits = max(storage.widths) if isinstance(storage, SegmentFormat) else 8 * storage.group_bytes
    reordered = None if weights is None else padded_csr.for_lanes(weights, bits)
    return padded_csr.values_at(padded_csr.for_lanes(sources, bits), graph, reordered, reordering)


def _stored(values: Any, graph: Graph, storage: Format) -> SegmentedArray:
    """Return float64 edge values in a storage format, in place where the format allows it."""
    if storage.exact:
        return codec.convert_inplace(values, storage)  # type: ignore[arg-type]
    memory = current().arrays.zeros(storage.nbytes(len(values)), np.uint8)
    stored = SegmentedArray(memory, len(values), storage, padded_csr.value_exponent(graph, storage))
    codec.write(stored, values)
    return stored
