"""A matrix whose rows follow few patterns, in device memory: two bytes a row, and the entries of each pattern.

The matrix of a grid with constant coefficients repeats a few rows (`cpms.sparse.row_patterns`). The lanes of a warp
have neighbouring rows, mostly of one pattern, and one load brings them an entry of it. So a product reads little more
than its vectors. A thread has some rows as far apart as planes of the grid, so that it loads an entry once for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cpms.backends.cuda.runtime.current import current
from cpms.formats.codes import CodeFormat, ValueFormat
from cpms.formats.formats import FP64, FloatFormat, SegmentFormat
from cpms.sparse.matrix import Matrix
from cpms.sparse.row_patterns import RowPatterns, row_patterns
from cpms.storage.array import encode

BATCH, THREAD_ROWS, WARP = 4, 4, 32
"""Entries of a batch, and rows of a thread: ``pattern_batch``, and ``pattern_rows`` of float32, in ``krylov/cg.cu``."""
_LARGEST_STRIDE, _LARGEST_SIZE = 1 << 29, 1 << 31
_SAMPLES = 1 << 10
_LEAST_SHARE = 0.5
"""Of warps in which each thread has rows of one pattern; where there are fewer, threads have one row at a time."""
_ENTRIES = {
    "float32": np.dtype([("value", np.float32), ("distance", np.int32)]),
    "float64": np.dtype([("value", np.float64), ("distance", np.int64)]),
}
"""``PatternEntry``."""


@dataclass(frozen=True, eq=False)
class PatternMatrix:
    """The patterns of a matrix on the device; their entries are uploaded for each type of vectors at its first use.

    Parameters
    ----------
    found : RowPatterns
        Patterns with values.
    of_row : device array of uint16, shape (rows,)
    stride : int
        Distance of the rows of a thread.
    """

    found: RowPatterns
    of_row: Any
    stride: int
    _held: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, matrix: Matrix, storage: ValueFormat | None) -> PatternMatrix | None:
        """Return the patterns of a matrix as it is stored; None if there are many, or values are plain float64."""
        fits = isinstance(storage, CodeFormat | FloatFormat | SegmentFormat | None) and storage != FP64
        if not fits or matrix.rows >= _LARGEST_SIZE:
            return None
        values = np.ones(matrix.entries) if storage is None else matrix.given_values()
        found = row_patterns(matrix.indptr, matrix.indices, values)
        if found is None:
            return None
        if isinstance(storage, FloatFormat | SegmentFormat):
            # Patterns contain every value of the matrix, so a shared exponent is the same as that of the matrix.
            stored = encode(found.values, storage).decode()
            found = RowPatterns(found.of_row, found.starts, found.distances, stored)
        return cls(found, current().upload(found.of_row), row_stride(found))

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads."""
        return int(self.found.of_row.nbytes)

    def arguments(self, real: Any) -> dict[str, Any]:
        """Return the arguments of kernels whose vectors have this type."""
        name = np.dtype(real).name
        if name not in self._held:
            starts, entries = padded(self.found, _ENTRIES[name])
            self._held[name] = current().upload(starts), current().upload(entries.view(np.uint8))
        starts, entries = self._held[name]
        return {"of_row": self.of_row, "starts": starts, "entries": entries, "stride": self.stride}


def row_stride(found: RowPatterns) -> int:
    """Return a distance at which rows mostly have equal patterns, for the rows of a thread: as a rule a grid's plane.

    Distances of the most frequent pattern are tried, and multiples of small ones. Among those whose share of equal rows
    is nearly the largest, small ones are left out, since a block finds near values of the vector in its cache anyway.
    Where no distance will do, it is one of more rows than there are.

    Examples
    --------
    >>> lines = np.tile(np.repeat(np.array([0, 1, 2], np.uint16), [1, 38, 1]), 40)
    >>> row_stride(RowPatterns(lines, np.array([0, 2, 5, 7]), np.array([0, 40, -40, 0, 40, -40, 0]), np.ones(7)))
    40
    """
    rows, random = len(found.of_row), np.random.default_rng(0)
    if rows == 0:
        return _LARGEST_STRIDE
    usual = np.bincount(found.of_row[random.integers(rows, size=_SAMPLES)]).argmax()
    distances = np.abs(found.distances[found.starts[usual] : found.starts[usual + 1]])
    distances = np.unique(distances[distances > 0])
    tried = np.unique(np.append(distances * -(-WARP // distances), WARP))
    shares = {stride: share for stride in tried.tolist() if (share := _equal_share(found.of_row, stride, random))}
    near = [stride for stride, share in shares.items() if share >= max(_LEAST_SHARE, max(shares.values()) - 0.05)]
    return max((each for each in near if 2 * each > near[-1]), key=shares.__getitem__, default=_LARGEST_STRIDE)


def _equal_share(of_row: Any, stride: int, random: np.random.Generator) -> float:
    """Return the share of warps in which each thread has rows of one pattern; by samples."""
    threads = len(of_row) // (THREAD_ROWS * stride) * stride
    if threads < WARP or stride > _LARGEST_STRIDE:
        return 0.0
    thread = WARP * random.integers(threads // WARP, size=_SAMPLES)[:, None] + np.arange(WARP)
    first = thread // stride * (THREAD_ROWS * stride) + thread % stride
    equal = [of_row[first] == of_row[first + r * stride] for r in range(1, THREAD_ROWS)]
    return float(np.logical_and.reduce(equal).all(axis=1).mean())


def padded(found: RowPatterns, entry: Any) -> tuple[Any, Any]:
    """Return the first entry of each pattern, and all entries, padded to whole batches of `BATCH` for each pattern.

    Examples
    --------
    >>> two = RowPatterns(np.zeros(2, np.uint16), np.array([0, 1]), np.array([3]), np.array([0.5]))
    >>> starts, entries = padded(two, _ENTRIES["float32"])
    >>> starts.tolist(), entries[:2].tolist(), len(entries)
    ([0, 4], [(0.5, 3), (0.0, 0)], 4)
    """
    lengths = np.diff(found.starts)
    starts = np.concatenate([[0], np.cumsum(-(-lengths // BATCH) * BATCH)]).astype(np.uint32)
    entries = np.zeros(int(starts[-1]), entry)
    places = np.repeat(starts[:-1].astype(np.int64) - found.starts[:-1], lengths) + np.arange(found.starts[-1])
    entries["value"][places], entries["distance"][places] = found.values, found.distances
    return starts, entries
