"""Batches of personalised queries on a device, in float64; see ``batch/residual_sweep.cu``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cpms.backends.cuda.batch.edges import FULL_COLUMNS, KEPT_BYTES, Own, padded_columns, values_a_lane
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.kernels import batched, template
from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, Query
from cpms.contracts.operator import Sweep
from cpms.problems.pagerank import Problem

Made = TypeVar("Made")
_SUMS, _FOUND = 4, 5
"""L1, squares, mass and dangling mass; and the largest change."""
_ROW_THREADS = 8
"""Of `Answers.take`, whose blocks of 256 threads have 32 rows."""
POWER_BYTES = 24
REFINE_BYTES = POWER_BYTES + 4 + KEPT_BYTES
"""Of a node and query: iterates and answers, and c and what low sweeps keep besides."""


class CudaBatch(Batch):
    """x of all queries in device memory.

    A query that leaves goes on to be swept until so many have left that the others fit in fewer columns.
    """

    _places: Places
    _answers: Answers
    _iterates: Iterates
    _dangling: Floats

    def __init__(self, problem: Problem) -> None:
        full = [variant for each in (1, 2) for variant in batched.batch_residual_sweeps(each, refines=False)]
        others = batched.BATCH_REDUCE, batched.BATCH_SCORES, batched.BATCH_ROW_SUMS
        current().compile([*others, *template.PADDED_CSR, *full])
        self.problem = problem
        self._core = BatchCore.whole(problem)
        self.nbytes = self._core.nbytes
        self.width = fitting_width(problem, FULL_COLUMNS, POWER_BYTES)

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same first iterate."""
        with memory_for(self.problem, len(queries), POWER_BYTES):
            self._places = Places(queries, self._core)
            self._iterates = Iterates(self._core, first, self._places.stride)
            self._answers = Answers(self._core, len(queries))
        self._dangling = np.full(self._places.stride, self._iterates.lost)

    def sweep(self) -> list[Sweep]:
        """Sweep once."""
        options = full_options(self.problem, np.ones(self._places.stride), self._dangling)
        found = self._iterates.sweep(self._places, options)
        self._dangling = found[3]
        return [Sweep(*sweep) for sweep in sweeps_of(found, self._places.columns)]

    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of some queries, in device memory; they leave the batch."""
        columns = [self._places.columns[place] for place in places]
        taken = self._answers.take(self._iterates.shares, columns, np.ones(len(columns)), np.zeros(len(columns)))
        kept = self._places.without(places)
        if kept is not None:
            self._iterates.close_up(kept)
            self._dangling = self._dangling[current().to_host(kept)]
        return taken


class Places:
    """In which column each query lies, and what its teleport brings to single nodes."""

    queries: list[Query]
    columns: list[int]
    stride: int
    """ColumnPositions of a node."""
    own: Own
    """Of nodes that are swept."""
    behind: list[Query]
    """What the queries ask of the others."""
    reach: Floats
    """What share of each column's teleport swept nodes get, shape (stride,)."""

    def __init__(self, queries: list[Query], core: BatchCore) -> None:
        self._core = core
        self._begin(queries)

    def without(self, places: list[int]) -> Any | None:
        """Let queries go; where the others then need fewer columns, return those they lie in, on the device."""
        left = [place for place in range(len(self.queries)) if place not in places]
        columns = [self.columns[place] for place in left]
        self.queries, self.columns = [self.queries[place] for place in left], columns
        if not left or padded_columns(len(left)) == self.stride:
            return None
        self._begin(self.queries)
        # ColumnPositions without a query repeat one: what they hold is of no use.
        filled = columns + [columns[0]] * (self.stride - len(columns))
        return current().arrays.asarray(np.array(filled))

    def _begin(self, queries: list[Query]) -> None:
        self.queries = queries
        self.columns = list(range(len(queries)))
        self.stride = padded_columns(len(queries))
        swept, self.behind, reach = self._core.shared_out(queries)
        self.own = Own.of(swept, self._core.swept.degree)
        self.reach = np.ones(self.stride)
        self.reach[: len(reach)] = reach


def full_options(problem: Problem, mass: Floats, dangling: Floats) -> Floats:
    """Return what a float64 sweep asks of each query: 1 / mass, what all nodes get, what teleport brings."""
    to_mass_one = 1.0 / np.where(mass > 0, mass, 1.0)  # ColumnPositions without a query may have come to nothing.
    damped = problem.damping * dangling * to_mass_one
    rest = np.full(len(mass), 1.0 - problem.damping)
    if problem.dangling == "uniform":
        return np.stack([to_mass_one, damped / problem.graph.nodes, rest])
    return np.stack([to_mass_one, np.zeros(len(mass)), rest + damped])


