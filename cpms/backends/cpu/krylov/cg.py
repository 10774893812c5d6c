"""Conjugate gradient iterations in main memory: several at a time in one compiled call on all threads.

The verbs of `LinearOperator` would read each vector once a verb, and start threads at each; see
`cpms.backends.cpu.krylov.cg_loops` for what is fused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cpms.backends.cpu import product_loops
from cpms.backends.cpu.krylov import cg_loops
from cpms.backends.cpu.load_balance import row_ranges
from cpms.backends.cpu.stored_vectors import kernel_spec, native, plain
from cpms.base import threads
from cpms.contracts.conjugate_gradients import CgIterations, CgStep
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.linear_solve import SolveTask, bits_of, in_format, vector_bytes
from cpms.formats.block_float import BLOCK_VALUES, BlockFloatFormat
from cpms.formats.codes import CodeFormat, VectorFormat
from cpms.formats.formats import FP32, FloatFormat, element_type
from cpms.sparse.arrangement import Arrangement
from cpms.sparse.row_patterns import row_patterns
from cpms.sparse.stored_values import StoredValues
from cpms.storage.array import SegmentedArray
from cpms.storage.block_float import STORED

_RANGE_COST, _MOST_RANGES, _ROW_COST = 50_000, 64, 8
"""Entries that a range of rows costs at least, how many there may be, and a row's vectors in entries."""
_LANE_COST = 40_000
"""Entries and rows below which another thread costs more than it does."""
_PLAIN = product_loops.NATIVE, 0, 0, 0
_NO_TABLE = np.zeros(1)
_NO_PATTERNS = np.zeros(1, np.uint16), np.zeros(1, np.int64), np.zeros(1, np.int64)


