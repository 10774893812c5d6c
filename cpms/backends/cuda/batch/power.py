"""Batches of personalised queries on a device by power iteration in float64; see ``batch/residual_sweep.cu``.

All queries share each read of the matrix (SpMM), and each stops by its own criterion. Columns are compacted when few
enough queries remain. Memory of 24 bytes a node and query limits the width of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cpms.backends.cuda.batch.edges import (
    HISTORY_BYTES,
    RESIDUAL_COLUMNS,
    TeleportEntries,
    columns_per_lane,
    padded_columns,
)
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.kernels import batched, template
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, Query
from cpms.contracts.operator import Sweep
from cpms.problems.pagerank import Problem

Prepared = TypeVar("Prepared")
_SUMS, _REDUCED = 4, 5
"""Sums of a sweep: L1 norm, squares, mass and dangling mass; with the largest residual, all reductions."""
_ROW_THREADS = 8
"""Threads a row in `Answers.take`, whose blocks of 256 threads have 32 rows."""
POWER_BYTES = 24
REFINE_BYTES = POWER_BYTES + 4 + HISTORY_BYTES
"""Bytes a node and query: iterates and scores, and in ``refine`` the correction and the history besides."""


class CudaBatch(Batch):
    """x of all queries in device memory.

    A finished query is swept further until the others fit in fewer columns.
    """

    _columns: QueryColumns
    _answers: Answers
    _iterates: Iterates
    _dangling: Floats

    def __init__(self, problem: Problem) -> None:
        residual_sweeps = [
            variant for per_lane in (1, 2) for variant in batched.batch_residual_sweeps(per_lane, refines=False)
        ]
        others = batched.BATCH_REDUCE, batched.BATCH_SCORES, batched.BATCH_ROW_SUMS
        current().compile([*others, *template.PADDED_CSR, *residual_sweeps])
        self.problem = problem
        self._core = BatchCore.whole(problem)
        self.nbytes = self._core.nbytes
        self.width = fitting_width(problem, RESIDUAL_COLUMNS, POWER_BYTES)

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same initial guess."""
        with memory_for(self.problem, len(queries), POWER_BYTES):
            self._columns = QueryColumns(queries, self._core)
            self._iterates = Iterates(self._core, first, self._columns.stride)
            self._answers = Answers(self._core, len(queries))
        self._dangling = np.full(self._columns.stride, self._iterates.lost_mass)

    def sweep(self) -> list[Sweep]:
        """Sweep once."""
        options = residual_options(self.problem, np.ones(self._columns.stride), self._dangling)
        found = self._iterates.sweep(self._columns, options)
        self._dangling = found[3]
        return [Sweep(*sweep) for sweep in sweeps_of(found, self._columns.columns)]

    def take(self, places: list[int]) -> list[Any]:
        """Return the scores of some queries, in device memory, and remove these from the batch."""
        columns = [self._columns.columns[place] for place in places]
        taken = self._answers.take(self._iterates.contributions, columns, np.ones(len(columns)), np.zeros(len(columns)))
        columns_kept = self._columns.without(places)
        if columns_kept is not None:
            self._iterates.compact(columns_kept)
            self._dangling = self._dangling[current().to_host(columns_kept)]
        return taken


class QueryColumns:
    """The column of each query, and the teleport entries of nodes."""

    queries: list[Query]
    columns: list[int]
    stride: int
    """Columns of a node."""
    teleport: TeleportEntries
    """Teleport entries of the nodes that are swept."""
    downstream: list[Query]
    """The queries' teleport on downstream nodes."""
    reach: Floats
    """Part of each column's teleport on swept nodes, shape (stride,)."""

    def __init__(self, queries: list[Query], core: BatchCore) -> None:
        self._core = core
        self._assign(queries)

    def without(self, places: list[int]) -> Any | None:
        """Remove queries; if the others need fewer columns, return the columns they occupied, on the device."""
        remaining = [place for place in range(len(self.queries)) if place not in places]
        columns = [self.columns[place] for place in remaining]
        self.queries, self.columns = [self.queries[place] for place in remaining], columns
        if not remaining or padded_columns(len(remaining)) == self.stride:
            return None
        self._assign(self.queries)
        # Columns without a query repeat another one, and their results are ignored.
        filled = columns + [columns[0]] * (self.stride - len(columns))
        return current().arrays.asarray(np.array(filled))

    def _assign(self, queries: list[Query]) -> None:
        self.queries = queries
        self.columns = list(range(len(queries)))
        self.stride = padded_columns(len(queries))
        swept, self.downstream, reach = self._core.split_queries(queries)
        self.teleport = TeleportEntries.of(swept, self._core.swept.degree)
        self.reach = np.ones(self.stride)
        self.reach[: len(reach)] = reach


