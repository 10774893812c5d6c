"""The contract of certificates: the residual of an answer, recomputed in float64 in the memory of the answer.

A solver does not report its own error. Implementations share no code with the sweeps that computed the answer: on
processors `cpms.certify`, on a GPU a package of its backend. A recomputation costs about one sweep in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from cpms.base.types import Norm
from cpms.contracts.batch import Query
from cpms.problems.pagerank import Problem


class Recomputation(ABC):
    """The recomputation of residuals of answers to one problem."""

    problem: Problem
    roundoff: float
    """Bound of the rounding error of the residual in the L1 norm."""

    nbytes: int = 0
    """Bytes of device memory besides those of the graph."""

    def set_problem(self, problem: Problem) -> None:
        """Change the problem; the graph and the damping must be the same."""
        self.problem = problem

    def set_query(self, query: Query) -> None:
        """Change the teleport distribution to that of a query of a batch."""
        self.set_problem(replace(self.problem, teleport=query.teleport(self.problem.graph.nodes)))

    @abstractmethod
    def norms(self, ranks: Any, norm: Norm) -> tuple[float, float] | None:
        """Scale an answer to sum 1, in place; return its residual in the L1 norm and in ``norm``.

        If the sum is far from 1 or not finite, nothing is changed and None is returned.
        """

    @abstractmethod
    def mass(self, ranks: Any) -> float:
        """Return the sum of an answer."""
