"""A solve by method ``refine``: at once where the graph allows that and the answer is confirmed, else in rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cpms import work_clock
from cpms.certify import Referee
from cpms.engine import Floats, Refinement
from cpms.format import DOUBLE_BITS
from cpms.precision import FLOAT64
from cpms.refine import Refining, at_once, refine
from cpms.result import Status, Step
from cpms.stopping import Stopping


def refined(
    refinement: Refinement,
    first: Floats | None,
    policy: Refining,
    stopping: Stopping,
    referee: Referee,
    bring: Callable[[Any], Floats],
    on_step: Callable[[Step], None] | None = None,
    *,
    in_rounds: bool = False,
) -> tuple[Floats, Status, list[Step]]:
    """Solve x = G(x) until the referee confirms the answer, which ``bring`` brings to main memory.

    Rounds begin at ``first``, evenly without it, or where what was done before them ended without a confirmed answer;
    with ``in_rounds`` there is nothing before them.
    """

    def x_of(operator: Refinement) -> Floats:
        there = operator.read_device()
        return bring(operator.read() if there is None else there)

    done: list[Step] = []
    began = work_clock.now()
    solved = None if in_rounds else at_once(refinement, policy, stopping, on_step)
    if solved is not None:
        pass_s = work_clock.now() - began
        found, status, done = bring(solved[0]), *solved[1:]
        confirmed, left = referee.confirms(found), stopping.max_iterations - len(done)
        if confirmed or left <= 0:
            if not done:
                done = [Step(1, referee.residual, FLOAT64, DOUBLE_BITS, DOUBLE_BITS, 1.0, pass_s)]
                if on_step:
                    on_step(done[0])
            ended = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
            return found, Status.CONVERGED if confirmed else ended, done
        if status is not Status.NON_FINITE:
            first = found
        stopping = replace(stopping, max_iterations=left)
    if first is None:
        refinement.start_evenly(referee.problem.graph.nodes)
    later = on_step and (lambda step: on_step(step._replace(iteration=len(done) + step.iteration)))
    ranks, status, history = refine(refinement, first, policy, stopping, later, confirmed=referee.confirms, answer=x_of)
    return ranks, status, done + [step._replace(iteration=len(done) + step.iteration) for step in history]
