"""The nodes that sweeps of a batch go over, and those behind, whose ranks follow from theirs in one pass.

Nodes that lead to no cycle take no part in sweeps (`cpms.backends.cuda.reduction.reduced_refinement` says why): to queries what flows to them is lost,
as it is at dangling nodes, and comes back by their teleports. Where dangling mass goes to all nodes alike, x is a mean
of two others: of the one whose dangling mass goes where its teleport does, and of the one of a uniform teleport, which
is the same for all queries. With y = damping P y + v for each teleport v, all three are multiples and sums of these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.batch.edges import FULL_COLUMNS, BatchGraph, Own, values_a_lane
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.persistent.refinement import needed_bytes
from cpms.backends.cuda.reduction.level_solve import Renumbered, Split
from cpms.backends.cuda.reduction.reduced_refinement import prepared
from cpms.backends.cuda.reduction.trimming import Cost, Peel, peel_behind
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import ColumnPositions, out_degree, uploaded
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import at_once, refine

_COST = Cost(
    sweeps=50, sweep=60.0, level=120.0, narrow_level=120.0, launch=0.0, swept=2e-5, passed=8e-5, passed_alone=8e-5
)
"""Of a batch of few queries; that of 100 takes three times as long for a node or edge."""
_LEAST_REACH = 1e-100
"""Share of a teleport that is none: of less, other nodes' shares might outgrow float64."""
_AS_EXACT_AS_IT_GETS = Stopping(1e-14, max_iterations=1 << 16)


@dataclass(frozen=True, eq=False)
class BatchCore:
    """Nodes in an order in which those that are swept come first, then level by level those behind them.

    Numbers of queries lie in rows of that order, but for a row of zeros behind those that are swept.

    Parameters
    ----------
    swept : BatchGraph
    levels : list of BatchGraph
    order : device array of uint32, shape (nodes,)
    place : ndarray of uint32, shape (nodes,), or None
        Where each node is in that order; None: all are swept, in the order of the graph.
    degree : device array of uint32, shape (nodes,)
        Out-degrees in that order.
    of_all : device array of float64, shape (nodes,), or None
        PageRank of a uniform teleport, by node, where dangling mass goes to all nodes but sweeps send it elsewhere.
    """

    swept: BatchGraph
    levels: list[BatchGraph]
    order: Any
    place: npt.NDArray[np.uint32] | None
    degree: Any
    of_all: Any | None = None

    @classmethod
    def whole(cls, problem: Problem) -> BatchCore:
        """Sweep all nodes."""
        swept = BatchGraph.of(problem)
        return cls(swept, [], current().arrays.arange(swept.count, dtype=np.uint32), None, swept.degree)

    @classmethod
    def of(cls, problem: Problem, cost: Cost = _COST) -> BatchCore:
        """Sweep what has to be swept, where it pays to leave out the others."""
        graph = problem.graph
        (indptr, sources), degree = uploaded(graph), out_degree(graph)
        found = peel_behind(graph, indptr, sources, degree, cost)
        if found is None:
            return cls.whole(problem)
        rows = Renumbered.of(graph, found, indptr, sources)
        if problem.dangling == "teleport":
            return cls._without(problem, found, rows, degree, None)
        of_all = _of_all(problem) if current().free_bytes() >= needed_bytes(problem) else None
        if of_all is None:
            return cls.whole(problem)
        return cls._without(replace(problem, dangling="teleport"), found, rows, degree, of_all)

    @classmethod
    def _without(
        cls, problem: Problem, found: Peel, rows: Renumbered, out_degrees: Any, of_all: Any | None
    ) -> BatchCore:
        arrays, name, degree = current().arrays, problem.graph.name, out_degrees[found.order]
        split = Split.of(f"the core of {name}", found.core, rows, entered=bool(found.before))
        swept = BatchGraph.of_rows(problem, split, degree[: found.core], split.kept())
        # Places behind the row of zeros are one more.
        places = arrays.arange(problem.graph.nodes, dtype=np.uint32)
        places[found.core :] += np.uint32(1)
        levels = []
        for first, last in pairwise(accumulate(found.behind, initial=found.core)):
            level, own = _Level.of(f"what is behind the core of {name}", first, last, rows), degree[first:last]
            levels.append(BatchGraph.of_rows(problem, level, own, own, ColumnPositions(places, found.core)))
        return cls(swept, levels, found.order, current().to_host(found.place), degree, of_all)

    @property
    def nbytes(self) -> int:
        """Bytes of edges and degrees."""
        return sum(graph.nbytes for graph in (self.swept, *self.levels))

    def begun(self, first: Floats) -> Any:
        """Return the swept nodes' part of an iterate, of sum 1, on the device."""
        arrays = current().arrays
        if self.place is None:
            return arrays.asarray(first)
        mine = arrays.asarray(first)[self.order[: self.swept.count]]
        total = float(mine.sum())
        return mine / total if total > 0.0 else arrays.full(len(mine), 1.0 / max(len(mine), 1))

    def shared_out(self, queries: list[Query]) -> tuple[list[Query], list[Query], list[float]]:
        """Return what queries ask of swept nodes, of sum 1, of the others, by place, and the share of the former."""
        if self.place is None:
            return queries, [], [1.0] * len(queries)
        swept, behind, reach = [], [], []
        for query in queries:
            places = self.place[query.nodes].astype(np.int64)
            inside = places < self.swept.count
            total = float(query.weights[inside].sum())
            reach.append(total if total > _LEAST_REACH else 0.0)
            swept.append(Query(places[inside], query.weights[inside] / (reach[-1] or 1.0)))
            behind.append(Query(places[~inside] - self.swept.count, query.weights[~inside]))
        return swept, behind, reach

    def follow_up(
        self, shares: Any, behind: list[Query], reach: Floats, mass: Floats, lost: Floats
    ) -> tuple[Floats, Floats]:
        """Put shares of the nodes behind into their rows; return how x is put together, which is of sum 1.

        These are the factors of each query's shares, and of what is the same for all.

        Parameters
        ----------
        shares : device array of float64, shape (nodes + 1, columns)
        behind : list of Query
            What queries ask of these nodes.
        reach : ndarray, shape (columns,)
            What share of a query's teleport swept nodes get; where they get nothing, their shares have to be 0.
        mass, lost : ndarrays, shape (columns,)
            Mass of the swept nodes, and what of it no edge carries to another of them.
        """
        # Shares are a multiple of those of y = damping P y + v: what teleport brings is what leaves the swept nodes.
        none, damping = reach == 0.0, self.swept.problem.damping
        left = damping * lost + (1.0 - damping) * mass
        multiple = np.where(none, 1.0, left / np.where(none, 1.0, reach))
        total = mass + self._pass(shares, behind, multiple) if self.levels else mass
        total = np.where(total > 0.0, total, 1.0)  # ColumnPositions without a query may have come to nothing.
        if self.of_all is None:
            return 1.0 / total, np.zeros_like(total)
        factors = (1.0 - damping) / np.where(multiple > 0.0, multiple, 1.0)
        return factors, np.maximum(1.0 - factors * total, 0.0)

    def _pass(self, shares: Any, behind: list[Query], multiple: Floats) -> Floats:
        """Put shares of all levels into their rows; return their mass."""
        own, given = Own.of(behind, self.degree[self.swept.count :]), current().arrays.asarray(multiple)
        mass, row = np.zeros_like(multiple), 0
        for level in self.levels:
            mass += _pass_level(level, shares, own.from_row(row), given, self.swept.count + 1 + row)
            row += level.count
        return mass


