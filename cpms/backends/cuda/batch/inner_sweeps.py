"""Inner sweeps of a batch of queries on a device: launchers of ``batch/inner_sweep.cu`` and ``batch/anderson.cu``.

Inner Richardson sweeps write the quantised residual alone. Every few sweeps the history of sent residuals is added to
the correction at once, and alternating Anderson acceleration combines it, with inner products of each query's own
(`cpms.precision.anderson`). The correction thus omits the rounding of residuals to few bits, and the mass that is
redistributed uniformly; both are of the size of the noise at which an outer step ends, and the next residual sweep
finds them. The history costs `HISTORY_BYTES` a node and query.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import (
    BLOCK_WARPS,
    HISTORY_BYTES,
    MAX_COLUMNS,
    PRODUCT_COLUMNS,
    BatchGraph,
    columns_per_lane,
    groups_of,
)
from cpms.backends.cuda.batch.power import QueryColumns
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.formats.formats import FloatFormat
from cpms.formats.quantization import headroom, shared_scale
from cpms.precision.anderson import HISTORY_VECTORS

_MAX_EXPONENT = 100
"""Largest exponent of a scale, a power of two of float32; ``float_exponent`` of the kernels has the same limit."""
_MAX_BIAS = 63
"""Bias of the sent format at most: the largest exponents of float32 are reserved for r."""
_FLOAT32_EXPONENT_BITS = 8
_ALWAYS = np.uint64(0)
_WEIGHTS = 2 * HISTORY_VECTORS + 2
"""Weights of each vector of history in the correction and in the next sent residual; the scale of the latter and its
inverse.
"""


class SentHistory:
    """History of the sent residuals of some inner sweeps, each with a row of zeros past the nodes.

    Parameters
    ----------
    graph : BatchGraph
    storage : FloatFormat
    stride : int
        Columns of queries.

    Raises
    ------
    UnsupportedError
        If float32 cannot represent the values that sweeps read.
    """

    def __init__(self, graph: BatchGraph, storage: FloatFormat, stride: int) -> None:
        if storage.exponent_bits > _FLOAT32_EXPONENT_BITS or storage.rounding == "stochastic":
            raise UnsupportedError(
                f"batches of method 'refine' read {storage.name} as float32, which needs at most "
                f"{_FLOAT32_EXPONENT_BITS} exponent bits and no stochastic rounding; use fp16, bf16, e5m2 or fp32"
            )
        arrays, row = current().arrays, stride * storage.width // 8
        self.graph, self.storage = graph, storage
        depth = min(HISTORY_VECTORS, 8 * HISTORY_BYTES // storage.width)
        self.sent = arrays.empty((depth, graph.count + 1, row), np.uint8)
        self.sent[:, -1] = 0
        # For each vector and query: inverse scale, mass that is redistributed, largest value (kernels: `BatchHistory`).
        self.records = arrays.zeros((3, HISTORY_VECTORS, stride), np.float64)
        self.weights = arrays.zeros((_WEIGHTS, stride), np.float64)

    def __len__(self) -> int:
        return len(self.sent)

    def at(self, place: int, column: int) -> Any:
        """Return a vector of the history from a column on."""
        return self.sent[place].reshape(-1)[column * self.storage.width // 8 :]

    def all_from(self, column: int) -> tuple[Any, np.uint64]:
        """Return the arguments that give kernels all vectors from a column on: the first, and the bytes between two."""
        return self.at(0, column), np.uint64(self.sent[0].nbytes)


class InnerSweeps:
    """Inner sweeps of an outer step.

    Parameters
    ----------
    sent_history : SentHistory
    query_columns : QueryColumns
    correction : device array of float32, shape (nodes, stride)
        The residual of the residual sweep, divided by out-degrees; inner sweeps of a query replace it by the
        correction.
    largest, tolerances, limits : arrays, shape (stride,)
        Largest value of the first residual, L1 norm at which inner sweeps end, and their largest number; 0 leaves a
        query unchanged.
    anderson : bool
        Whether the history is combined, where it has all vectors for it.
    """

    def __init__(
        self,
        sent_history: SentHistory,
        query_columns: QueryColumns,
        correction: Any,
        largest: Floats,
        tolerances: Floats,
        limits: npt.NDArray[np.int64],
        *,
        anderson: bool = True,
    ) -> None:
        arrays, problem = current().arrays, sent_history.graph.problem
        self._history, self._columns, self._correction = sent_history, query_columns, correction
        self._accelerates = anderson and len(sent_history) == HISTORY_VECTORS
        self._sent_place = self._sweeps_since = 0  # What the next sweep reads; sweeps since an update.
        options, begins = self._initial_options(largest, limits), limits > 0
        lost_mass = self._quantise(options)
        self._uniform_share = 1.0 / problem.graph.nodes if problem.dangling == "uniform" else 0.0
        options[1 if self._uniform_share else 2] = problem.damping * lost_mass * (self._uniform_share or 1.0)
        self._options = arrays.asarray(options)
        self._ends = arrays.asarray(np.stack([tolerances, limits, begins]).astype(np.float64))
        sent_history.records[:, 0] = arrays.asarray(np.stack([options[4], lost_mass, np.where(begins, largest, 0.0)]))

    def launch(self, report: Any) -> None:
        """Queue a sweep; it writes ||r||_1 of each query to ``report``."""
        sent_history, last = self._history, len(self._history) - 1
        if self._sweeps_since == last:
            if self._accelerates:
                self._combine()
                self._sent_place = 0
            else:
                for group in groups_of(self._columns.stride, MAX_COLUMNS):
                    self._apply_history(group, sent_history.records, last, ends=self._ends)
            self._sweeps_since = 0
        self._sweeps_since += 1
        graph = sent_history.graph
        for first, used in groups_of(self._columns.stride, MAX_COLUMNS):
            _, inner = batched.batch_inner_sweeps(sent_history.storage, columns_per_lane(used))
            ends, options, records = self._from_column(first, self._ends, self._options, sent_history.records)
            vectors = sent_history.at(self._sent_place, first), sent_history.at(self._sweeps_since, first)
            blocks = graph.launch(inner, (graph.edges, self._nodes(first, used), ends, options, *vectors))
            given = *self._partials(blocks, used), *self._factors(), self._max_exponent(), ends, options, records
            arguments = *given, np.uint32(self._sweeps_since), report[first:]
            current().run(batched.BATCH_ADVANCE, -(-used // BLOCK_WARPS), arguments)
        self._sent_place = self._sweeps_since

    def end(self, counts: npt.NDArray[np.int64]) -> None:
        """Add to the correction what is still in the history, for queries that made so many sweeps each."""
        between = len(self._history) - 1
        for group in groups_of(self._columns.stride, MAX_COLUMNS):
            sweeps = int(counts[group[0] : sum(group)].max())
            if sweeps:
                self._apply_history(group, self._history.records, (sweeps - 1) % between + 1)

    def _combine(self) -> None:
        sent_history, graph = self._history, self._history.graph
        for first, used in groups_of(self._columns.stride, PRODUCT_COLUMNS):
            ends, options, records, weights = self._from_column(
                first, self._ends, self._options, sent_history.records, sent_history.weights
            )
            arguments = self._nodes(first, used), ends, records, *sent_history.all_from(first)
            blocks = graph.launch(batched.batch_products(sent_history.storage), arguments)
            arguments = *self._partials(blocks, used), self._max_exponent(), ends, options, records, weights
            current().run(batched.BATCH_COMBINE, -(-used // BLOCK_WARPS), arguments)
        for group in groups_of(self._columns.stride, MAX_COLUMNS):
            first, used = group
            blocks = self._apply_history(
                group, sent_history.weights, len(sent_history) - 1, ends=self._ends, sends=True
            )
            of_columns = self._from_column(first, self._ends, self._options, sent_history.records)
            arguments = *self._partials(blocks, used), *self._factors(), *of_columns
            current().run(batched.BATCH_AFTER_COMBINE, -(-used // BLOCK_WARPS), arguments)

    def _apply_history(
        self, group: tuple[int, int], weights: Any, last: int, *, ends: Any | None = None, sends: bool = False
    ) -> int:
        """Add vectors 1 to ``last`` of the history to the correction; return the number of blocks.

        With ``ends``, only queries that are still active are updated.
        """
        sent_history, (first, used) = self._history, group
        weights, correction = self._from_column(first, weights, self._correction)
        (active,) = (_ALWAYS,) if ends is None else self._from_column(first, ends)
        arguments = (
            self._nodes(first, used),
            active,
            weights,
            np.uint32(last),
            *sent_history.all_from(first),
            correction,
        )
        variant = batched.batch_apply_history(sent_history.storage, columns_per_lane(used), sends=sends)
        return sent_history.graph.launch(variant, arguments)

    def _initial_options(self, largest: Floats, limits: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the options of each query's inner sweeps: factor, two parts of lost mass, scale and its inverse."""
        options = np.zeros((5, len(limits)), np.float32)
        for column in np.flatnonzero(limits):
            exponent = shared_scale(self._history.storage, float(largest[column])) - self._reserved_exponents
            scale = 2.0 ** max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))
            options[:, column] = self._history.graph.problem.damping / scale, 0.0, 0.0, scale, 1.0 / scale
        return options

    def _quantise(self, options: npt.NDArray[np.float32]) -> Floats:
        sent_history, options_on_device = self._history, current().arrays.asarray(options)

        def launch(first: int, used: int) -> int:
            quantise, _ = batched.batch_inner_sweeps(sent_history.storage, columns_per_lane(used))
            options, correction = self._from_column(first, options_on_device, self._correction)
            arguments = self._nodes(first, used), options, correction, sent_history.at(0, first)
            return sent_history.graph.launch(quantise, arguments)

        lost_mass: Floats = sent_history.graph.reduce(1, 1, self._columns.stride, MAX_COLUMNS, launch)[0]
        return lost_mass

    @staticmethod
    def _from_column(column: int, *of_queries: Any) -> tuple[Any, ...]:
        """Return arrays of numbers of all queries, stored in rows, from a column on."""
        return tuple(numbers.reshape(-1)[column:] for numbers in of_queries)

    def _nodes(self, first: int, used: int) -> Struct:
        return self._history.graph.nodes(self._columns.teleport, first, used, self._columns.stride)

    def _partials(self, blocks: int, used: int) -> tuple[Any, ...]:
        return self._history.graph.partials, np.uint32(blocks), np.uint32(self._columns.stride), np.uint32(used)

    def _factors(self) -> tuple[Any, ...]:
        return np.float64(self._history.graph.problem.damping), np.float64(self._uniform_share)

    def _max_exponent(self) -> np.int32:
        return np.int32(self._history.storage.bias - headroom(self._history.storage) - self._reserved_exponents)

    @property
    def _reserved_exponents(self) -> int:
        """Powers of two reserved for r in float32, since r is a sent value times a degree."""
        return max(0, self._history.storage.bias - _MAX_BIAS)