class Iterates:
    """x of all queries as shares x / out-degree (x itself on dangling nodes), node by node, in device memory.

    Parameters
    ----------
    core : BatchCore
    first : ndarray of float64, shape (nodes,)
        Where all queries begin: what the first sweep gathers is of one column.
    stride : int
        ColumnPositions.
    """

    shares: Any
    """Those of the last sweep: rows of the nodes that are swept, a row of zeros, and room for those of the others."""
    lost: float
    """What of the first iterate no edge carries to a node that is swept."""

    def __init__(self, core: BatchCore, first: Floats, stride: int) -> None:
        arrays, self._graph, begun = current().arrays, core.swept, core.begun(first)
        self._zeros = self._graph.count
        self.shares, self._fresh = (arrays.empty((len(core.degree) + 1, stride), np.float64) for _ in range(2))
        self.shares[self._zeros] = self._fresh[self._zeros] = 0.0
        self._first = arrays.zeros(self._zeros + 1, np.float64)
        self._first[:-1] = begun / arrays.maximum(self._graph.degree, 1)
        self.lost = self._graph.lost(begun)

    def sweep(self, places: Places, options: Floats, change: Any | None = None) -> Floats:
        """Sweep all columns in float64, and return what was found of each, shape (5 or 6, columns).

        These are L1 and sum of squares of the change, mass, dangling mass and largest change; with a ``change``,
        which then holds that divided by the out-degree, also the largest of its values.
        """
        graph, given = self._graph, current().arrays.asarray(options).reshape(-1)
        damping, none = np.float64(graph.problem.damping), np.uint64(0)
        begins = None if self._first is None else (self._first, self._sums())

        def launch(first: int, used: int) -> int:
            start, full = batched.batch_residual_sweeps(values_a_lane(used), refines=change is not None)
            nodes = *graph.nodes(places.own, first, used, places.stride), damping, given[first:]
            room = self._fresh.reshape(-1)[first:], none if change is None else change.reshape(-1)[first:]
            if begins:
                return graph.launch(start, (*nodes, *begins, *room))
            return graph.launch(full, (*graph.edges, *nodes, self.shares.reshape(-1)[first:], *room))

        count = _FOUND + (change is not None)
        found = graph.totals(count, _SUMS, places.stride, FULL_COLUMNS, launch)
        self.shares, self._fresh, self._first = self._fresh, self.shares, None
        return found

    def close_up(self, kept: Any) -> None:
        """Keep these columns; shares and room for the next ones each go to the memory of the other."""
        shape = len(self.shares), len(kept)
        both = self._fresh, self.shares
        closed, room = (memory.reshape(-1)[: shape[0] * shape[1]].reshape(shape) for memory in both)
        self.shares.take(kept, axis=1, out=closed)
        room[self._zeros] = 0.0
        self.shares, self._fresh = closed, room

    def _sums(self) -> Any:
        sums = current().arrays.empty(self._graph.count, np.float64)
        self._graph.launch(batched.BATCH_ROW_SUMS, (*self._graph.edges, np.uint32(len(sums)), self._first, sums))
        return sums


def sweeps_of(found: Floats, columns: list[int]) -> list[tuple[float, float, float, float]]:
    """Return the parts of a `Sweep` of each of these columns."""
    return [(l1, squares**0.5, linf, mass) for l1, squares, mass, _, linf in found[:_FOUND, columns].T.tolist()]


class Answers:
    """Room for the ranks of a batch's queries, taken at its start: memory is not asked for while it runs.

    Parameters
    ----------
    core : BatchCore
    queries : int
    """

    def __init__(self, core: BatchCore, queries: int) -> None:
        self._core = core
        self._room = current().arrays.empty((queries, len(core.degree)), np.float64)
        self._free = list(range(queries))

    def take(self, shares: Any, columns: list[int], factors: Floats, of_all: Floats) -> list[Any]:
        """Return the ranks in some columns, as arrays in device memory; see `BatchCore.follow_up` for the factors."""
        backend, core, count = current(), self._core, len(columns)
        taken, self._free = self._free[:count], self._free[count:]
        if taken:
            nodes = len(core.degree)
            which = (backend.arrays.asarray(np.array(numbers, np.uint32)) for numbers in (columns, taken))
            sizes = map(np.uint32, (nodes, core.swept.count, shares.shape[1]))
            given = *which, backend.arrays.asarray(np.concatenate([factors, of_all])), np.uint32(count)
            beside = np.uint64(0) if core.of_all is None else core.of_all
            arguments = shares, core.degree, core.order, *sizes, *given, beside, self._room
            backend.run(batched.BATCH_SCORES, backend.spread(nodes * _ROW_THREADS), arguments)
        return [self._room[place] for place in taken]


def needed_bytes(problem: Problem, queries: int, each: int) -> int:
    """Return about how many bytes of device memory a batch needs, ``each`` a node and query, the graph included."""
    graph = problem.graph
    return 9 * (graph.edges + graph.nodes) + 48 * graph.nodes + each * (graph.nodes + 1) * padded_columns(queries)


def memory_for(problem: Problem, queries: int, each: int) -> Any:
    """Turn running out of memory into a sentence."""
    what = f"a batch of {queries} queries on {problem.graph.name}"
    return current().memory_for(f"{what} (fewer at a time need less: width)", needed_bytes(problem, queries, each))


def fitting_width(problem: Problem, most: int, each: int) -> int:
    """Return how many queries pay together and fit in the memory that is free.

    Raises
    ------
    UnsupportedError
        If not even the fewest fit.
    """
    free = current().free_bytes()
    beside_graph = needed_bytes(problem, 0, each)
    for width in range(most, 0, -padded_columns(1)):
        if needed_bytes(problem, width, each) - beside_graph <= free:
            return width
    raise UnsupportedError(
        f"a batch on {problem.graph.name} needs at least {needed_bytes(problem, 1, each) - beside_graph:,} bytes of "
        f"device memory beside the graph, but {free:,} are free; use engine cpu"
    )


def prepared(kind: Callable[[Problem], Made], problem: Problem, engine: str, each: int) -> Made:
    """Return a problem prepared for one kind of batches on the device, of ``each`` bytes a node and query.

    Raises
    ------
    UnsupportedError
        If not even one query fits.
    """
    graph = problem.graph
    needed = needed_bytes(problem, 1, each)
    reason = memory_limits.refusal(engine, graph, needed, what=f"a batch on {graph.name}", advice="use engine cpu")
    if reason:
        raise UnsupportedError(reason)
    with memory_for(problem, 0, 0):
        return kind(problem)
