"""Method ``refine`` for batches of personalised queries on a device; see ``batch/inner_sweep.cu``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import FULL_COLUMNS, MOST_COLUMNS, values_a_lane
from cpms.backends.cuda.batch.low_sweeps import Kept, LowSweeps
from cpms.backends.cuda.batch.power import (
    REFINE_BYTES,
    Answers,
    Iterates,
    Places,
    fitting_width,
    full_options,
    memory_for,
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
"""Low sweeps that are launched before those that were launched before them are looked at."""


class CudaRefinementBatch(Lockstep):
    """x and c of all queries, node by node, in device memory.

    Parameters
    ----------
    problem : Problem
    core : BatchCore, optional
        What is swept; what pays by default.
    """

    _places: Places
    _iterates: Iterates
    _answers: Answers
    _c: Any
    _kept: Kept | None

    def __init__(self, problem: Problem, core: BatchCore | None = None) -> None:
        current().compile(needed_variants())
        self.problem = problem
        self._core = core or BatchCore.of(problem)
        self._graph = self._core.swept
        self.nbytes = self._core.nbytes
        self.width = fitting_width(problem, MOST_COLUMNS, REFINE_BYTES)

    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine queries together, but for those whose teleports reach nothing that is swept."""
        reached = [reach > 0.0 for reach in self._core.shared_out(queries)[2]]
        swept = [query for query, is_reached in zip(queries, reached, strict=True) if is_reached]
        others = [query for query, is_reached in zip(queries, reached, strict=True) if not is_reached]
        answers = iter(refine_all(self, swept, first, policy, stopping) if swept else [])
        behind = iter(self._behind(others) if others else [])
        return [next(answers if is_reached else behind) for is_reached in reached]

    def _behind(self, queries: list[Query]) -> Solved:
        """Answer queries whose ranks are 0 on all nodes that are swept."""
        began = work_clock.now()
        with memory_for(self.problem, len(queries), REFINE_BYTES):
            places, answers = Places(queries, self._core), Answers(self._core, len(queries))
            shares = current().arrays.zeros((len(self._core.degree) + 1, places.stride), np.float64)
        nothing = np.zeros(places.stride)
        factors, of_all = self._core.follow_up(shares, places.behind, nothing, nothing, nothing)
        taken = answers.take(shares, places.columns, factors[places.columns], of_all[places.columns])
        step = Step(1, 0.0, FLOAT64, DOUBLE_BITS, DOUBLE_BITS, 1.0, work_clock.now() - began)
        return [(ranks, Status.CONVERGED, [step]) for ranks in taken]

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same first iterate; the teleport of each reaches what is swept."""
        with memory_for(self.problem, len(queries), REFINE_BYTES):
            self._places = Places(queries, self._core)
            self._iterates = Iterates(self._core, first, self._places.stride)
            self._c = current().arrays.empty((self._graph.count, self._places.stride), np.float32)
            self._answers = Answers(self._core, len(queries))
        self._kept = None
        stride = self._places.stride
        # Mass, and what of it is lost, of the next round's x, until low sweeps change it.
        self._mass = np.ones(stride)
        self._lost = np.full(stride, self._iterates.lost)
        self._has_c = np.zeros(stride)

    def full(self) -> list[Sweep]:
        """Correct and sweep in float64."""
        self._correct()
        options = full_options(self._graph.problem, self._mass, self._lost)
        found = self._iterates.sweep(self._places, options, self._c)
        self._mass, self._lost, self._largest = found[2], found[3], found[5]
        return [Sweep(*sweep) for sweep in sweeps_of(found, self._places.columns)]

    def low(self, goals: list[InnerGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Sweep in few bits, one format after the other."""
        began, columns, stride = work_clock.now(), self._places.columns, self._places.stride
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
        self._correct()
        columns, shares = [self._places.columns[place] for place in places], self._iterates.shares
        factors, of_all = self._core.follow_up(shares, self._places.behind, self._places.reach, self._mass, self._lost)
        taken = self._answers.take(shares, columns, factors[columns], of_all[columns])
        kept = self._places.without(places)
        if kept is not None:
            self._iterates.close_up(kept)
            self._kept = None
            self._c = self._c.take(kept, axis=1)
            here = current().to_host(kept)
            self._mass, self._lost, self._largest = self._mass[here], self._lost[here], self._largest[here]
            self._has_c = self._has_c[here]
        return taken

    def _correct(self) -> None:
        """Add to x what low sweeps have found since the last time."""
        if not self._has_c.any():
            return
        places, has = self._places, current().arrays.asarray(self._has_c)

        def launch(first: int, used: int) -> int:
            arguments = (
                *(*self._graph.nodes(places.own, first, used, places.stride), has[first:]),
                *(self._iterates.shares.reshape(-1)[first:], self._c.reshape(-1)[first:]),
            )
            return self._graph.launch(batched.batch_correct(values_a_lane(used)), arguments)

        mass, lost = self._graph.totals(2, 2, places.stride, FULL_COLUMNS, launch)
        # Others keep what their last sweep found, bit for bit what it would be without these.
        self._mass = np.where(self._has_c > 0, mass, self._mass)
        self._lost = np.where(self._has_c > 0, lost, self._lost)
        self._has_c = np.zeros_like(self._has_c)

    def _low(
        self, storage: FloatFormat, until: Floats, limits: npt.NDArray[np.int64], began: float
    ) -> tuple[Floats, npt.NDArray[np.int64], list[float]]:
        """Do low sweeps of each query until its r is small, or as many as its limit; 0 leaves it as it is.

        Return ||r||_1 after each sweep, shape (sweeps, columns), how many of them each query did, and when
        each sweep ended.
        """
        arrays, stride = current().arrays, len(until)
        if self._kept is None or self._kept.storage != storage:
            self._kept = None
            with memory_for(self.problem, len(self._places.columns), REFINE_BYTES):
                self._kept = Kept(self._graph, storage, stride)
        given = self._kept, self._places, self._c, self._largest, until, limits
        sweeps = LowSweeps(*given, anderson=self.anderson)
        goes_on = limits > 0
        self._has_c[goes_on] = 1.0
        counts = np.zeros(stride, np.int64)
        norms: list[Floats] = []
        ended_s = [work_clock.now() - began]
        group = max(1, min(_GROUP, MAX_ASYNC_NUMBERS // stride))
        under_way: deque[tuple[int, Callable[[], Floats]]] = deque()
        left = int(limits.max())
        while goes_on.any():
            # One group runs while the host looks at the one before: what comes too late finds all at rest.
            while left and len(under_way) < 2:
                count = min(group, left)
                report = arrays.empty((count, stride), np.float64)
                for step in range(count):
                    sweeps.launch(report[step])
                under_way.append((count, noted(report)))
                left -= count
            count, found_of = under_way.popleft()
            fresh = found_of().reshape(count, stride)
            ended_s += np.linspace(ended_s[-1], work_clock.now() - began, count + 1)[1:].tolist()
            for now in fresh:
                norms.append(now)
                ends = goes_on & (~(now > until) | (limits == len(norms)))
                counts[ends] = len(norms)
                goes_on &= ~ends
        sweeps.end(counts)
        return np.array(norms), counts, ended_s[1:]


def noted(numbers: Any) -> Callable[[], Floats]:
    """Return how to wait for numbers: by `Backend.note`, unless they are too many for it."""
    return current().fetch_async(numbers) if numbers.size <= MAX_ASYNC_NUMBERS else lambda: current().to_host(numbers)


def needed_variants() -> list[template.Variant]:
    """Return what rounds launch, with the formats of the default policy; others are compiled when they come."""
    wanted = [*batched.BATCH_HELPERS, *template.PADDED_CSR]
    for each in (1, 2):
        wanted += [
            *batched.batch_residual_sweeps(each, refines=True),
            batched.batch_correct(each),
            batched.batch_downstream(each),
        ]
    for storage in (FP16, FP32):
        wanted += batched.batch_history(storage)
        for each in (1, 2, 4):
            wanted += batched.batch_inner_sweeps(storage, each)
    return wanted
