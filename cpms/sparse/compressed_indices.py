"""Column numbers of SELL slices in fewer bytes: one base a slice and column, and an offset of 8 or 16 bits a slot.

Neighbouring rows of stencils and finite elements have neighbouring columns, so the 32 columns of a slice lie close
together. All offsets have one width, so that they are found without reading anything before; the few slices that need
more have their columns in full elsewhere, and cost others 4 bytes a slice. The idea is that of delta-compressed CSR
(Kourtis, Goumas and Koziris, CF 2008), without a decoder: an addition makes the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.jit import compiled
from cpms.sparse.arrangement import SLICE_ROWS, Arrangement

_WORTH = 0.75
"""Share of the bytes of 32-bit columns below which ``auto`` compresses them."""
_TWICE = 12
"""Bytes of a slot whose column is stored in full: the column, and the value, which is read again."""


@dataclass(frozen=True, eq=False)
class CompressedIndices:
    """Offsets of all slots; slot j is in column ``bases[j // 32] + offsets[j]``, but for slices that are far apart.

    Parameters
    ----------
    bases : array of uint32, shape (slots // 32,)
    offsets : array of uint8 or uint16, shape (slots,)
        0 in slices that are far apart.
    far : array of uint32, shape (slices,), or None
        0 for a slice with offsets; for one whose columns are stored in full, 1 plus the place of the first among
        ``far_columns``, over 32. None where all have offsets.
    far_columns : array of uint32
    """

    bases: Any
    offsets: Any
    far: Any | None
    far_columns: Any

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        far = 0 if self.far is None else int(self.far.nbytes)
        return int(self.bases.nbytes + self.offsets.nbytes + self.far_columns.nbytes) + far

    @property
    def offset_bits(self) -> int:
        """Bits of an offset."""
        return 8 * int(self.offsets.itemsize)


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
    >>> found.bases.tolist(), found.offset_bits, len(found.offsets), found.far is None
    ([0, 32], 8, 64, True)
    """
    if arrangement.layout != "sell" or arrangement.columns.dtype != np.uint32:
        raise InputError("compressed indices are for layout 'sell' with rows, columns and slots below 2**32")
    return arrangement.matrix.once("compressed", lambda: _compressed(arrangement))


def _compressed(arrangement: Arrangement) -> CompressedIndices:
    starts, columns = arrangement.starts, arrangement.columns
    bases = np.empty(arrangement.slots // SLICE_ROWS, np.uint32)
    widest = np.empty(len(starts) - 1, np.int64)
    cuts = threads.ranges(len(widest), at_least=256, parts=64)
    threads.each(lambda part: _find_bases(starts, columns, bases, widest, *part), cuts)
    sizes = np.diff(starts.astype(np.int64))
    costs = {bits: bits // 8 * arrangement.slots + _TWICE * sizes[widest >= 2**bits].sum() for bits in (8, 16)}
    bits = min(costs, key=lambda each: costs[each])
    apart = widest >= 2**bits
    far = None
    if apart.any():
        ends = np.cumsum(np.where(apart, sizes, 0))
        far = np.where(apart, (ends - sizes) // SLICE_ROWS + 1, 0).astype(np.uint32)
    far_columns = np.empty(int(sizes[apart].sum()), np.uint32)
    offsets = np.empty(arrangement.slots, np.uint8 if bits == 8 else np.uint16)
    of_slices = np.zeros(len(sizes), np.uint32) if far is None else far
    threads.each(lambda part: _put_offsets(starts, columns, bases, of_slices, far_columns, offsets, *part), cuts)
    return CompressedIndices(bases, offsets, far, far_columns)


def worth_compressing(arrangement: Arrangement, found: CompressedIndices) -> bool:
    """Return whether compressed indices are so much smaller that ``auto`` takes them."""
    return found.nbytes < _WORTH * arrangement.columns.nbytes


_jit: Any = compiled()


@_jit
def _find_bases(starts, columns, bases, widest, low, high):  # type: ignore[no-untyped-def]
    """Put the smallest column of each 32 slots into ``bases``, and the largest offset of each slice into ``widest``."""
    for here in range(low, high):
        most_apart = np.int64(0)
        for first in range(np.int64(starts[here]), np.int64(starts[here + 1]), SLICE_ROWS):
            least = most = np.int64(columns[first])
            for slot in range(first, first + SLICE_ROWS):
                column = np.int64(columns[slot])
                least, most = min(least, column), max(most, column)
            bases[first // SLICE_ROWS] = least
            most_apart = max(most_apart, most - least)
        widest[here] = most_apart


@_jit
def _put_offsets(starts, columns, bases, far, far_columns, offsets, low, high):  # type: ignore[no-untyped-def]
    for here in range(low, high):
        first = np.int64(starts[here])
        to = (np.int64(far[here]) - 1) * SLICE_ROWS
        for slot in range(first, np.int64(starts[here + 1])):
            if to >= 0:
                far_columns[to + slot - first] = columns[slot]
                offsets[slot] = 0
            else:
                offsets[slot] = np.int64(columns[slot]) - np.int64(bases[slot // SLICE_ROWS])
