"""Sweeps of power iteration, compiled for one storage format and read level; sums are float64 throughout.

A sweep over a block of rows gathers, applies damping and teleportation, stores in the format, and sums the change. The
functions that return kernels put integers alone into their closures, so that Numba's cache on disk finds the kernels in
a later process. Indices are unsigned, which saves Numba's test for negative ones. Stored numbers are decoded by LLVM's
instructions, which are written here for the one format: Numba would compile a function for each accessor, and spend
longer on its calls than on the loops around them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]

from cpms.base.compilation.instructions import bits_of, real_of, stack_reals
from cpms.base.jit import compiled, inlined_in_loops, numba
from cpms.certify.roundoff import ROW_BLOCK
from cpms.sparse.sliced import BLOCK_ROWS, SLICE
from cpms.storage.host_loops import random_bits

u64 = np.uint64
types: Any = numba.core.types
_literal_instruction: Any = numba.extending.intrinsic(prefer_literal=True)
_DIGIT_BITS, _DIGIT = 6, 63
inlined: Any = inlined_in_loops()
summed: Any = inlined_in_loops(fastmath={"reassoc"})


@inlined
def _store_segments(stored, index, length, widths, written, block, units, value, dropped, mask):  # type: ignore[no-untyped-def]
    if block == 0:
        lane, size, base = index, length, u64(0)
    else:
        begin = index // u64(block) * u64(block)
        lane = index - begin
        size = min(u64(block), length - begin)
        base = begin * u64(units)
    bits = bits_of(value)
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
    return real_of(bits)


@inlined
def _pack_float(value, exponent_bits, mantissa_bits, mode, noise):  # type: ignore[no-untyped-def]
    # Sweeps write finite values of either sign; infinities and NaN remain.
    all_bits = bits_of(value)
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


def _decoded_float(builder: Any, raw: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Return a packed float, given as an integer of 64 bits, as float64."""
    long, word, double = ir.IntType(64), ir.IntType(32), ir.DoubleType()
    if exponent_bits == 8:
        pattern = builder.trunc(builder.shl(raw, long(23 - mantissa_bits)), word)
        return builder.fpext(builder.bitcast(pattern, ir.FloatType()), double)
    # As `cpms.storage.host_loops.widened_float` does.
    bias = (1 << (exponent_bits - 1)) - 1
    size = builder.and_(raw, long((1 << (exponent_bits + mantissa_bits)) - 1))
    bits = builder.shl(size, long(52 - mantissa_bits))
    is_small = builder.icmp_unsigned("<", size, long(1 << mantissa_bits))
    offset = builder.select(is_small, long((1024 - bias) << 52), long((1023 - bias) << 52))
    least = builder.select(is_small, ir.Constant(double, 2.0 ** (1 - bias)), ir.Constant(double, 0.0))
    finite = builder.fsub(builder.bitcast(builder.add(bits, offset), double), least)
    beyond = builder.bitcast(builder.or_(bits, long(0x7FF0000000000000)), double)
    is_beyond = builder.icmp_unsigned(">=", size, long(((1 << exponent_bits) - 1) << mantissa_bits))
    value = builder.select(is_beyond, beyond, finite)
    sign = builder.lshr(raw, long(exponent_bits + mantissa_bits))
    return builder.select(builder.icmp_unsigned("!=", sign, long(0)), builder.fneg(value), value)


