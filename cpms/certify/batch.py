"""What the answers of a batch are worth: residuals of many at once, recomputed in float64."""

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
"""Terms of a row that are added up one after the other; such sums then are."""


class BatchCertifier:
    """Recomputes G(x) - x of many queries with SciPy's product, which no engine of batches shares.

    A read of the matrix serves up to 16 queries, so that this costs a fraction of what as many calls of
    `cpms.certify.residual.residual` would.

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
        wanted = np.linspace(0, graph.edges + graph.nodes, parts + 1)
        bounds = np.unique(np.searchsorted(graph.indptr + np.arange(graph.nodes + 1), wanted))
        ones = np.ones(int(np.diff(graph.indptr[bounds]).max()))
        self._parts = threads.each(lambda rows: _Part(graph, ones, *rows), list(itertools.pairwise(bounds.tolist())))
        longest = int(graph.in_degree.max())
        blocks = min(longest, _MOST_TERMS) + -(-longest // _MOST_TERMS)
        self.roundoff = of_residual(max(blocks, pairwise_additions(graph.nodes)))
        """How much rounding may change residuals in L1."""

    def certify(
        self, queries: list[Query], answers: list[Floats], statuses: list[Status]
    ) -> list[tuple[Status, float]]:
        """Return what is left of each status, and each residual in L1; scale the answers to mass 1."""
        width = int(np.clip(_BLOCK_BYTES // (8 * self._problem.graph.nodes), 1, _MOST_COLUMNS))
        found: list[tuple[Status, float]] = []
        for begin in range(0, len(queries), width):
            here = slice(begin, begin + width)
            found += self._block(queries[here], answers[here], statuses[here])
        return found

    def _block(self, queries: list[Query], answers: list[Floats], statuses: list[Status]) -> list[tuple[Status, float]]:
        usable = []
        for place, (ranks, status) in enumerate(zip(answers, statuses, strict=True)):
            if status is not Status.NON_FINITE and scaled_to_mass_one(ranks):
                usable.append(place)
        verdicts = [(Status.NON_FINITE, math.inf)] * len(queries)
        if not usable:
            return verdicts
        norms = self._residuals([queries[place] for place in usable], [answers[place] for place in usable])
        for place, norm in zip(usable, norms, strict=True):
            in_norm = norm[self._stopping.norm]
            verdicts[place] = confirmed(statuses[place], in_norm, self._stopping), norm["l1"]
        return verdicts

    def _residuals(self, queries: list[Query], answers: list[Floats]) -> list[dict[str, float]]:
        """Return the norms of G(x) - x of each answer."""
        graph, damping = self._problem.graph, self._problem.damping
        x, share = (np.empty((graph.nodes, len(queries))) for _ in range(2))

        def put(part: _Part) -> None:
            here = slice(part.low, part.high)
            x[here] = np.stack([ranks[here] for ranks in answers], axis=1)
            degree = graph.out_degree[here, None]
            share[here] = np.where(degree > 0, x[here] / np.maximum(degree, 1), 0.0)

        threads.each(put, self._parts)
        damped = damping * np.array(threads.each(lambda ranks: ranks[graph.dangling_nodes].sum(), answers))
        spread = self._problem.dangling == "uniform"
        to_all = damped / graph.nodes if spread else np.zeros(len(queries))
        to_teleport = np.full(len(queries), 1.0 - damping) + (0.0 if spread else damped)

        def norms(part: _Part) -> npt.NDArray[np.float64]:
            low, high = part.low, part.high
            change = part.sums(share)
            change *= damping
            change += to_all - x[low:high]
            for column, query in enumerate(queries):
                a, b = np.searchsorted(query.nodes, (low, high))
                change[query.nodes[a:b] - low, column] += to_teleport[column] * query.weights[a:b]
            sizes = np.abs(change.T.copy())  # NumPy adds up by pairs what lies side by side alone.
            return np.stack([sizes.sum(axis=1), (sizes**2).sum(axis=1), sizes.max(axis=1)])

        found = np.array(threads.each(norms, self._parts))
        l1, squares = found[:, :2].sum(axis=0)
        together = zip(l1.tolist(), np.sqrt(squares).tolist(), found[:, 2].max(axis=0).tolist(), strict=True)
        return [dict(zip(("l1", "l2", "linf"), each, strict=True)) for each in together]


class _Part:
    """Rows of a graph that a thread looks after; long ones are cut into blocks, whose sums are added up.

    Parameters
    ----------
    graph : Graph
    ones : ndarray of float64
        At least as many as these rows have entries.
    low, high : int
        First row, and the one after the last.
    """

    def __init__(self, graph: Graph, ones: Floats, low: int, high: int) -> None:
        self.low, self.high = low, high
        first, last = int(graph.indptr[low]), int(graph.indptr[high])
        begins, counts = _blocks(graph.indptr[low : high + 1] - first)
        index = graph.sources.dtype
        self._matrix = csr_array(
            (ones[: last - first], graph.sources[first:last], begins.astype(index)),
            shape=(len(begins) - 1, graph.nodes),
        )
        cut = counts > 1
        self._long = np.flatnonzero(cut)
        if len(self._long):
            ends = np.cumsum(counts)
            self._firsts = (ends - counts).astype(index)
            self._of_long = np.flatnonzero(np.repeat(cut, counts))
            self._begins_of_long = np.cumsum(counts[cut]) - counts[cut]

    def sums(self, share: Floats) -> Floats:
        """Return the sums of what the rows read, shape (rows, queries), of shares of shape (nodes, queries)."""
        of_blocks: Floats = self._matrix @ share
        if not len(self._long):
            return of_blocks
        joined: Floats = of_blocks.take(self._firsts, axis=0)
        joined[self._long] = np.add.reduceat(of_blocks[self._of_long], self._begins_of_long, axis=0)
        return joined


def _blocks(indptr: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut rows into blocks of up to `_MOST_TERMS` entries; return where these begin, and how many a row has.

    Examples
    --------
    >>> [found.tolist() for found in _blocks(np.array([0, 130, 130, 133]))]
    [[0, 128, 130, 130, 133], [2, 1, 1]]
    """
    counts = np.maximum(1, -(-np.diff(indptr) // _MOST_TERMS))
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(np.repeat(indptr[:-1], counts) + _MOST_TERMS * nth, indptr[-1]), counts
