"""PageRank of a distributed graph, and its certificate: the residual in float64, reduced over ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpms.backends.mpi.exchange.world import ranks_here
from cpms.backends.mpi.shares.rows import GraphRows
from cpms.backends.mpi.sweeps.operator import prepare
from cpms.base import threads, work_clock
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.certify.certificate import confirmed, scaled_to_mass_one
from cpms.certify.residual import change_in_rows
from cpms.certify.roundoff import of_residual, pairwise_additions
from cpms.contracts.operator import Sweep
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.engines.mpi import local_engine
from cpms.formats.formats import FP16, Format
from cpms.precision.controllers import FLOAT64, Fixed
from cpms.precision.refinement_policy import default_policy, first_plan
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration


@dataclass(frozen=True, eq=False)
class Solved:
    """The answer of a solve; all ranks have the same one, but for times and bytes.

    Parameters
    ----------
    ranks : ndarray of float64, shape (nodes,)
    status : Status
    history : list of Step
    residual_l1 : float
        Recomputed from the answer, which is scaled to mass 1; infinite if that cannot be done.
    residual_roundoff : float
        How much rounding may have changed that.
    solve_s : float
        Time this rank took, without that in which kernels were compiled.
    compile_s : float
        How long this rank compiled kernels, or read them from a cache of compiled ones, during the whole call.
    waited_s : float or None
        How much of it was spent waiting for what others send; None where devices wait and not the host.
    matrix_bytes : int
        Of this rank's part.
    received_bytes : int
        Values that other ranks sent to this one.
    """

    ranks: Floats
    status: Status
    history: list[Step]
    residual_l1: float
    residual_roundoff: float
    solve_s: float
    compile_s: float
    waited_s: float | None
    matrix_bytes: int
    received_bytes: int


def solve(
    problem: Problem,
    rows: GraphRows,
    communicator: Any,
    stopping: Stopping,
    *,
    layout: str,
    local: str,
    thread_count: int | None = None,
    method: str = "power",
    storage: Format = FP16,
) -> Solved:
    """Solve from a uniform initial guess; collective over ranks, each with its rows.

    Parameters
    ----------
    problem : Problem
    rows : GraphRows
        Those of this rank.
    communicator : mpi4py communicator
    stopping : Stopping
    layout : {"csr", "pattern"}
    local : str
        Engine that multiplies a rank's rows.
    thread_count : int, optional
        Threads of this rank; by default its share of the processors.
    method : {"power", "refine"}
        ``refine`` needs engine ``cuda``.
    storage : Format
        What inner sweeps of ``refine`` read.

    Raises
    ------
    UnsupportedError
        If that engine cannot do this.
    UnavailableError
        If a rank has no device of its own.

    Examples
    --------
    >>> from cpms import Graph
    >>> from cpms.backends.mpi.shares.rows import of_graph
    >>> from cpms.backends.mpi.exchange.world import missing, world
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> def ranked():
    ...     return solve(Problem(graph), of_graph(graph, 0, 1), world(), Stopping(), layout="csr", local="cpu")
    >>> "CONVERGED" if missing() else ranked().status.name
    'CONVERGED'
    """
    compiled_before_s = work_clock.compiled_s()
    certifier = Certifier(problem, rows, communicator, stopping, thread_count)
    waited: list[float] | None = None
    if local == "cuda":
        if layout != "pattern":
            raise UnsupportedError(f"ranks on GPUs keep the pattern alone, not layout {layout!r}; use auto or pattern")
        solved, matrix_bytes, received_bytes = _on_devices(
            problem, rows, communicator, stopping, certifier, storage if method == "refine" else None
        )
    elif method == "power":
        operator = prepare(problem, rows, layout, local_engine(local), communicator, thread_count)
        initial = np.full(rows.nodes, 1.0 / rows.nodes)
        # One sweep before the clock starts: a wait for another rank's compilation would count as solving.
        operator.sweep(operator.load(initial), operator.empty(), FLOAT64, 0)
        operator.waited.clear()
        solved = power(operator, initial, Fixed(), stopping, confirmed=certifier.is_below_tolerance)
        matrix_bytes, waited = operator.nbytes, operator.waited
        received_bytes = len(solved[-1]) * operator.received_bytes
    else:
        raise UnsupportedError(f"ranks with engine {local!r} have no method {method!r}; they have it with --local cuda")
    found, status, history = solved
    ranks, residual_l1 = found.copy(), math.inf
    if status is Status.NON_FINITE or not scaled_to_mass_one(ranks):
        status = Status.NON_FINITE
    else:
        residual = certifier.change(ranks)
        residual_l1 = residual.l1
        status = confirmed(status, residual.of(stopping.norm), stopping)
    return Solved(
        ranks=ranks,
        status=status,
        history=history,
        residual_l1=residual_l1,
        residual_roundoff=certifier.roundoff,
        solve_s=history[-1].seconds,
        compile_s=work_clock.compiled_s() - compiled_before_s,
        waited_s=None if waited is None else sum(waited),
        matrix_bytes=matrix_bytes,
        received_bytes=received_bytes,
    )


def _on_devices(
    problem: Problem,
    rows: GraphRows,
    communicator: Any,
    stopping: Stopping,
    certifier: Certifier,
    storage: Format | None,
) -> tuple[tuple[Floats, Status, list[Step]], int, int]:
    """Solve with a device a rank, by refinement if there is a storage; return bytes of the matrix and received, too."""
    # These modules load only where there are devices.
    from cpms.backends.mpi.exchange.transport import between
    from cpms.backends.mpi.sweeps import device_choice

    transport = between(communicator)
    initial = np.full(rows.nodes, 1.0 / rows.nodes)
    if storage is None:
        operator, _ = device_choice.power_operator(problem, rows, transport)
        received_before, nbytes = transport.received_bytes, operator.nbytes
        solved = power(operator, initial, Fixed(), stopping, confirmed=certifier.is_below_tolerance)
    else:
        policy = default_policy(storage)
        refinement, _ = device_choice.refinement(problem, rows, transport)
        received_before, nbytes = transport.received_bytes, refinement.nbytes
        refinement.warm_up(refinement.readable(first_plan(policy)[0].storage))
        solved = outer_iteration(refinement, initial, policy, stopping, confirmed=certifier.is_below_tolerance)
    return solved, nbytes, transport.received_bytes - received_before


class Certifier:
    """Recomputes the change of a sweep from a rank's edges, by separate code, and reduces it over ranks."""

    def __init__(
        self, problem: Problem, rows: GraphRows, communicator: Any, stopping: Stopping, thread_count: int | None = None
    ) -> None:
        self._problem, self._rows = replace(problem, graph=rows), rows
        self._communicator, self._stopping = communicator, stopping
        self._lanes = thread_count or max(1, threads.available() // ranks_here())
        self.roundoff = of_residual(pairwise_additions(rows.nodes))
        """The bound of the rounding error of residuals in L1."""

    def is_below_tolerance(self, ranks: Floats) -> bool:
        """Return whether the change of one more sweep is below the tolerance."""
        scaled = ranks.copy()
        return scaled_to_mass_one(scaled) and self.change(scaled).of(self._stopping.norm) < self._stopping.tol

    def change(self, ranks: Floats) -> Sweep:
        """Return the norms of that change, the same on every rank; its mass is not recomputed."""
        from mpi4py import MPI

        with threads.limited(self._lanes):
            *sums, largest = change_in_rows(self._problem, ranks, (self._rows.low, self._rows.high))
        l1, squares = self._communicator.allreduce(np.array(sums), MPI.SUM).tolist()
        return Sweep(l1, math.sqrt(squares), self._communicator.allreduce(largest, MPI.MAX), math.nan)
