"""PageRank of a graph that is spread over ranks, certified there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.engine import Floats, Problem, Sweep
from cpms.mpi.operator import prepare
from cpms.mpi.rows import GraphRows
from cpms.power import power
from cpms.precision import Fixed
from cpms.result import Status, Step
from cpms.stopping import Stopping

_CHUNK_EDGES = 1 << 22


@dataclass(frozen=True, eq=False)
class Solved:
    """What a solve found; every rank has the same but for times and bytes.

    Parameters
    ----------
    ranks : ndarray of float64, shape (nodes,)
    status : Status
    history : list of Step
    residual_l1 : float
        Recomputed from the answer.
    solve_s, waited_s : float
        Time this rank took, and how much of it was spent waiting for what others send.
    matrix_bytes : int
        Of this rank's part.
    """

    ranks: Floats
    status: Status
    history: list[Step]
    residual_l1: float
    solve_s: float
    waited_s: float
    matrix_bytes: int


def solve(
    problem: Problem,
    rows: GraphRows,
    communicator: Any,
    stopping: Stopping,
    *,
    layout: str,
    local: str,
    lanes: int | None = None,
) -> Solved:
    """Iterate from the uniform distribution; every rank calls this with its rows, to use ``lanes`` threads.

    Examples
    --------
    >>> from cpms import Graph
    >>> from cpms.mpi.rows import of_graph
    >>> from cpms.mpi.world import missing, world
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> def ranked():
    ...     return solve(Problem(graph), of_graph(graph, 0, 1), world(), Stopping(), layout="csr", local="cpu")
    >>> "CONVERGED" if missing() else ranked().status.name
    'CONVERGED'
    """
    operator = prepare(problem, rows, layout, local, communicator, lanes)
    referee = _Referee(problem, rows, communicator, stopping)
    first = np.full(rows.nodes, 1.0 / rows.nodes)
    ranks, status, history = power(operator, first, Fixed(), stopping, confirmed=referee.confirms)
    ranks = ranks / ranks.sum()
    residual = referee.change(ranks)
    if status is Status.CONVERGED and residual.of(stopping.norm) >= stopping.tol:
        status = Status.UNVERIFIED
    return Solved(ranks, status, history, residual.l1, history[-1].seconds, sum(operator.waited), operator.nbytes)


class _Referee:
    """Recomputes changes from a rank's edges, by code that no engine shares, and adds them up over ranks."""

    def __init__(self, problem: Problem, rows: GraphRows, communicator: Any, stopping: Stopping) -> None:
        self._problem, self._rows, self._communicator, self._stopping = problem, rows, communicator, stopping

    def confirms(self, ranks: Floats) -> bool:
        """Return whether the change that one more sweep makes is below the tolerance."""
        return self.change(ranks / ranks.sum()).of(self._stopping.norm) < self._stopping.tol

    def change(self, ranks: Floats) -> Sweep:
        """Return the norms of that change, the same on every rank."""
        from mpi4py import MPI

        problem, rows = self._problem, self._rows
        own = slice(rows.low, rows.high)
        new = problem.damping * self._gathered(ranks)[own]
        new += problem.damping * ranks[rows.leaving == 0].sum() * _own(problem.sink_or_scalar, own)
        new += (1.0 - problem.damping) * _own(problem.teleport_or_scalar, own)
        change = np.abs(new - ranks[own])
        sums = self._communicator.allreduce(np.array([change.sum(), (change**2).sum(), new.sum()]), MPI.SUM)
        largest = self._communicator.allreduce(float(change.max(initial=0.0)), MPI.MAX)
        return Sweep(float(sums[0]), float(np.sqrt(sums[1])), largest, float(sums[2]))

    def _gathered(self, ranks: Floats) -> Floats:
        """Return what flows into each of this rank's nodes, 0 for others."""
        rows = self._rows
        flow = np.zeros(rows.nodes)
        for begin in range(0, rows.edges, _CHUNK_EDGES):
            part = slice(begin, min(begin + _CHUNK_EDGES, rows.edges))
            sources = rows.sources[part]
            carried = ranks[sources] / rows.out_weight[sources]
            if rows.weights is not None:
                carried *= rows.weights[part]
            targets = np.searchsorted(rows.indptr, np.arange(part.start, part.stop), side="right") - 1
            flow += np.bincount(targets, weights=carried, minlength=rows.nodes)
        return flow


def _own(values: Floats, own: slice) -> Floats:
    return values[own] if len(values) > 1 else values
