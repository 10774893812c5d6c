"""Method ``refine`` for many personalised queries that share every read of the matrix; see `cpms.solvers.refine`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.batch import InnerGoal, Lockstep, Query, Solved
from cpms.contracts.operator import Sweep
from cpms.contracts.refinement import OuterStep
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.solvers.refine import History, PolicyDriver


class OuterState(NamedTuple):
    """How a query's solve has gone so far, and is to go on."""

    planning: PolicyDriver
    log: History

    def goal(self, found: Sweep, damping: float) -> InnerGoal | None:
        """Return how low sweeps go on after a full one; None: there are none."""
        stopping, plan = self.log.stopping, self.planning.plan
        size, most = found.of(stopping.norm), stopping.max_iterations - self.log.done - 1
        if plan.storage is None or most < 1 or not stopping.tol <= size < math.inf:
            return None
        until = inner_tolerance(plan.inner_reduction, stopping.tol, damping, found.l1, size)
        return InnerGoal(plan.storage, until, min(most, inner_max_iterations(plan.inner_reduction, damping)))

    def add(self, made: OuterStep, began_s: float) -> Status | None:
        """Keep a round and plan the next; return how the solve ends, None if it goes on."""
        plan = self.planning.plan
        self.log.add(made, plan, began_s)
        return self.planning.add([made], plan, self.log.stopping, self.log.done)


def refine_all(
    batch: Lockstep, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping
) -> Solved:
    """Refine all queries from ``first``, each until its own residual is small; a query that is done leaves."""
    batch.start(queries, first)
    began = work_clock.now()
    courses = [OuterState(PolicyDriver(policy, batch.problem.damping), History(stopping)) for _ in queries]
    answers: dict[int, tuple[Any, Status]] = {}
    active = list(range(len(queries)))

    def leave(ended: dict[int, Status]) -> list[int]:
        """Take the answers of queries, by place, whose solves have ended; return the places of the others."""
        for (place, status), ranks in zip(ended.items(), batch.take(list(ended)) if ended else [], strict=True):
            answers[active[place]] = ranks, status
        return [place for place in range(len(active)) if place not in ended]

    def added(rounds: dict[int, OuterStep], round_began_s: float) -> dict[int, Status]:
        """Keep rounds by place; return how solves end that do."""
        statuses = {place: courses[active[place]].add(made, round_began_s) for place, made in rounds.items()}
        return {place: status for place, status in statuses.items() if status is not None}

    while active:
        round_began_s = work_clock.now() - began
        found = batch.full()
        full_s = work_clock.now() - began - round_began_s
        damping = batch.problem.damping
        goals = [courses[query].goal(sweep, damping) for query, sweep in zip(active, found, strict=True)]
        # Who needs no low sweeps leaves before the others do theirs.
        alone = {place: OuterStep(found[place], [], [], [full_s]) for place, goal in enumerate(goals) if goal is None}
        left = leave(added(alone, round_began_s))
        active, found = [active[place] for place in left], [found[place] for place in left]
        goals = [goals[place] for place in left]
        if not any(goals):
            continue
        low_began_s = work_clock.now() - began - round_began_s
        low = batch.low(goals)
        rounds = {
            # Sums of r are not looked at here; mass is that of x.
            place: OuterStep(found[place], norms, [], [full_s, *(low_began_s + second for second in seconds)])
            for place, (norms, seconds) in enumerate(low)
            if goals[place]
        }
        left = leave(added(rounds, round_began_s))
        active = [active[place] for place in left]
    return [(*answers[query], courses[query].log.steps()) for query in range(len(queries))]
