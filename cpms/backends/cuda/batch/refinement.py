"""Method ``refine`` for batches of personalised queries on a device; see ``batch/inner_sweep.cu``.

Mixed-precision iterative refinement of all queries in lockstep: float64 residual sweeps, and inner Richardson sweeps in
few bits whose gathers dominate the time. Each query has its own scale, tolerance and number of inner sweeps. A query
costs `REFINE_BYTES` a node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import MAX_COLUMNS, RESIDUAL_COLUMNS, columns_per_lane
from cpms.backends.cuda.batch.inner_sweeps import InnerSweeps, SentHistory
from cpms.backends.cuda.batch.power import (
    REFINE_BYTES,
    Answers,
    Iterates,
    QueryColumns,
    fitting_width,
    memory_for,
    residual_options,
    sweeps_of,
)
from cpms.backends.cuda.batch.reduced import BatchCore
from cpms.backends.cuda.kernels import batched, template
from cpms.backends.cuda.runtime.backend import MAX_ASYNC_NUMBERS
from cpms.backends.cuda.runtime.current import current
from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.batch import InnerGoal, Lockstep, Query, Solved
from cpms.contracts.operator import Sweep
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import DOUBLE_BITS, FP16, FP32, FloatFormat
from cpms.precision.controllers import FLOAT64
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_refine import refine_all

_GROUP = 4
"""Inner sweeps that are queued before the host reads the reports of the previous group."""


class CudaRefinementBatch(Lockstep):
    """x and correction of all queries, node by node, in device memory.

    Parameters
    ----------
    problem : Problem
    core : BatchCore, optional
        Swept nodes; by default as worthwhile.
    """

    _columns: QueryColumns
    _iterates: Iterates
    _answers: Answers
    _correction: Any
    _history: SentHistory | None

    def __init__(self, problem: Problem, core: BatchCore | None = None) -> None:
        current().compile(needed_variants())
        self.problem = problem
        self._core = core or BatchCore.of(problem)
        self._graph = self._core.swept
        self.nbytes = self._core.nbytes
        self.width = fitting_width(problem, MAX_COLUMNS, REFINE_BYTES)

    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine queries together, except those whose teleport is zero on all swept nodes."""
        reached = [reach > 0.0 for reach in self._core.split_queries(queries)[2]]
        swept = [query for query, is_reached in zip(queries, reached, strict=True) if is_reached]
        others = [query for query, is_reached in zip(queries, reached, strict=True) if not is_reached]
        answers = iter(refine_all(self, swept, first, policy, stopping) if swept else [])
        downstream = iter(self._solve_unreached(others) if others else [])
        return [next(answers if is_reached else downstream) for is_reached in reached]

    def _solve_unreached(self, queries: list[Query]) -> Solved:
        """Answer queries whose scores are 0 on all swept nodes."""
        began = work_clock.now()
        with memory_for(self.problem, len(queries), REFINE_BYTES):
            places, answers = QueryColumns(queries, self._core), Answers(self._core, len(queries))
            contributions = current().arrays.zeros((len(self._core.degree) + 1, places.stride), np.float64)
        nothing = np.zeros(places.stride)
        factors, uniform_weights = self._core.finish_downstream(
            contributions, places.downstream, nothing, nothing, nothing
        )
        scores = answers.take(contributions, places.columns, factors[places.columns], uniform_weights[places.columns])
        step = Step(1, 0.0, FLOAT64, DOUBLE_BITS, DOUBLE_BITS, 1.0, work_clock.now() - began)
        return [(ranks, Status.CONVERGED, [step]) for ranks in scores]

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same initial guess; the teleport of each is positive on some swept node."""
        with memory_for(self.problem, len(queries), REFINE_BYTES):
            self._columns = QueryColumns(queries, self._core)
            self._iterates = Iterates(self._core, first, self._columns.stride)
            self._correction = current().arrays.empty((self._graph.count, self._columns.stride), np.float32)
            self._answers = Answers(self._core, len(queries))
        self._history = None
        stride = self._columns.stride
        # Mass and lost mass of the next residual sweep's x; corrections update them.
        self._mass = np.ones(stride)
        self._lost_mass = np.full(stride, self._iterates.lost_mass)
        self._has_correction = np.zeros(stride)

    def residual_sweep(self) -> list[Sweep]:
        """Apply the correction and sweep in float64."""
        self._correct()
        options = residual_options(self._graph.problem, self._mass, self._lost_mass)
        found = self._iterates.sweep(self._columns, options, self._correction)
        self._mass, self._lost_mass, self._largest = found[2], found[3], found[5]
        return [Sweep(*sweep) for sweep in sweeps_of(found, self._columns.columns)]

    def inner_sweeps(self, goals: list[InnerGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Do inner sweeps, one format after the other."""
        began, columns, stride = work_clock.now(), self._columns.columns, self._columns.stride
        results: list[tuple[list[float], list[float]]] = [([], []) for _ in goals]
        for storage in dict.fromkeys(goal.storage for goal in goals if goal):
            tolerances, limits = np.full(stride, np.inf), np.zeros(stride, np.int64)
            selected = [(place, goal) for place, goal in enumerate(goals) if goal and goal.storage == storage]
            for place, goal in selected:
                tolerances[columns[place]], limits[columns[place]] = goal.until, goal.most
            norms, counts, ended_s = self._inner_sweeps(storage, tolerances, limits, began)
            for place, _ in selected:
                count = counts[columns[place]]
                results[place] = norms[:count, columns[place]].tolist(), ended_s[:count]
        return results

    def take(self, places: list[int]) -> list[Any]:
        """Return the scores of some queries, in device memory, and remove these from the batch.

        The correction is applied even where a limit of sweeps ends a solve first.
        """
        self._correct()
        columns, contributions = [self._columns.columns[place] for place in places], self._iterates.contributions
        factors, uniform_weights = self._core.finish_downstream(
            contributions, self._columns.downstream, self._columns.reach, self._mass, self._lost_mass
        )
        scores = self._answers.take(contributions, columns, factors[columns], uniform_weights[columns])
        columns_kept = self._columns.without(places)
        if columns_kept is not None:
            self._iterates.compact(columns_kept)
            self._history = None
            self._correction = self._correction.take(columns_kept, axis=1)
            here = current().to_host(columns_kept)
            self._mass, self._lost_mass, self._largest = self._mass[here], self._lost_mass[here], self._largest[here]
            self._has_correction = self._has_correction[here]
        return scores

    def _correct(self) -> None:
        """Add the correction of the last inner sweeps to x."""
        if not self._has_correction.any():
            return
        columns, has_correction = self._columns, current().arrays.asarray(self._has_correction)

        def launch(first: int, used: int) -> int:
            nodes = self._graph.nodes(columns.teleport, first, used, columns.stride)
            vectors = self._iterates.contributions.reshape(-1)[first:], self._correction.reshape(-1)[first:]
            arguments = nodes, has_correction[first:], *vectors
            return self._graph.launch(batched.batch_correct(columns_per_lane(used)), arguments)

        mass, lost_mass = self._graph.reduce(2, 2, columns.stride, RESIDUAL_COLUMNS, launch)
        # Other queries keep the values of their last sweep: results do not depend on the rest of the batch.
        self._mass = np.where(self._has_correction > 0, mass, self._mass)
        self._lost_mass = np.where(self._has_correction > 0, lost_mass, self._lost_mass)
        self._has_correction = np.zeros_like(self._has_correction)

    def _inner_sweeps(
        self, storage: FloatFormat, tolerances: Floats, limits: npt.NDArray[np.int64], began: float
    ) -> tuple[Floats, npt.NDArray[np.int64], list[float]]:
        """Do inner sweeps of each query until its residual is small, or as many as its limit.

        A limit of 0 leaves the query unchanged. Return ||r||_1 after each sweep, shape (sweeps, columns), how many of
        them each query did, and when each sweep ended.
        """
        arrays, stride = current().arrays, len(tolerances)
        if self._history is None or self._history.storage != storage:
            self._history = None
            with memory_for(self.problem, len(self._columns.columns), REFINE_BYTES):
                self._history = SentHistory(self._graph, storage, stride)
        arguments = self._history, self._columns, self._correction, self._largest, tolerances, limits
        sweeps = InnerSweeps(*arguments, anderson=self.anderson)
        active = limits > 0
        self._has_correction[active] = 1.0
        counts = np.zeros(stride, np.int64)
        norms: list[Floats] = []
        ended_s = [work_clock.now() - began]
        group = max(1, min(_GROUP, MAX_ASYNC_NUMBERS // stride))
        in_flight: deque[tuple[int, Callable[[], Floats]]] = deque()
        remaining = int(limits.max())
        while active.any():
            # One group runs while the host reads the previous one; sweeps queued too late find all queries at rest.
            while remaining and len(in_flight) < 2:
                count = min(group, remaining)
                report = arrays.empty((count, stride), np.float64)
                for step in range(count):
                    sweeps.launch(report[step])
                in_flight.append((count, read_later(report)))
                remaining -= count
            count, found_of = in_flight.popleft()
            group_norms = found_of().reshape(count, stride)
            ended_s += np.linspace(ended_s[-1], work_clock.now() - began, count + 1)[1:].tolist()
            for norm in group_norms:
                norms.append(norm)
                ends = active & (~(norm > tolerances) | (limits == len(norms)))
                counts[ends] = len(norms)
                active &= ~ends
        sweeps.end(counts)
        return np.array(norms), counts, ended_s[1:]


def read_later(numbers: Any) -> Callable[[], Floats]:
    """Return a function that waits for numbers: `Backend.fetch_async`, unless they are too many for it."""
    return current().fetch_async(numbers) if numbers.size <= MAX_ASYNC_NUMBERS else lambda: current().to_host(numbers)


def needed_variants() -> list[template.Variant]:
    """Return the kernels of outer steps, with the formats of the default policy; other formats are compiled on use."""
    variants = [*batched.BATCH_HELPERS, *template.PADDED_CSR]
    for per_lane in (1, 2):
        variants += [
            *batched.batch_residual_sweeps(per_lane, refines=True),
            batched.batch_correct(per_lane),
            batched.batch_downstream(per_lane),
        ]
    for storage in (FP16, FP32):
        variants += batched.batch_history(storage)
        for per_lane in (1, 2, 4):
            variants += batched.batch_inner_sweeps(storage, per_lane)
    return variants
