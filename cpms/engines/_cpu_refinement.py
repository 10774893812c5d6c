"""Method ``refine`` on the processor's threads: one pass a sweep, bitwise the same for any thread count."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.engine import Floats, Norm, Problem, Refinement, Round, Sweep
from cpms.engines import _cpu_refine_kernels as kernels
from cpms.engines._cpu_topological import acyclic
from cpms.format import FloatFormat
from cpms.segmented import ROUNDING_MODES
from cpms.sparse import jagged
from cpms.sparse.jagged import BLOCK_ROWS

_ROW_COST = 4
"""What a row costs beside its entries, in entries."""
_PIECE_COST = 10_000
"""Entries and rows that a piece of the matrix holds at least: far more than what a barrier costs."""
_MOST_PIECES = 64
_CALL_COST = 500_000_000
"""Entries and rows that one call into compiled code sweeps over: about a second, so that Ctrl-C is heard."""


class CpuRefinement(Refinement):
    """The pattern in main memory, cut into pieces of rows, and the vectors of a refinement.

    Vectors are numbered as the matrix is (`cpms.sparse.jagged`). ``c`` is kept in float32: what that
    loses is found by the next full sweep, like what Q loses.
    """

    def __init__(self, problem: Problem) -> None:
        graph = problem.graph
        self.problem = problem
        self._matrix = jagged.build(graph)
        nodes = self._matrix.nodes
        self._degree = graph.out_degree[nodes].astype(np.uint32)
        self._sink, self._teleport = (
            vector[nodes] if len(vector) > 1 else vector
            for vector in (problem.sink_or_scalar, problem.teleport_or_scalar)
        )
        self._bounds, self._cost = _pieces(graph.indptr)
        self._sums = np.zeros((2, len(self._bounds) - 1, kernels.COLUMNS))
        self._x, self._share, self._r = (np.zeros(graph.nodes) for _ in range(3))
        self._c = np.zeros(graph.nodes, np.float32)
        self._z: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None
        self._sweeps = 0
        self._acyclic = acyclic(problem)
        self.nbytes = self._matrix.nbytes + self._degree.nbytes

    def guess(self) -> Floats | None:
        """Return the solution where no edges form a cycle, from one pass over the nodes; else None."""
        return None if self._acyclic is None else self._acyclic.solution()

    def start(self, values: Floats) -> None:
        """Begin at a copy of the values."""
        np.take(values, self._matrix.nodes, out=self._x, mode="clip")
        self._c[:] = 0.0
        self._sweeps = 0

    def read(self) -> Floats:
        """Return x in the graph's numbering."""
        x = np.empty_like(self._x)
        x[self._matrix.nodes] = self._x
        return x

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Correct and sweep in full; then quantise and sweep in few bits."""
        began = time.perf_counter()
        found, total, largest = self._full()
        low: list[float] = []
        sums, seconds = [total], [time.perf_counter() - began]
        if storage is None or not tol <= found.of(norm) < np.inf:
            return Round(found, low, sums, seconds)
        until = max(gain * found.l1, 0.5 * tol * found.l1 / found.of(norm))
        state = np.array([0.0, largest, 0.0])
        size = found.l1
        while size > until and len(low) < most_low:
            most = min(most_low - len(low), max(1, _CALL_COST // int(self._cost[-1])))
            sizes, totals = self._low(storage, state, len(low), until, most)
            size = sizes[-1]
            share = (time.perf_counter() - began - seconds[-1]) / len(sizes)
            seconds += [seconds[-1] + share * (place + 1) for place in range(len(sizes))]
            low += sizes
            sums += totals
        return Round(found, low, sums, seconds)

    def _full(self) -> tuple[Sweep, float, float]:
        """Return norms and mass, the sum of r, and the largest |r| / degree."""
        matrix, problem = self._matrix, self.problem
        arrays = (matrix.lengths, matrix.starts, matrix.sources, self._degree, self._share, self._x, self._c, self._r)
        control = np.zeros(1, np.int64)

        def lane(lane: int, lanes: int) -> None:
            cuts = self._cuts(lanes)
            rest = (self._sink, self._teleport, problem.damping, self._bounds, self._sums)
            kernels.full(lane, cuts, control, *arrays, *rest)

        threads.together(lane, self._lanes())
        columns = self._sums[1].T
        l1, squares, mass, total = (float(columns[k].sum()) for k in (0, 1, 3, 4))
        return Sweep(l1, float(np.sqrt(squares)), float(columns[2].max()), mass), total, float(columns[5].max())

    def _low(
        self, storage: FloatFormat, state: Floats, done: int, until: float, most: int
    ) -> tuple[list[float], list[float]]:
        """Do at least one low sweep; return ||r||_1 and the sum of r after each."""
        matrix, (even, odd) = self._matrix, self._stored(storage.width)
        kernel = kernels.low_kernel(storage.exponent_bits, storage.mantissa_bits, ROUNDING_MODES[storage.rounding])
        arrays = (matrix.lengths, matrix.starts, matrix.sources, self._degree, self._r, even, odd, self._c, self._sink)
        seed = np.uint64((storage.seed * 0x9E3779B97F4A7C15 + self._sweeps) % 2**64)
        control, low, total = np.zeros(1, np.int64), np.empty(most), np.empty(most)

        def lane(lane: int, lanes: int) -> int:
            cuts = self._cuts(lanes)
            rest = (self.problem.damping, done, until, most, seed, state, self._bounds, self._sums, low, total)
            return int(kernel(lane, cuts, control, *arrays, *rest))

        count = threads.together(lane, self._lanes())[0]
        self._sweeps += count
        return low[:count].tolist(), total[:count].tolist()

    def _lanes(self) -> int:
        return min(threads.available(), len(self._bounds) - 1)

    def _cuts(self, lanes: int) -> npt.NDArray[np.int64]:
        """Return where each lane's pieces begin, for about the same work in each."""
        inner = np.searchsorted(self._cost, np.linspace(0, self._cost[-1], lanes + 1)[1:-1])
        return np.concatenate([[0], inner, [len(self._bounds) - 1]]).astype(np.int64)

    def _stored(self, width: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return two vectors of integers of so many bits; those of one width are kept."""
        if self._z is None or 8 * self._z[0].itemsize != width:
            self._z = np.zeros(len(self._x), f"int{width}"), np.zeros(len(self._x), f"int{width}")
        return self._z


def _pieces(indptr: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut rows, at block bounds, into pieces of about equal cost; return their bounds and the cost before each."""
    rows = len(indptr) - 1
    bounds = np.append(np.arange(0, rows, BLOCK_ROWS), rows)
    cost = indptr[bounds] + _ROW_COST * bounds
    count = int(np.clip(cost[-1] // _PIECE_COST, 1, _MOST_PIECES))
    chosen = np.unique(np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)))
    return bounds[chosen], cost[chosen]
