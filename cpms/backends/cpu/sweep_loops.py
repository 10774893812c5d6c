"""Sweeps of power iteration, compiled for one storage format and read level; sums are float64 throughout.

A sweep over a block of rows gathers, applies damping and teleportation, stores in the format, and sums the change.
Factories capture integers only, so that the cache on disk finds compiled kernels. Indices are unsigned, so that Numba
omits its test for negative ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.base.jit import compiled, inlined_in_loops, numba
from cpms.certify.roundoff import ROW_BLOCK
from cpms.sparse.sliced import BLOCK_ROWS, SLICE
from cpms.storage.host_loops import random_bits

u64 = np.uint64
inlined: Any = inlined_in_loops()
summed: Any = inlined_in_loops(fastmath={"reassoc"})


@inlined
def _load_segments(stored, index, length, widths, read, block, units):  # type: ignore[no-untyped-def]
    if block == 0:
        lane, size, base = index, length, u64(0)
    else:
        begin = index // u64(block) * u64(block)
        lane = index - begin
        size = min(u64(block), length - begin)
        base = begin * u64(units)
    value = u64(0)
    shift = 64
    for k in range(read):
        count = widths[k]
        shift -= count * (64 // units)
        for part in range(count):
            unit = u64(stored[base + lane * u64(count) + u64(part)])
            value |= unit << u64(shift + part * (64 // units))
        base += size * u64(count)
    return u64(value).view(np.float64)


@inlined
def _store_segments(stored, index, length, widths, written, block, units, value, dropped, mask):  # type: ignore[no-untyped-def]
    if block == 0:
        lane, size, base = index, length, u64(0)
    else:
        begin = index // u64(block) * u64(block)
        lane = index - begin
        size = min(u64(block), length - begin)
        base = begin * u64(units)
    bits = np.float64(value).view(np.uint64)
    if dropped > 0 and (bits >> u64(52)) & u64(0x7FF) != u64(0x7FF):
        half = (u64(1) << u64(dropped - 1)) - u64(1) + ((bits >> u64(dropped)) & u64(1))
        bits += half
    bits &= mask
    shift = 64
    for k in range(written):
        count = widths[k]
        shift -= count * (64 // units)
        for part in range(count):
            unit = bits >> u64(shift + part * (64 // units))
            stored[base + lane * u64(count) + u64(part)] = stored.dtype.type(unit)
        base += size * u64(count)
    return u64(bits).view(np.float64)


@inlined
def _load_float(stored, index, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    raw = u64(stored[index])
    if exponent_bits == 8:
        return np.float64(np.uint32(raw << u64(23 - mantissa_bits)).view(np.float32))
    size = raw & u64((1 << (exponent_bits + mantissa_bits)) - 1)
    bits = size << u64(52 - mantissa_bits)
    if size >= u64(((1 << exponent_bits) - 1) << mantissa_bits):
        value = u64(bits | u64(0x7FF0000000000000)).view(np.float64)
    else:
        value = u64(bits).view(np.float64) * 2.0 ** (1024 - (1 << (exponent_bits - 1)))
    return -value if raw >> u64(exponent_bits + mantissa_bits) else value


@inlined
def _pack_float(value, exponent_bits, mantissa_bits, mode, noise):  # type: ignore[no-untyped-def]
    # Sweeps write finite values of either sign; infinities and NaN remain.
    all_bits = np.float64(value).view(np.uint64)
    sign = (all_bits >> u64(63)) << u64(exponent_bits + mantissa_bits)
    bits = all_bits & u64(0x7FFFFFFFFFFFFFFF)
    top = u64(((1 << exponent_bits) - 1) << mantissa_bits)
    if bits >= u64(0x7FF0000000000000):
        quiet = u64(1 << (mantissa_bits - 1)) if bits > u64(0x7FF0000000000000) else u64(0)
        return sign | top | quiet
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = np.int64(bits >> u64(52)) - 1023 + bias
    if exponent_bits == 11 or exponent >= 1:
        digits = bits - (u64(1023 - bias) << u64(52))
        shift = u64(52 - mantissa_bits)
    else:
        digits = (bits & u64(0x000FFFFFFFFFFFFF)) | u64(0x0010000000000000)
        shift = u64(min(53 - mantissa_bits - exponent, 62))
        if 53 - mantissa_bits - exponent > 62:
            digits = u64(0)
    if mode == 1:
        digits += (u64(1) << (shift - u64(1))) - u64(1) + ((digits >> shift) & u64(1))
    elif mode == 2:
        digits += noise & ((u64(1) << shift) - u64(1))
    packed = digits >> shift
    if packed >= top:
        packed = top - u64(1) if mode == 0 else top
    return sign | packed


def _load_any(stored, index, length, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]
    """Return a stored value by the code that `_loads` chooses when a sweep is compiled."""
    raise NotImplementedError


_load: Any = _load_any


@numba.extending.overload(_load, jit_options={"forceinline": True})  # type: ignore[untyped-decorator, unused-ignore]
def _loads(stored, index, length, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the accessor of packed floats (no widths), of float64 or of several segments: none compiles all three."""

    def floats(stored, index, length, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return _load_float(stored, index, first, second)

    def doubles(stored, index, length, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return u64(stored[index]).view(np.float64)

    def segments(stored, index, length, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return _load_segments(stored, index, length, widths, first, second, third)

    return (floats, doubles, segments)[min(len(widths), 2)]


@inlined
def _term(values, entries, k, sources, x, rows, layout, widths, segmented, first, second, third):  # type: ignore[no-untyped-def]
    gathered = _load(x, u64(sources[k]), rows, widths, segmented, first, second, third)
    if layout == 2:
        return gathered
    return _load(values, k, entries, widths, segmented, first, second, third) * gathered


@summed
def _sums(changes, values):  # type: ignore[no-untyped-def]
    # The compiler orders these sums once, in vectors of partial sums: the order is the same at every call.
    change_sum = square_sum = value_sum = 0.0
    for i in range(len(changes)):
        change_sum += changes[i]
        square_sum += changes[i] * changes[i]
        value_sum += values[i]
    return change_sum, square_sum, value_sum


@inlined
def _largest(changes):  # type: ignore[no-untyped-def]
    a = b = c = d = 0.0
    whole = len(changes) // 4
    for i in range(whole):
        a = max(a, changes[4 * i])
        b = max(b, changes[4 * i + 1])
        c = max(c, changes[4 * i + 2])
        d = max(d, changes[4 * i + 3])
    for i in range(4 * whole, len(changes)):
        a = max(a, changes[i])
    return max(max(a, b), max(c, d))


@cache
def sweep_kernel(layout: int, spec: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Return the sweep over rows ``low`` to ``high`` for a layout, storage format and read level.

    ``layout`` is 0 for CSR, 1 for ELL, 2 for the pattern. ``spec`` is (1, read, block, units) for
    segments, with block 0 for planes, and (0, exponent bits, mantissa bits, rounding mode) for
    packed floats. ``widths`` are the segments' widths in units.

    CSR and pattern are arranged as in `cpms.sparse.sliced`; ``low`` begins a block. The kernel's
    ``scalars`` are: factor of the row sum, damping times dangling mass, 1 - damping,
    factor from real to stored vector values, and from stored to real ones. ``runs`` repeats
    ``widths`` as an array: a loop whose length is not compiled in cannot index the tuple.
    """
    segmented, first, second, third = spec
    widths = widths if segmented else ()
    is_double = int(len(widths) == 1)

    @compiled(error_model="numpy")
    def sweep(  # type: ignore[no-untyped-def]
        indptr, order, sources, values, width, divisor, x, out, sink, teleport, scalars, runs, written, dropped, mask,
        seed, low, high,
    ):  # fmt: skip
        rows = u64(width[0])
        entries = u64(len(sources))
        sink_step = u64(len(sink) > 1)
        teleport_step = u64(len(teleport) > 1)
        row_factor, dangling, rest, to_stored, to_real = scalars
        totals, changes, sums = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS), np.empty(SLICE)
        l1 = l2 = linf = mass = 0.0
        for begin in range(low, high, BLOCK_ROWS):
            size = min(BLOCK_ROWS, high - begin)
            base = u64(begin)
            if layout == 1:
                totals[:size] = 0.0
                for column in range(width[1]):
                    k = u64(column) * rows + base
                    for i in range(size):
                        totals[i] += _term(values, entries, k + u64(i), sources, x, rows, layout, widths, *spec)
            else:
                starts = indptr[begin : begin + size + 1]
                positions = order[begin : begin + size]
                k = u64(starts[0])
                for lead in range(0, size, SLICE):
                    count = min(SLICE, size - lead)
                    shortest = positions[lead]
                    common = starts[shortest + 1] - starts[shortest] if count == SLICE else 0
                    a = b = c = d = 0.0
                    for _ in range(common):
                        a += _term(values, entries, k, sources, x, rows, layout, widths, *spec)
                        b += _term(values, entries, k + u64(1), sources, x, rows, layout, widths, *spec)
                        c += _term(values, entries, k + u64(2), sources, x, rows, layout, widths, *spec)
                        d += _term(values, entries, k + u64(3), sources, x, rows, layout, widths, *spec)
                        k += u64(4)
                    sums[0], sums[1], sums[2], sums[3] = a, b, c, d
                    for i in range(count):
                        position = positions[lead + i]
                        end = k + u64(starts[position + 1] - starts[position] - common)
                        a, b = sums[i], 0.0
                        while end - k > u64(ROW_BLOCK):
                            stop = k + u64(ROW_BLOCK)
                            c = d = 0.0
                            while k < stop:
                                c += _term(values, entries, k, sources, x, rows, layout, widths, *spec)
                                d += _term(values, entries, k + u64(1), sources, x, rows, layout, widths, *spec)
                                k += u64(2)
                            a += c + d
                        while k + u64(2) <= end:
                            a += _term(values, entries, k, sources, x, rows, layout, widths, *spec)
                            b += _term(values, entries, k + u64(1), sources, x, rows, layout, widths, *spec)
                            k += u64(2)
                        if k < end:
                            a += _term(values, entries, k, sources, x, rows, layout, widths, *spec)
                            k += u64(1)
                        totals[position] = a + b
            if len(sink) > 1 or len(teleport) > 1:
                for i in range(size):
                    j = base + u64(i)
                    added = dangling * sink[j * sink_step] + rest * teleport[j * teleport_step]
                    totals[i] = (row_factor * totals[i] + added) * to_stored
            else:
                added = dangling * sink[0] + rest * teleport[0]
                for i in range(size):
                    totals[i] = (row_factor * totals[i] + added) * to_stored
            if layout == 2:
                divisors = divisor[begin : begin + size]
                for i in range(size):
                    totals[i] /= divisors[i]
            for i in range(size):
                j = base + u64(i)
                back = to_real * divisor[j] if layout == 2 else to_real
                old = _load(x, j, rows, widths, *spec)
                if is_double:
                    out[j] = np.float64(totals[i]).view(np.uint64)
                    new = totals[i]
                elif segmented:
                    new = _store_segments(out, j, rows, runs, written, second, third, totals[i], dropped, mask)
                else:
                    noise = random_bits(seed, j) if third == 2 else u64(0)
                    out[j] = out.dtype.type(_pack_float(totals[i], first, second, third, noise))
                    new = _load_float(out, j, first, second)
                totals[i] = new * back
                changes[i] = abs(new - old) * back
            change_sum, square_sum, total_sum = _sums(changes[:size], totals[:size])
            l1 += change_sum
            l2 += square_sum
            mass += total_sum
            linf = max(linf, _largest(changes[:size]))
        return l1, l2, linf, mass

    return sweep


@cache
def selected_sum_kernel(spec: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Return the sum of the stored values with the given indices; ``spec`` as in `sweep_kernel`.

    Only dangling nodes are selected, and their divisor is 1 in the pattern layout.
    """
    widths = widths if spec[0] else ()

    @compiled()
    def selected_sum(x, selected, length, low, high):  # type: ignore[no-untyped-def]
        total = 0.0
        for begin in range(low, high, BLOCK_ROWS):
            part = 0.0
            for k in range(begin, min(begin + BLOCK_ROWS, high)):
                part += _load(x, u64(selected[k]), u64(length), widths, *spec)
            total += part
        return total

    return selected_sum
