"""Sparse products on edges in COO, sorted by target: segmented by warps, by atomics, or by blocks as a reduce-by-key.

Sums of rows that tasks share are finished from carry-outs in a second kernel (Bell and Garland, SC 2009), so that a
product is bitwise repeatable; atomics are the exception and the baseline. The kernels are ``spmv/coo.cu`` and
``spmv/reduce_by_key.cu``; an edge costs 8 bytes besides its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.graph.graph import Graph
from cpms.sparse.transition_values import edge_values

TILE_EDGES = 256
"""Edges of a tile, which a warp loads at a time."""
KEY_TASK_EDGES = 8 * THREADS
"""Edges of a task, a block of ``spmv/reduce_by_key.cu``; ``task_edges`` there."""
_MAX_TASK_TILES = 4
_WARPS_A_PROCESSOR = 64
_BLOCKS_A_PROCESSOR = 32


@dataclass(frozen=True, eq=False)
class Edges:
    """Target, source and value of each edge, sorted by target, and the row sums of a product.

    Parameters
    ----------
    targets, sources : device arrays of uint32
        Padding after the edges has the last target, and as source the first index after the nodes.
    values : device array of float64 or float32
        Of P: weight over the source's total weight. Padding has 0.
    sums : device array of the same type, shape (nodes,)
        P x after a product.
    count : int
        Edges, without padding.
    """

    targets: Any
    sources: Any
    values: Any
    sums: Any
    count: int

    @classmethod
    def of(cls, graph: Graph, real: str, multiple: int) -> Edges:
        """Upload a graph's edges, padded to a multiple of so many edges."""
        arrays = current().arrays
        length = -(-graph.edges // multiple) * multiple
        targets = arrays.zeros(length, np.uint32)
        sources = arrays.full(length, graph.nodes, np.uint32)
        values = arrays.zeros(length, real)
        if graph.edges:
            given = graph.targets
            targets[:] = np.uint32(given[-1])
            targets[: graph.edges] = arrays.asarray(given.astype(np.uint32, copy=False))
            sources[: graph.edges] = arrays.asarray(graph.sources.astype(np.uint32, copy=False))
            values[: graph.edges] = arrays.asarray(edge_values(graph).astype(real, copy=False))
        return cls(targets, sources, values, arrays.zeros(graph.nodes, real), graph.edges)

    @property
    def real(self) -> str:
        """Name of the type of the values."""
        return str(self.values.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of targets, sources and values."""
        return int(self.targets.nbytes + self.sources.nbytes + self.values.nbytes)

    def run(self, kernel: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel of these edges' type."""
        current().run(streaming.native_variant(kernel, self.real), blocks, arguments)


@dataclass(frozen=True, eq=False)
class CarryOut:
    """Partial sums of the rows in which tasks begin and end, two a task, and the rows that they belong to.

    Parameters
    ----------
    partials : device array of float64, shape (2 * tasks,)
        Zeros where no row ends in a task.
    rows : device array of uint32
        Rows that have partial sums.
    begins : device array of uint32
        First partial sum of each of these rows, and the end of the last.
    """

    partials: Any
    rows: Any
    begins: Any

    @classmethod
    def of(cls, graph: Graph, task_edges: int) -> CarryOut:
        """Find the rows at the ends of a graph's tasks."""
        arrays = current().arrays
        rows, begins = _owners(graph, task_edges)
        partials = arrays.zeros(int(begins[-1]), np.float64)
        return cls(partials, arrays.asarray(rows), arrays.asarray(begins))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.partials.nbytes + self.rows.nbytes + self.begins.nbytes)

    def gather(self, edges: Edges) -> None:
        """Write the rows' sums of partial sums into ``edges.sums``."""
        count = len(self.rows)
        blocks = current().grid_size(count, per_processor=_BLOCKS_A_PROCESSOR)
        edges.run("coo_carry_out", blocks, (self.partials, self.rows, self.begins, np.uint32(count), edges.sums))


def _owners(graph: Graph, task_edges: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the rows of the partial sums of all tasks, the first partial sum of each row, and the count of them.

    Examples
    --------
    >>> rows, begins = _owners(Graph.from_edges([0, 1, 2, 3, 0], [1, 1, 1, 2, 3]), 2)
    >>> rows.tolist(), begins.tolist()
    ([1, 2, 3], [0, 3, 4, 6])
    """
    firsts = np.arange(0, graph.edges, task_edges)
    ends = np.minimum(np.stack([firsts, firsts + task_edges - 1], axis=1).ravel(), graph.edges - 1)
    targets = np.searchsorted(graph.indptr, ends, side="right") - 1
    new = np.flatnonzero(np.diff(targets, prepend=-1))
    return targets[new].astype(np.uint32), np.append(new, len(targets)).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class WarpProduct:
    """Warps in a grid-stride loop over tasks of some tiles of 256 edges."""

    kernels: ClassVar[tuple[str, ...]] = ("coo_product", "coo_carry_out")

    edges: Edges
    carry_out: CarryOut
    task_tiles: int

    @classmethod
    def of(cls, graph: Graph, real: str) -> WarpProduct:
        """Upload a graph; long tasks where enough of them occupy the device."""
        all_tiles = -(-graph.edges // TILE_EDGES)
        task_tiles = min(_MAX_TASK_TILES, max(1, all_tiles // (current().processors * _WARPS_A_PROCESSOR)))
        return cls(Edges.of(graph, real, TILE_EDGES), CarryOut.of(graph, task_tiles * TILE_EDGES), task_tiles)

    @property
    def nbytes(self) -> int:
        """Bytes of edges and partial sums."""
        return self.edges.nbytes + self.carry_out.nbytes

    def multiply(self, x: Any) -> None:
        """Queue P x into ``edges.sums``."""
        edges, all_tiles = self.edges, len(self.edges.targets) // TILE_EDGES
        if not edges.count:
            return
        arguments = (
            *(edges.targets, edges.sources, edges.values, x),
            *(np.uint32(all_tiles), np.uint32(self.task_tiles), self.carry_out.partials, edges.sums),
        )
        warps = -(-all_tiles // self.task_tiles)
        edges.run("coo_product", current().grid_size(32 * warps, per_processor=_BLOCKS_A_PROCESSOR), arguments)
        self.carry_out.gather(edges)


@dataclass(frozen=True, eq=False)
class AtomicProduct:
    """Threads in a grid-stride loop, an atomic addition an edge."""

    kernels: ClassVar[tuple[str, ...]] = ("coo_atomic",)

    edges: Edges

    @classmethod
    def of(cls, graph: Graph, real: str) -> AtomicProduct:
        """Upload a graph."""
        return cls(Edges.of(graph, real, 1))

    @property
    def nbytes(self) -> int:
        """Bytes of the edges."""
        return self.edges.nbytes

    def multiply(self, x: Any) -> None:
        """Queue P x into ``edges.sums``."""
        edges = self.edges
        edges.sums.fill(0)
        if edges.count:
            arguments = (edges.targets, edges.sources, edges.values, np.uint32(edges.count), x, edges.sums)
            edges.run("coo_atomic", current().grid_size(edges.count, per_processor=_BLOCKS_A_PROCESSOR), arguments)


@dataclass(frozen=True, eq=False)
class KeyProduct:
    """A reduce-by-key, a block a task of 2048 edges."""

    kernels: ClassVar[tuple[str, ...]] = ("reduce_by_key", "coo_carry_out")

    edges: Edges
    carry_out: CarryOut

    @classmethod
    def of(cls, graph: Graph, real: str) -> KeyProduct:
        """Upload a graph."""
        return cls(Edges.of(graph, real, KEY_TASK_EDGES), CarryOut.of(graph, KEY_TASK_EDGES))

    @property
    def nbytes(self) -> int:
        """Bytes of edges and partial sums."""
        return self.edges.nbytes + self.carry_out.nbytes

    def multiply(self, x: Any) -> None:
        """Queue P x into ``edges.sums``."""
        edges = self.edges
        if edges.count:
            arguments = (edges.targets, edges.sources, edges.values, x, self.carry_out.partials, edges.sums)
            edges.run("reduce_by_key", len(edges.targets) // KEY_TASK_EDGES, arguments)
            self.carry_out.gather(edges)


Product = WarpProduct | AtomicProduct | KeyProduct
