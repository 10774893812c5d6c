"""Products entry by entry in Python numbers: the oracle of all other operators.

Values are rounded by the scalar oracle, and each row's sum is exact until it is rounded once, by Python's fractions. It
shares no code with the other backends and has their layouts in name only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from cpms.base.types import Floats
from cpms.contracts.linear_operator import (
    EXACT,
    Bound,
    LinearOperator,
    Norms,
    Terms,
    array_error,
    product_bound,
    value_error,
)
from cpms.contracts.own_codecs import has_own_codec
from cpms.contracts.product_request import ProductRequest
from cpms.formats import oracle
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import ValueFormat, VectorFormat
from cpms.formats.formats import FloatFormat, Format, SegmentFormat
from cpms.sparse.arrangement import Arrangement, arranged
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import require_fitting
from cpms.storage.array import encode, shared_exponent
from cpms.storage.block_float import STORED, encode_blocks


def cut_value(value: float, storage: ValueFormat, read: int | None, exponent: int) -> float:
    """Return a value as it is read from its first segments, by the scalar oracle.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> cut_value(1 / 3, CPMS4, 1, 0)
    0.328125
    """
    if isinstance(storage, FloatFormat):
        split = storage.exponent_bits, storage.mantissa_bits
        packed = oracle.pack_float(math.ldexp(value, exponent), *split, storage.rounding)
        return math.ldexp(oracle.unpack_float(packed, *split), -exponent)
    if not isinstance(storage, SegmentFormat):
        return value
    return oracle.value_of(oracle.cut(oracle.bits_of(value), storage.bits(read)))


@dataclass(frozen=True, eq=False)
class ReferenceProduct(LinearOperator):
    """A matrix as a list of entries.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2
    >>> y = np.empty(2)
    >>> a = Matrix.from_triplets([0, 1, 1], [1, 0, 1], [2.0, -1.0, 3.0])
    >>> ReferenceProduct.of(a, ProductRequest(CPMS2)).apply([1.0, 10.0], y)
    >>> y.tolist()
    [20.0, 29.0]
    """

    request: ProductRequest
    matrix: Matrix
    exponents: list[int]
    """Exponent e of each row, whose values are stored times 2**e."""

    @classmethod
    def of(cls, matrix: Matrix, request: ProductRequest) -> ReferenceProduct:
        """Keep the matrix; the layout changes nothing here."""
        storage, exponents = request.storage, [0] * matrix.rows
        if isinstance(storage, FloatFormat) and request.scaling == "rows":
            for row in range(matrix.rows):
                sizes = np.abs(matrix.given_values()[matrix.indptr[row] : matrix.indptr[row + 1]])
                exponents[row] = storage.bias - math.frexp(float(sizes.max(initial=0.0)) or 1.0)[1]
        elif isinstance(storage, Format) and has_own_codec(storage):
            require_fitting(matrix.given_values(), storage)
        elif isinstance(storage, FloatFormat):
            require_fitting(matrix.given_values(), storage)
            shared = shared_exponent(matrix.given_values(), storage) if storage.scaled else 0
            exponents = [shared] * matrix.rows
        return cls(request, matrix, exponents)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        return self.matrix.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of indices and values as the layout and the format would store them."""
        return self.bytes_read()

    def bytes_read(self, read: int | None = None) -> int:
        """Return the bytes of indices, and of the segments that a product would read of the stored matrix."""
        storage, exponents = self.request.storage, 2 * self.matrix.rows * (self.request.scaling == "rows")
        values = 0 if storage is None else storage.traffic(self._arrangement.slots, read)
        return self._arrangement.index_bytes + exponents + values

    @cached_property
    def _arrangement(self) -> Arrangement:
        indices = self.request.indices
        return arranged(self.matrix, self.request.layout, "32" if indices == "compressed" else indices)

    @staticmethod
    def refusal(request: ProductRequest) -> str | None:
        """Return why products of this kind cannot be prepared here, as a sentence; None if they can."""
        if isinstance(request.storage, FloatFormat) and request.storage.rounding == "stochastic":
            return "engine reference does not round stochastically; use cpu"
        return request.refusal()

    @cached_property
    def transposed(self) -> ReferenceProduct:
        """The transposed matrix."""
        return self.of(self.matrix.transposed(), self.request)

    def values(self, read: int | None) -> list[float]:
        """Return the entries' values as they are read."""
        given: list[float] = self.matrix.given_values().tolist()
        storage = self.request.storage
        if storage is None:
            return given
        if isinstance(storage, BlockFloatFormat) or has_own_codec(storage):
            return _as_stored(self._arrangement, storage, read)
        of_entries = np.repeat(self.exponents, self.matrix.lengths).tolist()
        return [cut_value(value, storage, read, e) for value, e in zip(given, of_entries, strict=True)]

    def bound(self, read_matrix: int | None) -> Bound:
        """Return the bound of a row that is rounded once."""
        storage = self.request.storage
        if isinstance(storage, BlockFloatFormat) or has_own_codec(storage):
            of_matrix = array_error(_stored(self.matrix.given_values(), storage), read_matrix)
        else:
            of_matrix = EXACT if storage is None else value_error(storage, read_matrix, min(self.exponents))
        return product_bound(of_matrix, self.request.compute, 0)

    def product(self, x: Any, out: Any, terms: Terms) -> float | None:
        """Multiply row by row."""
        alpha, beta, read_matrix, read_x, write, extra = terms
        given = _plain(x, read_x)
        single = self.request.compute == "fp32"
        values, columns = self.values(read_matrix), self.matrix.indices.tolist()
        # Sums in float32 are of the scaled values of a row: the values themselves may be beyond its range.
        is_scaled = single and self.request.scaling == "rows"
        exponents = self.exponents if is_scaled else [0] * len(self.exponents)
        block = given.ndim == 2
        vectors = given.T if block else [given]
        targets = out.T if block else [np.empty(self.shape[0])]
        for vector, target in zip(vectors, targets, strict=True):
            before = _plain(out) if not block else target
            factors = [_rounded(float(v), single) for v in vector]
            for row, exponent in enumerate(exponents):
                places = range(int(self.matrix.indptr[row]), int(self.matrix.indptr[row + 1]))
                of_row = [(_rounded(_times_power(values[k], exponent), single), factors[columns[k]]) for k in places]
                value = alpha * _times_power(_rounded(_sum_of_products(of_row), single), -exponent)
                value += beta * float(before[row]) if beta else 0.0
                value += extra.factor * float(extra.add[row]) if extra.add is not None else 0.0
                target[row] = value
        if not block:
            _put(out, targets[0], write)
        return None if extra.dot is None else float(self.dots([out], extra.dot, [write])[0])

    def to_memory(self, values: Any) -> Floats:
        """Return a copy."""
        return np.array(values, np.float64)

    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Floats:
        """Return exact dot products, rounded once."""
        other = [float(value) for value in _plain(w)]
        given = [_plain(v, level) for v, level in zip(V, levels or [None] * len(V), strict=True)]
        return np.array([_sum_of_products(list(zip(map(float, v), other, strict=True))) for v in given])

    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Add the exact linear combination, rounded once."""
        given = [_plain(v, level) for v, level in zip(V, levels or [None] * len(V), strict=True)]
        factors = [float(factor) for factor in c]
        added = np.empty(len(w))
        for i, value in enumerate(_plain(w)):
            terms = [(f, float(v[i])) for f, v in zip(factors, given, strict=True)]
            added[i] = _sum_of_products([(1.0, float(value)), *terms])
        _put(w, added, None)

    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Add, then take the norms."""
        self.combine([x], [alpha], y)
        sizes = np.abs(_plain(y).astype(np.float64))
        with np.errstate(over="ignore"):
            return Norms(_total(sizes), math.sqrt(_total(sizes**2)), float(sizes.max(initial=0.0)))

    def multiply(self, x: Any, factors: Any, out: Any) -> None:
        """Multiply value by value."""
        out[:] = x * factors

    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Multiply value by value."""
        _put(x, _plain(x, level) * factor, level)

    def convert(self, x: Any, storage: VectorFormat | None, read: int | None = None, write: int | None = None) -> Any:
        """Return the vector in another format."""
        values = np.array(_plain(x, read), np.float64)
        if isinstance(storage, BlockFloatFormat):
            return encode_blocks(values, storage)
        return values if storage is None else encode(values, storage, segments=write)


def _stored(values: Floats, storage: Any) -> Any:
    return encode_blocks(values, storage) if isinstance(storage, BlockFloatFormat) else encode(values, storage)


def _as_stored(arrangement: Arrangement, storage: ValueFormat, read: int | None) -> list[float]:
    """Return the entries' values as they are read: those that share an exponent lie side by side in the layout."""
    matrix = arrangement.matrix
    entry_of_slot = arrangement.spread(np.arange(1, matrix.entries + 1))
    stored = _stored(arrangement.spread(matrix.given_values()), storage).decode(read)
    values = np.empty(matrix.entries)
    values[entry_of_slot[entry_of_slot > 0] - 1] = stored[entry_of_slot > 0]
    found: list[float] = values.tolist()
    return found


def _plain(x: Any, read: int | None = None) -> Any:
    return x.decode(read) if isinstance(x, STORED) else np.asarray(x)


def _put(out: Any, values: Any, write: int | None) -> None:
    if isinstance(out, STORED):
        out.write(values, segments=write)
    else:
        out[:] = values


def _rounded(value: float, single: bool) -> float:
    return float(np.float32(value)) if single else value


def _times_power(value: float, exponent: int) -> float:
    """Return the value times 2**exponent; inf where it is beyond float64."""
    return float(np.ldexp(value, exponent)) if exponent else value


def _total(sizes: Floats) -> float:
    """Return the sum of numbers that are not negative; inf where it is beyond float64."""
    try:
        return math.fsum(sizes)
    except OverflowError:
        return math.inf


def _sum_of_products(terms: list[tuple[float, float]]) -> float:
    """Return the sum of products, exact until it is rounded once; in float64 where a factor is not finite."""
    if not all(math.isfinite(a) and math.isfinite(b) for a, b in terms):
        return float(sum(a * b for a, b in terms))
    total = sum((Fraction(a) * Fraction(b) for a, b in terms), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