def residual_options(problem: Problem, mass: Floats, dangling: Floats) -> Floats:
    """Return the options of each query's float64 sweep: 1 / mass, inflow of every node, factor of teleport."""
    to_mass_one = 1.0 / np.where(mass > 0, mass, 1.0)  # Columns without a query may have mass 0.
    damped = problem.damping * dangling * to_mass_one
    rest = np.full(len(mass), 1.0 - problem.damping)
    if problem.dangling == "uniform":
        return np.stack([to_mass_one, damped / problem.graph.nodes, rest])
    return np.stack([to_mass_one, np.zeros(len(mass)), rest + damped])


class Iterates:
    """x of all queries as contributions x / out-degree (x itself on dangling nodes), node by node, in device memory.

    Parameters
    ----------
    core : BatchCore
    first : ndarray of float64, shape (nodes,)
        Initial guess of all queries: the first sweep gathers a single column.
    stride : int
        Columns.
    """

    contributions: Any
    """Contributions of the last sweep: rows of swept nodes, a row of zeros, and rows reserved for the other nodes."""
    lost_mass: float
    """Part of the initial guess that no edge carries to a swept node."""

    def __init__(self, core: BatchCore, first: Floats, stride: int) -> None:
        arrays, self._graph, initial = current().arrays, core.swept, core.restrict(first)
        self._zeros = self._graph.count
        self.contributions, self._next = (arrays.empty((len(core.degree) + 1, stride), np.float64) for _ in range(2))
        self.contributions[self._zeros] = self._next[self._zeros] = 0.0
        self._first = arrays.zeros(self._zeros + 1, np.float64)
        self._first[:-1] = initial / arrays.maximum(self._graph.degree, 1)
        self.lost_mass = self._graph.lost_mass(initial)

    def sweep(self, columns: QueryColumns, options: Floats, residual_out: Any | None = None) -> Floats:
        """Sweep all columns in float64, and return the reductions of each, shape (5 or 6, columns).

        These are L1 norm and sum of squares of the residual, mass, dangling mass and largest residual. ``residual_out``
        receives the residual divided by out-degrees; its largest value is then the sixth reduction.
        """
        graph, given = self._graph, current().arrays.asarray(options).reshape(-1)
        damping, none = np.float64(graph.problem.damping), np.uint64(0)
        begins = None if self._first is None else (self._first, self._sums())

        def launch(first: int, used: int) -> int:
            first_sweep, residual_sweep = batched.batch_residual_sweeps(
                columns_per_lane(used), refines=residual_out is not None
            )
            nodes = graph.nodes(columns.teleport, first, used, columns.stride), damping, given[first:]
            buffers = self._next.reshape(-1)[first:], none if residual_out is None else residual_out.reshape(-1)[first:]
            if begins:
                return graph.launch(first_sweep, (*nodes, *begins, *buffers))
            return graph.launch(residual_sweep, (graph.edges, *nodes, self.contributions.reshape(-1)[first:], *buffers))

        count = _REDUCED + (residual_out is not None)
        found = graph.reduce(count, _SUMS, columns.stride, RESIDUAL_COLUMNS, launch)
        self.contributions, self._next, self._first = self._next, self.contributions, None
        return found

    def compact(self, columns_kept: Any) -> None:
        """Keep these columns; the two buffers swap their memory."""
        shape = len(self.contributions), len(columns_kept)
        both = self._next, self.contributions
        closed, buffers = (memory.reshape(-1)[: shape[0] * shape[1]].reshape(shape) for memory in both)
        self.contributions.take(columns_kept, axis=1, out=closed)
        buffers[self._zeros] = 0.0
        self.contributions, self._next = closed, buffers

    def _sums(self) -> Any:
        sums = current().arrays.empty(self._graph.count, np.float64)
        self._graph.launch(batched.BATCH_ROW_SUMS, (self._graph.edges, self._first, sums))
        return sums