def _of_all(problem: Problem) -> Any | None:
    """Return x of a uniform teleport, on the device; None if it takes too many sweeps."""
    refinement, policy = prepared(problem, "cuda"), default_policy(FP16)
    refinement.warm_up(FP16)
    found = at_once(refinement, policy, _AS_EXACT_AS_IT_GETS)
    if found is None:
        first = np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)
        found = refine(refinement, first, policy, _AS_EXACT_AS_IT_GETS, answer=lambda swept: swept.read_device())
    x, status, _ = found
    return x if status in (Status.CONVERGED, Status.STAGNATED) else None


def _pass_level(level: BatchGraph, shares: Any, own: Own, given: Any, row: int) -> Floats:
    """Put a level's shares into rows from one on; return their mass."""
    stride = shares.shape[1]
    out = shares[row:].reshape(-1)

    def launch(first: int, used: int) -> int:
        arguments = (
            *(*level.edges, *level.nodes(own, first, used, stride), np.float64(level.problem.damping)),
            *(given[first:], shares.reshape(-1)[first:], out[first:]),
        )
        return level.launch(batched.batch_downstream(values_a_lane(used)), arguments)

    mass: Floats = level.totals(1, 1, stride, FULL_COLUMNS, launch)[0]
    return mass


class _Level(NamedTuple):
    """Rows behind the core, on the device; see `cpms.backends.cuda.spmv.padded_csr.Rows`."""

    name: str
    nodes: int
    edges: int
    indptr: Any
    sources: Any
    weights: None = None

    @classmethod
    def of(cls, name: str, first: int, last: int, rows: Renumbered) -> _Level:
        begin, end = rows.edges_before(first), rows.edges_before(last)
        starts = rows.starts[first : last + 1] - np.uint32(begin)
        return cls(name, last - first, end - begin, starts, rows.sources[begin:end])
