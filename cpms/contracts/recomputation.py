"""The contract of certificates: the residual of an answer, recomputed in float64 where the answer is.

A solver never reports its own error. Implementations share no code with the sweeps that computed the answer; on
processors that is `cpms.certify`, on a GPU a package of its backend. It costs about one sweep in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from cpms.base.types import Norm
from cpms.contracts.batch import Query
from cpms.problems.pagerank import Problem


class Recomputation(ABC):
    """Recomputes the residual of answers to one problem; it shares no code with the solvers that computed these."""

    problem: Problem
    roundoff: float
    """Bound of the rounding error of the residual in L1."""

    nbytes: int = 0
    """Bytes of device memory besides those of the graph."""

    def set_problem(self, problem: Problem) -> None:
        """Recompute residuals of answers to another problem of the same graph and damping from now on."""
        self.problem = problem

    def set_query(self, query: Query) -> None:
        """Recompute residuals of answers to a query of a batch from now on."""
        self.set_problem(replace(self.problem, teleport=query.teleport(self.problem.graph.nodes)))

    @abstractmethod
    def norms(self, ranks: Any, norm: Norm) -> tuple[float, float] | None:
        """Scale an answer to mass 1, in place; return its residual in L1 and in a norm.

        None, and nothing is changed, if its mass is far from 1 or no number.
        """

    @abstractmethod
    def mass(self, ranks: Any) -> float:
        """Return the sum of an answer."""
