"""The certificate of an answer: its status and residual, recomputed in float64 by code that no engine shares.

An a posteriori bound: the residual of the returned ranks bounds their error (`cpms.certify.roundoff.error_bound`),
however they were computed. It costs about one sweep in float64.
"""

from __future__ import annotations

import math
from typing import Any

from cpms.base import threads, work_clock
from cpms.base.types import Floats, Norm
from cpms.certify import residual as residuals
from cpms.contracts.batch import Query
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.problems.pagerank import Problem

_PART = 1 << 18
"""Least number of values of an answer in a task of a thread."""


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


class HostRecomputation(Recomputation):
    """Recomputes residuals of answers in main memory on all processors; see `cpms.certify.residual`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.roundoff = problem, residuals.residual_roundoff(problem.graph)

    def norms(self, ranks: Floats, norm: Norm) -> tuple[float, float] | None:
        """Return the residual in L1 and in a norm."""
        if not scaled_to_mass_one(ranks):
            return None
        residual_l1 = residuals.residual(self.problem, ranks)
        return residual_l1, residual_l1 if norm == "l1" else residuals.residual(self.problem, ranks, norm)

    def mass(self, ranks: Floats) -> float:
        """Return the sum of an answer."""
        return mass(ranks)


class Certifier:
    """Certifies answers to a problem; ``seconds`` is the time of its certificates, which is no part of a solve.

    Parameters
    ----------
    problem : Problem
    stopping : Stopping
    recomputation : Recomputation, optional
        By default on processors, for answers in main memory.
    """

    def __init__(self, problem: Problem, stopping: Stopping, recomputation: Recomputation | None = None) -> None:
        self.seconds = 0.0
        self.residual = math.inf
        """The residual of the last answer, in the norm of the stopping criteria."""
        self.problem = problem
        self.recomputation = recomputation or HostRecomputation(problem)
        self._stopping = stopping
        self._confirmed: tuple[Any, float] | None = None

    def is_below_tolerance(self, ranks: Any) -> bool:
        """Return whether the residual of an answer is below the tolerance; scale the answer to mass 1."""
        status, residual_l1, self.residual = self._verified(ranks, Status.CONVERGED)
        self._confirmed = (ranks, residual_l1) if status is Status.CONVERGED else None
        return self._confirmed is not None

    def certify(self, ranks: Any, status: Status) -> tuple[Status, float]:
        """Return the certified status, and the residual of the answer in L1."""
        if self._confirmed is not None and self._confirmed[0] is ranks:
            return status, self._confirmed[1]
        return self._verified(ranks, status)[:2]

    def _verified(self, ranks: Any, status: Status) -> tuple[Status, float, float]:
        """Return the certified status, and the recomputed residual in L1 and in the norm of the stopping criteria."""
        began, norms = work_clock.now(), None
        if status is not Status.NON_FINITE:
            norms = self.recomputation.norms(ranks, self._stopping.norm)
        self.seconds += work_clock.now() - began
        if norms is None:
            return Status.NON_FINITE, math.inf, math.inf
        return confirmed(status, norms[1], self._stopping), *norms


class QueryCertifier:
    """Recomputes G(x) - x of queries in the memory of their answers, one after the other.

    Answers in device memory stay there until they are certified. The matrix is read once a query, where
    `cpms.certify.batch` on processors reads it once for 16.

    Parameters
    ----------
    recomputation : Recomputation
        Of the batch's problem, whose own teleport distribution is not used.
    stopping : Stopping
    """

    def __init__(self, recomputation: Recomputation, stopping: Stopping) -> None:
        self._certifier = Certifier(recomputation.problem, stopping, recomputation)
        self.roundoff = recomputation.roundoff
        """Bound of the rounding error of residuals in L1."""

    def certify(self, queries: list[Query], answers: list[Any], statuses: list[Status]) -> list[tuple[Status, float]]:
        """Return the certified status of each answer and its residual in L1; scale the answers to mass 1."""
        certified = []
        for query, ranks, status in zip(queries, answers, statuses, strict=True):
            self._certifier.recomputation.set_query(query)
            certified.append(self._certifier.certify(ranks, status))
        return certified


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
