"""PageRank by refinement: iterate on the residual in few bits, certify in float64.

A round begins with a full sweep, ``r = G(x) - x; x = G(x); c = 0``, and goes on with low sweeps

    z = Q(r / out-degree)                   one read of 8, 16 or 32 bits an edge
    m = sum(r - out-degree * z)             what Q lost, and all of r on dangling nodes
    r = damping (A^T z + m w);  c = c + r

that conserve mass: the sum of r shrinks by the damping, whatever Q does. Every few of them may be followed by a
combination of what they found that leaves less (`cpms.precision.anderson`). The next round begins with
``x = (x + c) / sum(x + c)``, and its full sweep says how good that is, so no answer rests on Q.

What a sweep found it sends as z, so that c may also be ``sum(out-degree * z)`` of all z but the first, out-degree 1
where there is none: then sweeps write z alone (`cpms.backends.cuda.persistent.refinement`). What Q loses of r stays in the residual so,
where of an r in c only that stays which comes back along edges. In fp16 rounds that asked for their default gain left
1.05 to 1.3 times as much, on web, road and mesh graphs: too little to cost one more.

What Q loses may also stay with its node, to be sent later, with x as the sum of all that was sent (out-degree: 1 where
there is none):

    z = Q(r / out-degree); left = r - out-degree * z; x = x + out-degree * z
    r = left + damping (A^T z + (sum of z on dangling nodes) v) - s v

r is the residual of x, but for s v, by which its sum is kept; that only scales the x which it belongs to. One round
then goes down to the tolerance, whatever Q is (``kernels/cuda/pagerank/error_feedback.cuh``; `Refinement.error_feedback`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.certify.certificate import Certifier
from cpms.contracts.refinement import OuterStep, Refinement
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import STALLED_ITERATIONS, Stopping
from cpms.precision.anderson import DEPTH
from cpms.precision.controllers import FLOAT64, Level
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import (
    NO_PROGRESS,
    InnerPlan,
    RefinementPolicy,
    checked_plan,
)

_LOW = Level(1, 1)
_STALLED_ROUNDS = 6


class PolicyDriver:
    """The plan of the next round, by what those before found, and how the solve ends.

    Parameters
    ----------
    policy : RefinementPolicy
    damping : float
    """

    def __init__(self, policy: RefinementPolicy, damping: float) -> None:
        self._policy, self._damping = policy, damping
        self.plan, self._state = checked_plan(policy, policy.init())
        self._promised, self._before = 1.0, math.inf
        self._behind, self._cut = self.plan, 0
        self._l1: list[float] = []

    def add(self, rounds: list[OuterStep], plan: InnerPlan, stopping: Stopping, done: int) -> Status | None:
        """Look at rounds that went by this plan; return how the solve ends after so many sweeps, None if it goes on.

        Residuals of a plan are compared with each other, and where it has low sweeps with the last one before it.
        """
        for made in rounds:
            self._l1.append(made.found.l1)
            self._look_at(made, plan)
        status = _status_after(self._l1, rounds[-1], plan, stopping, done)
        if self.plan != plan:
            del self._l1[: len(self._l1) if self.plan.storage is None else -1]
        return status

    @property
    def falls(self) -> bool:
        """Whether the last full sweep found less in L1 than the one before; True if there is none to compare with."""
        return len(self._l1) < 2 or self._l1[-1] < self._l1[-2]

    def _next(self, promised: float, found: float) -> tuple[InnerPlan, Any]:
        return checked_plan(self._policy, self._policy.update(self._state, promised, found))

    def _look_at(self, made: OuterStep, plan: InnerPlan) -> None:
        """Plan the next round after one that went by this plan.

        What low sweeps left that went by another plan than the present one says nothing of this one. A round that
        was cut short and left more than its sweeps would have by the damping alone is one that rounding held.
        """
        l1 = made.found.l1
        if 0.0 < self._before < math.inf and self._behind == self.plan:
            found = l1 / self._before
            held = self._cut and found > self._damping ** (self._cut - 2 * DEPTH)
            self.plan, self._state = self._next(0.0 if held else self._promised, found)
        self._promised, self._before, self._behind = made.low[-1] / l1 if made.low and l1 > 0.0 else 1.0, l1, plan
        self._cut = len(made.low) if len(made.low) >= inner_max_iterations(plan.inner_reduction, self._damping) else 0
        if self.plan == plan and self._cut and self._promised > NO_PROGRESS:
            wider, state = self._next(0.0, self._promised)
            if wider.storage is not None:  # Whether low sweeps are of no use at all, a full one has to say.
                self.plan, self._state = wider, state


def read(operator: Refinement) -> Floats:
    """Return x in main memory."""
    return operator.read()


def refine(
    operator: Refinement,
    first: Floats | None,
    policy: RefinementPolicy,
    stopping: Stopping,
    on_step: Callable[[Step], None] | None = None,
    *,
    confirmed: Callable[[Floats], bool] | None = None,
    answer: Callable[[Refinement], Any] = read,
) -> tuple[Floats, Status, list[Step]]:
    """Solve x = G(x) from ``first``, or where the operator has been started, in rounds that the policy plans.

    Answers are what ``answer`` makes of the operator. Steps of full sweeps hold the norm asked for, those of
    low sweeps the L1 norm of r.
    """
    if first is not None:
        operator.start(first)
    log = History(stopping, on_step)
    ranks, status = _rounds(operator, policy, log, confirmed, answer)
    return ranks, status, log.steps()


def at_once(
    operator: Refinement, policy: RefinementPolicy, stopping: Stopping, on_step: Callable[[Step], None] | None = None
) -> tuple[Any, Status, list[Step]] | None:
    """Solve x = G(x) by what `Refinement.solve_reduced` makes of the graph; None where that is nothing.

    The steps are those of a smaller problem, of which the last one ended with the solve, or there are none; the answer
    is for others to confirm.
    """
    status = Status.CONVERGED
    log = History(stopping, on_step)

    def iterate(smaller: Refinement) -> None:
        nonlocal status
        _, status = _rounds(smaller, policy, log, None, _nothing)

    began = work_clock.now()
    ranks = operator.solve_reduced(iterate)
    ended_s = work_clock.now() - began
    history = log.steps()
    history[-1:] = [step._replace(seconds=ended_s) for step in history[-1:]]
    return None if ranks is None else (ranks, status, history)


class History:
    """Rounds of a solve; steps are written down at the end, when nobody waits for it, unless somebody looks on."""

    def __init__(self, stopping: Stopping, on_step: Callable[[Step], None] | None = None) -> None:
        self.stopping, self.done = stopping, 0
        self._on_step = on_step
        self._waiting: list[tuple[OuterStep, InnerPlan, float]] = []
        self._steps: list[Step] = []

    def add(self, made: OuterStep, plan: InnerPlan, began_s: float) -> None:
        """Add a round that began so many seconds after the solve did."""
        self._waiting.append((made, plan, began_s))
        self.done += len(made.seconds)
        if self._on_step:
            told = len(self._steps)
            for step in self.steps()[told:]:
                self._on_step(step)

    def steps(self) -> list[Step]:
        """Return one for each sweep."""
        for made, plan, began_s in self._waiting:
            self._write(made, plan, began_s)
        self._waiting.clear()
        return self._steps

    def _write(self, found: OuterStep, plan: InnerPlan, began_s: float) -> None:
        first, low_bits, mass = len(self._steps) + 1, plan.storage.width if plan.storage else 64, found.found.mass
        sweeps = zip(
            (found.found.of(self.stopping.norm), *found.low),
            (_LOW if found.from_rounded else FLOAT64, *[_LOW] * len(found.low)),
            (low_bits if found.from_rounded else 64, *[low_bits] * len(found.low)),
            found.seconds,
            strict=True,
        )
        self._steps += [
            Step(first + place, residual, level, bits, bits, mass, began_s + ended_s)
            for place, (residual, level, bits, ended_s) in enumerate(sweeps)
        ]


def _rounds(
    operator: Refinement,
    policy: RefinementPolicy,
    log: History,
    confirmed: Callable[[Floats], bool] | None,
    answer: Callable[[Refinement], Any],
) -> tuple[Any, Status]:
    """Do rounds where the operator has been started; return the answer and how the solve ended."""
    operator.adaptive, stopping = policy.adaptive, log.stopping
    began = work_clock.now()
    planning = PolicyDriver(policy, operator.damping)
    while True:
        plan = planning.plan
        left = (stopping.iterations or stopping.max_iterations) - log.done
        found = operator.rounds(
            plan.storage,
            inner_reduction=plan.inner_reduction,
            noise_tolerance=policy.noise_tolerance,
            tol=0.0 if stopping.iterations else stopping.tol,
            norm=stopping.norm,
            most=max(1, left - 1),  # The last sweep of all is a full one, which begins with what low ones found.
        )
        # On a clock of their own rounds took less than they did with their launch.
        ended_s = work_clock.now() - began - sum(made.seconds[-1] for made in found)
        for made in found:
            log.add(made, plan, ended_s)
            ended_s += made.seconds[-1]
        status = planning.add(found, plan, stopping, log.done)
        if status is Status.CONVERGED:
            ranks = answer(operator)
            if confirmed is None or confirmed(ranks) or not planning.falls or log.done >= stopping.max_iterations:
                return ranks, status
        elif status is not None:
            return answer(operator), status


def _nothing(operator: Refinement) -> None:
    """Leave the answer to whoever has started the operator."""


def _status_after(l1: list[float], found: OuterStep, plan: InnerPlan, stopping: Stopping, done: int) -> Status | None:
    """Return how a solve ends after a round, None if it goes on; ``l1``: residuals in L1 of its plan's full sweeps."""
    residual = found.found.of(stopping.norm)
    if not (math.isfinite(residual) and math.isfinite(found.found.mass) and found.found.mass > 0):
        return Status.NON_FINITE
    if stopping.iterations is not None:
        return Status.FIXED if done >= stopping.iterations else None
    if residual < stopping.tol and not found.low:
        return Status.CONVERGED
    if done >= stopping.max_iterations:
        return Status.MAX_ITERATIONS
    rounds = STALLED_ITERATIONS if plan.storage is None else _STALLED_ROUNDS
    stalled = len(l1) > rounds and min(l1[-rounds:]) >= min(l1[:-rounds])
    return Status.STAGNATED if stalled else None


def refined(
    refinement: Refinement,
    first: Floats | None,
    policy: RefinementPolicy,
    stopping: Stopping,
    referee: Certifier,
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
        confirmed, left = referee.is_below_tolerance(found), stopping.max_iterations - len(done)
        if confirmed or left <= 0:
            if not done:
                done = [Step(1, referee.residual, FLOAT64, 64, 64, 1.0, pass_s)]
                if on_step:
                    on_step(done[0])
            ended = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
            return found, Status.CONVERGED if confirmed else ended, done
        if status is not Status.NON_FINITE:
            first = found
        stopping = replace(stopping, max_iterations=left)
    if first is None:
        refinement.start_uniform(referee.problem.graph.nodes)
    later = on_step and (lambda step: on_step(step._replace(iteration=len(done) + step.iteration)))
    ranks, status, history = refine(
        refinement, first, policy, stopping, later, confirmed=referee.is_below_tolerance, answer=x_of
    )
    return ranks, status, done + [step._replace(iteration=len(done) + step.iteration) for step in history]
