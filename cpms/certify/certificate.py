"""The certificate of an answer: its status and residual, recomputed in float64 by code that no engine shares.

An a posteriori bound: the residual of the returned ranks bounds their error (`cpms.certify.roundoff.error_bound`),
however they were computed. It costs about one sweep in float64.
"""

from __future__ import annotations

import math

from cpms.base import threads, work_clock
from cpms.base.types import Floats
from cpms.certify import residual as residuals
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.problems.pagerank import Problem

_PART = 1 << 18
"""Values of an answer that a task of a thread holds at least."""


def scaled_to_mass_one(ranks: Floats) -> bool:
    """Scale an answer to mass 1, in place; return False and change nothing if its mass is far from 1, or no number.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = np.array([0.5, 0.75])
    >>> scaled_to_mass_one(ranks), ranks.tolist(), scaled_to_mass_one(np.array([0.5, math.inf]))
    (True, [0.4, 0.6], False)
    """
    total = mass(ranks)
    if not 0.5 < total < 2.0:
        return False

    def scale(part: tuple[int, int]) -> None:
        ranks[slice(*part)] /= total

    threads.each(scale, threads.ranges(len(ranks), at_least=_PART))
    return True


def mass(ranks: Floats) -> float:
    """Return the sum of an answer, computed by threads.

    Examples
    --------
    >>> import numpy as np
    >>> mass(np.array([0.5, 0.75]))
    1.25
    """
    parts = threads.ranges(len(ranks), at_least=_PART)
    return sum(threads.each(lambda part: float(ranks[slice(*part)].sum()), parts))


class Certifier:
    """Recomputes residuals in float64; ``seconds`` is the time that took, which is no part of a solve."""

    def __init__(self, problem: Problem, stopping: Stopping) -> None:
        self.seconds = 0.0
        self.residual = math.inf
        """The residual of the last answer, in the norm of the stopping criteria."""
        self.problem = problem
        self._stopping = stopping
        self._confirmed: tuple[Floats, float] | None = None

    def is_below_tolerance(self, ranks: Floats) -> bool:
        """Return whether the residual of an answer is below the tolerance; scale the answer to mass 1."""
        status, residual_l1, self.residual = self._verified(ranks, Status.CONVERGED)
        self._confirmed = (ranks, residual_l1) if status is Status.CONVERGED else None
        return self._confirmed is not None

    def certify(self, ranks: Floats, status: Status) -> tuple[Status, float]:
        """Return the certified status, and the residual of the answer in L1."""
        if self._confirmed is not None and self._confirmed[0] is ranks:
            return status, self._confirmed[1]
        return self._verified(ranks, status)[:2]

    def _verified(self, ranks: Floats, status: Status) -> tuple[Status, float, float]:
        began = work_clock.now()
        verified = _verified(self.problem, ranks, status, self._stopping)
        self.seconds += work_clock.now() - began
        return verified


def _verified(problem: Problem, ranks: Floats, status: Status, stopping: Stopping) -> tuple[Status, float, float]:
    """Return the certified status, and the recomputed residual in L1 and in the norm of the stopping criteria."""
    if status is Status.NON_FINITE:
        return status, math.inf, math.inf
    if not scaled_to_mass_one(ranks):
        return Status.NON_FINITE, math.inf, math.inf
    residual_l1 = residuals.residual(problem, ranks)
    in_norm = residual_l1 if stopping.norm == "l1" else residuals.residual(problem, ranks, stopping.norm)
    return confirmed(status, in_norm, stopping), residual_l1, in_norm


def confirmed(status: Status, residual: float, stopping: Stopping) -> Status:
    """Return the certified status of a solve that ended with ``status`` and has this residual.

    A solve may stagnate or run out of iterations with an answer that meets the tolerance: then it has converged.

    Examples
    --------
    >>> [confirmed(status, 1e-9, Stopping(1e-10)).name for status in (Status.CONVERGED, Status.STAGNATED)]
    ['UNVERIFIED', 'STAGNATED']
    >>> [confirmed(status, 1e-11, Stopping(1e-10)).name for status in (Status.STAGNATED, Status.MAX_ITERATIONS)]
    ['CONVERGED', 'CONVERGED']
    """
    if status is Status.CONVERGED and not residual < stopping.tol:
        return Status.UNVERIFIED
    ended = status in (Status.STAGNATED, Status.MAX_ITERATIONS)
    return Status.CONVERGED if ended and residual < stopping.tol else status
