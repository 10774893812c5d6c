"""Method ``refine`` for several personalised queries that share every read of the matrix.

A synchronous batch of `cpms.solvers.refine`: all queries do a residual sweep together, then inner sweeps together. Each
query has its own policy, goals and history, so its answer does not depend on the others. A query whose inner sweeps
have ended waits for the slowest one.
"""

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
from cpms.formats.quantization import quantiser
from cpms.precision.inner_stopping import inner_max_iterations, inner_tolerance
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.solvers.refine import History, PolicyDriver


class OuterState(NamedTuple):
    """The state of a query between outer steps: its policy driver and its history."""

    driver: PolicyDriver
    history: History

    def goal(self, found: Sweep, damping: float) -> InnerGoal | None:
        """Return the stopping test of the inner sweeps after a residual sweep; None: no inner sweeps."""
        stopping, plan = self.history.stopping, self.driver.plan
        size, most = found.of(stopping.norm), stopping.max_iterations - self.history.done - 1
        if plan.storage is None or most < 1 or not stopping.tol <= size < math.inf:
            return None
        until = inner_tolerance(plan.inner_reduction, stopping.tol, damping, found.l1, size)
        return InnerGoal(quantiser(plan.storage), until, min(most, inner_max_iterations(plan.inner_reduction, damping)))

    def add(self, outer_step: OuterStep, began_s: float) -> Status | None:
        """Record an outer step and plan the next; return the status of a solve that ends, else None."""
        plan = self.driver.plan
        self.history.add(outer_step, plan, began_s)
        return self.driver.add([outer_step], plan, self.history.stopping, self.history.done)


def refine_all(
    batch: Lockstep, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping
) -> Solved:
    """Refine all queries from ``first``, each until its own residual is small; a converged query leaves the batch."""
    batch.start(queries, first)
    began = work_clock.now()
    states = [OuterState(PolicyDriver(policy, batch.problem.damping), History(stopping)) for _ in queries]
    answers: dict[int, tuple[Any, Status]] = {}
    active = list(range(len(queries)))

    def remove(ended: dict[int, Status]) -> list[int]:
        """Take the answers of queries, by position, whose solves have ended; return the positions of the others."""
        for (position, status), ranks in zip(ended.items(), batch.take(list(ended)) if ended else [], strict=True):
            answers[active[position]] = ranks, status
        return [position for position in range(len(active)) if position not in ended]

    def record(outer_steps: dict[int, OuterStep], step_began_s: float) -> dict[int, Status]:
        """Record outer steps by position; return the statuses of solves that end."""
        statuses = {
            position: states[active[position]].add(outer_step, step_began_s)
            for position, outer_step in outer_steps.items()
        }
        return {position: status for position, status in statuses.items() if status is not None}

    while active:
        step_began_s = work_clock.now() - began
        found = batch.residual_sweep()
        residual_s = work_clock.now() - began - step_began_s
        damping = batch.problem.damping
        goals = [states[query].goal(sweep, damping) for query, sweep in zip(active, found, strict=True)]
        # Queries without inner sweeps leave before the inner sweeps of the others.
        direct = {
            position: OuterStep(found[position], [], [], [residual_s])
            for position, goal in enumerate(goals)
            if goal is None
        }
        remaining = remove(record(direct, step_began_s))
        active, found = [active[position] for position in remaining], [found[position] for position in remaining]
        goals = [goals[position] for position in remaining]
        if not any(goals):
            continue
        inner_began_s = work_clock.now() - began - step_began_s
        inner = batch.inner_sweeps(goals)
        inner_steps = {
            # This solver uses no sums of r; mass is that of x.
            position: OuterStep(
                found[position], norms, [], [residual_s, *(inner_began_s + second for second in seconds)]
            )
            for position, (norms, seconds) in enumerate(inner)
            if goals[position]
        }
        remaining = remove(record(inner_steps, step_began_s))
        active = [active[position] for position in remaining]
    return [(*answers[query], states[query].history.steps()) for query in range(len(queries))]
