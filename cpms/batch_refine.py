"""Method ``refine`` for many personalised queries that share every read of the matrix; see `cpms.refine`."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from cpms.batch import Query, Solved
from cpms.engine import Floats, Norm, Round
from cpms.refine import Plan, Refining, record, round_status
from cpms.result import Status, Step
from cpms.stopping import Stopping


class RefiningBatch(ABC):
    """A problem prepared for queries that are refined together; it holds x and c of each."""

    nbytes: int
    width: int
    """Queries that it pays to sweep together, and that there is room for."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same ``first`` iterate, shape (nodes,)."""

    @abstractmethod
    def round(self, plans: list[Plan], *, tol: float, norm: Norm, most: list[int]) -> list[Round]:
        """Do a round of each query, of at most ``most`` sweeps, as `Refinement.round` does of one.

        A query whose low sweeps have ended rests until those of all have, so that what it finds does not
        depend on the others.
        """

    @abstractmethod
    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of the queries at these places, as `Batch.take` does."""


@dataclass
class _Course:
    """How a query's solve has gone so far; its history is written down at the end, when nobody waits for it."""

    plan: Plan
    state: Any
    done: int = 0
    rounds: list[tuple[Round, Plan, float]] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    l1_before: float = math.inf
    promised: float = 1.0

    def add(self, made: Round, policy: Refining, stopping: Stopping, began_s: float) -> Status | None:
        """Keep a round and plan the next; return how the solve ends, None if it goes on."""
        self.rounds.append((made, self.plan, began_s))
        self.done += len(made.seconds)
        residual, l1 = made.found.of(stopping.norm), made.found.l1
        self.residuals.append(residual)
        status = round_status(self.residuals, made, self.plan, stopping, self.done)
        if 0.0 < self.l1_before < math.inf:
            self.plan, self.state = policy.update(self.state, self.promised, l1 / self.l1_before)
        self.promised, self.l1_before = made.low[-1] / l1 if made.low else 1.0, l1
        return status

    def history(self, stopping: Stopping) -> list[Step]:
        """Return the steps of all rounds."""
        steps: list[Step] = []
        for made, plan, began_s in self.rounds:
            record(steps, made, plan, stopping, began_s)
        return steps


def refine_all(
    batch: RefiningBatch, queries: list[Query], first: Floats, policy: Refining, stopping: Stopping
) -> Solved:
    """Refine all queries from ``first``, each until its own residual is small; a query that is done leaves."""
    batch.start(queries, first)
    began = time.perf_counter()
    courses = [_Course(*policy.init()) for _ in queries]
    answers: dict[int, tuple[Any, Status]] = {}
    active = list(range(len(queries)))
    while active:
        round_began_s = time.perf_counter() - began
        found = batch.round(
            [courses[query].plan for query in active],
            tol=stopping.tol,
            norm=stopping.norm,
            most=[stopping.max_iterations - courses[query].done for query in active],
        )
        ended: list[tuple[int, Status]] = []
        for place, (query, made) in enumerate(zip(active, found, strict=True)):
            status = courses[query].add(made, policy, stopping, round_began_s)
            if status is not None:
                ended.append((place, status))
        taken = batch.take([place for place, _ in ended]) if ended else []
        for (place, status), ranks in zip(ended, taken, strict=True):
            answers[active[place]] = ranks, status
        gone = {place for place, _ in ended}
        active = [query for place, query in enumerate(active) if place not in gone]
    return [(*answers[query], courses[query].history(stopping)) for query in range(len(queries))]