class CpuCg(CgIterations):
    """The vectors of an unpreconditioned solve, r and p of float64 or float32, or stored in few bits.

    Parameters
    ----------
    operator : LinearOperator
    matrix : CgMatrix
        The operator's.
    task : SolveTask
    x : ndarray of float64
    """

    together = 64

    def __init__(self, operator: LinearOperator, matrix: CgMatrix, task: SolveTask, x: Any) -> None:
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
        self._product = 0.0
        self.bits = bits_of(storage)
        vectors = 11 * self.bits // 8 * task.size
        if not is_plain:  # Besides r and p, those of q and of the decoded p.
            decoded = np.dtype(_decoded_type(storage)).itemsize
            vectors = 6 * vector_bytes(storage, task.size) + 3 * (4 + decoded) * task.size
        self.bytes_read = matrix.nbytes + vectors + 16 * task.size

    @staticmethod
    def fits(task: SolveTask) -> bool:
        """Return whether the loops know the format of a task's vectors, and it has no preconditioner."""
        storage = task.formats[0]
        is_known = storage in (None, FP32) or isinstance(storage, BlockFloatFormat)
        if isinstance(storage, FloatFormat) and element_type(storage) is None:
            is_known = storage.rounding == "nearest" and not storage.scaled
        return task.preconditioner is None and is_known

    def replace_residual(self) -> float:
        """Find r in float64, then store it; the direction is kept."""
        r, size = self._task.residual(self._x)
        if math.isfinite(size) and size > 0.0:
            self._r = in_format(self._operator, r, self._storage)
            if self._p is None:
                self._p = in_format(self._operator, r, self._storage)
                self._decoded = plain(self._p).astype(_decoded_type(self._storage), copy=False)
            of_r = r if isinstance(self._r, STORED) else self._r
            parts = list(pairwise(self._bounds.tolist()))
            self._product = sum(threads.each(lambda part: float(cg_loops.dot(self._decoded, of_r, *part)), parts))
            if not (size < self._limit or float(abs(r).max()) < self._limit):
                self._product = math.inf
        return size

    def run(self, count: int, target: float = 0.0) -> list[CgStep]:
        """Iterate."""
        matrix = self._matrix
        lanes = max(1, min(threads.available(), len(self._bounds) - 1, int(self._cost[-1]) // _LANE_COST))
        report, kernel = np.zeros((count, 3)), matrix.kernel(self._spec)
        r, p = (native(v) if isinstance(v, STORED) else v for v in (self._r, self._p))
        vectors = self._x, r, p, self._q, self._decoded, self._limit

        def lane(number: int, of: int) -> int:
            arguments = control, self._bounds, *matrix.arrays, *vectors, self._product, target, self._sums, report
            return int(kernel(number, self._first_ranges(of), *arguments))

        control = np.zeros(1, np.int64)
        done = threads.run_lanes(lane, lanes)[0]
        found = [CgStep(*map(float, each)) for each in report[:done]]
        self._product = found[-1].next_product
        return found

    def _first_ranges(self, lanes: int) -> Any:
        """Return the first range of each lane, for about the same work in each."""
        inner = np.searchsorted(self._cost, np.linspace(0, self._cost[-1], lanes + 1)[1:-1])
        return np.concatenate([[0], inner, [len(self._bounds) - 1]]).astype(np.int64)


def _limit(storage: VectorFormat) -> float:
    """Return the least size that no finite number of a format is nearest to."""
    if not isinstance(storage, FloatFormat) or element_type(storage) is not None:
        return math.inf
    return (2.0 - 2.0 ** (-storage.mantissa_bits - 1)) * 2.0**storage.bias


def _decoded_type(storage: VectorFormat | None) -> Any:
    """Return the type of the vector that products read: the smallest that holds each number of a format."""
    is_narrow = isinstance(storage, FloatFormat) and storage.exponent_bits <= FP32.exponent_bits
    return np.float32 if is_narrow else np.float64


@dataclass(frozen=True, eq=False)
class CgMatrix:
    """A matrix in CSR as compiled iterations read it; prepared once.

    Parameters
    ----------
    arrays : tuple
        Starts, columns, values, their table and factor, the patterns of rows, their starts and distances.
    shape, spec
        How columns and values are stored; see `cpms.backends.cpu.krylov.cg_loops`.
    nbytes : int
        Bytes that a product reads.
    bounds, cost : ndarray of int64
        Of ranges of rows, and the work before each.
    """

    arrays: tuple[Any, ...]
    shape: int
    spec: tuple[int, int, int]
    nbytes: int
    bounds: Any
    cost: Any

    @classmethod
    def of(cls, arrangement: Arrangement, stored: StoredValues | None, nbytes: int) -> CgMatrix | None:
        """Prepare a matrix whose products read ``nbytes``; None for values that the loops cannot read."""
        if arrangement.layout != "csr" or not _fits(stored):
            return None
        starts, columns = arrangement.starts, arrangement.columns
        values, table, factor, spec = _values(stored)
        decoded = np.ones(len(columns)) if stored is None else stored.decode()
        patterns = row_patterns(starts, columns, decoded) or row_patterns(starts, columns, None)
        shape, of_patterns = cg_loops.COLUMNS, _NO_PATTERNS
        if patterns is not None:
            shape, of_patterns = cg_loops.DISTANCES, (patterns.of_row, patterns.starts, patterns.distances)
            nbytes -= columns.nbytes - patterns.of_row.nbytes
            if len(patterns.values):
                shape, table, factor, spec = cg_loops.WHOLE, patterns.values, 1.0, (cg_loops.ONES, 0, 0)
                values, nbytes = _NO_TABLE, patterns.of_row.nbytes
        arrays = starts, columns, values, table, factor, *of_patterns
        return cls(arrays, shape, spec, nbytes, *_ranges(starts))

    def kernel(self, vectors: tuple[int, ...]) -> Any:
        """Return the compiled iterations for vectors that are stored in one way."""
        return cg_loops.lanes_kernel(self.shape, *self.spec, vectors)

    def ranges_of_blocks(self) -> tuple[Any, Any]:
        """Return ranges as ``bounds`` and ``cost``, which cut no block of a stored vector."""
        return _ranges(self.arrays[0], BLOCK_VALUES)


def _ranges(starts: Any, block: int = 1) -> tuple[Any, Any]:
    work = {"row_cost": _ROW_COST, "least": _RANGE_COST, "most": _MOST_RANGES}
    return row_ranges(starts.astype(np.int64), block=block, **work)


def _fits(stored: StoredValues | None) -> bool:
    if stored is None or isinstance(stored.format, CodeFormat):
        return True
    if not isinstance(stored, SegmentedArray):
        return False
    storage = stored.format
    return element_type(storage) is not None or (isinstance(storage, FloatFormat) and storage.width in (8, 16))


def _values(stored: StoredValues | None) -> tuple[Any, Any, float, tuple[int, int, int]]:
    """Return values, their table, the factor to real ones, and how they are stored."""
    if stored is None:
        return _NO_TABLE, _NO_TABLE, 1.0, (cg_loops.ONES, 0, 0)
    storage, back = stored.format, 2.0**-stored.exponent
    if isinstance(storage, CodeFormat):
        return stored.memory[2048:], stored.memory[:2048].view(np.float64), 1.0, (cg_loops.TABLE, 0, 0)
    assert isinstance(stored, SegmentedArray)  # noqa: S101  # As `_fits` has asked.
    values, storage = native(stored), stored.format
    if element_type(storage) is not None:
        return values, _NO_TABLE, back, (cg_loops.NATIVE, 0, 0)
    assert isinstance(storage, FloatFormat)  # noqa: S101
    if storage.width == 8:
        every = SegmentedArray(np.arange(256, dtype=np.uint8), 256, storage).decode()
        return values, every, back, (cg_loops.TABLE, 0, 0)
    return values, _NO_TABLE, back, (cg_loops.HALVES, storage.exponent_bits, storage.mantissa_bits)
