"""The parts of a matrix that is split by magnitude (`cpms.formats.magnitude`): one matrix a format.

Entries go to the narrowest format whose error for them is below their tolerance, found in one pass over all entries a
format. A part costs its row starts and a pass over the result, so that a part of few entries joins the next wider one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.formats.formats import FloatFormat, Format
from cpms.formats.magnitude import MagnitudeSplit
from cpms.sparse.matrix import Matrix
from cpms.storage.array import shared_exponent

_ROW_BYTES = 20
"""Bytes that each further part costs a row: the row's start, and its result read and written."""


@dataclass(frozen=True, eq=False)
class SplitMatrix:
    """A matrix as the sum of parts, each with the format of its values.

    ``error`` is the largest error of an entry, of those that are left out as well.
    """

    parts: tuple[tuple[Format, Matrix], ...]
    error: float


@phase("splitting entries by size")
def split_by_magnitude(matrix: Matrix, split: MagnitudeSplit) -> SplitMatrix:
    """Return the parts, narrowest first; at least one.

    Raises
    ------
    InputError
        If no format is wide enough for an entry.

    Examples
    --------
    >>> from cpms.formats.formats import FP16, FP64
    >>> a = Matrix.from_dense([[1.0, 1e-3, 1e-9]])
    >>> found = split_by_magnitude(a, MagnitudeSplit(1e-5, (FP16, FP64)))
    >>> [(form.name, part.values.tolist()) for form, part in found.parts]
    [('fp64', [1.0, 0.001])]
    """
    values = matrix.given_values()
    sizes = np.abs(values)
    allowed = _allowed(matrix, sizes, split)
    remaining = sizes > allowed
    parts: list[tuple[Format, Matrix]] = []
    for place, storage in enumerate(split.formats):
        chosen = remaining & _fitting(sizes, allowed, remaining, storage)
        wider = split.formats[place + 1 :]
        if wider:
            spared = int(chosen.sum()) * (wider[0].bits(None) - storage.bits(None)) // 8
            chosen &= spared > _ROW_BYTES * matrix.rows
        remaining &= ~chosen
        if chosen.any():
            parts.append((storage, _part(matrix, values, chosen)))
    if remaining.any():
        value = float(values[np.flatnonzero(remaining)[0]])
        raise InputError(
            f"no format of {split.name} stores {value} to within {split.tolerance}; let it have fp64 as well"
        )
    if not parts:
        parts.append((split.formats[0], _part(matrix, values, remaining)))
    return SplitMatrix(tuple(parts), float(allowed.max(initial=0.0)))


def _allowed(matrix: Matrix, sizes: Floats, split: MagnitudeSplit) -> Floats:
    """Return tau of each entry."""
    starts, lengths = matrix.indptr[:-1], matrix.lengths
    # A power of two keeps sums of rows finite.
    down = max(0, int(np.frexp(sizes.max(initial=0.0))[1]) + matrix.longest.bit_length() - 1024)
    before = np.zeros(matrix.rows)
    filled = lengths > 0
    if filled.any():
        before[filled] = np.add.reduceat(np.ldexp(sizes, -down), starts[filled])
    if split.by == "matrix":
        mean = np.ldexp(before.max(initial=0.0) / max(matrix.longest, 1), down)
        return np.full(matrix.entries, split.tolerance * mean)
    return np.repeat(split.tolerance * np.ldexp(before / np.maximum(lengths, 1), down), lengths)


def _fitting(
    sizes: Floats, allowed: Floats, remaining: npt.NDArray[np.bool_], storage: Format
) -> npt.NDArray[np.bool_]:
    """Return for which entries the error of a format is at most what is allowed."""
    if not isinstance(storage, FloatFormat):
        return np.ones(len(sizes), np.bool_)
    unit = storage.unit_roundoff(None)
    relative = unit * sizes
    fits = remaining & (relative <= allowed)
    exponent = 0
    if storage.scaled:
        exponent = shared_exponent(sizes[fits], storage) if fits.any() else 0
    else:
        fits &= sizes <= storage.max_finite
    # If the largest of these entries go, the others are scaled by a larger power of two, which errs less.
    fits &= relative + float(np.ldexp(storage.min_normal * unit, -exponent)) <= allowed
    return fits


def _part(matrix: Matrix, values: Floats, chosen: npt.NDArray[np.bool_]) -> Matrix:
    counts = np.concatenate([[0], np.cumsum(chosen)])
    indptr = counts[matrix.indptr].astype(matrix.indptr.dtype)
    return Matrix(matrix.rows, matrix.columns, indptr, matrix.indices[chosen], values[chosen])
