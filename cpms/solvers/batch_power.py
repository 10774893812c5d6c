"""Power iteration of a batch: all queries are swept together until each has converged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, Query, RefinementBatch, Solved
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.precision.controllers import FLOAT64
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.solvers.power import status_after


@dataclass(frozen=True, eq=False)
class PowerRun:
    """Batches of power iteration on a prepared problem."""

    batch: Batch

    def solve(self, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
        """Answer queries together; ranks stay where the engine has them."""
        return solve(self.batch, queries, first, stopping)


@dataclass(frozen=True, eq=False)
class RefineRun:
    """Batches of method ``refine`` on a prepared problem."""

    batch: RefinementBatch
    policy: RefinementPolicy

    def solve(self, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
        """Answer queries; ranks stay where the engine has them."""
        return self.batch.solve(queries, first, self.policy, stopping)


def solve(batch: Batch, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
    """Iterate all queries from ``first``, each until its own change is small; a query that is done leaves."""
    batch.start(queries, first)
    began = work_clock.now()
    histories: list[list[Step]] = [[] for _ in queries]
    changes: list[list[float]] = [[] for _ in queries]
    answers: dict[int, tuple[Any, Status]] = {}
    active = list(range(len(queries)))
    while active:
        found = batch.sweep()
        seconds = work_clock.now() - began
        ended: list[tuple[int, Status]] = []
        for place, (query, sweep) in enumerate(zip(active, found, strict=True)):
            history, change = histories[query], sweep.of(stopping.norm)
            history.append(Step(len(history) + 1, change, FLOAT64, 64, 64, sweep.mass, seconds))
            changes[query].append(sweep.l1)
            status = status_after(history, changes[query], stopping)
            if status:
                ended.append((place, status))
        taken = batch.take([place for place, _ in ended]) if ended else []
        for (place, status), ranks in zip(ended, taken, strict=True):
            answers[active[place]] = ranks, status
        gone = {place for place, _ in ended}
        active = [query for place, query in enumerate(active) if place not in gone]
    return [(*answers[query], histories[query]) for query in range(len(queries))]
