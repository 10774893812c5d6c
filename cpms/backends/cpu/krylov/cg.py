"""Conjugate gradient iterations in main memory: several at a time in one compiled call on all threads.

Separate operations of `LinearOperator` would read the vectors more often, and start threads in each operation.
`cpms.backends.cpu.krylov.cg_loops` has the fused passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from cpms.backends.cpu.krylov import cg_loops
from cpms.backends.cpu.krylov.lane_matrix import LaneMatrix, lanes_for
from cpms.backends.cpu.krylov.row_products import WHOLE
from cpms.backends.cpu.load_balance import first_ranges
from cpms.backends.cpu.product_loops import PLAIN
from cpms.backends.cpu.stored_vectors import kernel_spec, native, plain
from cpms.base import threads
from cpms.contracts.conjugate_gradients import SHARED, CgIterations, CgRun, CgStep
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveTask, bits_of, in_format, vector_bytes
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FloatFormat, element_type
from cpms.storage.block_float import STORED

_LEAST_SHARED = 1 << 16
"""Cost of rows, in entries, below which solves of several right-hand sides do not repay the compilation of a loop."""


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
    stops_at_target = True

    def __init__(self, operator: LinearOperator, matrix: LaneMatrix, task: SolveTask, x: Any) -> None:
        self._operator, self._matrix, self._task, self._x = operator, matrix, task, x
        self._storage = storage = task.formats[0]
        is_plain = storage in (None, FP32)
        self._spec, self._limit = (kernel_spec(storage, None)[0], _limit(storage)) if storage else (PLAIN[0], math.inf)
        self._bounds, self._cost = (matrix.bounds, matrix.cost) if is_plain else matrix.ranges_of_blocks()
        self._q = np.empty((1, task.size), np.float64 if storage is None else np.float32)
        self._block: Any = None
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
        self._vector_bytes = vectors + (16 if self._weights is None else 32) * task.size
        self.bytes_read = matrix.nbytes + self._vector_bytes
        if is_plain and matrix.shape != WHOLE and matrix.cost[-1] >= _LEAST_SHARED:
            self.shared_read = id(matrix), id(self._weights), storage

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
        return self.run_together([CgRun(self, count, target)])[0]

    def run_together(self, runs: Sequence[CgRun]) -> list[list[CgStep]]:
        """Do the same number of iterations of all runs in one call, which ends where the first of them does."""
        matrix, all_of, count = self._matrix, cast("list[CpuCg]", [each.iterations for each in runs]), len(runs)
        decoded, q = _block(all_of) if count > 1 else (self._decoded, self._q)
        report = np.ones((count, min(each.most for each in runs), 3))  # A p.Ap of 1 is that of no failure.
        products, targets = np.array([of.product for of in all_of]), np.array([each.target for each in runs])
        vectors = [[native(v) if isinstance(v, STORED) else v for v in (of._x, of._r, of._p)] for of in all_of]
        addresses = np.array([[v.__array_interface__["data"][0] for v in each] for each in vectors], np.uint64)
        sums = np.zeros((count, 4, len(self._bounds) - 1))
        kernel = cg_loops.lanes_kernel(matrix.shape, matrix.spec, self._spec, count > 1)
        given = addresses, *vectors[0][:2], q, decoded, self._limit, products, targets, sums, report

        def lane(number: int, of: int) -> int:
            ranges = first_ranges(self._cost, of)
            return int(kernel(number, ranges, control, self._bounds, matrix.arrays, self._weights, *given))

        control = np.zeros(1, np.int64)
        done = threads.run_lanes(lane, lanes_for(self._cost))[0]
        found = [[CgStep(*step) for step in each[:done].tolist()] for each in report]
        for place, (of, steps) in enumerate(zip(all_of, found, strict=True)):
            of.bytes_read = of._vector_bytes + matrix.nbytes // count + (place < matrix.nbytes % count)
            if done < report.shape[1] and not 0.0 < report[place, done, cg_loops.CURVATURE] < math.inf:
                steps.append(CgStep(*report[place, done].tolist()))
            of.product = steps[-1].next_product if steps else of.product
        return found


def _block(all_of: Sequence[CpuCg]) -> tuple[Any, Any]:
    """Return the block that holds p of several right-hand sides, and the rows of A p, which all of them keep."""
    held = next((of._block for of in all_of if of._block is not None), None)
    if held is None:
        p, q = all_of[0]._p, all_of[0]._q
        held = np.zeros(SHARED * p.size, p.dtype), np.empty((SHARED, q.size), q.dtype)
    for of in all_of:
        of._block = held
    return held


def _limit(storage: VectorFormat) -> float:
    """Return the least absolute value that a packed float rounds to infinity; inf for all other formats."""
    if not isinstance(storage, FloatFormat) or element_type(storage) is not None:
        return math.inf
    return (2.0 - 2.0 ** (-storage.mantissa_bits - 1)) * 2.0**storage.bias


def _decoded_type(storage: VectorFormat | None) -> Any:
    """Return the type of the plain copy of p that products read: the smaller one that holds all numbers of a format."""
    is_narrow = isinstance(storage, FloatFormat) and storage.exponent_bits <= FP32.exponent_bits
    return np.float32 if is_narrow else np.float64
