"""Method ``refine`` for batches of personalised queries on a device; see ``batch.cu``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.batch import Query
from cpms.batch_refine import LowGoal, RefiningBatch
from cpms.cuda import variants
from cpms.cuda.backend import NOTED, current
from cpms.cuda.batch import (
    REFINE_BYTES,
    Answers,
    Places,
    closed_up,
    first_shares,
    fitting_width,
    full_options,
    full_sweep,
    memory_for,
    sweeps_of,
)
from cpms.cuda.batch_graph import FULL_COLUMNS, MOST_COLUMNS, BatchGraph, groups_of, values_a_lane
from cpms.engine import Floats, Problem, Sweep
from cpms.errors import UnsupportedError
from cpms.format import FP16, FP32, FloatFormat
from cpms.quantising import headroom, shared_scale

_MOST_EXPONENT = 100
"""Scales are powers of two that float32 has; ``batch_low_next`` has the same limit."""
_SINGLE_EXPONENT_BITS = 8
_GROUP = 4
"""Low sweeps that are launched before those that were launched before them are looked at."""


class CudaRefiningBatch(RefiningBatch):
    """x as shares and c of all queries, node by node, in device memory."""

    _places: Places
    _shares: Any
    _fresh: Any
    _answers: Answers
    _c: Any
    _z: tuple[Any, ...]
    _storage: FloatFormat | None

    def __init__(self, problem: Problem) -> None:
        current().compile(needed_variants())
        self.problem = problem
        self._graph = BatchGraph.of(problem)
        self.nbytes = self._graph.nbytes
        self.width = fitting_width(problem, MOST_COLUMNS, REFINE_BYTES)

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same first iterate."""
        with memory_for(self.problem, len(queries), REFINE_BYTES):
            self._places = Places(queries, self._graph.degree)
            self._shares, self._fresh = first_shares(self._graph, first, self._places.stride)
            self._c = current().arrays.empty(self._shares.shape, np.float32)
            self._answers = Answers(self._graph, len(queries))
        self._z, self._storage = (), None
        stride = self._places.stride
        # Mass and dangling mass of the next round's x, until low sweeps change it.
        self._mass = np.ones(stride)
        self._dangling = np.full(stride, first[self.problem.graph.dangling_nodes].sum())
        self._has_c = np.zeros(stride)

    def full(self) -> list[Sweep]:
        """Correct and sweep in float64."""
        if self._has_c.any():
            self._correct()
        options = full_options(self.problem, self._mass, self._dangling)
        found = full_sweep(self._graph, self._places, options, self._shares, self._fresh, self._c)
        self._shares, self._fresh = self._fresh, self._shares
        self._mass, self._dangling, self._largest = found[2], found[3], found[5]
        self._has_c = np.zeros(self._places.stride)
        return [Sweep(*sweep) for sweep in sweeps_of(found, self._places.columns)]

    def low(self, goals: list[LowGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Sweep in few bits, one format after the other."""
        began, columns, stride = time.perf_counter(), self._places.columns, self._places.stride
        made: list[tuple[list[float], list[float]]] = [([], []) for _ in goals]
        for storage in dict.fromkeys(goal.storage for goal in goals if goal):
            until, limits = np.full(stride, np.inf), np.zeros(stride, np.int64)
            mine = [(place, goal) for place, goal in enumerate(goals) if goal and goal.storage == storage]
            for place, goal in mine:
                until[columns[place]], limits[columns[place]] = goal.until, goal.most
            norms, counts, ended_s = self._low(storage, until, limits, began)
            for place, _ in mine:
                count = counts[columns[place]]
                made[place] = norms[:count, columns[place]].tolist(), ended_s[:count]
        return made

    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of some queries, in device memory; they leave the batch.

        What low sweeps found counts where a limit of sweeps ends a solve before it is added.
        """
        columns = [self._places.columns[place] for place in places]
        taken = self._answers.take(self._shares, columns)
        for ranks, column in zip(taken, columns, strict=True):
            if self._has_c[column]:
                ranks += self._c[:-1, column]
                ranks *= ranks > 0
        kept = self._places.without(places)
        if kept is not None:
            self._shares, self._fresh = closed_up(self._shares, self._fresh, kept)
            self._c = self._c.take(kept, axis=1)
            self._z, self._storage = (), None
            here = current().to_host(kept)
            self._mass, self._dangling, self._has_c = self._mass[here], self._dangling[here], self._has_c[here]
            self._largest = self._largest[here]
        return taken

    def _use(self, storage: FloatFormat) -> None:
        """Have room for z in a format, a row of zeros behind the nodes."""
        if storage.exponent_bits > _SINGLE_EXPONENT_BITS or storage.rounding == "stochastic":
            raise UnsupportedError(
                f"batches of method 'refine' read {storage.name} as float32, which needs at most "
                f"{_SINGLE_EXPONENT_BITS} exponent bits and no stochastic rounding; use fp16, bf16, e5m2 or fp32"
            )
        if storage == self._storage:
            return
        self._z = ()
        arrays, (rows, stride) = current().arrays, self._shares.shape
        self._z = tuple(arrays.empty((rows, stride * storage.width // 8), np.uint8) for _ in range(2))
        for z in self._z:
            z[-1] = 0
        self._storage = storage

    def _correct(self) -> None:
        places, has = self._places, current().arrays.asarray(self._has_c)

        def launch(first: int, used: int) -> int:
            arguments = (
                *(*self._graph.nodes(places.own, first, used, places.stride), has[first:]),
                *(self._shares.reshape(-1)[first:], self._c.reshape(-1)[first:]),
            )
            return self._graph.launch(variants.batch_correct(values_a_lane(used)), arguments)

        mass, dangling = self._graph.totals(2, 2, places.stride, FULL_COLUMNS, launch)
        # Others keep what their last sweep found, bit for bit what it would be without these.
        self._mass = np.where(self._has_c > 0, mass, self._mass)
        self._dangling = np.where(self._has_c > 0, dangling, self._dangling)

    def _low(
        self, storage: FloatFormat, until: Floats, limits: npt.NDArray[np.int64], began: float
    ) -> tuple[Floats, npt.NDArray[np.int64], list[float]]:
        """Do low sweeps of each query until its r is small, or as many as its limit; 0 leaves it as it is.

        Return ||r||_1 after each sweep, shape (sweeps, columns), how many of them each query did, and when
        each sweep ended.
        """
        arrays, damping, stride = current().arrays, self.problem.damping, len(until)
        self._use(storage)
        options = self._first_options(storage, self._largest, limits)
        lost = damping * self._quantised(storage, options)
        spread = 1.0 / self.problem.graph.nodes if self.problem.dangling == "uniform" else 0.0
        options[1 if spread else 2] = lost * (spread or 1.0)
        given, ends_there = arrays.asarray(options), arrays.asarray(np.stack([until, limits]))
        goes_on = limits > 0
        self._has_c[goes_on] = 1.0
        counts = np.zeros(stride, np.int64)
        norms: list[Floats] = []
        ended_s = [time.perf_counter() - began]
        group = max(1, min(_GROUP, NOTED // stride))
        under_way: deque[tuple[int, Callable[[], Floats]]] = deque()
        left = int(limits.max())
        while goes_on.any():
            # One group runs while the host looks at the one before: what comes too late finds all at rest.
            while left and len(under_way) < 2:
                count = min(group, left)
                report = arrays.empty((count, stride), np.float64)
                for step in range(count):
                    self._low_sweep(storage, given, ends_there, report[step], spread)
                under_way.append((count, noted(report)))
                left -= count
            count, found_of = under_way.popleft()
            fresh = found_of().reshape(count, stride)
            ended_s += np.linspace(ended_s[-1], time.perf_counter() - began, count + 1)[1:].tolist()
            for now in fresh:
                norms.append(now)
                ends = goes_on & (~(now > until) | (limits == len(norms)))
                counts[ends] = len(norms)
                goes_on &= ~ends
        return np.array(norms), counts, ended_s[1:]

    def _first_options(
        self, storage: FloatFormat, largest: Floats, limits: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return what low sweeps ask of each query: factor, two shares of lost mass, scale, one over it."""
        options = np.zeros((5, len(limits)), np.float32)
        for column in np.flatnonzero(limits):
            exponent = shared_scale(storage, float(largest[column]))
            scale = 2.0 ** max(-_MOST_EXPONENT, min(_MOST_EXPONENT, exponent))
            options[:, column] = self.problem.damping / scale, 0.0, 0.0, scale, 1.0 / scale
        return options

    def _quantised(self, storage: FloatFormat, options: npt.NDArray[np.float32]) -> Floats:
        places, given = self._places, current().arrays.asarray(options)

        def launch(first: int, used: int) -> int:
            quantise, _ = variants.batch_low(storage, values_a_lane(used))
            arguments = (
                *(*self._graph.nodes(places.own, first, used, places.stride), given.reshape(-1)[first:]),
                *(self._c.reshape(-1)[first:], self._z[0].reshape(-1)[first * storage.width // 8 :]),
            )
            return self._graph.launch(quantise, arguments)

        lost: Floats = self._graph.totals(1, 1, places.stride, MOST_COLUMNS, launch)[0]
        return lost

    def _low_sweep(self, storage: FloatFormat, options: Any, ends: Any, report: Any, spread: float) -> None:
        graph, places = self._graph, self._places
        now, later = (z.reshape(-1) for z in self._z)
        for first, used in groups_of(places.stride, MOST_COLUMNS):
            _, low = variants.batch_low(storage, values_a_lane(used))
            here = first * storage.width // 8
            arguments = (
                *(*graph.edges, *graph.nodes(places.own, first, used, places.stride), ends.reshape(-1)[first:]),
                *(options.reshape(-1)[first:], now[here:], self._c.reshape(-1)[first:], later[here:]),
            )
            blocks = graph.launch(low, arguments)
            arguments = (
                *(graph.partials, np.uint32(blocks), np.uint32(places.stride), np.uint32(used)),
                *(np.float64(self.problem.damping), np.float64(spread), np.uint32(1)),
                *(np.int32(storage.bias - headroom(storage)), ends.reshape(-1)[first:]),
                *(options.reshape(-1)[first:], report[first:]),
            )
            current().run(variants.BATCH_LOW_NEXT, -(-used // 8), arguments)
        self._z = self._z[::-1]


def noted(numbers: Any) -> Callable[[], Floats]:
    """Return how to wait for numbers: by `Backend.note`, unless they are too many for it."""
    return current().note(numbers) if numbers.size <= NOTED else lambda: current().to_host(numbers)


def needed_variants() -> list[variants.Variant]:
    """Return what rounds launch, with the formats of the default policy; others are compiled when they come."""
    wanted = [variants.BATCH_TOTALS, variants.BATCH_LOW_NEXT, *variants.ARRANGING]
    for each in (1, 2):
        wanted += [variants.batch_full(each, refines=True), variants.batch_correct(each)]
    for storage in (FP16, FP32):
        for each in (1, 2, 4):
            wanted += variants.batch_low(storage, each)
    return wanted
