"""Swept nodes of a batch, and the downstream nodes that one substitution solves for all queries.

Nodes that lead to no cycle need no sweeps (`cpms.backends.cuda.reduction.reduced_refinement`): for queries, mass that
flows to them is lost as at dangling nodes, and returns by teleport. Where dangling mass is uniform, x is a combination
of the solution whose dangling mass follows teleport and of the solution of a uniform teleport, which all queries share.
With y = damping P y + v for each teleport v, all three are multiples and sums of these. The reduction costs one uniform
solve and one visit of each downstream node a query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import RESIDUAL_COLUMNS, BatchGraph, TeleportEntries, columns_per_lane
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.persistent.refinement import needed_bytes
from cpms.backends.cuda.reduction.level_solve import CoreRows, PermutedRows
from cpms.backends.cuda.reduction.reduced_refinement import prepared
from cpms.backends.cuda.reduction.trimming import Cost, Trimming, trim_downstream
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import ColumnPositions, DeviceRows, out_degree, uploaded
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import outer_iteration, solve_by_reduction

_COST = Cost(
    sweeps=50,
    sweep=60.0,
    level=120.0,
    narrow_level=120.0,
    launch=0.0,
    sweep_entry=2e-5,
    solve_entry=8e-5,
    solve_entry_one_block=8e-5,
)
"""Costs of a batch of few queries, in microseconds; a node or edge of 100 queries costs three times as much."""
_MIN_REACH = 1e-100
"""Part of a teleport on swept nodes below which it counts as none: contributions might overflow float64 otherwise."""
_TO_STAGNATION = Stopping(1e-14, max_iterations=1 << 16)


@dataclass(frozen=True, eq=False)
class BatchCore:
    """Nodes in an order in which swept nodes come first, then downstream nodes level by level.

    Rows of query values follow that order, with an additional row of zeros after the swept nodes.

    Parameters
    ----------
    swept : BatchGraph
    levels : list of BatchGraph
    order : device array of uint32, shape (nodes,)
    position : ndarray of uint32, shape (nodes,), or None
        Position of each node in that order; None: all are swept, in the order of the graph.
    degree : device array of uint32, shape (nodes,)
        Out-degrees in that order.
    uniform_scores : device array of float64, shape (nodes,), or None
        PageRank of a uniform teleport, by node, where dangling mass is uniform but in sweeps follows teleport.
    """

    swept: BatchGraph
    levels: list[BatchGraph]
    order: Any
    position: npt.NDArray[np.uint32] | None
    degree: Any
    uniform_scores: Any | None = None

    @classmethod
    def whole(cls, problem: Problem) -> BatchCore:
        """Sweep all nodes."""
        swept = BatchGraph.of(problem)
        return cls(swept, [], current().arrays.arange(swept.count, dtype=np.uint32), None, swept.degree)

    @classmethod
    def of(cls, problem: Problem, cost: Cost = _COST) -> BatchCore:
        """Trim downstream nodes where that is worthwhile."""
        graph = problem.graph
        (indptr, sources), degree = uploaded(graph), out_degree(graph)
        trimming = trim_downstream(graph, indptr, sources, degree, cost)
        if trimming is None:
            return cls.whole(problem)
        rows = PermutedRows.of(graph, trimming, indptr, sources)
        if problem.dangling == "teleport":
            return cls._trimmed(problem, trimming, rows, degree, None)
        uniform_scores = _uniform_scores(problem) if current().free_bytes() >= needed_bytes(problem) else None
        if uniform_scores is None:
            return cls.whole(problem)
        return cls._trimmed(replace(problem, dangling="teleport"), trimming, rows, degree, uniform_scores)

    @classmethod
    def _trimmed(
        cls, problem: Problem, trimming: Trimming, rows: PermutedRows, out_degrees: Any, uniform_scores: Any | None
    ) -> BatchCore:
        arrays, name, degree = current().arrays, problem.graph.name, out_degrees[trimming.order]
        core_rows = CoreRows.of(f"the core of {name}", trimming.core, rows, has_inflow=bool(trimming.upstream))
        swept = BatchGraph.of_rows(problem, core_rows, degree[: trimming.core], core_rows.internal_degree())
        # Positions after the row of zeros are one larger.
        positions = arrays.arange(problem.graph.nodes, dtype=np.uint32)
        positions[trimming.core :] += np.uint32(1)
        levels = []
        for first, last in pairwise(accumulate(trimming.downstream, initial=trimming.core)):
            level = _level_rows(f"the nodes downstream of the core of {name}", first, last, rows)
            columns, of_level = ColumnPositions(positions, trimming.core), degree[first:last]
            levels.append(BatchGraph.of_rows(problem, level, of_level, of_level, columns))
        return cls(swept, levels, trimming.order, current().to_host(trimming.position), degree, uniform_scores)

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(graph.nbytes for graph in (self.swept, *self.levels))

    def restrict(self, first: Floats) -> Any:
        """Return the swept nodes' part of an iterate, normalised to sum 1, on the device."""
        arrays = current().arrays
        if self.position is None:
            return arrays.asarray(first)
        initial = arrays.asarray(first)[self.order[: self.swept.count]]
        total = float(initial.sum())
        return initial / total if total > 0.0 else arrays.full(len(initial), 1.0 / max(len(initial), 1))

    def split_queries(self, queries: list[Query]) -> tuple[list[Query], list[Query], list[float]]:
        """Return the queries' teleport on swept nodes, of sum 1, that on the others, and the part on the former.

        The latter is by position relative to the first downstream node.
        """
        if self.position is None:
            return queries, [], [1.0] * len(queries)
        swept, downstream, reach = [], [], []
        for query in queries:
            positions = self.position[query.nodes].astype(np.int64)
            is_swept = positions < self.swept.count
            total = float(query.weights[is_swept].sum())
            reach.append(total if total > _MIN_REACH else 0.0)
            swept.append(Query(positions[is_swept], query.weights[is_swept] / (reach[-1] or 1.0)))
            downstream.append(Query(positions[~is_swept] - self.swept.count, query.weights[~is_swept]))
        return swept, downstream, reach

    def finish_downstream(
        self, contributions: Any, downstream: list[Query], reach: Floats, mass: Floats, lost_mass: Floats
    ) -> tuple[Floats, Floats]:
        """Write contributions of downstream nodes into their rows; return the factors of x, of sum 1.

        These are a factor of each query's contributions, and one of the uniform scores.

        Parameters
        ----------
        contributions : device array of float64, shape (nodes + 1, columns)
        downstream : list of Query
            The queries' teleport on downstream nodes.
        reach : ndarray, shape (columns,)
            Part of a query's teleport on swept nodes; where it is 0, their contributions must be 0.
        mass, lost_mass : ndarrays, shape (columns,)
            Mass of the swept nodes, and the part of it that no edge carries to another of them.
        """
        # Contributions are a multiple of those of y = damping P y + v: teleport brings as much as leaves swept nodes.
        unreached, damping = reach == 0.0, self.swept.problem.damping
        leaving = damping * lost_mass + (1.0 - damping) * mass
        scale = np.where(unreached, 1.0, leaving / np.where(unreached, 1.0, reach))
        total = mass + self._solve_levels(contributions, downstream, scale) if self.levels else mass
        total = np.where(total > 0.0, total, 1.0)  # Columns without a query may have mass 0.
        if self.uniform_scores is None:
            return 1.0 / total, np.zeros_like(total)
        factors = (1.0 - damping) / np.where(scale > 0.0, scale, 1.0)
        return factors, np.maximum(1.0 - factors * total, 0.0)

    def _solve_levels(self, contributions: Any, downstream: list[Query], scale: Floats) -> Floats:
        """Write contributions of all levels into their rows; return their mass."""
        teleport = TeleportEntries.of(downstream, self.degree[self.swept.count :])
        scales, mass, row = current().arrays.asarray(scale), np.zeros_like(scale), 0
        for level in self.levels:
            mass += _solve_level(level, contributions, teleport.from_row(row), scales, self.swept.count + 1 + row)
            row += level.count
        return mass


