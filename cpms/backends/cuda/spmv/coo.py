"""Edges in COO in device memory, and launchers of ``spmv/coo.cu`` and ``spmv/reduce_by_key.cu``."""

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

STEP_EDGES = 256
"""What a warp takes at a time."""
KEY_TILE_EDGES = 8 * THREADS
"""What a block of ``spmv/reduce_by_key.cu`` takes; ``task_edges`` there."""
_MOST_STEPS = 4
_WARPS_A_PROCESSOR = 64
_BLOCKS_A_PROCESSOR = 32


@dataclass(frozen=True, eq=False)
class Edges:
    """Target, source and value of each edge, sorted by target, and what becomes of a product with them.

    Parameters
    ----------
    targets, sources : device arrays of uint32
        Padding behind the edges has the last target, and as source the first node behind all.
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
        """Upload a graph's edges, padded to a multiple of so many."""
        arrays = current().arrays
        length = -(-graph.edges // multiple) * multiple
        targets = arrays.zeros(length, np.uint32)
        sources = arrays.full(length, graph.nodes, np.uint32)
        values = arrays.zeros(length, real)
        if graph.edges:
            of_edges = graph.targets
            targets[:] = np.uint32(of_edges[-1])
            targets[: graph.edges] = arrays.asarray(of_edges.astype(np.uint32, copy=False))
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
        current().run(streaming.of_plain(kernel, self.real), blocks, arguments)


@dataclass(frozen=True, eq=False)
class Pieces:
    """What tiles leave of the rows they begin and end in, two pieces each, and whose these are.

    Parameters
    ----------
    left : device array of float64, shape (2 * tiles,)
        Zeros where a tile has no end of a row.
    rows : device array of uint32
        Rows that have pieces.
    begins : device array of uint32
        First piece of each of these rows, and behind the last.
    """

    left: Any
    rows: Any
    begins: Any

    @classmethod
    def of(cls, graph: Graph, tile_edges: int) -> Pieces:
        """Find the rows at the ends of a graph's tiles."""
        arrays = current().arrays
        rows, begins = _owners(graph, tile_edges)
        left = arrays.zeros(int(begins[-1]), np.float64)
        return cls(left, arrays.asarray(rows), arrays.asarray(begins))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.left.nbytes + self.rows.nbytes + self.begins.nbytes)

    def mend(self, edges: Edges) -> None:
        """Put the sums of pieces where they belong."""
        count = len(self.rows)
        blocks = current().spread(count, per_processor=_BLOCKS_A_PROCESSOR)
        edges.run("coo_carry_out", blocks, (self.left, self.rows, self.begins, np.uint32(count), edges.sums))


def _owners(graph: Graph, tile_edges: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the rows of the pieces of all tiles, and where each row's pieces begin, and their number.

    Examples
    --------
    >>> rows, begins = _owners(Graph.from_edges([0, 1, 2, 3, 0], [1, 1, 1, 2, 3]), 2)
    >>> rows.tolist(), begins.tolist()
    ([1, 2, 3], [0, 3, 4, 6])
    """
    firsts = np.arange(0, graph.edges, tile_edges)
    ends = np.minimum(np.stack([firsts, firsts + tile_edges - 1], axis=1).ravel(), graph.edges - 1)
    targets = np.searchsorted(graph.indptr, ends, side="right") - 1
    new = np.flatnonzero(np.diff(targets, prepend=-1))
    return targets[new].astype(np.uint32), np.append(new, len(targets)).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class WarpProduct:
    """Warps in a grid-stride loop, a tile of some steps of 256 edges each."""

    kernels: ClassVar[tuple[str, ...]] = ("coo_product", "coo_carry_out")

    edges: Edges
    pieces: Pieces
    steps: int

    @classmethod
    def of(cls, graph: Graph, real: str) -> WarpProduct:
        """Upload a graph; long tiles where there are enough of them for the device."""
        all_steps = -(-graph.edges // STEP_EDGES)
        steps = min(_MOST_STEPS, max(1, all_steps // (current().processors * _WARPS_A_PROCESSOR)))
        return cls(Edges.of(graph, real, STEP_EDGES), Pieces.of(graph, steps * STEP_EDGES), steps)

    @property
    def nbytes(self) -> int:
        """Bytes of edges and pieces."""
        return self.edges.nbytes + self.pieces.nbytes

    def multiply(self, x: Any) -> None:
        """Queue P x into ``edges.sums``."""
        edges, all_steps = self.edges, len(self.edges.targets) // STEP_EDGES
        if not edges.count:
            return
        arguments = (
            *(edges.targets, edges.sources, edges.values, x),
            *(np.uint32(all_steps), np.uint32(self.steps), self.pieces.left, edges.sums),
        )
        warps = -(-all_steps // self.steps)
        edges.run("coo_product", current().spread(32 * warps, per_processor=_BLOCKS_A_PROCESSOR), arguments)
        self.pieces.mend(edges)


@dataclass(frozen=True, eq=False)
class AtomicProduct:
    """Threads in a grid-stride loop, an atomic for each edge."""

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
            edges.run("coo_atomic", current().spread(edges.count, per_processor=_BLOCKS_A_PROCESSOR), arguments)


@dataclass(frozen=True, eq=False)
class KeyProduct:
    """A reduce-by-key by blocks, a tile of 2048 edges each."""

    kernels: ClassVar[tuple[str, ...]] = ("reduce_by_key", "coo_carry_out")

    edges: Edges
    pieces: Pieces

    @classmethod
    def of(cls, graph: Graph, real: str) -> KeyProduct:
        """Upload a graph."""
        return cls(Edges.of(graph, real, KEY_TILE_EDGES), Pieces.of(graph, KEY_TILE_EDGES))

    @property
    def nbytes(self) -> int:
        """Bytes of edges and pieces."""
        return self.edges.nbytes + self.pieces.nbytes

    def multiply(self, x: Any) -> None:
        """Queue P x into ``edges.sums``."""
        edges = self.edges
        if edges.count:
            arguments = (edges.targets, edges.sources, edges.values, x, self.pieces.left, edges.sums)
            edges.run("reduce_by_key", len(edges.targets) // KEY_TILE_EDGES, arguments)
            self.pieces.mend(edges)


Product = WarpProduct | AtomicProduct | KeyProduct
