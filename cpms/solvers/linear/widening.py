"""A method tried in few bits first, and in more where rounding may be what made it fail.

Low precision can make a positive definite matrix indefinite, let a residual stagnate, or overflow. None of that says
anything about the system, so the same method is tried with the next format before it reports a failure; the attempt
with every value in float64 is the last one. x keeps the progress of each attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cpms.contracts.linear_solve import WIDENS, SolveStatus, SolveTask, bits_of

Method = Callable[[SolveTask, Any], SolveStatus]


def widened(method: Method, task: SolveTask, x: Any) -> SolveStatus:
    """Return the status of a method's last attempt; x is that of the least residual.

    Parameters
    ----------
    method : callable
        Takes a task of one format, and x, which it improves in place.
    task : SolveTask
        Of one format or several.
    x : vector of float64
    """
    status = SolveStatus.STAGNATED
    for attempt, following in _attempts(task):
        before, size = task.exact.convert(x, None), task.residual(x)[1]
        status = method(attempt, x)
        if status not in WIDENS:
            return status
        after = task.residual(x)[1]
        if not after <= size or not math.isfinite(after):
            x[...] = before
        if following is not None:
            task.recorder.notes.append(
                f"{status.name.lower()} with vectors of {bits_of(attempt.formats[0])} bits after "
                f"{len(task.recorder.steps)} iterations: widened to {bits_of(following.formats[0])} bits"
                + (" and all of the matrix" if following.stored is not attempt.stored else "")
            )
    return status


def _attempts(task: SolveTask) -> Iterator[tuple[SolveTask, SolveTask | None]]:
    """Yield tasks of one format each, the last one in float64 throughout, and each one's successor."""
    tasks = [replace(task, formats=(each,)) for each in task.formats]
    last = tasks[-1]
    if last.formats != (None,) or last.stored is not last.exact:
        tasks.append(task.widest)
    yield from zip(tasks, [*tasks[1:], None], strict=True)