def _uniform_scores(problem: Problem) -> Any | None:
    """Return x of a uniform teleport, on the device; None if it takes too many sweeps."""
    refinement, policy = prepared(problem, "cuda"), default_policy(FP16)
    refinement.warm_up(FP16)
    solved = solve_by_reduction(refinement, policy, _TO_STAGNATION)
    if solved is None:
        first = np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)
        solved = outer_iteration(refinement, first, policy, _TO_STAGNATION, answer=lambda swept: swept.read_device())
    x, status, _ = solved
    return x if status in (Status.CONVERGED, Status.STAGNATED) else None


def _solve_level(level: BatchGraph, contributions: Any, teleport: TeleportEntries, scales: Any, row: int) -> Floats:
    """Write a level's contributions into the rows from ``row`` on; return their mass."""
    stride = contributions.shape[1]
    out = contributions[row:].reshape(-1)

    def launch(first: int, used: int) -> int:
        nodes, vectors = level.nodes(teleport, first, used, stride), (contributions.reshape(-1)[first:], out[first:])
        arguments = level.edges, nodes, np.float64(level.problem.damping), scales[first:], *vectors
        return level.launch(batched.batch_downstream(columns_per_lane(used)), arguments)

    mass: Floats = level.reduce(1, 1, stride, RESIDUAL_COLUMNS, launch)[0]
    return mass


def _level_rows(name: str, first: int, last: int, rows: PermutedRows) -> DeviceRows:
    """Return the rows at positions ``first`` to ``last``."""
    begin, end = rows.edges_before(first), rows.edges_before(last)
    row_begins = rows.row_begins[first : last + 1] - np.uint32(begin)
    return DeviceRows(name, last - first, end - begin, row_begins, rows.sources[begin:end], None)
