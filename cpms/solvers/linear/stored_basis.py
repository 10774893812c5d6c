"""The stored basis of GMRES, whose vectors are read in as few bits as each iteration needs.

Iteration j orthogonalises A v_j against all earlier basis vectors, and reads each of them twice: for the dot product
h_ij, and for the subtraction of h_ij v_i. Let rho_j be the residual at the start of iteration j, and t the residual
that the cycle is to reach, both relative to the first residual of the cycle. Column j of the Arnoldi relation may have
an error of about t / rho_j (Simoncini and Szyld, SIAM J. Sci. Comput. 25, 2003). Early vectors were stored in many
bits, since the residual was large, but iteration j reads them in -log2(t / rho_j) binary digits:

- The term h_ij v_i is smaller than A v_j, so v_i needs log2(||A v_j|| / |h_ij|) digits fewer there.
- An error of h_ij does not violate the Arnoldi relation, which holds for the coefficients that are subtracted. It costs
  orthogonality. The loss of iteration j grows by rho_j / rho_k until iteration k, so dot products need about as many
  digits as the largest term. Rounding errors of many values partly cancel in a sum, which saves a few digits.

A vector is stored in segments, or as a sum of vectors in block floating point, where each rounds what the ones before
it leave over. In both cases an iteration can read the first parts alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from cpms.base.types import Floats
from cpms.contracts.arnoldi import CANCELLED, ArnoldiCycle
from cpms.contracts.linear_operator import LinearOperator, VectorBlock
from cpms.contracts.linear_solve import in_format, norm
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import DOUBLE_BITS, SegmentFormat

SPARE = 8
"""Digits beyond the bound, for its constants: the condition of the matrix and the number of iterations."""
OF_DOTS = 4
"""Digits fewer that dot products of block floats need, as errors of rounding to nearest partly cancel in a sum."""


class Reading(NamedTuple):
    """One precision in which a stored vector can be read.

    ``digits`` and ``bits`` are those of a value. ``parts`` are arrays, each with the segments that are read of it,
    whose sum is the vector.
    """

    digits: int
    bits: int
    parts: tuple[tuple[Any, int | None], ...]


class Projection(NamedTuple):
    """Results of the orthogonalisation of a vector.

    ``entries`` are the coefficients of the projection, followed by the 2-norm of what is left. ``bits`` are those read
    of one value of each basis vector, in all ``passes``.
    """

    entries: Floats
    passes: int
    bits: int


def layers_of(formats: tuple[VectorFormat | None, ...]) -> BlockFloatFormat | SegmentFormat | None:
    """Return the format whose parts are read alone: the only one, in segments, or the first of several block floats.

    It is None where vectors are read whole.

    Examples
    --------
    >>> from cpms.formats.block_float import BFP16, BFP32
    >>> from cpms.formats.formats import CPMS4, FP32
    >>> layers_of((BFP16, BFP32)) is BFP16, layers_of((CPMS4,)) is CPMS4, layers_of((BFP16,)), layers_of((FP32, None))
    (True, True, None, None)
    """
    first, several = formats[0], len(formats) > 1
    if isinstance(first, BlockFloatFormat) and several:
        return first
    return first if isinstance(first, SegmentFormat) and first.segments > 1 and not several else None


def digits_needed(rho: float, floor: float) -> float:
    """Return the digits that vectors need at a relative residual ``rho``, where the cycle is to reach ``floor``.

    Examples
    --------
    >>> digits_needed(2.0**-4, 2.0**-20), digits_needed(0.0, 2.0**-20)
    (24.0, 1.0)
    """
    return math.log2(rho / floor) + SPARE if rho > 0.0 else 1.0


class StoredBasis:
    """The basis vectors of a cycle, of 2-norm 1, as they are stored; and orthogonalisation against them.

    Parameters
    ----------
    operator : LinearOperator
    formats : tuple of format or None
        From the fewest bits on.
    cycle : ArnoldiCycle

    Attributes
    ----------
    vectors : list of list of Reading
        For each vector, the precisions in which it can be read, from the fewest bits on.
    bits : list of int
        Bits of a value of each vector.
    last : (array, int or None)
        The last vector as a product reads it: an array, and the segments that are read of it.
    """

    def __init__(self, operator: LinearOperator, formats: tuple[VectorFormat | None, ...], cycle: ArnoldiCycle) -> None:
        self._operator, self._cycle, self._layers = operator, cycle, layers_of(formats)
        self._block = operator.block()
        self._of_dots = 0 if isinstance(self._layers, SegmentFormat) else OF_DOTS
        self._squares: list[Any] = []
        self.vectors: list[list[Reading]] = []
        self.bits: list[int] = []
        self.last: tuple[Any, int | None] = None, None

    def keep(self, v: Any, rho: float) -> None:
        """Store a vector, given the relative residual of the cycle; v is overwritten."""
        operator = self._operator
        if isinstance(self._layers, BlockFloatFormat):
            readings, read = _in_sum(operator, v, self._layers, self._digits(rho))
            self.last = read, None
        else:
            readings = self._whole(v, rho) if self._layers is None else self._segmented(v, self._layers, rho)
            self.last = readings[-1].parts[0]
            read = operator.convert(self.last[0], None, self.last[1])
        self._block.add(*readings[-1].parts[0])
        self.vectors.append(readings)
        self.bits.append(readings[-1].bits)
        # On a GPU the dot product is enqueued here, and fetched where it is used.
        self._squares.append(1.0 if readings[-1].bits == DOUBLE_BITS else operator.dots([read], read))

    def _digits(self, rho: float) -> float:
        return digits_needed(rho, self._cycle.floor)

    def _whole(self, v: Any, rho: float) -> list[Reading]:
        chosen = self._cycle.stored_as(rho)
        stored = in_format(self._operator, v, chosen.storage, chosen.segments)
        return [Reading(0, chosen.bits, ((stored, chosen.segments),))]

    def _segmented(self, v: Any, storage: SegmentFormat, rho: float) -> list[Reading]:
        """Store a vector in segments.

        A read of fewer segments than were written truncates values, which keeps one digit less than rounding does.
        """
        digits, cut = self._digits(rho), storage.rounding != "nearest"
        written = 1
        while written < storage.segments and storage.mantissa_kept(written) - cut < digits:
            written += 1
        stored = in_format(self._operator, v, storage, written)
        return [
            Reading(storage.mantissa_kept(count) - (cut or count < written), storage.bits(count), ((stored, count),))
            for count in range(1, written + 1)
        ]

    def orthogonalise(self, w: Any, rho: float) -> Projection:
        """Orthogonalise w, in place, against the basis, ``rho`` being the relative residual before this iteration."""
        count, operator = len(self.vectors), self._operator
        entries, passes, bits = np.zeros(count + 1), 0, 0
        digits, size = self._digits(rho), 1.0 if self._layers is None else norm(operator, w)
        while passes < 2:
            block, owners, read = self._read(np.full(count, digits - self._of_dots))
            found = np.bincount(owners, operator.dots(block, w, block.levels).tolist(), count)
            self._squares = [each if isinstance(each, float) else float(each.tolist()[0]) for each in self._squares]
            parts = found / self._squares
            bits += read
            with np.errstate(divide="ignore", invalid="ignore"):
                block, owners, read = self._read(digits + np.log2(np.abs(parts) / size))
            operator.combine(block, -parts[owners], w, block.levels)
            bits += read
            entries[:count] += parts
            passes += 1
            entries[count] = norm(operator, w)
            if not entries[count] < CANCELLED * math.hypot(entries[count], *parts):
                break
        return Projection(entries, passes, bits)

    def add(self, coefficients: Floats, x: Any) -> None:
        """Add a combination of the first vectors to x; all their bits are read."""
        chosen = [readings[-1] for readings in self.vectors[: len(coefficients)]]
        block, owners = _joined(chosen)
        self._operator.combine(block, coefficients[owners], x, block.levels)

    def _read(self, digits: Floats) -> tuple[VectorBlock, Any, int]:
        """Return arrays that have at least these digits of each vector, or all parts of a vector with fewer digits.

        The second result has each array's vector, by its index; the third is the sum over vectors of bits of a value.
        """
        if self._layers is None:
            return self._block, np.arange(len(digits)), sum(self.bits)
        chosen = [
            next((each for each in readings if each.digits >= needed), readings[-1])
            for readings, needed in zip(self.vectors, digits, strict=True)
        ]
        return *_joined(chosen), sum(reading.bits for reading in chosen)


def _joined(chosen: Iterable[Reading]) -> tuple[VectorBlock, Any]:
    """Return the arrays of all readings in one block, and for each array the index of its reading."""
    block, owners = VectorBlock(), []
    for place, reading in enumerate(chosen):
        for stored, level in reading.parts:
            block.add(stored, level)
            owners.append(place)
    return block, np.array(owners, np.intp)


def _in_sum(operator: LinearOperator, v: Any, storage: BlockFloatFormat, digits: float) -> tuple[list[Reading], Any]:
    """Return the readings of a vector that is stored as a sum of block floats, and that sum in float64.

    Block floats are added until they have the digits; v becomes the rounding error of the sum.
    """
    read = operator.convert(v, None)
    parts: list[tuple[Any, int | None]] = []
    readings: list[Reading] = []
    while not readings or readings[-1].digits < min(digits, DOUBLE_BITS - 1):
        stored = operator.convert(v, storage)
        operator.combine([stored], [-1.0], v)
        parts.append((stored, None))
        bits = storage.width * len(parts)
        readings.append(Reading(bits - 1, bits, tuple(parts)))
    operator.combine([v], [-1.0], read)
    return readings, read
