"""Inner sweeps of a batch of queries on a device: launchers of ``batch/inner_sweep.cu`` and ``batch/anderson.cu``.

A sweep writes z alone. What z of the last few sweeps say is added to c at once, and at once they are combined into
what leaves less (`cpms.precision.anderson`), each query by products of its own. So c lacks what rounding r to z left out,
and its mass what is spread instead; both are of the size of the noise that a round ends with, and the full sweep that
follows finds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import (
    KEPT_BYTES,
    MOST_COLUMNS,
    PRODUCT_COLUMNS,
    BatchGraph,
    groups_of,
    values_a_lane,
)
from cpms.backends.cuda.batch.power import Places
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.formats.formats import FloatFormat
from cpms.formats.quantization import headroom, shared_scale
from cpms.precision.anderson import SLOTS

_MOST_EXPONENT = 100
"""Scales are powers of two that float32 has; ``scale_of_singles`` has the same limit."""
_MOST_BIAS = 63
"""Of z: the largest exponents of float32 are for r."""
_SINGLE_EXPONENT_BITS = 8
_ALWAYS = np.uint64(0)
_WEIGHTS = 2 * SLOTS + 2
"""Of each slot in c and in what is sent; of that the scale, and one over it."""


class Kept:
    """z of some low sweeps, a row of zeros behind the nodes of each.

    Parameters
    ----------
    graph : BatchGraph
    storage : FloatFormat
    stride : int
        ColumnPositions of queries.

    Raises
    ------
    UnsupportedError
        If float32 has no room for what sweeps read.
    """

    def __init__(self, graph: BatchGraph, storage: FloatFormat, stride: int) -> None:
        if storage.exponent_bits > _SINGLE_EXPONENT_BITS or storage.rounding == "stochastic":
            raise UnsupportedError(
                f"batches of method 'refine' read {storage.name} as float32, which needs at most "
                f"{_SINGLE_EXPONENT_BITS} exponent bits and no stochastic rounding; use fp16, bf16, e5m2 or fp32"
            )
        arrays, row = current().arrays, stride * storage.width // 8
        self.graph, self.storage = graph, storage
        slots = min(SLOTS, 8 * KEPT_BYTES // storage.width)
        self.z = arrays.empty((slots, graph.count + 1, row), np.uint8)
        self.z[:, -1] = 0
        # Of each slot and query: one over the scale, the mass that is spread, the largest; see `BatchPast`.
        self.past = arrays.zeros((3, SLOTS, stride), np.float64)
        self.weights = arrays.zeros((_WEIGHTS, stride), np.float64)

    def __len__(self) -> int:
        return len(self.z)

    def at(self, slot: int, column: int) -> Any:
        """Return z of a slot from a column on."""
        return self.z[slot].reshape(-1)[column * self.storage.width // 8 :]


class LowSweeps:
    """Those of a round.

    Parameters
    ----------
    kept : Kept
    places : Places
    c : device array of float32, shape (nodes, stride)
        The change that the full sweep made, divided by the out-degrees; of queries that do low sweeps it then holds
        what these find.
    largest, until, limits : arrays, shape (stride,)
        The largest of what is sent first, the L1 at which low sweeps end, and how many there are at most; 0 leaves
        a query as it is.
    anderson : bool
        Whether what is kept is combined, where all slots are there for it.
    """

    def __init__(
        self,
        kept: Kept,
        places: Places,
        c: Any,
        largest: Floats,
        until: Floats,
        limits: npt.NDArray[np.int64],
        *,
        anderson: bool = True,
    ) -> None:
        arrays, problem = current().arrays, kept.graph.problem
        self._kept, self._places, self._c = kept, places, c
        self._extrapolates = anderson and len(kept) == SLOTS
        self._sent = self._since = 0
        """The slot of what is on its way; sweeps since c was added to."""
        options, begins = self._first_options(largest, limits), limits > 0
        lost = self._quantised(options)
        self._spread = 1.0 / problem.graph.nodes if problem.dangling == "uniform" else 0.0
        options[1 if self._spread else 2] = problem.damping * lost * (self._spread or 1.0)
        self._options = arrays.asarray(options)
        self._ends = arrays.asarray(np.stack([until, limits, begins]).astype(np.float64))
        kept.past[:, 0] = arrays.asarray(np.stack([options[4], lost, np.where(begins, largest, 0.0)]))

    def launch(self, report: Any) -> None:
        """Queue a sweep; ||r||_1 of each query goes to ``report``."""
        kept, last = self._kept, len(self._kept) - 1
        if self._since == last:
            if self._extrapolates:
                self._extrapolate()
                self._sent = 0
            else:
                for group in groups_of(self._places.stride, MOST_COLUMNS):
                    self._collect(group, kept.past, last, ends=self._ends)
            self._since = 0
        self._since += 1
        graph = kept.graph
        for first, used in groups_of(self._places.stride, MOST_COLUMNS):
            _, low = batched.batch_inner_sweeps(kept.storage, values_a_lane(used))
            arguments = (
                *(*graph.edges, *self._nodes(first, used), self._of(self._ends, first), self._of(self._options, first)),
                *(kept.at(self._sent, first), kept.at(self._since, first)),
            )
            blocks = graph.launch(low, arguments)
            arguments = (
                *(*self._found(blocks, used), *self._factors(), self._top(), self._of(self._ends, first)),
                *(self._of(self._options, first), self._of(kept.past, first), np.uint32(self._since), report[first:]),
            )
            current().run(batched.BATCH_ADVANCE, -(-used // 8), arguments)
        self._sent = self._since

    def end(self, counts: npt.NDArray[np.int64]) -> None:
        """Add to c what it lacks, of queries that made so many sweeps each."""
        between = len(self._kept) - 1
        for group in groups_of(self._places.stride, MOST_COLUMNS):
            made = int(counts[group[0] : sum(group)].max())
            if made:
                self._collect(group, self._kept.past, (made - 1) % between + 1)

    def _extrapolate(self) -> None:
        kept, graph = self._kept, self._kept.graph
        for first, used in groups_of(self._places.stride, PRODUCT_COLUMNS):
            arguments = (
                *(*self._nodes(first, used), self._of(self._ends, first), self._of(kept.past, first)),
                *(kept.at(0, first), np.uint64(kept.z[0].nbytes)),
            )
            blocks = graph.launch(batched.batch_products(kept.storage), arguments)
            arguments = (
                *(*self._found(blocks, used), self._top(), self._of(self._ends, first)),
                *(self._of(self._options, first), self._of(kept.past, first), self._of(kept.weights, first)),
            )
            current().run(batched.BATCH_COMBINE, -(-used // 8), arguments)
        for group in groups_of(self._places.stride, MOST_COLUMNS):
            first, used = group
            blocks = self._collect(group, kept.weights, len(kept) - 1, ends=self._ends, sends=True)
            arguments = (
                *(*self._found(blocks, used), *self._factors(), self._of(self._ends, first)),
                *(self._of(self._options, first), self._of(kept.past, first)),
            )
            current().run(batched.BATCH_AFTER_COMBINE, -(-used // 8), arguments)

    def _collect(
        self, group: tuple[int, int], weights: Any, last: int, *, ends: Any | None = None, sends: bool = False
    ) -> int:
        """Add what slots 1 to ``last`` say to c, where any query goes on if ``ends`` are given; return the blocks."""
        kept, (first, used) = self._kept, group
        arguments = (
            *(*self._nodes(first, used), _ALWAYS if ends is None else self._of(ends, first)),
            *(self._of(weights, first), np.uint32(last), kept.at(0, first), np.uint64(kept.z[0].nbytes)),
            self._of(self._c, first),
        )
        return kept.graph.launch(batched.batch_apply_history(kept.storage, values_a_lane(used), sends=sends), arguments)

    def _first_options(self, largest: Floats, limits: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return what low sweeps ask of each query: factor, two shares of lost mass, scale, one over it."""
        options = np.zeros((5, len(limits)), np.float32)
        for column in np.flatnonzero(limits):
            exponent = shared_scale(self._kept.storage, float(largest[column])) - self._spare
            scale = 2.0 ** max(-_MOST_EXPONENT, min(_MOST_EXPONENT, exponent))
            options[:, column] = self._kept.graph.problem.damping / scale, 0.0, 0.0, scale, 1.0 / scale
        return options

    def _quantised(self, options: npt.NDArray[np.float32]) -> Floats:
        kept, given = self._kept, current().arrays.asarray(options)

        def launch(first: int, used: int) -> int:
            quantise, _ = batched.batch_inner_sweeps(kept.storage, values_a_lane(used))
            arguments = *self._nodes(first, used), self._of(given, first), self._of(self._c, first), kept.at(0, first)
            return kept.graph.launch(quantise, arguments)

        lost: Floats = kept.graph.totals(1, 1, self._places.stride, MOST_COLUMNS, launch)[0]
        return lost

    @staticmethod
    def _of(numbers: Any, column: int) -> Any:
        """Return numbers of each query, in rows of all, from a column on."""
        return numbers.reshape(-1)[column:]

    def _nodes(self, first: int, used: int) -> tuple[Any, ...]:
        return self._kept.graph.nodes(self._places.own, first, used, self._places.stride)

    def _found(self, blocks: int, used: int) -> tuple[Any, ...]:
        return self._kept.graph.partials, np.uint32(blocks), np.uint32(self._places.stride), np.uint32(used)

    def _factors(self) -> tuple[Any, ...]:
        return np.float64(self._kept.graph.problem.damping), np.float64(self._spread)

    def _top(self) -> np.int32:
        return np.int32(self._kept.storage.bias - headroom(self._kept.storage) - self._spare)

    @property
    def _spare(self) -> int:
        """Powers of two that z leave to float32 for r, which is z times a degree."""
        return max(0, self._kept.storage.bias - _MOST_BIAS)
