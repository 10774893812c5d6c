"""Operations on vectors in main memory, plain or in a storage format, on the processor's threads.

Each operation works on ranges of values, which do not depend on the number of threads, so results do not either. An
operation costs one read of each stored vector, in the segments asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from cpms.backends.cpu import product_loops
from cpms.backends.cpu.krylov import basis_loops
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
from cpms.storage.segment_views import segment_units

_RANGE = 1 << 15
_MOST_RANGES = 64
_PLAIN = (np.float64, np.float32)
"""Types of plain vectors that kernels read; others are converted."""


class _Readable(NamedTuple):
    """A vector as kernels read it.

    ``length`` is the number of its values; ``address``, ``size`` and ``dtype`` are those of the array that holds them.
    Kernels are compiled for ``spec``. Decoded values times ``back`` are the real ones. ``held`` is a converted copy, if
    there is one, which must live as long as its address is used.
    """

    length: int
    address: int
    size: int
    dtype: Any
    spec: Any
    back: float
    held: Any = None


_prepared: dict[tuple[int, int | None], _Readable] = {}
"""Vectors that kernels read without a copy, by identity and level: a basis is read hundreds of times."""


def kernel_spec(storage: ValueFormat, read: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the storage that kernels of `cpms.backends.cpu.product_loops` are compiled for.

    It is ``spec`` and ``segment_units`` of `cpms.backends.cpu.product_loops.csr_kernel`, for a format and the segments
    that are read.

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
        return product_loops.PLAIN
    if isinstance(storage, FloatFormat):
        return (product_loops.PACKED, storage.exponent_bits, storage.mantissa_bits, 0), (1,)
    return (product_loops.SEGMENTS, count, storage.block or 0, DOUBLE_BITS // storage.unit), segment_units(storage)


def native(stored: Any, read: int | None = None) -> Any:
    """Return the array that a kernel reads: float64 or float32, units of segments, codes, or the memory of blocks.

    Kernels cannot decode formats with a codec of their own, which are decoded here.
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

    def to_memory(self, values: Any) -> Floats:
        """Return a copy in float64."""
        return np.array(host_float64(values), np.float64)

    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Floats:
        """Return the dot product of each vector of a block with ``w``, in one pass over ``w`` for each format."""
        w, total = plain(w), np.zeros(len(V))
        groups = _groups(V, levels, len(w))

        def sums(here: tuple[int, int]) -> list[Floats]:
            return [basis_loops.dots_kernel(*group.spec)(*group.read, w, *here) for group in groups]

        found = threads.each(sums, _ranges(len(w)))
        for place, group in enumerate(groups):
            of_ranges = np.array([each[place] for each in found]).reshape(len(found), len(group.places))
            total[group.places] = of_ranges.sum(axis=0) * group.back
        return total

    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Add a linear combination to ``w``, in one pass over it for each format of the vectors."""
        factors = np.asarray(c, np.float64)
        if factors.shape != (len(V),):
            raise InputError(f"a block of {len(V)} vectors needs as many coefficients; got shape {factors.shape}")
        out = plain(w)
        groups = [(group, factors[group.places] * group.back) for group in _groups(V, levels, len(out))]

        def add(here: tuple[int, int]) -> None:
            for group, scaled in groups:
                basis_loops.combine_kernel(*group.spec)(group.read[0], scaled, *group.read[1:], out, *here)

        threads.each(add, _ranges(len(out)))
        if isinstance(w, STORED):
            w.write(out)

    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Do ``y += alpha x``; return norms of the new y as it is stored."""
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
        """Do ``out = x * factors`` in one pass."""

        def part(here: tuple[int, int]) -> None:
            block = slice(*here)
            np.multiply(x[block], factors[block], out=out[block], casting="same_kind")

        threads.each(part, _ranges(len(out)))

    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Do ``x *= factor``."""
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


class _Group(NamedTuple):
    """Vectors of a block that one kernel reads.

    ``places`` are their indices in the block, ``spec`` is what the kernel is compiled for, ``read`` its first
    arguments, and ``back`` the factors that make decoded values real ones. ``held`` keeps converted copies alive.
    """

    places: list[int]
    spec: Any
    read: tuple[Any, ...]
    back: Floats
    held: list[Any]


def _groups(V: Sequence[Any], levels: Sequence[int | None] | None, length: int) -> list[_Group]:
    """Return the vectors of a block in groups, one for each kernel and type."""
    given = [None] * len(V) if levels is None else levels
    if len(given) != len(V):
        raise InputError(f"a block of {len(V)} vectors needs as many levels; got {len(given)}")
    found: dict[Any, list[tuple[int, _Readable]]] = {}
    for place, (v, level) in enumerate(zip(V, given, strict=True)):
        readable = _readable(v, level, length)
        found.setdefault((readable.spec, readable.dtype), []).append((place, readable))
    groups = []
    for (spec, dtype), members in found.items():
        addresses = np.array([each.address for _, each in members], np.uint64)
        read = addresses, members[0][1].size, np.zeros(0, dtype), length
        back, held = np.array([each.back for _, each in members]), [each.held for _, each in members]
        groups.append(_Group([place for place, _ in members], spec, read, back, held))
    return groups


def _readable(v: Any, level: int | None, length: int) -> _Readable:
    """Return a vector as kernels read it; without a copy, the result is kept as long as the vector lives."""
    known = _prepared.get((id(v), level))
    if known is not None and known.length == length:
        return known
    if len(v) != length:
        raise InputError(f"vectors of {len(v)} and {length} values do not go together")
    is_stored, back = isinstance(v, STORED), 1.0
    if not is_stored:
        values, spec = np.ascontiguousarray(v, v.dtype if v.dtype in _PLAIN else np.float64), product_loops.PLAIN
    else:
        values, spec = native(v, level), kernel_spec(v.format, level)
    is_copy = has_own_codec(v.format) if is_stored else values is not v
    if is_stored and not is_copy:
        back = 2.0**-v.exponent
    address = values.__array_interface__["data"][0]
    found = _Readable(length, address, values.size, values.dtype, spec, back, values if is_copy else None)
    if not is_copy:
        _prepared[id(v), level] = found
        # Two threads may both have prepared it, so the second may find nothing to remove.
        finalize(v, _prepared.pop, (id(v), level), None).atexit = False
    return found


def _ranges(length: int) -> list[tuple[int, int]]:
    """Return ranges of whole tiles, which begin at whole blocks of block floats."""
    tiles = -(-length // (basis_loops.TILE * _MOST_RANGES))
    return threads.ranges(length, at_least=max(_RANGE, tiles * basis_loops.TILE))
