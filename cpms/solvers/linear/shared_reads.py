"""Solves of several right-hand sides in step, so that their products share each read of the matrix.

A solve is a generator. It yields the iterations that it waits for and is sent their results, and it returns its answer.
Products are most of an iteration, and all else that a solve does it does by itself. A solve begins when one before it
has ended, so at most `SHARED` of them hold vectors at a time. A solve that ends, or that continues in another format,
no longer shares reads with the others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from cpms.contracts.conjugate_gradients import SHARED, CgRun, CgStep

Answer = TypeVar("Answer")
Steps = list[CgStep]
Solve = Generator[CgRun, Steps, Answer]


def together(solves: Iterable[Solve[Answer]]) -> list[Answer]:
    """Return the answers of solves, whose runs are done together where they can share reads of the matrix.

    Where they cannot, solves are done one after the other.

    Examples
    --------
    >>> def solve(answer):
    ...     return answer
    ...     yield
    >>> together(solve(answer) for answer in ("x", "y"))
    ['x', 'y']
    """
    found: dict[int, Answer] = {}
    waiting: dict[int, tuple[Solve[Answer], CgRun]] = {}

    def resume(place: int, solve: Solve[Answer], steps: Any) -> None:
        """Continue a solve to its next run that can share reads, or to its end."""
        try:
            run = solve.send(steps)
            while run.iterations.shared_read is None:
                run = solve.send(run.iterations.run(run.most, run.target))
        except StopIteration as end:
            found[place] = end.value
        else:
            waiting[place] = solve, run

    following = enumerate(solves)
    while True:
        while len(waiting) < SHARED and (begun := next(following, None)):
            resume(*begun, None)
        if not waiting:
            return [found[place] for place in sorted(found)]
        shared = next(iter(waiting.values()))[1].iterations.shared_read
        group = {place: each for place, each in waiting.items() if each[1].iterations.shared_read == shared}
        runs = [run for _, run in group.values()]
        for (place, (solve, _)), steps in zip(group.items(), runs[0].iterations.run_together(runs), strict=True):
            del waiting[place]
            resume(place, solve, steps)


def alone(solve: Solve[Answer]) -> Answer:
    """Return the answer of one solve."""
    return together([solve])[0]
