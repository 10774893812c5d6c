"""Operations on vectors in main memory, plain or in a storage format, on the processor's threads.

Partial sums belong to ranges of values whose number does not depend on threads, so that results do not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias
from weakref import finalize

import numpy as np

from cpms.backends.cpu import product_loops
from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator, Norms
from cpms.contracts.own_codecs import has_own_codec
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import CodeFormat, ValueFormat, VectorFormat
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, SegmentFormat, element_type
from cpms.storage.array import SegmentedArray, encode
from cpms.storage.block_float import STORED, encode_blocks
from cpms.storage.device import host_float64

_RANGE = 1 << 15
_MOST_RANGES = 64
_Readable: TypeAlias = tuple[int, Any, Any, Any, float]
"""Length, what kernels read, the kernels of dot products and of additions, and the factor to real values."""
_prepared: dict[tuple[int, int | None], _Readable] = {}
"""Kernel arguments of stored vectors that live, by identity and level: a basis is read hundreds of times."""


def kernel_spec(storage: ValueFormat, read: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what kernels of `cpms.backends.cpu.product_loops` are compiled for, by format and segments read.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4, FP16, FP64
    >>> kernel_spec(CPMS4, 1), kernel_spec(FP16, None), kernel_spec(FP64, None)
    (((2, 1, 64, 4), (1, 1, 1, 1)), ((3, 5, 10, 0), (1,)), ((1, 0, 0, 0), (1,)))
    """
    count = storage.checked_read(read)
    if isinstance(storage, CodeFormat):
        return (product_loops.CODES, 0, 0, 0), (1,)
    if isinstance(storage, BlockFloatFormat):
        return (product_loops.BLOCKS, storage.width, 0, 0), (1,)
    if not isinstance(storage, SegmentFormat | FloatFormat) or element_type(storage) is not None:
        return (product_loops.NATIVE, 0, 0, 0), (1,)
    if isinstance(storage, FloatFormat):
        return (product_loops.PACKED, storage.exponent_bits, storage.mantissa_bits, 0), (1,)
    segment_units = tuple(width // storage.unit for width in storage.widths)
    return (product_loops.SEGMENTS, count, storage.block or 0, DOUBLE_BITS // storage.unit), segment_units


def native(stored: Any, read: int | None = None) -> Any:
    """Return the array that a kernel reads: numbers of float64 or float32, units of segments, or all memory.

    For formats of the protocol these are decoded values.
    """
    if not isinstance(stored, SegmentedArray):
        return stored.memory
    if has_own_codec(stored.format):
        return stored.decode(read)
    dtype = element_type(stored.format)
    return stored.units if dtype is None else stored.memory.view(dtype)


def plain(x: Any, read: int | None = None) -> Any:
    """Return a vector as an array of float64 or float32; a stored one is decoded from its first segments."""
    return x.decode(read) if isinstance(x, STORED) else x


class CpuVectors(LinearOperator):
    """The vector operations of `LinearOperator` in main memory."""

    memory: ClassVar[Literal["main", "device"]] = "main"

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a NumPy array."""
        return np.empty(shape, dtype)

    def to_memory(self, values: Any) -> Floats:
        """Return a copy."""
        return np.array(host_float64(values), np.float64)

    def to_host(self, x: Any) -> Floats:
        """Return the array itself."""
        found: Floats = x
        return found

    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Floats:
        """Return the dot products with each vector of a block, in one pass over ``w``."""
        w = plain(w)
        parts = [_readable(v, level, len(w)) for v, level in _levelled(V, levels)]

        def sums(here: tuple[int, int]) -> list[float]:
            return [dot(stored, length, w, *here) * back for length, stored, dot, _, back in parts]

        found = threads.each(sums, _ranges(len(w)))
        total: Floats = np.array(found, np.float64).reshape(len(found), len(parts)).sum(axis=0)
        return total

    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Add a linear combination to ``w``, in one pass over it."""
        factors = np.asarray(c, np.float64)
        if factors.shape != (len(V),):
            raise InputError(f"a block of {len(V)} vectors needs as many coefficients; got shape {factors.shape}")
        out = plain(w)
        parts = [_readable(v, level, len(out)) for v, level in _levelled(V, levels)]

        def add(here: tuple[int, int]) -> None:
            sums = out[here[0] : here[1]].astype(np.float64)
            for factor, (length, stored, _, add_to, back) in zip(factors, parts, strict=True):
                add_to(stored, length, factor * back, sums, *here)
            out[here[0] : here[1]] = sums

        threads.each(add, _ranges(len(out)))
        if isinstance(w, STORED):
            w.write(out)

    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Add a multiple of a vector; return norms of the sum as it is stored."""
        out, added = plain(y), plain(x)
        if len(out) != len(added):
            raise InputError(f"vectors of {len(out)} and {len(added)} values cannot be added")
        if isinstance(y, STORED):
            y.write(out + alpha * added)
            out, alpha = y.decode(), 0.0
        found = threads.each(lambda here: product_loops.update(out, alpha, added, *here), _ranges(len(out)))
        sizes, squares, largest = np.array(found, np.float64).reshape(-1, 3).T
        return Norms(float(sizes.sum()), float(np.sqrt(squares.sum())), float(largest.max(initial=0.0)))

    def multiply(self, x: Any, factors: Any, out: Any) -> None:
        """Multiply in one pass."""

        def part(here: tuple[int, int]) -> None:
            block = slice(*here)
            np.multiply(x[block], factors[block], out=out[block], casting="same_kind")

        threads.each(part, _ranges(len(out)))

    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Multiply by a factor."""
        if isinstance(x, STORED):
            x.write(x.decode(level) * factor, segments=level)
        else:
            x *= factor

    def convert(self, x: Any, storage: VectorFormat | None, read: int | None = None, write: int | None = None) -> Any:
        """Return the vector in another format."""
        values = plain(x, read)
        if isinstance(storage, BlockFloatFormat):
            return encode_blocks(values, storage)
        return np.array(values, np.float64) if storage is None else encode(values, storage, segments=write)

    def upload(self, values: Any) -> Any:
        """Copy."""
        return np.array(values)


def _levelled(V: Sequence[Any], levels: Sequence[int | None] | None) -> list[tuple[Any, int | None]]:
    given = [None] * len(V) if levels is None else list(levels)
    if len(given) != len(V):
        raise InputError(f"a block of {len(V)} vectors needs as many levels; got {len(given)}")
    return list(zip(V, given, strict=True))


def _readable(v: Any, level: int | None, length: int) -> _Readable:
    """Return what a kernel reads of a vector, and its kernels."""
    held = _prepared.get((id(v), level))
    if held is not None and held[0] == length:
        return held
    if len(v) != length:
        raise InputError(f"vectors of {len(v)} and {length} values do not go together")
    if not isinstance(v, STORED):
        return length, v, *_kernels((product_loops.NATIVE, 0, 0, 0), (1,)), 1.0
    if has_own_codec(v.format):  # Its values are decoded at each call.
        return length, native(v, level), *_kernels(*kernel_spec(v.format, level)), 1.0
    held = length, native(v, level), *_kernels(*kernel_spec(v.format, level)), 2.0**-v.exponent
    _prepared[id(v), level] = held
    finalize(v, _prepared.pop, (id(v), level)).atexit = False
    return held


@cache
def _kernels(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> tuple[Any, Any]:
    return product_loops.dot_kernel(spec, segment_units), product_loops.add_kernel(spec, segment_units)


def _ranges(length: int) -> list[tuple[int, int]]:
    return threads.ranges(length, at_least=_RANGE, parts=_MOST_RANGES)
