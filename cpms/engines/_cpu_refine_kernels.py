"""Sweeps of method ``refine``, compiled for one format Q; sums are float64 throughout.

What `cpms.engines._cpu_kernels` says of captured integers, of helpers in the same file and of
unsigned indices holds here, too. Kernels take whole pieces of the matrix (``bounds`` of their rows) and
leave each piece's sums in a line of ``sums``: added up in the order of the pieces, they are the same
for any number of threads. Loops without a branch over one block's rows become vector instructions.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numba
import numpy as np

from cpms.quantising import WIDE_EXPONENT_BITS
from cpms.sparse.sliced import BLOCK_ROWS, SLICE

u64 = np.uint64
inlined: Any = numba.njit(forceinline=True)
_compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
_ONE_IN_BITS = 1 << 52
"""Added to a float64 below 2^52 that holds an integer, as 2.0**52: its low bits are that integer."""

LOW_COLUMNS = 4
FULL_COLUMNS = 6


@inlined
def _raised(stored, index, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # The stored bits at the head of a float64: the value times 2^(bias - 1023), subnormal numbers included.
    raw = u64(stored[index])
    if exponent_bits == 0:
        return u64(raw).view(np.float64)
    head = raw << u64(52 - mantissa_bits)
    if exponent_bits < 11:
        size_bits = exponent_bits + mantissa_bits
        head = (head & u64(((1 << size_bits) - 1) << (52 - mantissa_bits))) | ((raw >> u64(size_bits)) << u64(63))
    return u64(head).view(np.float64)


@inlined
def _gather(indptr, order, sources, z, begin, size, totals, first, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # The walk over a block's rows of `cpms.sparse.sliced`.
    starts = indptr[begin : begin + size + 1]
    places = order[begin : begin + size]
    k = u64(starts[0])
    for lead in range(0, size, SLICE):
        count = min(SLICE, size - lead)
        shortest = places[lead]
        common = starts[shortest + 1] - starts[shortest] if count == SLICE else 0
        a = b = c = d = 0.0
        for _ in range(common):
            a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
            b += _raised(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
            c += _raised(z, u64(sources[k + u64(2)]), exponent_bits, mantissa_bits)
            d += _raised(z, u64(sources[k + u64(3)]), exponent_bits, mantissa_bits)
            k += u64(4)
        first[0], first[1], first[2], first[3] = a, b, c, d
        for i in range(count):
            place = places[lead + i]
            end = k + u64(starts[place + 1] - starts[place] - common)
            a, b = first[i], 0.0
            while k + u64(2) <= end:
                a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
                b += _raised(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
                k += u64(2)
            if k < end:
                a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
                k += u64(1)
            totals[place] = a + b


@inlined
def _noise(seed, index):  # type: ignore[no-untyped-def]
    z = seed + (index + u64(1)) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


@inlined
def _quantise(r, degree, z, base, size, share, loss, scale, seed, exponent_bits, mantissa_bits, mode):  # type: ignore[no-untyped-def]
    # z = Q(r / degree * 2^scale), cut to the largest finite number; loss = r - degree z.
    bias = (1 << (exponent_bits - 1)) - 1
    most = (2.0 - 2.0**-mantissa_bits) * 2.0**bias
    least_normal = 2.0 ** (1 - bias)
    to_steps = 2.0 ** min(bias - 1 + mantissa_bits, 1000)
    grown, shrunk = 2.0**scale, 2.0**-scale
    low_bits = u64(_ONE_IN_BITS // (1 << mantissa_bits) - 1)
    dropped = u64(52 - mantissa_bits)
    offset = u64((1023 - bias) << mantissa_bits)
    for i in range(size):
        count = np.float64(degree[i])
        part = r[i] / count if count > 0.0 else 0.0
        share[i] = abs(part)
        fitting = min(abs(part) * grown, most)
        bits = np.float64(fitting).view(np.uint64)
        noise = _noise(seed, u64(base + i)) if mode == 2 else u64(0)
        if mode == 1:
            bits += (low_bits >> u64(1)) + ((bits >> dropped) & u64(1))
        elif mode == 2:
            bits += noise & low_bits
        packed = (bits >> dropped) - offset
        back = u64(bits & ~low_bits).view(np.float64)
        if exponent_bits < 11:
            steps = min(fitting, least_normal) * to_steps
            if mode == 1:
                steps = np.rint(steps)
            elif mode == 2:
                steps = np.floor(steps + np.float64(noise >> u64(11)) * 2.0**-53)
            else:
                steps = np.floor(steps)
            small = np.float64(steps + 4503599627370496.0).view(np.uint64) & u64(_ONE_IN_BITS - 1)
            normal = fitting >= least_normal
            packed = packed if normal else small
            back = back if normal else steps / to_steps
        sign = np.float64(part).view(np.uint64) >> u64(63)
        z[i] = z.dtype.type(packed | (sign << u64(exponent_bits + mantissa_bits)))
        loss[i] = r[i] - count * math.copysign(back * shrunk, part)


@numba.njit(forceinline=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator, unused-ignore]
def _sums(r, loss):  # type: ignore[no-untyped-def]
    # Sums whose order the compiler chooses once: vectors of partial sums, the same at every call.
    size = total = lost = 0.0
    for i in range(len(r)):
        size += abs(r[i])
        total += r[i]
        lost += loss[i]
    return size, total, lost


@numba.njit(forceinline=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator, unused-ignore]
def _full_sums(r, y):  # type: ignore[no-untyped-def]
    l1 = squares = total = mass = 0.0
    for i in range(len(r)):
        l1 += abs(r[i])
        squares += r[i] * r[i]
        total += r[i]
        mass += y[i]
    return l1, squares, total, mass


@numba.njit(forceinline=True, fastmath={"reassoc", "nnan", "nsz"})  # type: ignore[untyped-decorator, unused-ignore]
def _largest(values):  # type: ignore[no-untyped-def]
    most = 0.0
    for i in range(len(values)):
        most = max(most, abs(values[i]))
    return most


@_compiled
def correct(x, c, degree, share, bounds, first, last, sums):  # type: ignore[no-untyped-def]
    """Add ``c`` to ``x`` and write x / degree; sums: of x, of x on dangling nodes."""
    for piece in range(first, last):
        total = dangling = 0.0
        for begin in range(bounds[piece], bounds[piece + 1], BLOCK_ROWS):
            part = part_dangling = 0.0
            for j in range(begin, min(begin + BLOCK_ROWS, bounds[piece + 1])):
                value = x[j] + np.float64(c[j])
                count = np.float64(degree[j])
                x[j] = value
                share[j] = value / max(count, 1.0)
                part += value
                part_dangling += value if count == 0.0 else 0.0
            total += part
            dangling += part_dangling
        sums[piece, 0], sums[piece, 1] = total, dangling


@_compiled
def full(  # type: ignore[no-untyped-def]
    indptr, order, sources, degree, share, x, c, r, sink, teleport, scalars, bounds, first, last, sums
):
    """Sweep in float64: x = G(x / mass), r its change, c = 0; sums: norms of r, mass of x, sum of r, largest |r| / o.

    ``scalars`` are damping / mass, damping times dangling mass / mass, 1 - damping, and 1 / mass.
    """
    row_factor, dangling, rest, to_unit = scalars
    sink_step, teleport_step = u64(len(sink) > 1), u64(len(teleport) > 1)
    totals, slice_sums = np.empty(BLOCK_ROWS), np.empty(SLICE)
    raised = share.view(np.uint64)
    for piece in range(first, last):
        l1 = squares = linf = mass = total = largest = 0.0
        for begin in range(bounds[piece], bounds[piece + 1], BLOCK_ROWS):
            size = min(BLOCK_ROWS, bounds[piece + 1] - begin)
            _gather(indptr, order, sources, raised, begin, size, totals, slice_sums, 0, 0)
            base = u64(begin)
            block_x, block_c = x[begin : begin + size], c[begin : begin + size]
            block_r, counts = r[begin : begin + size], degree[begin : begin + size]
            for i in range(size):
                j = base + u64(i)
                y = row_factor * totals[i] + (dangling * sink[j * sink_step] + rest * teleport[j * teleport_step])
                block_r[i] = y - block_x[i] * to_unit
                block_x[i] = y
                block_c[i] = 0.0
            for i in range(size):
                count = np.float64(counts[i])
                totals[i] = block_r[i] / count if count > 0.0 else 0.0
            part_l1, part_squares, part_total, part_mass = _full_sums(block_r, block_x)
            l1 += part_l1
            squares += part_squares
            total += part_total
            mass += part_mass
            linf = max(linf, _largest(block_r))
            largest = max(largest, _largest(totals[:size]))
        line = sums[piece]
        line[0], line[1], line[2], line[3], line[4], line[5] = l1, squares, linf, mass, total, largest


@inlined
def _low_piece(  # type: ignore[no-untyped-def]
    indptr, order, sources, degree, z, out, c, sink, factor, added, scale, seed, low, high, line, scratch,
    exponent_bits, mantissa_bits, mode,
):  # fmt: skip
    totals, share, loss, slice_sums = scratch
    sink_step = u64(len(sink) > 1)
    bias = (1 << (exponent_bits - 1)) - 1
    l1 = total = lost = largest = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        base = u64(begin)
        _gather(indptr, order, sources, z, begin, size, totals, slice_sums, exponent_bits, mantissa_bits)
        block_c = c[begin : begin + size]
        for i in range(size):
            r = factor * (totals[i] * 2.0 ** (1023 - bias)) + added * sink[(base + u64(i)) * sink_step]
            totals[i] = r
            block_c[i] += c.dtype.type(r)
        counts, stored = degree[begin : begin + size], out[begin : begin + size]
        _quantise(totals, counts, stored, begin, size, share, loss, scale, seed, exponent_bits, mantissa_bits, mode)
        part_l1, part_total, part_lost = _sums(totals[:size], loss[:size])
        l1 += part_l1
        total += part_total
        lost += part_lost
        largest = max(largest, _largest(share[:size]))
    line[0], line[1], line[2], line[3] = l1, total, lost, largest


@inlined
def _shared_scale(largest, exponent_bits):  # type: ignore[no-untyped-def]
    # The rule of `cpms.quantising.shared_scale`.
    if exponent_bits == WIDE_EXPONENT_BITS or not 0.0 < largest < np.inf:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    return max(-1000, min(1000, bias - (3 if exponent_bits > 4 else 1) - math.frexp(largest)[1]))


@cache
def quantise_kernel(exponent_bits: int, mantissa_bits: int, mode: int) -> Any:
    """Return the pass that writes z = Q(r / degree) after a full sweep; its sum is the mass lost."""

    @_compiled
    def quantise(r, degree, out, scale, seed, bounds, first, last, sums):  # type: ignore[no-untyped-def]
        share, loss = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS)
        for piece in range(first, last):
            lost = 0.0
            for begin in range(bounds[piece], bounds[piece + 1], BLOCK_ROWS):
                end = min(begin + BLOCK_ROWS, bounds[piece + 1])
                size, values = end - begin, r[begin:end]
                _quantise(
                    values, degree[begin:end], out[begin:end], begin, size, share, loss, scale, seed,
                    exponent_bits, mantissa_bits, mode,
                )  # fmt: skip
                lost += _sums(values, loss[:size])[2]
            sums[piece, 0] = lost

    return quantise


@cache
def low_kernel(exponent_bits: int, mantissa_bits: int, mode: int) -> Any:
    """Return one low sweep over pieces; sums: ||r||_1, sum of r, lost mass, largest |r| / degree."""

    @_compiled
    def low(  # type: ignore[no-untyped-def]
        indptr, order, sources, degree, z, out, c, sink, factor, added, scale, seed, bounds, first, last, sums
    ):
        scratch = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS), np.empty(SLICE)
        for piece in range(first, last):
            _low_piece(
                indptr, order, sources, degree, z, out, c, sink, factor, added, scale, seed,
                bounds[piece], bounds[piece + 1], sums[piece], scratch,
                exponent_bits, mantissa_bits, mode,
            )  # fmt: skip

    return low
