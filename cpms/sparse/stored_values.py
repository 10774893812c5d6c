"""Values of a matrix in a storage format, in the order of a layout's slots.

Each value is rounded once, from float64. A value beyond the format's range is refused, since an infinity would spoil
every product; exponents of rows or of the whole matrix bring values into the range at the cost of 2 bytes a row.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import CodeFormat, ValueFormat
from cpms.formats.formats import FloatFormat, Format
from cpms.sparse.arrangement import Arrangement
from cpms.sparse.matrix import Matrix
from cpms.storage.array import SegmentedArray, array_exponent, encode, shared_exponent
from cpms.storage.block_float import BlockFloatArray, encode_blocks
from cpms.storage.coded import CodedArray, encode_codes

StoredValues: TypeAlias = SegmentedArray | CodedArray | BlockFloatArray


def stored_values(
    arrangement: Arrangement, storage: ValueFormat, exponents: npt.NDArray[np.int16] | None = None
) -> StoredValues:
    """Return the values by slots in a format, in main memory; those of row i times 2**exponents[i], if there are any.

    Raises
    ------
    InputError
        If the format is too small for one of them.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> from cpms.sparse.arrangement import arranged
    >>> from cpms.sparse.matrix import Matrix
    >>> stored_values(arranged(Matrix.from_dense([[0.1, 70000.0]]), "csr"), FP16)
    Traceback (most recent call last):
        ...
    cpms.base.errors.InputError: the matrix holds 70000.0, too large for fp16, which ends at 65504.0; use fp16-scaled
    """
    values = arrangement.matrix.given_values()
    if exponents is not None:
        values = np.ldexp(values, np.repeat(exponents, arrangement.matrix.lengths))
    if isinstance(storage, CodeFormat):
        return encode_codes(arrangement.spread(values))
    if isinstance(storage, BlockFloatFormat):
        return encode_blocks(arrangement.spread(values), storage)
    require_fitting(values, storage)
    return encode(arrangement.spread(values), storage)


_MOST_EXPONENT = 1022
"""Largest e for which 2**e and 2**-e are normal float64 numbers."""


def row_exponents(matrix: Matrix, storage: ValueFormat) -> npt.NDArray[np.int16]:
    """Return the power of two that brings the largest value of each row just below the format's largest binade.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> row_exponents(Matrix.from_triplets([0, 1], [0, 0], [1.0, 2.0**-20]), FP16).tolist()
    [14, 34]
    """
    assert isinstance(storage, FloatFormat)  # noqa: S101  # Requests of others are refused before.
    sizes = np.append(np.abs(matrix.given_values()), 0.0)
    largest = np.maximum.reduceat(sizes, matrix.indptr[:-1]) if matrix.entries else np.zeros(matrix.rows)
    largest = np.where(matrix.lengths > 0, largest, 1.0)
    exponents = storage.bias - np.frexp(np.where(largest > 0.0, largest, 1.0))[1]
    found: npt.NDArray[np.int16] = np.clip(exponents, -_MOST_EXPONENT, _MOST_EXPONENT).astype(np.int16)
    return found


def require_fitting(values: Floats, storage: ValueFormat) -> None:
    """Refuse values that a format would store as infinite, or cut to its largest number."""
    if len(values) == 0 or not isinstance(storage, Format):
        return
    if not isinstance(storage, FloatFormat):
        exponent = array_exponent(values, storage)
        largest = threads.largest_size(values)
        if abs(float(np.ldexp(largest, exponent))) > storage.max_finite:
            raise InputError(
                f"the matrix holds {largest}, too large for {storage.name}, which ends at {storage.max_finite}"
            )
        return
    exponent = shared_exponent(values, storage) if storage.scaled else 0
    # Halves are compared: the largest number of a format with 11 exponent bits plus a step is no float64.
    if float(np.ldexp(threads.largest_size(values), exponent - 1)) >= storage.max_finite / 2 + _last_step(storage) / 2:
        largest = float(values[np.argmax(np.abs(values))])
        raise InputError(
            f"the matrix holds {largest}, too large for {storage.name}, which ends at {storage.max_finite}; "
            f"use {storage.name}-scaled"
        )


def _last_step(storage: FloatFormat) -> float:
    """Return how far beyond the largest number of a format a value is still rounded to it."""
    spacing = 2.0 ** (storage.bias - storage.mantissa_bits)
    return {"nearest": spacing / 2, "zero": spacing, "stochastic": spacing / 2}[storage.rounding]
