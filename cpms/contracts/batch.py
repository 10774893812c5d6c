"""The contracts of batches: personalised queries that share every read of the matrix."""

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
    """A teleport distribution as its nodes and their weights, of sum 1."""

    nodes: npt.NDArray[np.int64]
    weights: Floats

    def teleport(self, count: int) -> Floats:
        """Return the distribution over so many nodes."""
        values = np.zeros(count)
        values[self.nodes] = self.weights
        return values


class Batch(ABC):
    """A problem prepared for queries that are swept together; it holds their iterates."""

    nbytes: int
    width: int
    """Queries that it pays to sweep together, and that there is room for."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same ``first`` iterate, shape (nodes,)."""

    @abstractmethod
    def sweep(self) -> list[Sweep]:
        """Sweep all queries once; return what was found of each."""

    @abstractmethod
    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of the queries at these places; the others close up in their order.

        They are arrays of float64, shape (nodes,), of the memory in which the engine works.
        """


Solved = list[tuple[Any, Status, list[Step]]]


class BatchSolve(Protocol):
    """A function that solves queries together from one initial guess; ranks remain in the engine's memory."""

    def __call__(self, queries: list[Query], first: Floats, *, stopping: Stopping) -> Solved:
        """Return ranks, status and history of each query."""


class PreparedBatch(NamedTuple):
    """A problem prepared for batches by either method: bytes of the matrix, best width, and how to solve."""

    nbytes: int
    width: int
    solve: BatchSolve


class InnerGoal(NamedTuple):
    """How the low sweeps of a query go on: until its ||r||_1 is at most ``until``, ``most`` of them or fewer."""

    storage: FloatFormat
    until: float
    most: int


class RefinementBatch(ABC):
    """A problem prepared for many queries by method ``refine``."""

    problem: Problem
    nbytes: int
    width: int
    """Queries that it pays to answer together, and that there is room for."""

    @abstractmethod
    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine each query from ``first`` until its own residual is small; ranks stay where the engine has them."""


class Lockstep(RefinementBatch):
    """One that holds x and c of each query, and sweeps all of them together."""

    anderson: bool = True
    """Whether low sweeps of many queries may be combined (see `cpms.precision.anderson`), of each by what it found."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same ``first`` iterate, shape (nodes,)."""

    @abstractmethod
    def full(self) -> list[Sweep]:
        """Correct each iterate by what its low sweeps found, and sweep it once in float64."""

    @abstractmethod
    def low(self, goals: list[InnerGoal | None]) -> list[tuple[list[float], list[float]]]:
        """Do the low sweeps that follow a full one; None: this query does none.

        Return each query's ||r||_1 after each of its sweeps, and how many seconds after the call that ended. A
        query whose low sweeps have ended rests until those of all have, so that what it finds does not depend on
        the others.
        """

    @abstractmethod
    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of the queries at these places, as `Batch.take` does."""
