"""The nodes that sweeps of a batch go over, and those behind, whose ranks follow from theirs in one pass.

Nodes that lead to no cycle take no part in sweeps (`cpms.cuda.peeled` says why): to queries what flows to them is lost,
as it is at dangling nodes, and comes back by their teleports.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.batch import Query
from cpms.cuda import variants
from cpms.cuda.arrange import Columns
from cpms.cuda.backend import current
from cpms.cuda.batch_graph import FULL_COLUMNS, BatchGraph, Own, values_a_lane
from cpms.cuda.passes import Renumbered, Split
from cpms.cuda.peel import Cost, Peel, peel_behind
from cpms.engine import Floats, Problem

_COST = Cost(
    sweeps=50, sweep=60.0, level=120.0, narrow_level=120.0, launch=0.0, swept=2e-5, passed=8e-5, passed_alone=8e-5
)
"""Of a batch of few queries; that of 100 takes three times as long for a node or edge."""


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
    """

    swept: BatchGraph
    levels: list[BatchGraph]
    order: Any
    place: npt.NDArray[np.uint32] | None
    degree: Any

    @classmethod
    def whole(cls, problem: Problem) -> BatchCore:
        """Sweep all nodes."""
        swept = BatchGraph.of(problem)
        return cls(swept, [], current().arrays.arange(swept.count, dtype=np.uint32), None, swept.degree)

    @classmethod
    def of(cls, problem: Problem, cost: Cost = _COST) -> BatchCore:
        """Sweep what has to be swept, where it pays to leave out the others."""
        if problem.dangling == "uniform":  # What is lost would not come back by teleports.
            return cls.whole(problem)
        graph, arrays = problem.graph, current().arrays
        indptr, sources = arrays.asarray(graph.indptr.astype(np.uint32)), arrays.asarray(graph.sources.view(np.uint32))
        found = peel_behind(graph, indptr, sources, cost)
        if found is None:
            return cls.whole(problem)
        return cls._without(problem, found, Renumbered.of(graph, found, indptr, sources))

    @classmethod
    def _without(cls, problem: Problem, found: Peel, rows: Renumbered) -> BatchCore:
        arrays, name = current().arrays, problem.graph.name
        degree = arrays.asarray(problem.graph.out_degree.astype(np.uint32))[found.order]
        split = Split.of(f"the core of {name}", found.core, rows)
        swept = BatchGraph.of_rows(problem, split, degree[: found.core], split.degree)
        # Places behind the row of zeros are one more.
        places = arrays.arange(problem.graph.nodes, dtype=np.uint32)
        places[found.core :] += np.uint32(1)
        levels = []
        for first, last in pairwise(accumulate(found.behind, initial=found.core)):
            level, own = _Level.of(f"what is behind the core of {name}", first, last, rows), degree[first:last]
            levels.append(BatchGraph.of_rows(problem, level, own, own, Columns(places, found.core)))
        return cls(swept, levels, found.order, current().to_host(found.place), degree)

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
            reach.append(float(query.weights[inside].sum()))
            swept.append(Query(places[inside], query.weights[inside] / (reach[-1] or 1.0)))
            behind.append(Query(places[~inside] - self.swept.count, query.weights[~inside]))
        return swept, behind, reach

    def follow_up(self, shares: Any, behind: list[Query], reach: Floats, mass: Floats, lost: Floats) -> Floats:
        """Put shares of the nodes behind into their rows; return by what each query's are multiplied to be of sum 1.

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
        total = mass
        if self.levels:
            total = self._follow_up(shares, Own.of(behind, self.degree[self.swept.count :]), reach, mass, lost)
        return 1.0 / np.where(total > 0.0, total, 1.0)  # Columns without a query may have come to nothing.

    def _follow_up(self, shares: Any, own: Own, reach: Floats, mass: Floats, lost: Floats) -> Floats:
        # With y = damping P y + v, x of the swept nodes is a multiple of y, whose teleport alone is what leaves them.
        none = reach == 0.0
        left = self.swept.problem.damping * (lost - mass) + mass
        given = current().arrays.asarray(np.where(none, 1.0, left / np.where(none, 1.0, reach)))
        total, row = np.array(mass), 0
        for level in self.levels:
            total += _follow_up(level, shares, own.behind(row), given, self.swept.count + 1 + row)
            row += level.count
        return total


def _follow_up(level: BatchGraph, shares: Any, own: Own, given: Any, row: int) -> Floats:
    """Put a level's shares into rows from one on; return their mass."""
    stride = shares.shape[1]
    out = shares[row:].reshape(-1)

    def launch(first: int, used: int) -> int:
        arguments = (
            *(*level.edges, *level.nodes(own, first, used, stride), np.float64(level.problem.damping)),
            *(given[first:], shares.reshape(-1)[first:], out[first:]),
        )
        return level.launch(variants.batch_behind(values_a_lane(used)), arguments)

    mass: Floats = level.totals(1, 1, stride, FULL_COLUMNS, launch)[0]
    return mass


class _Level(NamedTuple):
    """Rows behind the core, on the device; see `cpms.cuda.arrange.Rows`."""

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
