"""PageRank by mixed-precision iterative refinement: inner sweeps on the residual read few bits, float64 certifies.

The method is classical iterative refinement (Wilkinson, 1963; Higham, Accuracy and Stability of Numerical Algorithms,
chapter 12) for x = G(x), with Richardson sweeps as inner solver. It needs the contract `Refinement` alone. An outer
step costs one float64 sweep, and inner sweeps that each read 8, 16 or 32 bits an edge.

An outer step begins with a residual sweep in float64, ``r = G(x) - x; x = G(x); c = 0``. Inner sweeps follow:

    z = Q(r / out-degree)                   one read of 8, 16 or 32 bits an edge
    m = sum(r - out-degree * z)             the rounding error of Q, and all of r on dangling nodes
    r = damping (A^T z + m w);  c = c + r

Inner sweeps conserve mass: each multiplies the sum of r by the damping, whatever Q is. An Anderson combination may
follow every few of them (`cpms.precision.anderson`). The next outer step begins with ``x = (x + c) / sum(x + c)``. Its
residual sweep measures the new x, so no answer depends on the accuracy of Q.

A sweep sends the residual of the sweep before it as z. So c is also ``sum(out-degree * z)`` over all z but the first
(out-degree: 1 where there is none), and a kernel may write z alone (deferred update, see
`cpms.backends.cuda.persistent.refinement`). The rounding error of Q then remains in the residual.

Error feedback keeps the rounding error of Q at its node and sends it later. There x is the sum of all that was sent:

    z = Q(r / out-degree); e = r - out-degree * z; x = x + out-degree * z
    r = e + damping (A^T z + (sum of z on dangling nodes) v) - s v

r is the residual of x up to s v, which conserves the sum of r and only scales x. One outer step can then reach the
tolerance with any Q (``kernels/cuda/pagerank/error_feedback.cuh``; `Refinement.error_feedback`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.certify.certificate import Certifier
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import STALLED_ITERATIONS, Stopping
from cpms.precision.anderson import DEPTH
from cpms.precision.controllers import FLOAT64, Level
from cpms.precision.inner_stopping import inner_max_iterations
from cpms.precision.refinement_policy import (
    NO_PROGRESS,
    InnerPlan,
    RefinementPolicy,
    first_plan,
    next_plan,
)

_INNER = Level(1, 1)
_STALLED_OUTER_STEPS = 6


class PolicyDriver:
    """Plans the next outer step from the residuals of earlier ones, and decides when the solve ends.

    Parameters
    ----------
    policy : RefinementPolicy
    damping : float
    """

    def __init__(self, policy: RefinementPolicy, damping: float) -> None:
        self._policy, self._damping = policy, damping
        self.plan, self._state = first_plan(policy)
        self._predicted, self._previous_l1 = 1.0, math.inf
        self._previous_plan, self._capped = self.plan, 0
        self._l1: list[float] = []

    def add(self, outer_steps: list[OuterStep], plan: InnerPlan, stopping: Stopping, done: int) -> Status | None:
        """Add outer steps of one plan; return the status of a solve that ends after ``done`` sweeps, else None.

        Residuals of a plan are compared with each other, and where it has inner sweeps with the last one before it.
        """
        for outer_step in outer_steps:
            self._l1.append(outer_step.found.l1)
            self._plan_after(outer_step, plan)
        status = _status_after(self._l1, outer_steps[-1], plan, stopping, done)
        if self.plan != plan:
            del self._l1[: len(self._l1) if self.plan.storage is None else -1]
        return status

    @property
    def decreases(self) -> bool:
        """Whether the last residual is smaller in L1 than the one before it; True where there is no other."""
        return len(self._l1) < 2 or self._l1[-1] < self._l1[-2]

    def _next(self, predicted: float, measured: float) -> tuple[InnerPlan, Any]:
        return next_plan(self._policy, self._state, predicted, measured)

    def _plan_after(self, outer_step: OuterStep, plan: InnerPlan) -> None:
        """Plan the next outer step from one that used ``plan``.

        The policy compares the residual that inner sweeps predicted with the one that the next residual sweep
        measures, if both belong to the present plan. If inner sweeps reached their cap and reduced the residual
        less than the damping alone would, rounding held them up: the prediction counts as 0.
        """
        l1 = outer_step.found.l1
        if 0.0 < self._previous_l1 < math.inf and self._previous_plan == self.plan:
            measured = l1 / self._previous_l1
            stalled = self._capped and measured > self._damping ** (self._capped - 2 * DEPTH)
            self.plan, self._state = self._next(0.0 if stalled else self._predicted, measured)
        self._predicted = outer_step.inner_l1[-1] / l1 if outer_step.inner_l1 and l1 > 0.0 else 1.0
        self._previous_l1, self._previous_plan = l1, plan
        inner, cap = len(outer_step.inner_l1), inner_max_iterations(plan.inner_reduction, self._damping)
        self._capped = inner if inner >= cap else 0
        if self.plan == plan and self._capped and self._predicted > NO_PROGRESS:
            wider, state = self._next(0.0, self._predicted)
            if wider.storage is not None:  # Only a residual sweep can show that inner sweeps are of no use at all.
                self.plan, self._state = wider, state


def read(operator: Refinement) -> Floats:
    """Return x in main memory."""
    return operator.read()


def outer_iteration(
    operator: Refinement,
    first: Floats | None,
    policy: RefinementPolicy,
    stopping: Stopping,
    on_step: Callable[[Step], None] | None = None,
    *,
    confirmed: Callable[[Floats], bool] | None = None,
    answer: Callable[[Refinement], Any] = read,
) -> tuple[Floats, Status, list[Step]]:
    """Solve x = G(x) by outer steps that the policy plans, from ``first``; None: the operator has been started.

    ``answer`` makes the answer of the operator. Steps of residual sweeps hold the norm of ``stopping``, those of inner
    sweeps the L1 norm of r.
    """
    if first is not None:
        operator.start(first)
    history = History(stopping, on_step)
    ranks, status = _iterate(operator, policy, history, confirmed, answer)
    return ranks, status, history.steps()


def solve_by_reduction(
    operator: Refinement, policy: RefinementPolicy, stopping: Stopping, on_step: Callable[[Step], None] | None = None
) -> tuple[Any, Status, list[Step]] | None:
    """Solve x = G(x) by a reduced problem (`Refinement.solve_reduced`); None if the graph has no useful reduction.

    The steps are those of the reduced problem, and the last one ends with the solve; a direct solve has no steps. The
    caller has to certify the answer.
    """
    status = Status.CONVERGED
    history = History(stopping, on_step)

    def iterate(reduced: Refinement) -> None:
        nonlocal status
        _, status = _iterate(reduced, policy, history, None, _no_answer)

    began = work_clock.now()
    ranks = operator.solve_reduced(iterate)
    ended_s = work_clock.now() - began
    steps = history.steps()
    steps[-1:] = [step._replace(seconds=ended_s) for step in steps[-1:]]
    return None if ranks is None else (ranks, status, steps)


class History:
    """The outer steps of a solve; their `Step` records are made at the end, outside the time of the solve.

    With ``on_step`` they are made at once.
    """

    def __init__(self, stopping: Stopping, on_step: Callable[[Step], None] | None = None) -> None:
        self.stopping, self.done = stopping, 0
        self._on_step = on_step
        self._pending: list[tuple[OuterStep, InnerPlan, float]] = []
        self._steps: list[Step] = []

    def add(self, outer_step: OuterStep, plan: InnerPlan, began_s: float) -> None:
        """Add an outer step that began ``began_s`` seconds after the solve."""
        self._pending.append((outer_step, plan, began_s))
        self.done += len(outer_step.seconds)
        if self._on_step:
            reported = len(self._steps)
            for step in self.steps()[reported:]:
                self._on_step(step)

    def steps(self) -> list[Step]:
        """Return one record for each sweep."""
        for outer_step, plan, began_s in self._pending:
            self._record(outer_step, plan, began_s)
        self._pending.clear()
        return self._steps

    def _record(self, outer_step: OuterStep, plan: InnerPlan, began_s: float) -> None:
        first, residual = len(self._steps) + 1, outer_step.found
        inner, inner_bits = outer_step.inner_l1, plan.storage.bits(1) if plan.storage else 64
        sweeps = zip(
            (residual.of(self.stopping.norm), *inner),
            (_INNER if outer_step.from_rounded else FLOAT64, *[_INNER] * len(inner)),
            (inner_bits if outer_step.from_rounded else 64, *[inner_bits] * len(inner)),
            outer_step.seconds,
            strict=True,
        )
        self._steps += [
            Step(first + index, norm, level, bits, bits, residual.mass, began_s + ended_s)
            for index, (norm, level, bits, ended_s) in enumerate(sweeps)
        ]


def _iterate(
    operator: Refinement,
    policy: RefinementPolicy,
    history: History,
    confirmed: Callable[[Floats], bool] | None,
    answer: Callable[[Refinement], Any],
) -> tuple[Any, Status]:
    """Do outer steps from where the operator was started; return the answer and the status of the solve."""
    operator.adaptive, stopping = policy.adaptive, history.stopping
    began = work_clock.now()
    driver = PolicyDriver(policy, operator.damping)
    while True:
        plan = driver.plan
        remaining = (stopping.iterations or stopping.max_iterations) - history.done
        request = OuterRequest(
            inner_reduction=plan.inner_reduction,
            noise_tolerance=policy.noise_tolerance,
            tol=0.0 if stopping.iterations else stopping.tol,
            norm=stopping.norm,
            most=max(1, remaining - 1),  # One sweep remains: a residual sweep that adds the last correction.
        )
        outer_steps = operator.outer_steps(operator.readable(plan.storage), request)
        # Outer steps are timed by a clock of their own, which leaves out their launch.
        ended_s = work_clock.now() - began - sum(outer_step.seconds[-1] for outer_step in outer_steps)
        for outer_step in outer_steps:
            history.add(outer_step, plan, ended_s)
            ended_s += outer_step.seconds[-1]
        status = driver.add(outer_steps, plan, stopping, history.done)
        if status is Status.CONVERGED:
            ranks = answer(operator)
            exhausted = not driver.decreases or history.done >= stopping.max_iterations
            if confirmed is None or confirmed(ranks) or exhausted:
                return ranks, status
        elif status is not None:
            return answer(operator), status


def _no_answer(operator: Refinement) -> None:
    """Read no answer: the caller that started the operator reads it."""


def _status_after(
    l1: list[float], outer_step: OuterStep, plan: InnerPlan, stopping: Stopping, done: int
) -> Status | None:
    """Return the status of a solve that ends with an outer step, else None; ``l1``: residuals of its plan in L1."""
    residual = outer_step.found.of(stopping.norm)
    if not (math.isfinite(residual) and math.isfinite(outer_step.found.mass) and outer_step.found.mass > 0):
        return Status.NON_FINITE
    if stopping.iterations is not None:
        return Status.FIXED if done >= stopping.iterations else None
    if residual < stopping.tol and not outer_step.inner_l1:
        return Status.CONVERGED
    if done >= stopping.max_iterations:
        return Status.MAX_ITERATIONS
    window = STALLED_ITERATIONS if plan.storage is None else _STALLED_OUTER_STEPS
    stalled = len(l1) > window and min(l1[-window:]) >= min(l1[:-window])
    return Status.STAGNATED if stalled else None


def reduce_then_iterate(
    refinement: Refinement,
    first: Floats | None,
    policy: RefinementPolicy,
    stopping: Stopping,
    certifier: Certifier,
    to_host: Callable[[Any], Floats],
    on_step: Callable[[Step], None] | None = None,
    *,
    skip_reduction: bool = False,
) -> tuple[Floats, Status, list[Step]]:
    """Solve x = G(x) by a reduced problem, and by outer steps if the certifier does not confirm that answer.

    ``to_host`` copies answers to the host. Outer steps begin at the unconfirmed answer, else at ``first``, else at the
    uniform distribution. With ``skip_reduction`` they begin at once.
    """

    def answer_of(operator: Refinement) -> Floats:
        on_device = operator.read_device()
        return to_host(operator.read() if on_device is None else on_device)

    done: list[Step] = []
    began = work_clock.now()
    reduced = None if skip_reduction else solve_by_reduction(refinement, policy, stopping, on_step)
    if reduced is not None:
        reduced_s = work_clock.now() - began
        answer, status, done = to_host(reduced[0]), *reduced[1:]
        confirmed, remaining = certifier.is_below_tolerance(answer), stopping.max_iterations - len(done)
        if confirmed or remaining <= 0:
            if not done:
                done = [Step(1, certifier.residual, FLOAT64, 64, 64, 1.0, reduced_s)]
                if on_step:
                    on_step(done[0])
            ended = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
            return answer, Status.CONVERGED if confirmed else ended, done
        if status is not Status.NON_FINITE:
            first = answer
        stopping = replace(stopping, max_iterations=remaining)
    if first is None:
        refinement.start_uniform(certifier.problem.graph.nodes)
    later = on_step and (lambda step: on_step(step._replace(iteration=len(done) + step.iteration)))
    ranks, status, history = outer_iteration(
        refinement, first, policy, stopping, later, confirmed=certifier.is_below_tolerance, answer=answer_of
    )
    return ranks, status, done + [step._replace(iteration=len(done) + step.iteration) for step in history]
