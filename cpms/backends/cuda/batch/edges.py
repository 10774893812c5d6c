"""A graph in device memory for batches of queries, and the launchers of the kernels in ``kernels/cuda/batch``.

A batch is a sparse matrix times dense columns (SpMM): every read of an index serves all queries. Warps compute
segmented sums over runs of tiles, a lane for one, two or four columns, and combine the rows of a block in shared
memory. The cost is a vector of x a query; the edges are read once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import batched, structs
from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv.padded_csr import ColumnPositions, PaddedCsr, Rows, out_degree
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.precision.anderson import HISTORY_VECTORS, PRODUCTS
from cpms.problems.pagerank import Problem

MAX_COLUMNS = 128
"""Queries that one launch serves; float64 residual sweeps process `RESIDUAL_COLUMNS` of them at a time."""
RESIDUAL_COLUMNS = 64
_WARPS = DEFAULT_SHAPE.warps
BLOCK_WARPS = THREADS // 32
"""Warps of a block of the kernels that finish a sweep, which have one total or query each."""
_TASK_TILES = 2
"""Tiles of 256 entries that a warp processes before the warps of its block combine their rows."""
_COLUMN_MULTIPLE = 16
"""Columns fill whole sectors of 32 bytes, for 16-bit values and wider ones."""
PRODUCT_COLUMNS = 32
"""Queries whose inner products a launch computes, a lane each."""
_MAX_PARTIALS = max(6 * MAX_COLUMNS, PRODUCTS * PRODUCT_COLUMNS)
"""Partial sums that a block writes."""
HISTORY_BYTES = 2 * HISTORY_VECTORS
"""Bytes a node and query for the history of sent residuals: 16-bit formats store as many vectors as Anderson
acceleration uses.
"""
_COLUMNS_BY_LANE = {1: 32, 2: 64, 4: 128}
"""Largest number of columns by the columns a lane."""


def padded_columns(queries: int) -> int:
    """Return the number of columns, a multiple of 16, that hold so many queries.

    Examples
    --------
    >>> padded_columns(1), padded_columns(100)
    (16, 112)
    """
    return -(-queries // _COLUMN_MULTIPLE) * _COLUMN_MULTIPLE


def columns_per_lane(columns: int) -> int:
    """Return how many columns each lane of a warp processes.

    Examples
    --------
    >>> [columns_per_lane(columns) for columns in (16, 48, 112)]
    [1, 2, 4]
    """
    return next(per_lane for per_lane, max_columns in _COLUMNS_BY_LANE.items() if columns <= max_columns)


@dataclass(frozen=True, eq=False)
class TeleportEntries:
    """Teleport entries of single nodes, sorted by node: node i has entries ``begins[i]`` to ``begins[i + 1]``.

    ``degree`` is each node's out-degree, with the highest bit set where the node has entries.
    """

    begins: Any
    columns: Any
    weights: Any
    degree: Any

    @classmethod
    def of(cls, queries: list[Query], degree: Any) -> TeleportEntries:
        """Sort the teleports of queries by node.

        A query's index is its column; ``degree`` are the nodes' out-degrees.
        """
        arrays, nodes = current().arrays, len(degree)
        nodes_of_entries = np.concatenate([query.nodes for query in queries])
        columns = np.repeat(np.arange(len(queries), dtype=np.uint32), [len(query.nodes) for query in queries])
        order = np.argsort(nodes_of_entries, kind="stable")
        begins = arrays.searchsorted(arrays.asarray(nodes_of_entries[order]), arrays.arange(nodes + 1))
        weights = np.concatenate([query.weights for query in queries])[order]
        flagged_degree, with_entries = degree.copy(), arrays.asarray(np.unique(nodes_of_entries))
        flagged_degree[with_entries] += np.uint32(1 << 31)
        return cls(begins.astype(np.uint32), arrays.asarray(columns[order]), arrays.asarray(weights), flagged_degree)

    def from_row(self, row: int) -> TeleportEntries:
        """Return the entries of the nodes from ``row`` on."""
        return replace(self, begins=self.begins[row:], degree=self.degree[row:])


@dataclass(frozen=True, eq=False)
class BatchGraph:
    """Edges as padded entries, degrees, and the workspace of blocks, for all nodes or for some.

    Parameters
    ----------
    problem : Problem
        Its own teleport distribution is not used.
    count : int
        Number of nodes.
    sources, row_end_flags : device arrays
        See `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.to_device`.
    first_rows, first_tasks : device arrays of uint32
        Row of each task's first entry, and the task in which that row begins.
    tiles : int
    degree, internal_degree : device arrays of uint32, shape (count,)
        Out-degrees, and the number of these edges that lead to one of the nodes.
    carry_out : device array of uint64
        Partial sums of rows that span tasks; all ones where there is none.
    partials : device array of float64
    """

    problem: Problem
    count: int
    sources: Any
    row_end_flags: Any
    first_rows: Any
    first_tasks: Any
    tiles: int
    degree: Any
    internal_degree: Any
    carry_out: Any
    partials: Any
    blocks: int

    @classmethod
    def of(cls, problem: Problem) -> BatchGraph:
        """Arrange a problem's graph on the device."""
        degree = out_degree(problem.graph)
        return cls.of_rows(problem, problem.graph, degree, degree)

    @classmethod
    def of_rows(
        cls, problem: Problem, rows: Rows, degree: Any, internal_degree: Any, columns: ColumnPositions | None = None
    ) -> BatchGraph:
        """Arrange some rows of a problem's graph.

        Sources are indices of the rows' nodes, or are mapped by ``columns``.
        """
        arrays, entries = current().arrays, PaddedCsr.of(rows)
        sources, row_end_flags, _ = entries.to_device(rows, columns)
        tasks = entries.tasks(_TASK_TILES)
        task_groups = -(-entries.tiles // (_WARPS * _TASK_TILES))
        blocks = max(1, min(current().persistent_blocks(DEFAULT_SHAPE), max(task_groups, rows.nodes // (4 * _WARPS))))
        return cls(
            problem=problem,
            count=rows.nodes,
            sources=sources,
            row_end_flags=row_end_flags,
            first_rows=tasks.first_rows,
            first_tasks=tasks.first_tasks,
            tiles=entries.tiles,
            degree=degree,
            internal_degree=internal_degree,
            carry_out=arrays.full(task_groups * MAX_COLUMNS, np.uint64(2**64 - 1), np.uint64),
            partials=arrays.zeros(_MAX_PARTIALS * blocks, np.float64),
            blocks=blocks,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        parts = (self.sources, self.row_end_flags, self.first_rows, self.first_tasks, self.degree)
        return sum(int(part.nbytes) for part in parts)

    @cached_property
    def edges(self) -> Struct:
        """The kernel argument of the edges, which comes first."""
        return pack(
            structs.BATCH_EDGES,
            sources=self.sources,
            row_end_flags=self.row_end_flags,
            first_rows=self.first_rows,
            first_tasks=self.first_tasks,
            tiles=self.tiles,
            task_tiles=_TASK_TILES,
            rows=self.count,
            carry_out=self.carry_out,
        )

    def nodes(self, teleport: TeleportEntries, first: int, used: int, stride: int) -> Struct:
        """Return the kernel argument of the nodes, for ``used`` columns from ``first`` on."""
        return pack(
            structs.BATCH_NODES,
            degree=teleport.degree,
            internal_degree=self.internal_degree,
            teleport=pack(
                structs.TELEPORT_ENTRIES,
                starts=teleport.begins,
                columns=teleport.columns,
                weights=teleport.weights,
                first=first,
            ),
            count=self.count,
            dangling_degree=self.dangling_degree,
            columns=pack(structs.COLUMNS, stride=stride, used=used),
        )

    def lost_mass(self, values: Any) -> float:
        """Return the part of the nodes' values, a device array, that no edge carries to one of the nodes."""
        arrays = current().arrays
        external_degree = arrays.where(self.degree > 0, self.degree - self.internal_degree, np.uint32(1))
        return float((values * external_degree / arrays.maximum(self.degree, 1)).sum())

    @cached_property
    def dangling_degree(self) -> int:
        """Degree by which values of dangling nodes are stored: a power of two near the others' mean degree."""
        graph = self.problem.graph
        linked = graph.nodes - len(graph.dangling_nodes)
        return 1 << max(0, round(math.log2(graph.edges / linked))) if linked else 1

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> int:
        """Launch a persistent kernel; return its number of blocks."""
        blocks = min(self.blocks, current().max_blocks(variant))
        current().run_persistent(variant, blocks, (*arguments, self.partials))
        return blocks

    def reduce(self, count: int, sums: int, stride: int, max_columns: int, launch: Callable[[int, int], int]) -> Floats:
        """Call ``launch(first, used)`` for groups of at most ``max_columns`` columns; return totals.

        These have shape (count, stride). The first ``sums`` of them are sums over the nodes, the others maxima.
        ``launch`` returns the number of blocks that wrote partial results.
        """
        found = current().arrays.zeros(count * stride, np.float64)
        for first, used in groups_of(stride, max_columns):
            blocks = launch(first, used)
            arguments = (
                *(self.partials, np.uint32(blocks), np.uint32(stride), np.uint32(used)),
                *(np.uint32(count), np.uint32(sums), found[first:]),
            )
            current().run(batched.BATCH_REDUCE, -(-count * used // BLOCK_WARPS), arguments)
        values: Floats = current().to_host(found).reshape(count, stride)
        return values


def groups_of(stride: int, max_columns: int) -> list[tuple[int, int]]:
    """Return the first column and the number of columns of as few launches as possible, of about equal size.

    Examples
    --------
    >>> groups_of(112, 64), groups_of(96, 64)
    ([(0, 64), (64, 48)], [(0, 48), (48, 48)])
    """
    size = padded_columns(-(-stride // -(-stride // max_columns)))
    return [(first, min(size, stride - first)) for first in range(0, stride, size)]
