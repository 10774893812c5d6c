"""Certificates of a batch: residuals of several answers at once, recomputed in float64.

The product is SciPy's CSR product, which no engine of batches shares. Long rows are summed in blocks, so that the error
bound of `cpms.certify.roundoff` holds. A read of the matrix serves up to 16 queries.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from cpms.base import threads
from cpms.base.types import Floats
from cpms.certify.certificate import confirmed, scaled_to_mass_one
from cpms.certify.residual import scaled_out_weight
from cpms.certify.roundoff import of_residual, pairwise_additions
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

if TYPE_CHECKING:
    from cpms.contracts.batch import Query

_BLOCK_BYTES = 1 << 28
_MOST_COLUMNS = 16
_PART_EDGES = 1 << 18
_MOST_PARTS = 64
_MOST_TERMS = 128
"""Terms of a row that are summed recursively; the sums of such blocks are summed recursively in turn."""


class BatchCertifier:
    """Recomputes G(x) - x of many queries with SciPy's product, which no engine of batches shares.

    A read of the matrix serves up to 16 queries, so a certificate costs a fraction of
    `cpms.certify.residual.residual`.

    Parameters
    ----------
    problem : Problem
        Its own teleport distribution is not used.
    stopping : Stopping
    """

    def __init__(self, problem: Problem, stopping: Stopping) -> None:
        graph = problem.graph
        self._problem, self._stopping = problem, stopping
        parts = int(np.clip(graph.edges // _PART_EDGES, 1, _MOST_PARTS))
        targets = np.linspace(0, graph.edges + graph.nodes, parts + 1)
        bounds = np.unique(np.searchsorted(graph.indptr + np.arange(graph.nodes + 1), targets))
        ones = np.ones(int(np.diff(graph.indptr[bounds]).max()))
        self._divisor, powers = scaled_out_weight(graph)
        values = ones if graph.weights is None else graph.weights * powers[graph.sources]

        def part(rows: tuple[int, int]) -> _Part:
            return _Part(graph, values if graph.weights is None else values[graph.indptr[rows[0]] :], *rows)

        self._parts = threads.each(part, list(itertools.pairwise(bounds.tolist())))
        longest = int(graph.in_degree.max())
        blocks = min(longest, _MOST_TERMS) + -(-longest // _MOST_TERMS)
        self.roundoff = of_residual(max(blocks, pairwise_additions(graph.nodes)))
        """Bound of the rounding error of residuals in L1."""

    def certify(
        self, queries: list[Query], answers: list[Floats], statuses: list[Status]
    ) -> list[tuple[Status, float]]:
        """Return the certified status of each answer and its residual in L1; scale the answers to mass 1."""
        width = int(np.clip(_BLOCK_BYTES // (8 * self._problem.graph.nodes), 1, _MOST_COLUMNS))
        certified: list[tuple[Status, float]] = []
        for begin in range(0, len(queries), width):
            block = slice(begin, begin + width)
            certified += self._block(queries[block], answers[block], statuses[block])
        return certified

    def _block(self, queries: list[Query], answers: list[Floats], statuses: list[Status]) -> list[tuple[Status, float]]:
        usable = []
        for index, (ranks, status) in enumerate(zip(answers, statuses, strict=True)):
            if status is not Status.NON_FINITE and scaled_to_mass_one(ranks):
                usable.append(index)
        certified = [(Status.NON_FINITE, math.inf)] * len(queries)
        if not usable:
            return certified
        norms = self._residuals([queries[index] for index in usable], [answers[index] for index in usable])
        for index, norm in zip(usable, norms, strict=True):
            in_norm = norm[self._stopping.norm]
            certified[index] = confirmed(statuses[index], in_norm, self._stopping), norm["l1"]
        return certified

    def _residuals(self, queries: list[Query], answers: list[Floats]) -> list[dict[str, float]]:
        """Return the norms of G(x) - x of each answer."""
        graph, damping = self._problem.graph, self._problem.damping
        x, contribution = (np.empty((graph.nodes, len(queries))) for _ in range(2))

        def load(part: _Part) -> None:
            block = slice(part.low, part.high)
            x[block] = np.stack([ranks[block] for ranks in answers], axis=1)
            divisor = self._divisor[block, None]
            contribution[block] = np.divide(x[block], divisor, out=np.zeros_like(x[block]), where=divisor > 0)

        threads.each(load, self._parts)
        damped = damping * np.array(threads.each(lambda ranks: ranks[graph.dangling_nodes].sum(), answers))
        follows = isinstance(self._problem.dangling, str) and self._problem.dangling == "teleport"
        sink = np.zeros(1) if follows else self._problem.sink_or_scalar
        to_teleport = np.full(len(queries), 1.0 - damping) + (damped if follows else 0.0)

        def norms(part: _Part) -> npt.NDArray[np.float64]:
            low, high = part.low, part.high
            change = part.sums(contribution)
            change *= damping
            change += damped * (sink[low:high, None] if len(sink) > 1 else sink) - x[low:high]
            for column, query in enumerate(queries):
                a, b = np.searchsorted(query.nodes, (low, high))
                change[query.nodes[a:b] - low, column] += to_teleport[column] * query.weights[a:b]
            sizes = np.abs(change.T.copy())  # NumPy sums pairwise along contiguous axes alone.
            return np.stack([sizes.sum(axis=1), (sizes**2).sum(axis=1), sizes.max(axis=1)])

        found = np.array(threads.each(norms, self._parts))
        l1, squares = found[:, :2].sum(axis=0)
        by_query = zip(l1.tolist(), np.sqrt(squares).tolist(), found[:, 2].max(axis=0).tolist(), strict=True)
        return [dict(zip(("l1", "l2", "linf"), each, strict=True)) for each in by_query]


class _Part:
    """The rows of one task; long rows are split into blocks.

    Parameters
    ----------
    graph : Graph
    values : ndarray of float64
        Those of these rows and any others behind; ones for a graph without weights.
    low, high : int
        First row, and the one after the last.
    """

    def __init__(self, graph: Graph, values: Floats, low: int, high: int) -> None:
        self.low, self.high = low, high
        first, last = int(graph.indptr[low]), int(graph.indptr[high])
        begins, counts = _blocks(graph.indptr[low : high + 1] - first)
        index = graph.sources.dtype
        self._matrix = csr_array(
            (values[: last - first], graph.sources[first:last], begins.astype(index)),
            shape=(len(begins) - 1, graph.nodes),
        )
        cut = counts > 1
        self._long = np.flatnonzero(cut)
        if len(self._long):
            ends = np.cumsum(counts)
            self._firsts = (ends - counts).astype(index)
            self._of_long = np.flatnonzero(np.repeat(cut, counts))
            self._begins_of_long = np.cumsum(counts[cut]) - counts[cut]

    def sums(self, contribution: Floats) -> Floats:
        """Return the row sums, shape (rows, queries), of contributions of shape (nodes, queries)."""
        of_blocks: Floats = self._matrix @ contribution
        if not len(self._long):
            return of_blocks
        joined: Floats = of_blocks.take(self._firsts, axis=0)
        joined[self._long] = np.add.reduceat(of_blocks[self._of_long], self._begins_of_long, axis=0)
        return joined


def _blocks(indptr: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split rows into blocks of up to `_MOST_TERMS` entries; return starts of blocks, and the number of each row.

    Examples
    --------
    >>> [found.tolist() for found in _blocks(np.array([0, 130, 130, 133]))]
    [[0, 128, 130, 130, 133], [2, 1, 1]]
    """
    counts = np.maximum(1, -(-np.diff(indptr) // _MOST_TERMS))
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(np.repeat(indptr[:-1], counts) + _MOST_TERMS * nth, indptr[-1]), counts