def _decoded_segments(builder: Any, unit_at: Any, index: Any, length: Any, block: int, read: int, widths: Any) -> Any:
    """Return the leading segments of a value as float64; ``unit_at`` reads a unit of the stored ones."""
    long, units = ir.IntType(64), sum(widths)
    lane, size, base = index, length, long(0)
    if block:
        begin = builder.mul(builder.udiv(index, long(block)), long(block))
        lane, rest = builder.sub(index, begin), builder.sub(length, begin)
        size = builder.select(builder.icmp_unsigned("<", rest, long(block)), rest, long(block))
        base = builder.mul(begin, long(units))
    value, shift = long(0), 64
    for count in widths[:read]:
        shift -= count * (64 // units)
        first = builder.add(base, builder.mul(lane, long(count)))
        for part in range(count):
            unit = unit_at(builder.add(first, long(part)))
            value = builder.or_(value, builder.shl(unit, long(shift + part * (64 // units))))
        base = builder.add(base, builder.mul(size, long(count)))
    return builder.bitcast(value, ir.DoubleType())


def _decoded(context: Any, builder: Any, kind: Any, stored: Any, index: Any, length: Any, how: tuple[int, int]) -> Any:
    """Return value ``index`` of ``length`` stored ones as float64, by the block and the `_code` of its format."""
    long, block = ir.IntType(64), how[0]
    data = context.make_array(kind)(context, builder, stored).data

    def unit_at(place: Any) -> Any:
        unit = builder.load(builder.gep(data, [place]))
        return unit if unit.type == long else builder.zext(unit, long)

    segmented, *digits = (how[1] >> shift & _DIGIT for shift in range(0, how[1].bit_length(), _DIGIT_BITS))
    if segmented:
        return _decoded_segments(builder, unit_at, index, length, block, digits[0], digits[1:])
    return _decoded_float(builder, unit_at(index), *digits)


@_literal_instruction
def _load(typing_context, stored, index, length, block, code):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return value ``index`` of ``length`` stored ones as float64."""
    how = block.literal_value, code.literal_value

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        stored, index, length, *_ = arguments
        return _decoded(context, builder, signature.args[0], stored, index, length, how)

    return types.float64(stored, types.uint64, types.uint64, block, code), generate


@_literal_instruction
def _term(typing_context, values, entries, k, sources, x, rows, layout, block, code):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return entry ``k`` of the matrix, or 1 in the pattern layout, times the value of x that it gathers."""
    is_pattern, how = layout.literal_value == 2, (block.literal_value, code.literal_value)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        of_values, _, _, of_sources, of_x, *_ = signature.args
        values, entries, k, sources, x, rows, *_ = arguments
        data, long = context.make_array(of_sources)(context, builder, sources).data, ir.IntType(64)
        at = builder.load(builder.gep(data, [k]))
        at = at if at.type == long else builder.zext(at, long)
        gathered = _decoded(context, builder, of_x, x, at, rows, how)
        if is_pattern:
            return gathered
        return builder.fmul(_decoded(context, builder, of_values, values, k, entries, how), gathered)

    count = types.uint64
    return types.float64(values, count, count, sources, x, count, layout, block, code), generate


@summed
def _sums(changes, values, size):  # type: ignore[no-untyped-def]
    # The compiler reorders these sums into vectors of partial sums, in the same order at every call.
    change_sum = square_sum = value_sum = 0.0
    for i in range(size):
        change_sum += changes[i]
        square_sum += changes[i] * changes[i]
        value_sum += values[i]
    return change_sum, square_sum, value_sum


@inlined
def _largest(changes, size):  # type: ignore[no-untyped-def]
    # A choice is one instruction; Numba would compile a function for a maximum.
    a = b = c = d = 0.0
    whole = size // 4 * 4
    for i in range(0, whole, 4):
        a = a if a > changes[i] else changes[i]
        b = b if b > changes[i + 1] else changes[i + 1]
        c = c if c > changes[i + 2] else changes[i + 2]
        d = d if d > changes[i + 3] else changes[i + 3]
    for i in range(whole, size):
        a = a if a > changes[i] else changes[i]
    a, c = (a if a > b else b), (c if c > d else d)
    return a if a > c else c


def _code(spec: tuple[int, ...], widths: tuple[int, ...]) -> int:
    """Return the format of `sweep_kernel`, without its block, as one number, a constant of instructions."""
    digits = (1, spec[1], *widths) if spec[0] else spec[:3]
    return sum(digit << (_DIGIT_BITS * place) for place, digit in enumerate(digits))


@cache
def sweep_kernel(layout: int, spec: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Return the sweep over rows ``low`` to ``high`` for a layout, storage format and read level.

    ``layout`` is 0 for CSR, 1 for ELL, and 2 for the pattern. ``spec`` is (1, read, block, units) for segments, with
    block 0 for planes, and (0, exponent bits, mantissa bits, rounding mode) for packed floats. ``widths`` are the
    widths of segments in units.

    CSR and pattern are arranged as in `cpms.sparse.sliced`, and ``low`` begins a block. The kernel's ``scalars`` are
    the factor of a row's sum, damping times dangling mass, 1 - damping, the factor from real to stored values of
    vectors, and that from stored to real ones. ``runs`` repeats ``widths`` as an array, since a loop of variable length
    cannot index a tuple.
    """
    segmented, first, second, third = spec
    block, code = (second if segmented else 0), _code(spec, widths)
    is_double = int(segmented and len(widths) == 1)

    @compiled(error_model="numpy", _nrt=False)
    def sweep(  # type: ignore[no-untyped-def]
        indptr, order, sources, values, width, divisor, x, out, sink, teleport, scalars, runs, written, dropped, mask,
        seed, low, high,
    ):  # fmt: skip
        rows = u64(width[0])
        entries = u64(len(sources))
        sink_step = u64(len(sink) > 1)
        teleport_step = u64(len(teleport) > 1)
        row_factor, dangling, rest, to_stored, to_real = scalars
        totals, changes, sums = stack_reals(BLOCK_ROWS), stack_reals(BLOCK_ROWS), stack_reals(SLICE)
        l1 = l2 = linf = mass = 0.0
        for begin in range(low, high, BLOCK_ROWS):
            size = BLOCK_ROWS if begin + BLOCK_ROWS < high else high - begin
            base = u64(begin)
            if layout == 1:
                for i in range(size):
                    totals[i] = 0.0
                for column in range(width[1]):
                    k = u64(column) * rows + base
                    for i in range(size):
                        totals[i] += _term(values, entries, k + u64(i), sources, x, rows, layout, block, code)
            else:
                k = u64(indptr[base])
                for lead in range(0, size, SLICE):
                    count = SLICE if lead + SLICE < size else size - lead
                    common = u64(0)
                    if count == SLICE:
                        shortest = base + u64(order[begin + lead])
                        common = u64(indptr[shortest + u64(1)] - indptr[shortest])
                    a = b = c = d = 0.0
                    stop = k + u64(4) * common
                    while k < stop:
                        a += _term(values, entries, k, sources, x, rows, layout, block, code)
                        b += _term(values, entries, k + u64(1), sources, x, rows, layout, block, code)
                        c += _term(values, entries, k + u64(2), sources, x, rows, layout, block, code)
                        d += _term(values, entries, k + u64(3), sources, x, rows, layout, block, code)
                        k += u64(4)
                    sums[0], sums[1], sums[2], sums[3] = a, b, c, d
                    for i in range(count):
                        position = u64(order[begin + lead + i])
                        end = k + (u64(indptr[base + position + u64(1)] - indptr[base + position]) - common)
                        a, b = sums[i], 0.0
                        while end - k > u64(ROW_BLOCK):
                            stop = k + u64(ROW_BLOCK)
                            c = d = 0.0
                            while k < stop:
                                c += _term(values, entries, k, sources, x, rows, layout, block, code)
                                d += _term(values, entries, k + u64(1), sources, x, rows, layout, block, code)
                                k += u64(2)
                            a += c + d
                        while k + u64(2) <= end:
                            a += _term(values, entries, k, sources, x, rows, layout, block, code)
                            b += _term(values, entries, k + u64(1), sources, x, rows, layout, block, code)
                            k += u64(2)
                        if k < end:
                            a += _term(values, entries, k, sources, x, rows, layout, block, code)
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
                for i in range(size):
                    totals[i] /= divisor[base + u64(i)]
            for i in range(size):
                j = base + u64(i)
                back = to_real * divisor[j] if layout == 2 else to_real
                old = _load(x, j, rows, block, code)
                if is_double:
                    out[j] = bits_of(totals[i])
                    new = totals[i]
                elif segmented:
                    new = _store_segments(out, j, rows, runs, written, second, third, totals[i], dropped, mask)
                else:
                    noise = random_bits(seed, j) if third == 2 else u64(0)
                    out[j] = out.dtype.type(_pack_float(totals[i], first, second, third, noise))
                    new = _load(out, j, rows, block, code)
                totals[i] = new * back
                changes[i] = abs(new - old) * back
            change_sum, square_sum, total_sum = _sums(changes, totals, size)
            l1 += change_sum
            l2 += square_sum
            mass += total_sum
            largest = _largest(changes, size)
            linf = linf if linf > largest else largest
        return l1, l2, linf, mass

    return sweep


@cache
def selected_sum_kernel(spec: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Return the sum of the stored values with the given indices; ``spec`` as in `sweep_kernel`.

    Only dangling nodes are selected, and their divisor is 1 in the pattern layout.
    """
    block, code = (spec[2] if spec[0] else 0), _code(spec, widths)

    @compiled(_nrt=False)
    def selected_sum(x, selected, length, low, high):  # type: ignore[no-untyped-def]
        rows, total = u64(length), 0.0
        for begin in range(low, high, BLOCK_ROWS):
            part = 0.0
            for k in range(begin, begin + BLOCK_ROWS if begin + BLOCK_ROWS < high else high):
                part += _load(x, u64(selected[k]), rows, block, code)
            total += part
        return total

    return selected_sum
