"""Sweeps in residual form in device memory: a product and one fused pass over the vectors each (``krylov/sweeps.cu``).

The norms of several sweeps reach main memory in one transfer, for which the host waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.krylov import sweep_pass
from cpms.backends.cuda.kernels.structs import SWEEP
from cpms.backends.cuda.krylov.padded_vector import PaddedVector, padded_length
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import filled
from cpms.contracts.linear_solve import SolveTask, bits_of
from cpms.contracts.sweeps import Coefficients, Sweeps


class CudaSweeps(Sweeps):
    """Sweeps whose steps are in a format that `cpms.backends.cuda.kernels.krylov.fits` has.

    Parameters
    ----------
    operator : CudaProduct
        Of products in the task's storage.
    task : SolveTask
    inverse_diagonal, r, c : device vectors of float64
        1 over the diagonal of the matrix, the residual and the correction; sweeps update the last two.
    """

    together = 4

    def __init__(self, operator: Any, task: SolveTask, inverse_diagonal: Any, r: Any, c: Any) -> None:
        backend, storage = current(), task.formats[0]
        padded = padded_length(task.size)
        self._s, self._q = PaddedVector(storage, task.size), backend.arrays.empty(task.size, np.float64)
        self._squares = backend.arrays.zeros(self.together, np.float64)
        self._counter = backend.arrays.zeros(1, np.uint32)
        blocks = backend.grid_size(padded, each=8)
        self._partials = backend.arrays.zeros(blocks, np.float64)
        self._arrays = inverse_diagonal, r, c
        arrays = {"r": r, "c": c, "s": self._s.memory, "q": self._q, "inverse": inverse_diagonal}
        arrays |= {"partials": self._partials, "counter": self._counter}
        self._packed = filled(SWEEP, **arrays, length=task.size, padded=padded)
        self._pass = backend.launcher(sweep_pass(storage), blocks, self._packed)
        _, self._multiply = operator.prepared(self._s.operand, self._q, task.read, None)
        self.bytes_read = operator.bytes_read(task.read) + (4 * 8 + 2 * bits_of(storage) // 8) * task.size

    def run(self, coefficients: Sequence[Coefficients], target: float, limit: float) -> list[float]:
        """Sweep once for each pair of coefficients; ``target`` and ``limit`` are looked at after `together` sweeps."""
        sizes = list[float]()
        for begin in range(0, len(coefficients), self.together):
            sizes += self._run(coefficients[begin : begin + self.together])
            if not target < sizes[-1] < limit:
                break
        return sizes

    def _run(self, coefficients: Sequence[Coefficients]) -> list[float]:
        packed, squares = self._packed, int(current().address(self._squares))
        for number, pair in enumerate([*coefficients, (0.0, 0.0)]):
            packed["subtracts"], packed["steps"] = number > 0, number < len(coefficients)
            packed["square"], packed["keep"], packed["turn"] = squares + 8 * (number - 1), *pair
            self._pass()
            if number < len(coefficients):
                self._multiply()
        found = current().fetch(self._squares)[: len(coefficients)]
        return [math.sqrt(square) if square >= 0.0 else math.inf for square in map(float, found)]
