"""Batches of personalised queries on the processor by power iteration in float64.

All queries share each read of an edge, as in a product with several vectors (SpMM). A sweep costs one read of the
edges, and a gather of one float64 for each edge and query.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cpms.backends.cpu.load_balance import row_ranges
from cpms.base import threads
from cpms.base.jit import compiled, numba
from cpms.base.types import Floats
from cpms.certify.roundoff import ROW_BLOCK
from cpms.contracts.batch import Batch, Query
from cpms.contracts.operator import Sweep
from cpms.problems.pagerank import Problem
from cpms.sparse.csr import unsigned_indptr, unsigned_sources

_PART_COST = 200_000
"""The least cost of a part of the rows: edges and rows, times queries."""
_MOST_PARTS = 64
_TOGETHER = 8
"""Queries whose sums of a row fit into registers."""


class CpuBatch(Batch):
    """The pattern of the matrix, and the iterates of a batch as contributions.

    A contribution is x / out-degree, or x itself for dangling nodes; they have the shape (nodes, queries).
    """

    width = 16

    def __init__(self, problem: Problem) -> None:
        graph = problem.graph
        self.problem = problem
        self._indptr, self._sources = unsigned_indptr(graph), unsigned_sources(graph)
        self._degree = graph.out_degree.astype(np.uint32)
        self.nbytes = self._indptr.nbytes + self._sources.nbytes + self._degree.nbytes

    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same first iterate."""
        contribution = first / np.maximum(self._degree, 1)
        self._contribution = np.repeat(contribution[:, None], len(queries), axis=1)
        self._out = np.empty_like(self._contribution)
        self._dangling = np.full(len(queries), first[self.problem.graph.dangling_nodes].sum())
        self._teleport(queries)

    def sweep(self) -> list[Sweep]:
        """Sweep once."""
        damping, count = self.problem.damping, len(self._queries)
        spread = self.problem.dangling == "uniform"
        to_all = damping * self._dangling / self.problem.graph.nodes if spread else np.zeros(count)
        to_teleport = 1.0 - damping + (np.zeros(count) if spread else damping * self._dangling)
        arguments = (
            *(self._indptr, self._sources, self._degree, self._contribution, self._out, damping, to_all),
            *(to_teleport, self._rows, self._columns, self._weights),
        )
        parts = self._parts(count)
        found = np.array(threads.each(lambda part: _swept(*arguments, *part), parts))
        l1, squares, mass, dangling = found[:, :4].sum(axis=0)
        self._dangling = dangling
        self._contribution, self._out = self._out, self._contribution
        return [Sweep(*values) for values in zip(l1, np.sqrt(squares), found[:, 4].max(axis=0), mass, strict=True)]

    def take(self, positions: list[int]) -> list[Floats]:
        """Return the ranks of some queries and remove these from the batch."""
        degree = np.maximum(self._degree, 1)
        taken = [self._contribution[:, position] * degree for position in positions]
        remaining = [position for position in range(len(self._queries)) if position not in positions]
        self._contribution = np.ascontiguousarray(self._contribution[:, remaining])
        self._out = np.empty_like(self._contribution)
        self._dangling = self._dangling[remaining]
        self._teleport([self._queries[position] for position in remaining])
        return taken

    def _teleport(self, queries: list[Query]) -> None:
        """Sort the teleport entries of all queries by row, each with its query and weight."""
        self._queries = queries
        nodes = np.concatenate([query.nodes for query in queries]) if queries else np.zeros(0, np.int64)
        columns = np.repeat(np.arange(len(queries)), [len(query.nodes) for query in queries])
        order = np.argsort(nodes, kind="stable")
        weights = np.concatenate([query.weights for query in queries]) if queries else np.zeros(0)
        self._rows = np.searchsorted(nodes[order], np.arange(len(self._degree) + 1)).astype(np.int64)
        self._columns, self._weights = columns[order], weights[order]

    def _parts(self, count: int) -> list[tuple[int, int]]:
        each = max(count, 1)
        before = self._indptr.astype(np.int64) * each
        bounds, _ = row_ranges(before, row_cost=each, least=_PART_COST, most=_MOST_PARTS)
        return list(pairwise(bounds.tolist()))


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _sum_together(sources, contribution, begin, end, first, sums):  # type: ignore[no-untyped-def]
    """Sum a row for `_TOGETHER` queries, in registers."""
    a = b = c = d = e = f = g = h = 0.0
    for k in range(begin, end):
        at = sources[k]
        a += contribution[at, first]
        b += contribution[at, first + np.uint64(1)]
        c += contribution[at, first + np.uint64(2)]
        d += contribution[at, first + np.uint64(3)]
        e += contribution[at, first + np.uint64(4)]
        f += contribution[at, first + np.uint64(5)]
        g += contribution[at, first + np.uint64(6)]
        h += contribution[at, first + np.uint64(7)]
    sums[first] = a
    sums[first + np.uint64(1)] = b
    sums[first + np.uint64(2)] = c
    sums[first + np.uint64(3)] = d
    sums[first + np.uint64(4)] = e
    sums[first + np.uint64(5)] = f
    sums[first + np.uint64(6)] = g
    sums[first + np.uint64(7)] = h


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _sum_row(sources, contribution, begin, end, sums):  # type: ignore[no-untyped-def]
    """Sum some of a row's entries for all queries."""
    count = contribution.shape[1]
    together = count // _TOGETHER * _TOGETHER
    for first in range(0, together, _TOGETHER):
        _sum_together(sources, contribution, begin, end, np.uint64(first), sums)
    for j in range(together, count):
        total = 0.0
        for k in range(begin, end):
            total += contribution[sources[k], j]
        sums[j] = total


@compiled()
def _swept(  # type: ignore[no-untyped-def]
    indptr, sources, degree, contribution, out, damping, to_all, to_teleport, rows, columns, weights, low, high
):
    """Write the rows of a part; return by query L1 and squares of the change, mass, dangling mass, largest change."""
    count = contribution.shape[1]
    found, here = np.zeros((5, count)), np.zeros((4, count))
    sums, block = np.empty(count), np.empty(count)
    for row in range(low, high):
        begin, end = indptr[row], indptr[row + 1]
        _sum_row(sources, contribution, begin, min(end, begin + np.uint64(ROW_BLOCK)), sums)
        while end - begin > np.uint64(ROW_BLOCK):
            begin += np.uint64(ROW_BLOCK)
            _sum_row(sources, contribution, begin, min(end, begin + np.uint64(ROW_BLOCK)), block)
            for j in range(count):
                sums[j] += block[j]
        for j in range(count):
            sums[j] = damping * sums[j] + to_all[j]
        for k in range(rows[row], rows[row + 1]):
            sums[columns[k]] += to_teleport[columns[k]] * weights[k]
        by = np.float64(max(degree[row], np.uint32(1)))
        for j in range(count):
            change = abs(sums[j] - contribution[row, j] * by)
            out[row, j] = sums[j] / by
            here[0, j] += change
            here[1, j] += change * change
            here[2, j] += sums[j]
            found[4, j] = max(found[4, j], change)
        if degree[row] == np.uint32(0):
            for j in range(count):
                here[3, j] += sums[j]
        if (row + 1 - low) % ROW_BLOCK == 0 or row + 1 == high:
            # Element by element: for array operations Numba would compile the reports of wrong shapes, for seconds.
            for kind in range(4):
                for j in range(count):
                    found[kind, j] += here[kind, j]
                    here[kind, j] = 0.0
    return found
