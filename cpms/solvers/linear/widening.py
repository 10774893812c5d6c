"""A method in few bits first, and in more bits where rounding may have made it fail.

Low precision can make a positive definite matrix indefinite, stop the fall of a residual, or overflow. Such a failure
need not be one of the system, so the method continues with the next format before a failure is reported. The last
attempt has all values in float64. Each attempt begins with the best x so far. A failed attempt costs two products for
its residuals, besides its own iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cpms.contracts.linear_solve import WIDENS, SolveStatus, SolveTask, bits_of

Method = Callable[[SolveTask, Any], SolveStatus]


def widened(method: Method, task: SolveTask, x: Any) -> SolveStatus:
    """Run a method in each format in turn until it does not fail, and return its last status.

    An attempt that fails without reducing the residual leaves x as it was.

    Parameters
    ----------
    method : callable
        Takes a task of one format, and x, which it improves in place.
    task : SolveTask
        Of one format or several.
    x : vector of float64
        The start, and the answer.
    """
    attempts = Attempts(task, x)
    for attempt in attempts:
        attempts.status = method(attempt, x)
    return attempts.status


class Attempts:
    """The tasks of a method, one in each format, until one does not fail; each begins with the best x so far.

    Attributes
    ----------
    status : SolveStatus
        Of the last task; whoever takes a task sets it.
    """

    def __init__(self, task: SolveTask, x: Any) -> None:
        self._task, self._x, self.status = task, x, SolveStatus.STAGNATED

    def __iter__(self) -> Iterator[SolveTask]:
        task, x = self._task, self._x
        for attempt, following in _attempts(task):
            before = task.exact.convert(x, None)
            yield attempt
            if self.status not in WIDENS:
                return
            after = task.residual(x)[1]
            if not math.isfinite(after) or not after <= task.residual(before)[1]:
                x[...] = before
            if following is not None:
                task.recorder.notes.append(
                    f"{self.status.name.lower()} with vectors of {bits_of(attempt.formats[0])} bits after "
                    f"{len(task.recorder.steps)} iterations: widened to {bits_of(following.formats[0])} bits"
                    + (" and all of the matrix" if following.stored is not attempt.stored else "")
                )


def _attempts(task: SolveTask) -> Iterator[tuple[SolveTask, SolveTask | None]]:
    """Yield a task for each format, and last one in float64 throughout, each with its successor."""
    tasks = [replace(task, formats=(each,)) for each in task.formats]
    last = tasks[-1]
    if last.formats != (None,) or last.stored is not last.exact:
        tasks.append(task.widest)
    yield from zip(tasks, [*tasks[1:], None], strict=True)
