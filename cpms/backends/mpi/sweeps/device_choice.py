"""Solves with a GPU a rank, by what the ranks have: one rank is one device, others exchange within kernels or between.

A single rank takes the kernels, layouts and strategies of one device. Ranks that write into each other's memory take
them with exchanges inside (`persistent_ranks`); ranks that cannot, as on several hosts, launch every sweep.
"""

from __future__ import annotations

from typing import Any

from cpms.backends.cuda.persistent import power
from cpms.backends.cuda.persistent.device_graph import PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement, too_large
from cpms.backends.mpi.exchange.device_vectors import Which
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.shares.rows import GraphRows
from cpms.backends.mpi.sweeps.device_power import DevicePower
from cpms.backends.mpi.sweeps.device_refinement import DeviceRefinement
from cpms.backends.mpi.sweeps.device_rows import DeviceRows, require_pattern
from cpms.backends.mpi.sweeps.persistent_ranks import RankPower, RankRefinement
from cpms.base.errors import UnsupportedError
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem


def power_operator(
    problem: Problem, rows: GraphRows, transport: Transport, which: Which | None = None
) -> tuple[Operator[Any], DeviceRows | None]:
    """Prepare power iteration of a rank's rows, and return these if there are several ranks; collective."""
    if transport.ranks == 1:
        alone = _alone(problem, rows)
        return power.operator(alone, PersistentGraph.of(alone, value_bytes=8)), None
    own = DeviceRows(problem, rows, transport, which, value_bytes=8)
    return (RankPower.of(problem, own) if own.exchange.within else DevicePower(problem, own)), own


def refinement(
    problem: Problem, rows: GraphRows, transport: Transport, which: Which | None = None
) -> tuple[Refinement, DeviceRows | None]:
    """Prepare method ``refine`` in the same way; collective."""
    if transport.ranks == 1:
        return CudaRefinement.of(_alone(problem, rows)), None
    own = DeviceRows(problem, rows, transport, which)
    return (RankRefinement(own) if own.exchange.within else DeviceRefinement(own)), own


def _alone(problem: Problem, rows: GraphRows) -> Problem:
    """Return the problem over the plain graph of all rows."""
    require_pattern(rows)
    named = rows.name, rows.first_id, rows.names
    whole = Problem(Graph(rows.indptr, rows.sources, None, *named), problem.damping, problem.teleport, problem.dangling)
    reason = too_large(whole, "cuda")
    if reason:
        raise UnsupportedError(f"{reason}; or use more GPUs")
    return whole
