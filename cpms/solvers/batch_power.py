"""Power iteration of a batch: all queries are swept together until each has converged.

Each query has its own history and its own stopping test, so that its answer does not depend on the others. A sweep
costs one read of the matrix for all queries, and one read and write of the iterate for each.
"""

from __future__ import annotations

from typing import Any

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.contracts.batch import Batch, Query, Solved
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.precision.controllers import FLOAT64
from cpms.solvers.power import status_after


def iterate_all(batch: Batch, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
    """Iterate all queries from ``first``, each until its own change is small; a converged query leaves the batch."""
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
        for position, (query, sweep) in enumerate(zip(active, found, strict=True)):
            history, change = histories[query], sweep.of(stopping.norm)
            history.append(Step(len(history) + 1, change, FLOAT64, 64, 64, sweep.mass, seconds))
            changes[query].append(sweep.l1)
            status = status_after(history, changes[query], stopping)
            if status:
                ended.append((position, status))
        taken = batch.take([position for position, _ in ended]) if ended else []
        for (position, status), ranks in zip(ended, taken, strict=True):
            answers[active[position]] = ranks, status
        removed = {position for position, _ in ended}
        active = [query for position, query in enumerate(active) if position not in removed]
    return [(*answers[query], histories[query]) for query in range(len(queries))]
