"""Batches of personalised queries composed of the operations of a linear operator, also for graphs with weights.

The product reads the matrix once for the vectors of all queries (SpMM). All else is done query by query, as in
`cpms.solvers.composed_refine`. A sweep costs seven vectors of float64 and a copy of two columns for each query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, InnerGoal, Lockstep, Query, Solved
from cpms.contracts.operator import Sweep
from cpms.contracts.stopping import Stopping
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.solvers.batch_refine import refine_all
from cpms.solvers.composed_refine import ComposedSweeps, Iterate

BYTES_A_NODE = 80
"""Most bytes that the vectors of a query take for each node."""


class _Iterates:
    """The vectors of the queries that are not solved yet."""

    def __init__(self, sweeps: ComposedSweeps, width: int) -> None:
        self.problem, self.nbytes, self.width = sweeps.problem, sweeps.nbytes, width
        self._sweeps, self._iterates = sweeps, list[Iterate]()

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same first iterate."""
        nodes = self.problem.graph.nodes
        problems = [replace(self.problem, teleport=query.teleport(nodes)) for query in queries]
        self._iterates = [self._sweeps.iterate(problem, first) for problem in problems]

    def take(self, positions: list[int]) -> list[Any]:
        """Remove queries and return their ranks."""
        taken = [self._iterates[position].x for position in positions]
        self._iterates = [each for position, each in enumerate(self._iterates) if position not in positions]
        return taken


class ComposedBatch(_Iterates, Batch):
    """Power iteration of several queries in float64."""

    def sweep(self) -> list[Sweep]:
        """Sweep all queries once."""
        return self._sweeps.sweep(self._iterates)


class ComposedLockstep(_Iterates, Lockstep):
    """Method ``refine`` for several queries."""

    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine all queries together."""
        return refine_all(self, queries, first, policy, stopping)

    def residual_sweep(self) -> list[Sweep]:
        """Add each correction, and sweep in float64."""
        for each in self._iterates:
            self._sweeps.correct(each)
        return self._sweeps.sweep(self._iterates)

    def inner_sweeps(self, goals: list[InnerGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Sweep the queries that have not met their goals together, until all have."""
        began = work_clock.now()
        norms: list[list[float]] = [[] for _ in goals]
        seconds: list[list[float]] = [[] for _ in goals]
        for each in self._iterates:
            self._sweeps.begin_inner_sweeps(each)
        active = {position: goal for position, goal in enumerate(goals) if goal is not None and goal.most > 0}
        while active:
            iterates, storages = [self._iterates[k] for k in active], [goal.storage for goal in active.values()]
            for position, size in zip(active, self._sweeps.inner_sweep(iterates, storages), strict=True):
                norms[position].append(size)
                seconds[position].append(work_clock.now() - began)
            active = {k: goal for k, goal in active.items() if norms[k][-1] > goal.until and len(norms[k]) < goal.most}
        return list(zip(norms, seconds, strict=True))
