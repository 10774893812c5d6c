"""The residual of an answer in device memory, recomputed there in float64 by kernels that no solver shares.

G(x) - x is formed row by row from the graph's own arrays, not from a solver's layout, with compensated sums (Ogita,
Rump and Oishi, Accurate sum and dot product, 2005). It costs about one product in float64, and the answer need not
leave the device. See ``certificate/residual.cu``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.structs import LONG_ROWS, ROWS_TO_CERTIFY
from cpms.backends.cuda.kernels.template import CERTIFICATE, CERTIFIED_ROWS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import pack
from cpms.base.types import Norm
from cpms.certify.roundoff import UNIT, of_terms
from cpms.contracts.batch import Query
from cpms.contracts.recomputation import Recomputation
from cpms.problems.pagerank import Problem

_MASS, _SCALE, _FIND_LONG_ROWS, _PIECES, _NORMS = CERTIFICATE
LONG_ROW = 2048
"""Edges from which a row is summed in pieces of so many, each by one warp."""
_NORM_WORDS, _FOUND = 6, ("mass before", "l1", "l2", "linf", "mass")
"""Words of the sums of a block, and the numbers that are found; ``certificate/residual.cu`` has both."""
_OPERATIONS = 9
"""Roundings of a term besides its row's sum: x, division by the degree, dangling mass, its product with w and the sum
with the row's, damping, 1 - damping, its product with v and the last sum."""


class DeviceRecomputation(Recomputation):
    """Recomputes residuals of answers in device memory.

    Parameters
    ----------
    problem : Problem
        Of a graph without weights.
    indptr, sources, out_degree : device arrays of uint32
        The problem's graph: in-edges in CSR, and out-degrees.
    """

    def __init__(self, problem: Problem, indptr: Any, sources: Any, out_degree: Any) -> None:
        backend, graph = current(), problem.graph
        self.problem, self.roundoff = problem, roundoff(graph.nodes, graph.edges)
        self._indptr, self._sources, self._degree = indptr, sources, out_degree
        self._nodes = np.uint32(graph.nodes)
        self._blocks = backend.grid_size(graph.nodes, each=2)
        lanes = _lanes(graph.edges / graph.nodes)
        self._rows, self._row_blocks = CERTIFIED_ROWS[lanes], backend.grid_size(graph.nodes * lanes)
        backend.compile([*CERTIFICATE, self._rows])
        self._long_rows = _LongRows(indptr, graph.nodes, graph.edges)
        arrays = backend.arrays
        self._mass, self._dangling = (arrays.empty(2 * self._blocks, np.float64) for _ in range(2))
        self._partials = arrays.empty(_NORM_WORDS * self._row_blocks, np.float64)
        self._found = arrays.zeros(len(_FOUND), np.float64)
        self._sink, self._teleport = (
            backend.upload(values) for values in (problem.sink_or_scalar, problem.teleport_or_scalar)
        )
        self._contributions = arrays.empty(graph.nodes, np.float64)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of device memory besides the graph's."""
        held = self._contributions, self._sink, self._teleport, self._mass, self._dangling, self._partials
        return sum(int(array.nbytes) for array in held) + self._long_rows.nbytes

    def set_problem(self, problem: Problem) -> None:
        """Certify answers to another problem of the same graph from now on."""
        self.problem = problem
        self._sink, self._teleport = map(current().upload, (problem.sink_or_scalar, problem.teleport_or_scalar))

    def set_query(self, query: Query) -> None:
        """Place the query's teleport on the device, by its nodes alone."""
        arrays = current().arrays
        self._teleport = arrays.zeros(self.problem.graph.nodes, np.float64)
        self._teleport[arrays.asarray(query.nodes)] = arrays.asarray(query.weights)
        follows = isinstance(self.problem.dangling, str) and self.problem.dangling == "teleport"
        self._sink = self._teleport if follows else current().upload(self.problem.sink_or_scalar)

    def norms(self, ranks: Any, norm: Norm) -> tuple[float, float] | None:
        """Return the residual in L1 and in a norm, and scale the ranks to mass 1."""
        found = self._measured(ranks)
        if not 0.5 < found["mass before"] < 2.0:
            return None
        return found["l1"], found[norm]

    def mass(self, ranks: Any) -> float:
        """Return the sum of ranks."""
        backend = current()
        backend.run(_MASS, self._blocks, (ranks, self._nodes, self._mass))
        partials: Any = backend.to_host(self._mass)
        return math.fsum(partials.tolist())

    def _measured(self, ranks: Any) -> dict[str, float]:
        backend, blocks = current(), self._blocks
        backend.run(_MASS, blocks, (ranks, self._nodes, self._mass))
        given = ranks, self._degree, self._nodes, self._mass, self._contributions, self._dangling
        backend.run(_SCALE, blocks, given)
        self._long_rows.sum(self._sources, self._contributions)
        rows = pack(
            ROWS_TO_CERTIFY,
            indptr=self._indptr,
            sources=self._sources,
            sink=self._sink,
            teleport=self._teleport,
            damping=self.problem.damping,
            nodes=self._nodes,
            sink_stride=self._sink.size > 1,
            teleport_stride=self._teleport.size > 1,
        )
        vectors = ranks, self._contributions, self._dangling, np.uint32(blocks), self._partials
        backend.run(self._rows, self._row_blocks, (rows, *self._long_rows.arguments, *vectors))
        joined = self._partials, np.uint32(self._row_blocks), self._mass, np.uint32(blocks), self._found
        backend.run(_NORMS, 1, joined)
        return dict(zip(_FOUND, backend.fetch(self._found), strict=True))


