"""Sweeps in residual form in main memory: many iterations of a stationary method in one compiled call on all threads.

Separate operations of `LinearOperator` would read the vectors more often, and start threads in each operation.
`cpms.backends.cpu.krylov.stationary_loops` has the fused passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpms.backends.cpu.krylov import stationary_loops
from cpms.backends.cpu.krylov.lane_matrix import LaneMatrix, lanes_for
from cpms.backends.cpu.load_balance import first_ranges
from cpms.base import threads
from cpms.contracts.linear_solve import SolveTask
from cpms.contracts.sweeps import Coefficients, Sweeps


class CpuSweeps(Sweeps):
    """Sweeps whose steps s are float64 or float32.

    Parameters
    ----------
    matrix : LaneMatrix
    task : SolveTask
    inverse_diagonal : ndarray of float64, shape (n,)
        1 over the diagonal of the matrix.
    r, c : ndarray of float64, shape (n,)
        The residual and the correction, which sweeps update.
    """

    together = 64

    def __init__(self, matrix: LaneMatrix, task: SolveTask, inverse_diagonal: Any, r: Any, c: Any) -> None:
        element = np.float64 if task.formats[0] is None else np.float32
        self._matrix, self._inverse, self._r, self._c = matrix, inverse_diagonal, r, c
        self._s, self._q = np.zeros(task.size, element), np.empty(task.size)
        self._sums = np.zeros(len(matrix.bounds) - 1)
        self.bytes_read = matrix.nbytes + (4 * 8 + 3 * self._s.itemsize) * task.size

    def run(self, coefficients: Sequence[Coefficients], target: float, limit: float) -> list[float]:
        """Sweep once for each pair of coefficients in one call, until ``target`` or ``limit`` ends it."""
        matrix, report, control = self._matrix, np.zeros(len(coefficients)), np.zeros(1, np.int64)
        kernel = stationary_loops.lanes_kernel(matrix.shape, matrix.spec)
        vectors = self._c, self._r, self._s, self._q, self._inverse
        ends = np.array(coefficients, np.float64), target, limit, self._sums, report

        def lane(number: int, of: int) -> int:
            first = first_ranges(matrix.cost, of)
            return int(kernel(number, first, control, matrix.bounds, matrix.arrays, *vectors, *ends))

        done = threads.run_lanes(lane, lanes_for(matrix.cost))[0]
        return [float(each) for each in np.sqrt(report[:done])]
