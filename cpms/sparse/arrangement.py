"""Where the entries of a matrix lie in memory: the layouts ``csr``, ``coo``, ``ell`` and ``sell``.

``csr`` and ``coo`` keep the entries row by row. ``sell`` is SELL-C-sigma (Kreutzer et al., SIAM J. Sci. Comput. 36,
2014): slices of C rows, each padded to its longest row and stored column by column, so that neighbouring lanes read
neighbouring entries. Rows are sorted by length within windows of sigma rows where that saves more than the permutation
costs. ``ell`` is the same with one slice of all rows.

Padding has the value 0 and repeats a column of its row, so that a product reads nothing of x that the row does not
touch. In ``sell`` it takes the place of a neighbour that the row lacks and others of the slice have: each column of the
slice then holds numbers close to each other, which compress well. Slices are padded to one width where that costs next
to nothing, because loops of a fixed width are faster. A row without entries reads x in its own place (the last one
where there are fewer columns): if that is not finite, the row becomes NaN. So does a padded row of an infinite x.

A layout of one's own is a `Layout`, which says in which slot each entry lies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import host_memory, plugins, threads
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.jit import compiled
from cpms.base.real_arrays import read_only
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described, whole
from cpms.sparse.matrix import Matrix
from cpms.sparse.row_sorting import order_in_blocks

LAYOUTS = ("csr", "coo", "ell", "sell")
OWN = "own"
"""Layout of arrangements that a `Layout` makes."""
SLICE_ROWS = 32
"""Rows in a slice: a warp of a GPU, four vectors of 8 float64 on a processor."""
ELL_ROWS = 256
"""Rows of ``ell`` that a processor sums together; the one slice is padded to a multiple of them."""
WINDOW_ROWS = 4096
"""Rows that are sorted by length together; values of x that they touch stay near each other."""
INDICES = ("auto", "32", "64")
_LEAST_TOO_MANY = 2**32 - 2048
"""Rows, columns or slots from which indices have 64 bits: kernels count up to two blocks past the last in one type."""
_SAME_WIDTH = 1.03
"""Slices get one width where that makes at most this many times the slots of slices of their own widths."""


class Layout(ABC):
    """A layout of one's own, for products on the engines ``reference`` and ``cpu``.

    A product reads the slots in order. On ``cpu`` that is a compiled loop. Threads share it where slots can be divided
    by rows, all earlier ones in lower rows than all later ones, as in layouts by blocks of rows. Other engines refuse
    such a layout.

    Examples
    --------
    Entries by column, as in compressed sparse columns:

    >>> import cpms, numpy as np
    >>> class ByColumn(cpms.Layout):
    ...     def slots(self, matrix):
    ...         return np.argsort(np.argsort(matrix.indices, kind="stable"))
    >>> A = cpms.matrix([[1.0, 2.0], [3.0, 0.0]], layout=ByColumn(), engine="cpu")
    >>> (A @ [1.0, 10.0]).tolist(), A.layout
    ([21.0, 3.0], 'ByColumn')
    """

    @property
    def name(self) -> str:
        """Name in errors and of matrices: that of the class by default."""
        return type(self).__name__

    @abstractmethod
    def slots(self, matrix: Matrix) -> npt.NDArray[Any]:
        """Return the slot of each entry, integers of shape (entries,), each from 0 on and at most once.

        Entries are those of ``matrix``, row by row (`cpms.sparse.matrix.Matrix`: ``indptr``, ``indices`` and, row by
        row, `row_numbers`). A slot below the last one that no entry has is padding: its value is 0.
        """

    def index_bytes(self, matrix: Matrix, slots: int) -> int | None:  # noqa: ARG002
        """Return the bytes of indices that the layout stores for ``slots`` slots; None for two numbers a slot."""
        return None


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Index arrays of a matrix in a layout, all unsigned.

    Parameters
    ----------
    layout : {"csr", "coo", "ell", "sell", "own"}
    matrix : Matrix
    slots : int
        Stored entries, padding included.
    starts : ndarray
        First slot of each row in ``csr`` and ``coo``, of each slice in ``ell`` and ``sell``, of each range of ``rows``
        in ``own``, and the end.
    columns : ndarray, shape (slots,)
    row_numbers : ndarray, shape (slots,), or None
        Row of each slot, in ``coo`` and ``own``.
    order : ndarray, shape (rows,), or None
        The row that comes i-th, in ``sell``, where rows are sorted.
    slice_rows : int
        C, in ``ell`` and ``sell``: entry k of the i-th row is in slot ``starts[i // C] + k * C + i % C``.
    own_slots : ndarray, shape (entries,), or None
        Slot of each entry, in ``own``.
    rows : ndarray, shape (len(starts),), or None
        In ``own``: slots from ``starts[i]`` on belong to row ``rows[i]`` or later ones, those before to earlier ones.
    own_index_bytes : int or None
        What the `Layout` says of its indices.
    """

    layout: str
    matrix: Matrix
    slots: int
    starts: npt.NDArray[Any]
    columns: npt.NDArray[Any]
    row_numbers: npt.NDArray[Any] | None = None
    order: npt.NDArray[Any] | None = None
    slice_rows: int = 0
    own_slots: npt.NDArray[Any] | None = None
    rows: npt.NDArray[Any] | None = None
    own_index_bytes: int | None = None

    @property
    def index_bytes(self) -> int:
        """Bytes of what is stored beside the values; ``coo`` needs no row starts."""
        if self.own_index_bytes is not None:
            return self.own_index_bytes
        starts = None if self.layout in ("coo", OWN) else self.starts
        parts = [self.columns, self.row_numbers, self.order, starts]
        return sum(part.nbytes for part in parts if part is not None)

    def spread(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the matrix's entries by slots, 0 in padding; the array itself where there is none."""
        if self.own_slots is not None:
            found = np.zeros(self.slots, entries.dtype)
            found[self.own_slots] = entries
            return found
        if not self.slice_rows:
            return entries
        return _spread(self.matrix, entries, self.starts, self.order, self.slice_rows, columns=False)


def layout_name(layout: str | Layout) -> str:
    """Return the name of a layout; of a plug-in, the name by which it was loaded.

    Examples
    --------
    >>> layout_name("csr")
    'csr'
    """
    return layout if isinstance(layout, str) else plugins.called(layout) or layout.name


def layout_of(given: str | Layout) -> str | Layout:
    """Return the name of a layout of this module, or a layout that is given by itself or is a plug-in.

    Raises
    ------
    InputError
        If there is no such layout.

    Examples
    --------
    >>> layout_of("sell")
    'sell'
    """
    if isinstance(given, Layout) or (isinstance(given, str) and given in LAYOUTS):
        return given
    found: Layout | None = plugins.load("layouts", given, Layout) if isinstance(given, str) else None
    if found is None:
        raise InputError(unknown("layout", given, [*LAYOUTS, *plugins.offered("layouts")], ", or file.py:attribute"))
    return found


def arranged(matrix: Matrix, layout: str | Layout, indices: str = "auto") -> Arrangement:
    """Return where the entries of a matrix lie in a layout.

    Parameters
    ----------
    matrix : Matrix
    layout : {"csr", "coo", "ell", "sell"}, Layout, or the name of a plug-in
    indices : {"auto", "32", "64"}
        Bits of column numbers and starts; ``auto`` takes 32 where rows, columns and slots allow it.

    Raises
    ------
    InputError
        If the layout or width is none of these, or 32 bits are too few.
    UnsupportedError
        If padding exceeds the memory at hand.

    Examples
    --------
    >>> a = Matrix.from_triplets([0, 0, 1, 2], [0, 2, 1, 2], [1.0, 2.0, 3.0, 4.0])
    >>> ell = arranged(a, "ell")
    >>> ell.slice_rows, ell.slots, ell.columns[:3].tolist(), ell.columns[32:35].tolist()
    (32, 64, [0, 1, 2], [2, 1, 2])
    """
    layout = layout_of(layout)
    if indices not in INDICES:
        raise InputError(f"indices are {indices!r}; they can be {', '.join(INDICES)}")
    if isinstance(layout, Layout):
        return _own_arrangement(matrix, layout, indices)
    name = layout
    return matrix.once(("arranged", name, indices), lambda: _arranged(matrix, name, indices))


def _arranged(matrix: Matrix, layout: str, indices: str) -> Arrangement:
    if layout in ("csr", "coo"):
        dtype = _index_type(matrix, matrix.entries, indices)
        columns = _unsigned(matrix.indices, dtype)
        rows = _unsigned(matrix.row_numbers(), dtype) if layout == "coo" else None
        return Arrangement(layout, matrix, matrix.entries, _unsigned(matrix.indptr, dtype), columns, rows)
    slice_rows = SLICE_ROWS
    if layout == "ell":
        whole = SLICE_ROWS if matrix.rows < ELL_ROWS else ELL_ROWS
        slice_rows = -(-matrix.rows // whole) * whole
    order = _order(matrix) if layout == "sell" else None
    lengths = matrix.lengths if order is None else matrix.lengths[order]
    padded = np.zeros(-(-matrix.rows // slice_rows) * slice_rows, np.int64)
    padded[: matrix.rows] = lengths
    widths = padded.reshape(-1, slice_rows).max(axis=1)
    if layout == "sell" and len(widths) * widths.max() <= _SAME_WIDTH * widths.sum():
        widths[:] = widths.max()
    ends = np.cumsum(widths * slice_rows)
    slots = int(ends[-1])
    dtype = _index_type(matrix, slots, indices)
    _require_memory(matrix, layout, slots, dtype.itemsize)
    starts = np.concatenate([[0], ends]).astype(dtype)
    order = None if order is None else order.astype(dtype)
    columns = _spread(matrix, _unsigned(matrix.indices, dtype), starts, order, slice_rows, columns=True)
    return Arrangement(layout, matrix, slots, starts, columns, None, order, slice_rows)


def _own_arrangement(matrix: Matrix, layout: Layout, indices: str) -> Arrangement:
    """Return the arrangement of a layout of one's own; padding repeats row and column of the entry before it."""
    # The arrays may be the user's, and a layout is code of others.
    values = None if matrix.values is None else read_only(matrix.values)
    shown = replace(matrix, indptr=read_only(matrix.indptr), indices=read_only(matrix.indices), values=values)
    own = _checked_slots(shown, layout)
    slots = int(own.max(initial=-1)) + 1
    dtype = _index_type(matrix, slots, indices)
    _require_memory(matrix, layout.name, slots, 2 * dtype.itemsize)
    entry = np.full(slots, -1, np.int64)
    entry[own] = np.arange(matrix.entries)
    held = np.flatnonzero(entry >= 0)
    entry = entry[held[np.maximum(np.searchsorted(held, np.arange(slots), side="right") - 1, 0)]] if slots else entry
    row_numbers = matrix.row_numbers()[entry].astype(dtype)
    starts, rows = _independent_ranges(row_numbers.astype(np.int64), matrix.rows)
    with plugins.running(layout):
        index_bytes = layout.index_bytes(shown, slots)
        if index_bytes is not None:
            index_bytes = whole("index_bytes", index_bytes)
    columns = matrix.indices[entry].astype(dtype)
    return Arrangement(OWN, matrix, slots, starts, columns, row_numbers, None, 0, own, rows, index_bytes)


def _checked_slots(matrix: Matrix, layout: Layout) -> npt.NDArray[np.int64]:
    """Return the slots that a layout returns; refuse anything but one of its own for each entry."""
    with plugins.running(layout):
        found = layout.slots(matrix)
    who, shape = plugins.described_plugin(layout, f"layout {layout.name}"), (matrix.entries,)
    slots = found if isinstance(found, np.ndarray) else np.zeros(0)
    if slots.shape != shape or slots.dtype.kind not in "iu":
        given = f"{slots.dtype} of shape {slots.shape}" if isinstance(found, np.ndarray) else described(found)
        raise InputError(f"{who} returned {given}; slots must return an array of integers, of shape {shape}")
    wide = slots.astype(np.int64)
    if len(wide) and (wide.min() < 0 or len(np.unique(wide)) < len(wide)):
        raise InputError(f"{who} returned slots below 0, or one for two entries; each must have a slot of its own")
    return wide


def _independent_ranges(row_numbers: npt.NDArray[np.int64], rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the slots that divide a layout by rows, and those rows: all earlier slots belong to lower rows."""
    slots = len(row_numbers)
    highest_before = np.maximum.accumulate(np.append(-1, row_numbers))
    lowest_behind = np.append(np.minimum.accumulate(row_numbers[::-1])[::-1], rows)
    at = np.flatnonzero(highest_before < lowest_behind)[1:-1] if slots else np.zeros(0, np.int64)
    return np.concatenate([[0], at, [slots]]), np.concatenate([[0], lowest_behind[at], [rows]])


def _order(matrix: Matrix) -> npt.NDArray[Any] | None:
    """Return rows by length within windows, longest first; None where that saves less than it costs."""
    lengths = matrix.lengths
    within = order_in_blocks(matrix.longest - lengths, WINDOW_ROWS)
    order = np.arange(matrix.rows) // WINDOW_ROWS * WINDOW_ROWS + within
    # A slot takes an index and a value of some bytes, a place in the permutation takes four.
    return order if _padded(lengths[order]) + matrix.rows < _padded(lengths) else None


def _padded(lengths: npt.NDArray[Any]) -> int:
    starts = np.arange(0, len(lengths), SLICE_ROWS)
    return int(np.maximum.reduceat(lengths, starts).sum()) * SLICE_ROWS


def _index_type(matrix: Matrix, slots: int, indices: str) -> np.dtype[Any]:
    fits = max(matrix.rows, matrix.columns, slots) < _LEAST_TOO_MANY
    if indices == "32" and not fits:
        raise InputError(
            f"the matrix of shape {matrix.shape} has {slots:,} slots, too many for 32 bits; use indices='64'"
        )
    return np.dtype(np.uint32 if fits and indices != "64" else np.uint64)


def _unsigned(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return numbers.view(dtype) if numbers.itemsize == dtype.itemsize else numbers.astype(dtype)


def _require_memory(matrix: Matrix, layout: str, slots: int, index_bytes: int) -> None:
    # While the layout is built its values exist twice: as float64 and in the storage format.
    needed_bytes, free_bytes = slots * (index_bytes + 16), host_memory.free_bytes()
    if needed_bytes > free_bytes:
        raise UnsupportedError(
            f"layout {layout!r} pads {matrix.entries:,} entries to {slots:,} and needs {needed_bytes:,} bytes, but "
            f"{free_bytes:,} are free; use csr"
        )


def _spread(
    matrix: Matrix,
    entries: npt.NDArray[Any],
    starts: npt.NDArray[Any],
    order: npt.NDArray[Any] | None,
    slice_rows: int,
    *,
    columns: bool,
) -> npt.NDArray[Any]:
    """Return entries by slots; padding is 0, or a column of the row where these are columns."""
    out = np.zeros(int(starts[-1]), entries.dtype)
    no_order = np.zeros(0, np.uint64) if order is None else order
    aligned = slice_rows == SLICE_ROWS
    arguments = (matrix.indptr, matrix.indices, entries, starts, no_order, out, slice_rows, aligned)
    last_column = matrix.columns - 1 if columns else -1
    cuts = threads.ranges(len(starts) - 1, at_least=max(1, 4096 // slice_rows), parts=64)
    threads.each(lambda part: _spread_slices(*arguments, last_column, *part), cuts)
    return out


@compiled()
def _spread_slices(indptr, indices, entries, starts, order, out, slice_rows, aligned, last_column, low, high):  # type: ignore[no-untyped-def]
    """Fill slices.

    The rows of a slice are aligned with its longest one: each entry, in order, is put beside the entry of that row
    whose distance from the diagonal is the same or the nearest.
    """
    rows = len(indptr) - 1
    for here in range(low, high):
        first = np.int64(starts[here])
        width = (np.int64(starts[here + 1]) - first) // slice_rows
        model = model_begin = model_width = np.int64(0)
        for place in range(here * slice_rows, min((here + 1) * slice_rows, rows)):
            longest = np.int64(order[place]) if len(order) > 0 else np.int64(place)
            if indptr[longest + 1] - indptr[longest] > model_width:
                model, model_begin = longest, np.int64(indptr[longest])
                model_width = np.int64(indptr[longest + 1]) - model_begin
        for lane in range(slice_rows):
            place = here * slice_rows + lane
            row = begin = stop = np.int64(0)
            if place < rows:
                row = np.int64(order[place]) if len(order) > 0 else np.int64(place)
                begin, stop = np.int64(indptr[row]), np.int64(indptr[row + 1])
            k, slot = begin, first + lane
            if begin == stop:
                if last_column >= 0:
                    for column in range(width):
                        out[slot + column * slice_rows] = min(place, last_column)
                continue
            short = aligned and stop - begin < model_width
            for column in range(width):
                takes = k < stop
                if takes and short and stop - k < model_width - column:
                    apart = np.int64(indices[k]) - row + model
                    this = abs(apart - np.int64(indices[model_begin + column]))
                    takes = this <= abs(apart - np.int64(indices[model_begin + column + 1]))
                if takes:
                    out[slot] = entries[k]
                    k += 1
                elif last_column >= 0:
                    near = min(k, stop - 1)
                    if begin < k < stop and column < model_width:
                        wanted = np.int64(indices[model_begin + column]) - model + row
                        if abs(np.int64(indices[k - 1]) - wanted) < abs(np.int64(indices[k]) - wanted):
                            near = k - 1
                    out[slot] = entries[near]
                slot += slice_rows
