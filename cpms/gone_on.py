"""Queries of batches whose answers the referee does not confirm, alone from where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cpms.certify_batch import BatchReferee
from cpms.engine import Floats
from cpms.main_memory import in_main_memory
from cpms.result import Status, Step
from cpms.stopping import Stopping

if TYPE_CHECKING:
    from cpms.batch import PowerRun, Query, RefineRun


class Answer(NamedTuple):
    """Of a query: its ranks in main memory, and what they are worth; residual_l1 as in `cpms.Result`."""

    ranks: Floats
    status: Status
    residual_l1: float
    history: list[Step]


def gone_on(
    run: PowerRun | RefineRun, referee: BatchReferee, query: Query, found: Answer, stopping: Stopping
) -> Answer:
    """Go on while the referee finds less in L1, but too much in the norm asked for.

    In L2 and Linf a sweep may enlarge what the last one found, and so may a solve; in L1 each sweep shrinks it by the
    damping, down to rounding, and the other norms are at most that.
    """
    while found.status is Status.UNVERIFIED and len(found.history) < stopping.max_iterations:
        left = replace(stopping, max_iterations=stopping.max_iterations - len(found.history))
        [(ranks, status, steps)] = run.solve([query], found.ranks, left)
        ranks = in_main_memory(ranks)
        [(checked, residual_l1)] = referee.verdicts([query], [ranks], [status])
        if not residual_l1 < found.residual_l1:
            break
        last = found.history[-1]
        later = [
            step._replace(iteration=last.iteration + step.iteration, seconds=last.seconds + step.seconds)
            for step in steps
        ]
        found = Answer(ranks, checked, residual_l1, [*found.history, *later])
    return found
