"""A matrix whose rows follow few patterns, in device memory: two bytes a row, and the entries of each pattern.

The matrix of a grid with constant coefficients repeats a few rows (`cpms.sparse.row_patterns`). The lanes of a warp
have neighbouring rows, mostly of one pattern, and one load brings them an entry of it. So a product reads little more
than its vectors.
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

BATCH = 8
"""``pattern_batch`` of ``krylov/cg.cu``."""
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
    """

    found: RowPatterns
    of_row: Any
    _held: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, matrix: Matrix, storage: ValueFormat | None) -> PatternMatrix | None:
        """Return the patterns of a matrix as it is stored; None if there are many, or values are plain float64."""
        if storage == FP64 or not isinstance(storage, CodeFormat | FloatFormat | SegmentFormat | None):
            return None
        values = np.ones(matrix.entries) if storage is None else matrix.given_values()
        found = row_patterns(matrix.indptr, matrix.indices, values)
        if found is None:
            return None
        if isinstance(storage, FloatFormat | SegmentFormat):
            # Patterns contain every value of the matrix, so a shared exponent is the same as that of the matrix.
            stored = encode(found.values, storage).decode()
            found = RowPatterns(found.of_row, found.starts, found.distances, stored)
        return cls(found, current().upload(found.of_row))

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
        return {"of_row": self.of_row, "starts": starts, "entries": entries}


def padded(found: RowPatterns, entry: Any) -> tuple[Any, Any]:
    """Return the first entry of each pattern, and all entries, padded to whole batches of `BATCH` for each pattern.

    Examples
    --------
    >>> two = RowPatterns(np.zeros(2, np.uint16), np.array([0, 1]), np.array([3]), np.array([0.5]))
    >>> starts, entries = padded(two, _ENTRIES["float32"])
    >>> starts.tolist(), entries[:2].tolist(), len(entries)
    ([0, 8], [(0.5, 3), (0.0, 0)], 8)
    """
    lengths = np.diff(found.starts)
    starts = np.concatenate([[0], np.cumsum(-(-lengths // BATCH) * BATCH)]).astype(np.uint32)
    entries = np.zeros(int(starts[-1]), entry)
    places = np.repeat(starts[:-1].astype(np.int64) - found.starts[:-1], lengths) + np.arange(found.starts[-1])
    entries["value"][places], entries["distance"][places] = found.values, found.distances
    return starts, entries
