"""The contracts of batches: personalised queries that share every read of the matrix.

A batch replaces the products of a sparse matrix with single vectors by one product with several vectors (SpMM). Solvers
of batches use these classes alone; backends implement them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats
from cpms.contracts.operator import Sweep
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FloatFormat
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.problems.pagerank import Problem


@dataclass(frozen=True, eq=False)
class Query:
    """A teleport distribution: the nodes where it is not 0, and their weights, which have the sum 1."""

    nodes: npt.NDArray[np.int64]
    weights: Floats

    def teleport(self, count: int) -> Floats:
        """Return the distribution as an array over ``count`` nodes."""
        values = np.zeros(count)
        values[self.nodes] = self.weights
        return values


class Batch(ABC):
    """A problem prepared for power iteration of several queries at once; it holds their iterates."""

    nbytes: int
    """Bytes of the stored matrix."""
    width: int
    """Number of queries to sweep together: the fastest that fits into memory."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same iterate ``first``, shape (nodes,)."""

    @abstractmethod
    def sweep(self) -> list[Sweep]:
        """Sweep all queries once; return the norms of each."""

    @abstractmethod
    def take(self, positions: list[int]) -> list[Any]:
        """Remove the queries at these positions and return their ranks; the others keep their order.

        Ranks are arrays of float64, shape (nodes,), in the memory of the engine.
        """


Solved = list[tuple[Any, Status, list[Step]]]
"""Ranks, status and history of each query."""


class BatchSolve(Protocol):
    """A function that solves queries together from one initial guess; ranks remain in the engine's memory."""

    def __call__(self, queries: list[Query], first: Floats, *, stopping: Stopping) -> Solved:
        """Return ranks, status and history of each query."""


class PreparedBatch(NamedTuple):
    """A problem prepared for batches by one method: bytes of the matrix, fastest width, and the solving function."""

    nbytes: int
    width: int
    solve: BatchSolve


class InnerGoal(NamedTuple):
    """Format and stopping test of a query's inner sweeps: ||r||_1 at most ``until``, or ``most`` sweeps done."""

    storage: FloatFormat
    until: float
    most: int


class RefinementBatch(ABC):
    """A problem prepared for many queries by method ``refine``."""

    problem: Problem
    nbytes: int
    """Bytes of the stored matrix."""
    width: int
    """Number of queries to solve together: the fastest that fits into memory."""

    @abstractmethod
    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine each query from ``first`` until its own residual is small; ranks remain in the engine's memory."""


class Lockstep(RefinementBatch):
    """A synchronous batch: it holds x and the correction c of each query, and sweeps all of them together."""

    anderson: bool = True
    """Whether inner sweeps of a query may be combined with its earlier ones (see `cpms.precision.anderson`)."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same iterate ``first``, shape (nodes,)."""

    @abstractmethod
    def residual_sweep(self) -> list[Sweep]:
        """Add each correction to its iterate, and do the residual sweep in float64."""

    @abstractmethod
    def inner_sweeps(self, goals: list[InnerGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Do the inner sweeps of each query after a residual sweep, up to its goal; none where its goal is None.

        Return for each query ||r||_1 after each of its inner sweeps, and the end of each in seconds since the call. A
        query that has met its goal does not change until all have, so its result does not depend on the others.
        """

    @abstractmethod
    def take(self, positions: list[int]) -> list[Any]:
        """Remove queries and return their ranks, as `Batch.take` does."""
