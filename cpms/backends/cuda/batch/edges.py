"""A graph in device memory for batches of queries, and the launchers of the kernels in ``kernels/cuda/batch``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import ColumnPositions, PaddedCsr, Rows, out_degree
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.precision.anderson import PRODUCTS, SLOTS
from cpms.problems.pagerank import Problem

MOST_COLUMNS = 128
"""Queries that one launch serves; float64 sweeps take `FULL_COLUMNS` of them at a time."""
FULL_COLUMNS = 64
_WARPS = DEFAULT_SHAPE.warps
_TASK_STEPS = 2
"""Steps of 256 slots that a warp takes before the warps of its block join their rows."""
_COLUMNS_TOGETHER = 16
"""ColumnPositions fill whole sectors of 32 bytes, of 16-bit values and wider ones."""
PRODUCT_COLUMNS = 32
"""Queries whose products a launch finds, a lane each."""
_MOST_PARTIALS = max(6 * MOST_COLUMNS, PRODUCTS * PRODUCT_COLUMNS)
"""Totals that a block leaves."""
KEPT_BYTES = 2 * SLOTS
"""Of a node and query, for z of a few low sweeps: 16-bit formats have all slots that extrapolation asks for."""
_LIMITS = {1: 32, 2: 64, 4: 128}
"""ColumnPositions up to which a lane takes so many."""


def padded_columns(queries: int) -> int:
    """Return the columns in which so many queries lie.

    Examples
    --------
    >>> padded_columns(1), padded_columns(100)
    (16, 112)
    """
    return -(-queries // _COLUMNS_TOGETHER) * _COLUMNS_TOGETHER


def values_a_lane(columns: int) -> int:
    """Return how many columns each lane of a warp takes.

    Examples
    --------
    >>> [values_a_lane(columns) for columns in (16, 48, 112)]
    [1, 2, 4]
    """
    return next(each for each, most in _LIMITS.items() if columns <= most)


@dataclass(frozen=True, eq=False)
class Own:
    """What single nodes get of teleport, sorted by node: node i has entries ``starts[i]`` to ``starts[i + 1]``.

    ``degree`` is each node's out-degree, with the highest bit set where it has any.
    """

    starts: Any
    columns: Any
    weights: Any
    degree: Any

    @classmethod
    def of(cls, queries: list[Query], degree: Any) -> Own:
        """Sort the teleports of queries, whose columns are their places, on nodes of these out-degrees."""
        arrays, nodes = current().arrays, len(degree)
        named = np.concatenate([query.nodes for query in queries])
        columns = np.repeat(np.arange(len(queries), dtype=np.uint32), [len(query.nodes) for query in queries])
        order = np.argsort(named, kind="stable")
        starts = arrays.searchsorted(arrays.asarray(named[order]), arrays.arange(nodes + 1))
        weights = np.concatenate([query.weights for query in queries])[order]
        marked, having = degree.copy(), arrays.asarray(np.unique(named))
        marked[having] += np.uint32(1 << 31)
        return cls(starts.astype(np.uint32), arrays.asarray(columns[order]), arrays.asarray(weights), marked)

    def from_row(self, row: int) -> Own:
        """Return what nodes from one on get."""
        return replace(self, starts=self.starts[row:], degree=self.degree[row:])


@dataclass(frozen=True, eq=False)
class BatchGraph:
    """Edges in slots, degrees, and what blocks leave for each other; of all nodes, or of some.

    Parameters
    ----------
    problem : Problem
        Its own teleport distribution is not used.
    count : int
        How many nodes.
    sources, marks : device arrays
        See `cpms.backends.cuda.spmv.padded_csr.PaddedCsr.place`.
    first_rows, first_tasks : device arrays of uint32
        Row of each task's first slot, and the task in which that row begins.
    steps : int
    degree, kept : device arrays of uint32, shape (count,)
        Out-degrees, and how many of these edges lead to one of the nodes.
    pieces : device array of uint64
        All ones where there is nothing.
    partials : device array of float64
    """

    problem: Problem
    count: int
    sources: Any
    marks: Any
    first_rows: Any
    first_tasks: Any
    steps: int
    degree: Any
    kept: Any
    pieces: Any
    partials: Any
    blocks: int

    @classmethod
    def of(cls, problem: Problem) -> BatchGraph:
        """Arrange a problem's graph on the device."""
        degree = out_degree(problem.graph)
        return cls.of_rows(problem, problem.graph, degree, degree)

    @classmethod
    def of_rows(
        cls, problem: Problem, rows: Rows, degree: Any, kept: Any, columns: ColumnPositions | None = None
    ) -> BatchGraph:
        """Arrange some rows of a problem's graph, whose sources are nodes of theirs, or are found by ``columns``."""
        arrays, slots = current().arrays, PaddedCsr.of(rows)
        sources, marks, _ = slots.place(rows, columns)
        tasks = slots.tasks(_TASK_STEPS)
        turns = -(-slots.tiles // (_WARPS * _TASK_STEPS))
        blocks = max(1, min(current().persistent_blocks(DEFAULT_SHAPE), max(turns, rows.nodes // (4 * _WARPS))))
        return cls(
            problem=problem,
            count=rows.nodes,
            sources=sources,
            marks=marks,
            first_rows=tasks.first_rows,
            first_tasks=tasks.first_tasks,
            steps=slots.tiles,
            degree=degree,
            kept=kept,
            pieces=arrays.full(turns * MOST_COLUMNS, np.uint64(2**64 - 1), np.uint64),
            partials=arrays.zeros(_MOST_PARTIALS * blocks, np.float64),
            blocks=blocks,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        parts = (self.sources, self.marks, self.first_rows, self.first_tasks, self.degree)
        return sum(int(part.nbytes) for part in parts)

    @property
    def edges(self) -> tuple[Any, ...]:
        """What kernels that walk edges take first."""
        task = np.uint32(self.steps), np.uint32(_TASK_STEPS)
        return self.sources, self.marks, self.first_rows, self.first_tasks, *task, self.pieces

    def nodes(self, own: Own, first: int, used: int, stride: int) -> tuple[Any, ...]:
        """Return what all kernels take of the nodes, and of ``used`` columns from ``first`` on."""
        own_of = own.starts, own.columns, own.weights, np.uint32(first)
        counts = self.count, self.idle, stride, used
        return own.degree, self.kept, *own_of, *map(np.uint32, counts)

    def lost(self, values: Any) -> float:
        """Return what of these values of nodes, an array on the device, no edge carries to another of the nodes."""
        arrays = current().arrays
        leaves = arrays.where(self.degree > 0, self.degree - self.kept, np.uint32(1))
        return float((values * leaves / arrays.maximum(self.degree, 1)).sum())

    @property
    def idle(self) -> int:
        """Out-degree by which what dangling nodes keep is stored: a power of two near that of the others."""
        graph = self.problem.graph
        linked = graph.nodes - len(graph.dangling_nodes)
        return 1 << max(0, round(math.log2(graph.edges / linked))) if linked else 1

    def launch(self, variant: Variant, arguments: tuple[Any, ...]) -> int:
        """Run a kernel of which all blocks are there at once; return how many these are."""
        blocks = min(self.blocks, current().max_blocks(variant))
        current().run_persistent(variant, blocks, (*arguments, self.partials))
        return blocks

    def totals(self, count: int, sums: int, stride: int, most: int, launch: Callable[[int, int], int]) -> Floats:
        """Call ``launch(first, used)`` for groups of at most ``most`` columns; return totals, shape (count, stride).

        The first ``sums`` of them are sums over the nodes, the others largest values. ``launch`` returns how many
        blocks found parts of them.
        """
        found = current().arrays.zeros(count * stride, np.float64)
        for first, used in groups_of(stride, most):
            blocks = launch(first, used)
            arguments = (
                *(self.partials, np.uint32(blocks), np.uint32(stride), np.uint32(used)),
                *(np.uint32(count), np.uint32(sums), found[first:]),
            )
            current().run(batched.BATCH_REDUCE, -(-count * used // 8), arguments)
        values: Floats = current().to_host(found).reshape(count, stride)
        return values


def groups_of(stride: int, most: int) -> list[tuple[int, int]]:
    """Return the first column and the number of columns of each launch: as few as may be, of about the same size.

    Examples
    --------
    >>> groups_of(112, 64), groups_of(96, 64)
    ([(0, 64), (64, 48)], [(0, 48), (48, 48)])
    """
    size = padded_columns(-(-stride // -(-stride // most)))
    return [(first, min(size, stride - first)) for first in range(0, stride, size)]
