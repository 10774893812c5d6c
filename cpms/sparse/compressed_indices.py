"""Column numbers of SELL slices in fewer bytes: one base a slice and column, and an offset of 8 or 16 bits a slot.

Neighbouring rows of stencils and finite elements have neighbouring columns, so the 32 columns of a slice lie close
together. A slice whose offsets do not fit 16 bits has 32-bit ones, and costs others nothing. The idea is that of
delta-compressed CSR (Kourtis, Goumas and Koziris, CF 2008), without a decoder: an addition makes the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.jit import compiled
from cpms.sparse.arrangement import SLICE_ROWS, Arrangement

_WORTH = 0.75
"""Share of the bytes of 32-bit columns below which ``auto`` compresses them."""


@dataclass(frozen=True, eq=False)
class CompressedIndices:
    """Offsets, slice by slice; slot j is in column ``bases[j // 32] +`` its offset.

    Parameters
    ----------
    bases : ndarray of uint32, shape (slots // 32,)
    headers : ndarray of uint64, shape (slices,)
        Four times the byte where the slice's offsets begin, plus 0, 1 or 2 for offsets of 8, 16 or 32 bits.
    offsets : ndarray of uint8
    """

    bases: npt.NDArray[np.uint32]
    headers: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.bases.nbytes + self.headers.nbytes + self.offsets.nbytes


def compressed(arrangement: Arrangement) -> CompressedIndices:
    """Return the column numbers of an arrangement in ``sell`` with 32-bit numbers.

    Raises
    ------
    InputError
        If it is another layout, or has 64-bit numbers.

    Examples
    --------
    >>> from cpms.sparse.arrangement import arranged
    >>> from cpms.sparse.matrix import Matrix
    >>> found = compressed(arranged(Matrix.from_triplets(range(64), range(64), np.ones(64)), "sell"))
    >>> found.bases.tolist(), found.headers.tolist(), len(found.offsets)
    ([0, 32], [0, 128], 64)
    """
    if arrangement.layout != "sell" or arrangement.columns.dtype != np.uint32:
        raise InputError("compressed indices are for layout 'sell' with rows, columns and slots below 2**32")
    starts, columns = arrangement.starts, arrangement.columns
    bases = np.empty(arrangement.slots // SLICE_ROWS, np.uint32)
    kinds = np.empty(len(starts) - 1, np.uint8)
    cuts = threads.ranges(len(kinds), at_least=256, parts=64)
    threads.each(lambda part: _find_bases(starts, columns, bases, kinds, *part), cuts)
    sizes = np.left_shift(np.diff(starts.astype(np.int64)), kinds)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    offsets = np.empty(int(ends[-1]), np.uint8)
    threads.each(lambda part: _put_offsets(starts, columns, bases, kinds, begins, offsets, *part), cuts)
    return CompressedIndices(bases, (4 * begins + kinds).astype(np.uint64), offsets)


def worth_compressing(arrangement: Arrangement, found: CompressedIndices) -> bool:
    """Return whether compressed indices are so much smaller that ``auto`` takes them."""
    return found.nbytes < _WORTH * arrangement.columns.nbytes


_jit: Any = compiled()


@_jit
def _find_bases(starts, columns, bases, kinds, low, high):  # type: ignore[no-untyped-def]
    """Put the smallest column of each 32 slots into ``bases``, and the bits that offsets of a slice need."""
    for here in range(low, high):
        widest = np.int64(0)
        for first in range(np.int64(starts[here]), np.int64(starts[here + 1]), SLICE_ROWS):
            least = most = np.int64(columns[first])
            for slot in range(first, first + SLICE_ROWS):
                column = np.int64(columns[slot])
                least, most = min(least, column), max(most, column)
            bases[first // SLICE_ROWS] = least
            widest = max(widest, most - least)
        kinds[here] = 0 if widest < 256 else 1 if widest < 65536 else 2


@_jit
def _put_offsets(starts, columns, bases, kinds, begins, offsets, low, high):  # type: ignore[no-untyped-def]
    for here in range(low, high):
        size = 1 << kinds[here]
        at = begins[here]
        for slot in range(np.int64(starts[here]), np.int64(starts[here + 1])):
            offset = np.int64(columns[slot]) - np.int64(bases[slot // SLICE_ROWS])
            for byte in range(size):
                offsets[at + byte] = (offset >> (8 * byte)) & 255
            at += size