def sweeps_of(found: Floats, columns: list[int]) -> list[tuple[float, float, float, float]]:
    """Return the fields of a `Sweep` of each of these columns."""
    return [(l1, squares**0.5, linf, mass) for l1, squares, mass, _, linf in found[:_REDUCED, columns].T.tolist()]


class Answers:
    """Buffers for the scores of a batch's queries, allocated at its start so that no allocation happens during a solve.

    Parameters
    ----------
    core : BatchCore
    queries : int
    """

    def __init__(self, core: BatchCore, queries: int) -> None:
        self._core = core
        self._scores = current().arrays.empty((queries, len(core.degree)), np.float64)
        self._free = list(range(queries))

    def take(self, contributions: Any, columns: list[int], factors: Floats, uniform_weights: Floats) -> list[Any]:
        """Return the scores in some columns, as device arrays; see `BatchCore.finish_downstream` for the factors."""
        backend, core, count = current(), self._core, len(columns)
        taken, self._free = self._free[:count], self._free[count:]
        if taken:
            nodes = len(core.degree)
            which = (backend.arrays.asarray(np.array(numbers, np.uint32)) for numbers in (columns, taken))
            sizes = map(np.uint32, (nodes, core.swept.count, contributions.shape[1]))
            given = *which, backend.arrays.asarray(np.concatenate([factors, uniform_weights])), np.uint32(count)
            uniform = np.uint64(0) if core.uniform_scores is None else core.uniform_scores
            arguments = contributions, core.degree, core.order, *sizes, *given, uniform, self._scores
            backend.run(batched.BATCH_SCORES, backend.grid_size(nodes * _ROW_THREADS), arguments)
        return [self._scores[place] for place in taken]


def needed_bytes(problem: Problem, queries: int, bytes_each: int) -> int:
    """Return about how many bytes of device memory a batch needs, the graph included.

    ``bytes_each`` are those of a node and query.
    """
    graph = problem.graph
    return 9 * (graph.edges + graph.nodes) + 48 * graph.nodes + bytes_each * (graph.nodes + 1) * padded_columns(queries)


def memory_for(problem: Problem, queries: int, bytes_each: int) -> Any:
    """Turn an out-of-memory error into a sentence."""
    what = f"a batch of {queries} queries on {problem.graph.name}"
    return current().memory_for(
        f"{what} (fewer at a time need less: width)", needed_bytes(problem, queries, bytes_each)
    )


def fitting_width(problem: Problem, most: int, bytes_each: int) -> int:
    """Return how many queries, at most ``most``, fit in free memory together.

    Raises
    ------
    UnsupportedError
        If not even the fewest fit.
    """
    free = current().free_bytes()
    beside_graph = needed_bytes(problem, 0, bytes_each)
    for width in range(most, 0, -padded_columns(1)):
        if needed_bytes(problem, width, bytes_each) - beside_graph <= free:
            return width
    least = needed_bytes(problem, 1, bytes_each) - beside_graph
    raise UnsupportedError(
        f"a batch on {problem.graph.name} needs at least {least:,} bytes of device memory beside the graph, "
        f"but {free:,} are free; use engine cpu"
    )


def prepared(kind: Callable[[Problem], Prepared], problem: Problem, engine: str, bytes_each: int) -> Prepared:
    """Return a problem prepared for one kind of batches on the device, of ``bytes_each`` bytes a node and query.

    Raises
    ------
    UnsupportedError
        If not even one query fits.
    """
    graph = problem.graph
    needed = needed_bytes(problem, 1, bytes_each)
    reason = memory_limits.refusal(engine, graph, needed, what=f"a batch on {graph.name}", advice="use engine cpu")
    if reason:
        raise UnsupportedError(reason)
    with current().memory_for(f"a batch on {graph.name}", needed):
        return kind(problem)
