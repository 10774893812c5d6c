"""Compiled loops over several stored vectors at once: dot products with a plain vector, and linear combinations.

A call works on a range of values of all vectors, one tile after the other, so that the tile of the plain vector is in a
core's cache while those of the stored vectors pass. Plain basis vectors are read four at a time. Sums may be reordered
by the compiler, so that additions run in vector instructions. Block floats of 16 bits are decoded in registers, other
formats into a buffer, as in `cpms.backends.cpu.product_loops`. Each vector has memory of its own, so kernels take
addresses.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cpu.product_loops import BLOCKS, NATIVE, decode
from cpms.base.jit import array_at, compiled, inlined_in_loops

u64 = np.uint64
TILE: Any = 4096  # values of a tile: long enough for the hardware's prefetch, and small enough for a core's cache
summed: Any = inlined_in_loops(fastmath={"reassoc", "contract"})
"""Decorator of inlined loops whose additions the compiler may reorder."""


@summed
def dot_product(a, w):  # type: ignore[no-untyped-def]
    """Return the dot product of two arrays, summed in float64."""
    total = 0.0
    for i in range(len(w)):
        total += np.float64(a[i]) * np.float64(w[i])
    return total


@summed
def _dot_four(a, b, c, d, w):  # type: ignore[no-untyped-def]
    of_a = of_b = of_c = of_d = 0.0
    for i in range(len(w)):
        value = np.float64(w[i])
        of_a += np.float64(a[i]) * value
        of_b += np.float64(b[i]) * value
        of_c += np.float64(c[i]) * value
        of_d += np.float64(d[i]) * value
    return of_a, of_b, of_c, of_d


@summed
def add_multiple(a, factor, sums):  # type: ignore[no-untyped-def]
    """Do ``sums += factor * a``."""
    for i in range(len(sums)):
        sums[i] += factor * np.float64(a[i])


@summed
def _add_four(a, b, c, d, factors, sums):  # type: ignore[no-untyped-def]
    of_a, of_b, of_c, of_d = factors[0], factors[1], factors[2], factors[3]
    for i in range(len(sums)):
        sums[i] += (of_a * np.float64(a[i]) + of_b * np.float64(b[i])) + (
            of_c * np.float64(c[i]) + of_d * np.float64(d[i])
        )


@summed
def _number(field):  # type: ignore[no-untyped-def]
    """Return the signed integer of a field of 16 bits, a sign and 15 bits of size."""
    raw = np.int32(np.int16(field))
    sign = np.int32(raw >> 31)
    return np.float64(np.int32(np.int32(np.int32(raw & 0x7FFF) ^ sign) - sign))


@summed
def _unit(exponents, block):  # type: ignore[no-untyped-def]
    """Return the value of the lowest bit in a block of 16-bit fields, a power of two."""
    return u64((1008 + exponents[u64(block)]) << 52).view(np.float64)


@summed
def _dot_block(fields, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(w)):
        total += _number(fields[i]) * np.float64(w[i])
    return total


@summed
def _add_block(fields, unit, sums):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        sums[i] += unit * _number(fields[i])


@summed
def _dot_blocks(exponents, fields, w, first):  # type: ignore[no-untyped-def]
    """Return the dot product of values from ``first`` on, a block at a time."""
    total, at, done = 0.0, first, 0
    while done < len(w):
        run = min(len(w) - done, 32 - at % 32)
        total += _dot_block(fields[at : at + run], w[done : done + run]) * _unit(exponents, at // 32)
        at += run
        done += run
    return total


@summed
def _add_blocks(exponents, fields, factor, sums, first):  # type: ignore[no-untyped-def]
    at, done = first, 0
    while done < len(sums):
        run = min(len(sums) - done, 32 - at % 32)
        _add_block(fields[at : at + run], factor * _unit(exponents, at // 32), sums[done : done + run])
        at += run
        done += run


@cache
def dots_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of dot products of values ``low`` to ``high`` of stored vectors with those of ``w``.

    Each of ``addresses`` is that of an array of ``size`` numbers, of the type of ``like``, which holds ``length``
    values in a format.
    """
    kind, width = spec[0], spec[1]

    @compiled(error_model="numpy")
    def dots(addresses, size, like, length, w, low, high):  # type: ignore[no-untyped-def]
        vectors = len(addresses)
        found, buffer = np.zeros(vectors), np.empty(TILE, np.uint64)
        exponents_end = (length + 63) // 64 * 4
        for first in range(low, high, TILE):
            end, k = min(first + TILE, high), 0
            part = w[first:end]
            if kind == NATIVE:
                # The last vector is read for those that are missing: another loop may add in another order.
                last = vectors - 1
                while k < vectors:
                    a = array_at(addresses[k], size, like)[first:end]
                    b = array_at(addresses[min(k + 1, last)], size, like)[first:end]
                    c = array_at(addresses[min(k + 2, last)], size, like)[first:end]
                    d = array_at(addresses[min(k + 3, last)], size, like)[first:end]
                    sums = _dot_four(a, b, c, d, part)
                    for lane in range(min(4, vectors - k)):
                        found[k + lane] += sums[lane]
                    k += 4
            while k < vectors:
                stored = array_at(addresses[k], size, like)
                if kind == BLOCKS and width == 16:
                    exponents, fields = stored[:exponents_end].view(np.int16), stored[exponents_end:].view(np.uint16)
                    found[k] += _dot_blocks(exponents, fields, part, first)
                else:
                    decode(stored, first, end - first, length, buffer, segment_units, kind, spec)
                    found[k] += dot_product(buffer.view(np.float64), part)
                k += 1
        return found

    return dots


@cache
def combine_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel that adds a linear combination of stored vectors to values ``low`` to ``high`` of ``out``.

    Arguments are those of `dots_kernel`.
    """
    kind, width = spec[0], spec[1]

    @compiled(error_model="numpy")
    def combine(addresses, factors, size, like, length, out, low, high):  # type: ignore[no-untyped-def]
        vectors = len(addresses)
        workspace, buffer = np.empty(TILE), np.empty(TILE, np.uint64)
        exponents_end = (length + 63) // 64 * 4
        for first in range(low, high, TILE):
            end, k = min(first + TILE, high), 0
            part, sums = out[first:end], workspace[: end - first]
            for i in range(len(sums)):
                sums[i] = part[i]
            if kind == NATIVE:
                while k + 4 <= vectors:
                    a = array_at(addresses[k], size, like)[first:end]
                    b = array_at(addresses[k + 1], size, like)[first:end]
                    c = array_at(addresses[k + 2], size, like)[first:end]
                    d = array_at(addresses[k + 3], size, like)[first:end]
                    _add_four(a, b, c, d, factors[k : k + 4], sums)
                    k += 4
            while k < vectors:
                stored = array_at(addresses[k], size, like)
                if kind == NATIVE:
                    add_multiple(stored[first:end], factors[k], sums)
                elif kind == BLOCKS and width == 16:
                    exponents, fields = stored[:exponents_end].view(np.int16), stored[exponents_end:].view(np.uint16)
                    _add_blocks(exponents, fields, factors[k], sums, first)
                else:
                    decode(stored, first, end - first, length, buffer, segment_units, kind, spec)
                    add_multiple(buffer.view(np.float64), factors[k], sums)
                k += 1
            for i in range(len(sums)):
                part[i] = sums[i]

    return combine