class _LongRows:
    """Rows of `LONG_ROW` edges or more, cut into pieces that a warp each sums."""

    def __init__(self, indptr: Any, nodes: int, edges: int) -> None:
        backend, arrays = current(), current().arrays
        found = arrays.zeros(1 + 3 * (edges // LONG_ROW), np.uint32)
        given = indptr, np.uint32(nodes), np.uint32(LONG_ROW), found
        backend.run(_FIND_LONG_ROWS, backend.grid_size(nodes), given)
        count = int(backend.fetch_async(found[:1])()[0])
        if count == 0:
            self._rows = self._firsts = self._begins = self._ends = found[:0]
            self._sums = arrays.empty(0, np.float64)
            return
        triples = backend.to_host(found[1 : 1 + 3 * count]).astype(np.int64).reshape(-1, 3)
        rows, begins, ends = triples[np.argsort(triples[:, 0])].T
        counts = -(-(ends - begins) // LONG_ROW)
        firsts = np.append(0, np.cumsum(counts))
        nth = np.arange(firsts[-1]) - np.repeat(firsts[:-1], counts)
        piece_begins = np.repeat(begins, counts) + LONG_ROW * nth
        piece_ends = np.minimum(piece_begins + LONG_ROW, np.repeat(ends, counts))
        self._rows, self._firsts, self._begins, self._ends = (
            arrays.asarray(np.ascontiguousarray(numbers, np.uint32))
            for numbers in (rows, firsts, piece_begins, piece_ends)
        )
        self._sums = arrays.empty(2 * len(piece_begins), np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return sum(int(array.nbytes) for array in (self._rows, self._firsts, self._begins, self._ends, self._sums))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Kernel arguments: the rows, and the sums of their pieces."""
        long_rows = pack(
            LONG_ROWS, rows=self._rows, first_pieces=self._firsts, count=len(self._rows), shortest=LONG_ROW
        )
        return long_rows, self._sums

    def sum(self, sources: Any, contributions: Any) -> None:
        """Sum the pieces."""
        pieces = len(self._begins)
        if pieces:
            arguments = self._begins, self._ends, np.uint32(pieces), sources, contributions, self._sums
            current().run(_PIECES, current().grid_size(32 * pieces), arguments)


def roundoff(nodes: int, edges: int) -> float:
    """Return a bound of the rounding error of the recomputed ||G(x) - x||_1, for x of mass 1.

    A compensated sum of nonnegative terms has a relative error of at most u + (h u)^2, where h bounds the additions
    that a term passes and the sums of their errors (Ogita, Rump and Oishi, 2005, proposition 4.5; here a row of pieces,
    whose lanes, warps and pieces follow each other). The other operations on a term add u each (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, section 3.1). Terms of G(x) and x have mass 2 together, and the sum
    of the changes adds an error relative to the residual, far below its printed digits.

    Examples
    --------
    >>> 1e-15 < roundoff(10**6, 10**7) < 4e-15
    True
    """
    additions = LONG_ROW + edges // LONG_ROW + nodes // LONG_ROW + 64
    return of_terms((_OPERATIONS + 1) * UNIT + (additions * UNIT) ** 2)


def _lanes(mean_edges: float) -> int:
    """Return how many lanes sum a row together, by the mean number of edges of a row.

    Examples
    --------
    >>> [_lanes(mean) for mean in (0.5, 4.0, 10.0, 40.0)]
    [1, 4, 8, 32]
    """
    return next((lanes for lanes in (1, 4, 8) if mean_edges <= 2 * lanes), 32)
