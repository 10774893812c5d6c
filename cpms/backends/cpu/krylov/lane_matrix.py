"""A matrix in CSR as fused iterations of Krylov and stationary methods read it, and its partition among lanes.

A lane is a thread that waits for others inside compiled code (`cpms.backends.cpu.lane_barrier`). Ranges of rows do not
depend on the number of lanes, so results do not either. Where rows repeat, a dictionary of rows replaces columns, or
columns and values (`cpms.sparse.row_patterns`), which saves their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cpu.krylov import row_products
from cpms.backends.cpu.load_balance import row_ranges
from cpms.backends.cpu.stored_vectors import native
from cpms.base import threads
from cpms.formats.block_float import BLOCK_VALUES
from cpms.formats.codes import CodeFormat
from cpms.formats.formats import FloatFormat, element_type
from cpms.sparse.arrangement import Arrangement
from cpms.sparse.row_patterns import row_patterns
from cpms.sparse.stored_values import StoredValues
from cpms.storage.array import SegmentedArray

_RANGE_COST, _MOST_RANGES, _ROW_COST = 50_000, 64, 8
"""Least cost of a range of rows in entries, most ranges, and the cost of a row's vectors in entries."""
_LANE_COST = 40_000
"""Cost of rows, in entries, that a further thread needs to save more time than its barriers take."""
_NO_TABLE = np.zeros(1)
_NO_PATTERNS = np.zeros(1, np.uint16), np.zeros(1, np.int64), np.zeros(1, np.int64)


def lanes_for(cost: Any) -> int:
    """Return how many threads are worth their barriers, given the cost before each range of rows."""
    return max(1, min(threads.available(), len(cost) - 1, int(cost[-1]) // _LANE_COST))


@dataclass(frozen=True, eq=False)
class LaneMatrix:
    """A matrix in CSR as compiled iterations read it; prepared once.

    Parameters
    ----------
    arrays : tuple
        Starts of rows, columns, values, the values' table and factor, the pattern of each row, and the patterns' starts
        and distances.
    shape, spec
        Storage of columns and values; see `cpms.backends.cpu.krylov.row_products`.
    nbytes : int
        Bytes that a product reads.
    bounds, cost : ndarray of int64
        Bounds of ranges of rows, and the cost before each, in entries.
    """

    arrays: tuple[Any, ...]
    shape: int
    spec: tuple[int, int, int]
    nbytes: int
    bounds: Any
    cost: Any

    @classmethod
    def of(cls, arrangement: Arrangement, stored: StoredValues | None, nbytes: int) -> LaneMatrix | None:
        """Prepare a matrix whose products read ``nbytes``; None for values that the loops cannot read."""
        if arrangement.layout != "csr" or not _fits(stored):
            return None
        starts, columns = arrangement.starts, arrangement.columns
        values, table, factor, spec = _values(stored)
        decoded = np.ones(len(columns)) if stored is None else stored.decode()
        patterns = row_patterns(starts, columns, decoded) or row_patterns(starts, columns, None)
        shape, of_patterns = row_products.COLUMNS, _NO_PATTERNS
        if patterns is not None:
            shape, of_patterns = row_products.DISTANCES, (patterns.of_row, patterns.starts, patterns.distances)
            nbytes -= columns.nbytes - patterns.of_row.nbytes
            if len(patterns.values):
                shape, table, factor, spec = row_products.WHOLE, patterns.values, 1.0, (row_products.ONES, 0, 0)
                values, nbytes = _NO_TABLE, patterns.of_row.nbytes
        arrays = starts, columns, values, table, factor, *of_patterns
        return cls(arrays, shape, spec, nbytes, *_ranges(starts))

    def ranges_of_blocks(self) -> tuple[Any, Any]:
        """Return ``bounds`` and ``cost`` of ranges that cut no block of a block float."""
        return _ranges(self.arrays[0], BLOCK_VALUES)


def _ranges(starts: Any, block: int = 1) -> tuple[Any, Any]:
    work = {"row_cost": _ROW_COST, "least": _RANGE_COST, "most": _MOST_RANGES}
    return row_ranges(starts, block=block, **work)


def _fits(stored: StoredValues | None) -> bool:
    if stored is None or isinstance(stored.format, CodeFormat):
        return True
    if not isinstance(stored, SegmentedArray):
        return False
    storage = stored.format
    return element_type(storage) is not None or (isinstance(storage, FloatFormat) and storage.width in (8, 16))


def _values(stored: StoredValues | None) -> tuple[Any, Any, float, tuple[int, int, int]]:
    """Return values as the loops read them, their table, the factor that makes them real ones, and ``spec``."""
    if stored is None:
        return _NO_TABLE, _NO_TABLE, 1.0, (row_products.ONES, 0, 0)
    storage, back = stored.format, 2.0**-stored.exponent
    if isinstance(storage, CodeFormat):
        return stored.memory[2048:], stored.memory[:2048].view(np.float64), 1.0, (row_products.TABLE, 0, 0)
    assert isinstance(stored, SegmentedArray)  # noqa: S101  # As `_fits` has asked.
    values, storage = native(stored), stored.format
    if element_type(storage) is not None:
        return values, _NO_TABLE, back, (row_products.NATIVE, 0, 0)
    assert isinstance(storage, FloatFormat)  # noqa: S101
    if storage.width == 8:
        every = SegmentedArray(np.arange(256, dtype=np.uint8), 256, storage).decode()
        return values, every, back, (row_products.TABLE, 0, 0)
    return values, _NO_TABLE, back, (row_products.HALVES, storage.exponent_bits, storage.mantissa_bits)
