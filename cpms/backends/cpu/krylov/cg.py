"""Conjugate gradient iterations in main memory: several at a time in one compiled call on all threads.

Separate operations of `LinearOperator` would read the vectors more often, and start threads in each operation.
`cpms.backends.cpu.krylov.cg_loops` has the fused passes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from cpms.backends.cpu import product_loops
from cpms.backends.cpu.krylov import cg_loops
from cpms.backends.cpu.krylov.lane_matrix import LaneMatrix, lanes_for
from cpms.backends.cpu.load_balance import first_ranges
from cpms.backends.cpu.stored_vectors import kernel_spec, native, plain
from cpms.base import threads
from cpms.contracts.conjugate_gradients import CgIterations, CgStep
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveTask, bits_of, in_format, vector_bytes
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FloatFormat, element_type
from cpms.storage.block_float import STORED

_PLAIN = product_loops.NATIVE, 0, 0, 0


class CpuCg(CgIterations):
    """The vectors of a solve and its fused iterations.

    With a diagonal preconditioner, r and p are float64 or float32. Without one, they may also be packed floats or block
    floats. Products then read ``_decoded``, a plain copy of p.

    Parameters
    ----------
    operator : LinearOperator
    matrix : LaneMatrix
        The operator's matrix, as the compiled loops read it.
    task : SolveTask
        One that `fits`.
    x : ndarray of float64
        The start, and the answer.
    """

    together = 64

    def __init__(self, operator: LinearOperator, matrix: LaneMatrix, task: SolveTask, x: Any) -> None:
        self._operator, self._matrix, self._task, self._x = operator, matrix, task, x
        self._storage = storage = task.formats[0]
        is_plain = storage in (None, FP32)
        self._spec, self._limit = (kernel_spec(storage, None)[0], _limit(storage)) if storage else (_PLAIN, math.inf)
        self._bounds, self._cost = (matrix.bounds, matrix.cost) if is_plain else matrix.ranges_of_blocks()
        self._sums = np.zeros((4, len(self._bounds) - 1))
        self._q = np.empty(task.size, np.float64 if storage is None else np.float32)
        self._r: Any = None
        self._p: Any = None
        self._decoded: Any = None
        self.product: float = 0.0
        self.bits = bits_of(storage)
        # Reads and writes. If p and r are stored, they take six together, and q and the decoded p three each.
        vectors = 11 * self.bits // 8 * task.size
        if not is_plain:
            decoded = np.dtype(_decoded_type(storage)).itemsize
            vectors = 6 * vector_bytes(storage, task.size) + 3 * (4 + decoded) * task.size
        self._weights = None if task.preconditioner is None else task.preconditioner.weights
        self.bytes_read = matrix.nbytes + vectors + (16 if self._weights is None else 32) * task.size

    @staticmethod
    def fits(task: SolveTask) -> bool:
        """Return whether the loops have the format of a task's vectors, and its preconditioner if there is one."""
        storage = task.formats[0]
        if task.preconditioner is not None:
            return task.preconditioner.weights is not None and storage in (None, FP32)
        is_known = storage in (None, FP32) or isinstance(storage, BlockFloatFormat)
        if isinstance(storage, FloatFormat) and element_type(storage) is None:
            is_known = storage.rounding == "nearest" and not storage.scaled
        return is_known

    def replace_residual(self) -> float:
        """Compute r = b - A x in float64 and store it; an existing direction p is kept. Return the 2-norm of r."""
        r, size = self._task.residual(self._x)
        if math.isfinite(size) and size > 0.0:
            self._r = in_format(self._operator, r, self._storage)
            if self._p is None:
                z = r if self._weights is None else self._weights * r
                self._p = in_format(self._operator, z, self._storage)
                self._decoded = plain(self._p).astype(_decoded_type(self._storage), copy=False)
            of_r = r if isinstance(self._r, STORED) else self._r
            parts = list(pairwise(self._bounds.tolist()))
            self.product = sum(threads.each(lambda part: float(cg_loops.dot(self._decoded, of_r, *part)), parts))
            if not (size < self._limit or float(abs(r).max()) < self._limit):
                self.product = math.inf
        return size

    def run(self, count: int, target: float = 0.0) -> list[CgStep]:
        """Do at most ``count`` iterations in one call; the first whose residual is at most ``target`` is the last."""
        matrix = self._matrix
        lanes = lanes_for(self._cost)
        report = np.zeros((count, 3))
        kernel = cg_loops.lanes_kernel(matrix.shape, matrix.spec, self._spec)
        r, p = (native(v) if isinstance(v, STORED) else v for v in (self._r, self._p))
        vectors = self._weights, self._x, r, p, self._q, self._decoded, self._limit

        def lane(number: int, of: int) -> int:
            arguments = control, self._bounds, matrix.arrays, *vectors, self.product, target, self._sums, report
            return int(kernel(number, first_ranges(self._cost, of), *arguments))

        control = np.zeros(1, np.int64)
        done = threads.run_lanes(lane, lanes)[0]
        found = [CgStep(*map(float, each)) for each in report[:done]]
        self.product = found[-1].next_product
        return found


def _limit(storage: VectorFormat) -> float:
    """Return the least absolute value that a packed float rounds to infinity; inf for all other formats."""
    if not isinstance(storage, FloatFormat) or element_type(storage) is not None:
        return math.inf
    return (2.0 - 2.0 ** (-storage.mantissa_bits - 1)) * 2.0**storage.bias


def _decoded_type(storage: VectorFormat | None) -> Any:
    """Return the type of the plain copy of p that products read: the smaller one that holds all numbers of a format."""
    is_narrow = isinstance(storage, FloatFormat) and storage.exponent_bits <= FP32.exponent_bits
    return np.float32 if is_narrow else np.float64
