"""Sweeps of method ``refine``, compiled for one format Q; sums are float64 throughout.

What `cpms.backends.cpu.sweep_loops` says of captured integers, of helpers in the same file and of
unsigned indices holds here, too. Kernels take whole pieces of the matrix (``bounds`` of their rows) and
leave each piece's sums in a line of ``sums``: added up in the order of the pieces, they are the same
for any number of threads. Loops without a branch over one block's rows become vector instructions.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]

from cpms.base.jit import compiled, numba
from cpms.certify.roundoff import ROW_BLOCK
from cpms.formats.quantization import WIDE_EXPONENT_BITS
from cpms.precision.anderson import DEPTH, LEAST_EXPONENT_BITS, PRODUCTS, SLOTS, coefficients, is_worthwhile
from cpms.precision.inner_stopping import inner_tolerance
from cpms.sparse.jagged import BLOCK_ROWS, FEWEST_ROWS

u64 = np.uint64
inlined: Any = numba.njit(forceinline=True)
_instruction: Any = numba.extending.intrinsic
_declared: Any = numba.core.cgutils.get_or_insert_function
_placed: Any = numba.core.cgutils.alloca_once
types: Any = numba.core.types
_compiled: Any = compiled(error_model="numpy")
_low_until, _coefficients, _pays = _compiled(inner_tolerance), _compiled(coefficients), _compiled(is_worthwhile)
_ONE_IN_BITS = 1 << 52
"""Added to a float64 below 2^52 that holds an integer, as 2.0**52: its low bits are that integer."""
_SIZE_BITS = (1 << 63) - 1
L1, SQUARES, LINF, MASS, TOTAL, LARGEST = range(6)
"""What a full sweep's sums are: norms of r, mass of x, sum of r, largest |r| / degree."""
LOST = MASS
"""Low sweeps tell instead of the mass of x what Q and dangling nodes take from r; their SQUARES are below 0."""
COLUMNS = 6
ENDED = COLUMNS
"""Column of the report after the sums: the seconds after which a sweep ended, NaN where the system has no
clock for it."""
_SPINS = 2000
"""Looks at a counter before a waiting lane lets other threads run: some microseconds."""


@_instruction
def _arrive(typing_context, control):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add 1 to ``control[0]``, an int64, as one step that all threads see."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        counter = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.atomic_rmw("add", counter, ir.Constant(ir.IntType(64), 1), "seq_cst")
        return context.get_dummy_value()

    return types.none(control), generate


@_instruction
def _arrived(typing_context, control):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return ``control[0]``; what other threads wrote before they arrived is seen after it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        counter = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(counter, "seq_cst", 8)

    return types.int64(control), generate


@_instruction
def _give_way(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Let another thread run on this processor, where the system has a call for it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        if os.name == "posix":
            signature_of_call = ir.FunctionType(ir.IntType(32), [])
            builder.call(_declared(builder.module, signature_of_call, "sched_yield"), [])
        return context.get_dummy_value()

    return types.none(), generate


@_instruction
def _seconds(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the seconds of a clock that only goes forward, where the system has a call for it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        real = ir.DoubleType()
        if os.name != "posix":
            return ir.Constant(real, math.nan)
        number, long = ir.IntType(32), ir.IntType(8 * ctypes.sizeof(ctypes.c_long))
        moment = _placed(builder, ir.ArrayType(long, 2))
        called = ir.FunctionType(number, [number, moment.type])
        clock = ir.Constant(number, time.CLOCK_MONOTONIC)
        builder.call(_declared(builder.module, called, "clock_gettime"), [clock, moment])
        whole, billionths = (
            builder.sitofp(builder.extract_value(builder.load(moment), place), real) for place in range(2)
        )
        return builder.fadd(whole, builder.fmul(billionths, ir.Constant(real, 1e-9)))

    return types.float64(), generate


@inlined
def _head_bits(exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # Of a float64, what is left of a format's bits without the copies of its sign; all where there are none.
    size_bits = ((1 << (exponent_bits + mantissa_bits)) - 1) << (52 - mantissa_bits)
    return np.int64(size_bits - (1 << 63)) if exponent_bits < 11 else np.int64(-1)


@inlined
def _raised(stored, index, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # Stored values are signed integers, whose sign bit is the number's. Widths with the exponent of float32
    # or float64 become one by a shift; others, head of a float64, stay 2^(bias - 1023) times too small.
    if exponent_bits == 0:
        return stored[index]
    if exponent_bits == 8:
        return np.float64(np.uint32(np.int32(stored[index]) << (23 - mantissa_bits)).view(np.float32))
    head = np.int64(stored[index]) << np.int64(52 - mantissa_bits)
    return np.int64(head & _head_bits(exponent_bits, mantissa_bits)).view(np.float64)


@_instruction
def _add_eight(typing_context, totals, i, stored, shift, bits, are_floats):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add to ``totals[i : i + 8]`` what eight stored values stand for, as `_raised` has it, by vector instructions."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array, place, values, steps, mask, by_floats = arguments
        index, long, double = ir.IntType(32), ir.IntType(64), ir.DoubleType()

        def eight(element: Any) -> Any:
            return ir.VectorType(element, 8)

        def each(value: Any) -> Any:
            first = builder.insert_element(ir.Constant(eight(value.type), ir.Undefined), value, ir.Constant(index, 0))
            return builder.shuffle_vector(first, first, ir.Constant(eight(index), [0] * 8))

        element = context.get_value_type(signature.args[2].dtype)
        numbers = ir.Constant(eight(element), ir.Undefined)
        for lane in range(8):
            numbers = builder.insert_element(numbers, builder.extract_value(values, lane), ir.Constant(index, lane))
        if element != double:
            heads = builder.and_(builder.shl(builder.sext(numbers, eight(long)), each(steps)), each(mask))
            narrow = builder.sext(numbers, eight(index)) if element.width < index.width else numbers
            patterns = builder.shl(narrow, each(builder.trunc(steps, index)))
            floats = builder.bitcast(patterns, eight(ir.FloatType()))
            by_heads = builder.bitcast(heads, eight(double))
            numbers = builder.select(by_floats, builder.fpext(floats, eight(double)), by_heads)
        data = context.make_array(signature.args[0])(context, builder, array).data
        there = builder.bitcast(builder.gep(data, [place]), eight(double).as_pointer())
        builder.store(builder.fadd(builder.load(there, align=8), numbers), there, align=8)
        return context.get_dummy_value()

    return types.none(totals, i, stored, shift, bits, are_floats), generate


@inlined
def _gather(lengths, starts, sources, z, block, begin, size, totals, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # The walk over a block's entries of `cpms.sparse.jagged`.
    k = starts[block]
    rows = size
    column = u64(0)
    shift = (23 if exponent_bits == 8 else 52) - mantissa_bits
    bits = _head_bits(exponent_bits, mantissa_bits)
    totals[:size] = 0.0
    while True:
        while rows > 0 and u64(lengths[begin + rows - 1]) <= column:
            rows -= 1
        if rows < FEWEST_ROWS:
            break
        whole = rows // 8 * 8
        for i in range(0, whole, 8):
            eight = (
                z[u64(sources[k])], z[u64(sources[k + u64(1)])], z[u64(sources[k + u64(2)])],
                z[u64(sources[k + u64(3)])], z[u64(sources[k + u64(4)])], z[u64(sources[k + u64(5)])],
                z[u64(sources[k + u64(6)])], z[u64(sources[k + u64(7)])],
            )  # fmt: skip
            _add_eight(totals, i, eight, shift, bits, exponent_bits == 8)
            k += u64(8)
        for i in range(whole, rows):
            totals[i] += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
            k += u64(1)
        column += u64(1)
    for i in range(rows):
        end = k + (u64(lengths[begin + i]) - column)
        while end - k > u64(ROW_BLOCK):
            stop = k + u64(ROW_BLOCK)
            a = b = c = d = 0.0
            while k < stop:
                a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
                b += _raised(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
                c += _raised(z, u64(sources[k + u64(2)]), exponent_bits, mantissa_bits)
                d += _raised(z, u64(sources[k + u64(3)]), exponent_bits, mantissa_bits)
                k += u64(4)
            totals[i] += (a + b) + (c + d)
        a = b = c = d = 0.0
        while k + u64(4) <= end:
            a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
            b += _raised(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
            c += _raised(z, u64(sources[k + u64(2)]), exponent_bits, mantissa_bits)
            d += _raised(z, u64(sources[k + u64(3)]), exponent_bits, mantissa_bits)
            k += u64(4)
        while k < end:
            a += _raised(z, u64(sources[k]), exponent_bits, mantissa_bits)
            k += u64(1)
        totals[i] += (a + b) + (c + d)


@inlined
def _noise(seed, index):  # type: ignore[no-untyped-def]
    z = seed + (index + u64(1)) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


@inlined
def _share(r, count, exponent_bits):  # type: ignore[no-untyped-def]
    # r / degree. Nobody gathers a dangling node's, but extrapolation asks for it.
    return r / max(count, 1.0) if count > 0.0 or exponent_bits >= LEAST_EXPONENT_BITS else 0.0


@inlined
def _quantise(r, degree, kept, z, base, size, share, loss, scale, seed, exponent_bits, mantissa_bits, mode):  # type: ignore[no-untyped-def]
    # z = Q(r / degree * 2^scale), cut to the largest finite number; loss = r - kept z, of so many edges that are there.
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
        part = _share(r[i], count, exponent_bits)
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
        loss[i] = r[i] - np.float64(kept[i]) * math.copysign(back * shrunk, part)


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


@inlined
def _largest(values):  # type: ignore[no-untyped-def]
    # Sizes of float64 compare as their bits do, as integers: that NaN is above all shows.
    bits, most = values.view(np.int64), np.int64(0)
    for i in range(len(bits)):
        most = max(most, bits[i] & _SIZE_BITS)
    return np.int64(most).view(np.float64)


@inlined
def _room():  # type: ignore[no-untyped-def]
    # A block's numbers, where a cache line begins: vectors of eight would lie in two lines each.
    room = np.empty(BLOCK_ROWS + 7)
    first = -(room.ctypes.data >> 3) & 7
    return room[first : first + BLOCK_ROWS]


@inlined
def _wait(control, arrivals):  # type: ignore[no-untyped-def]
    # All lanes have come this far when the counter has grown to ``arrivals``.
    spins = 0
    _arrive(control)
    while _arrived(control) < arrivals:
        spins += 1
        if spins > _SPINS:
            _give_way()


@inlined
def _correct_piece(x, c, degree, kept, share, low, high, line):  # type: ignore[no-untyped-def]
    total = dangling = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        part, part_dangling = _corrected(
            x[begin:end], c[begin:end], degree[begin:end], kept[begin:end], share[begin:end]
        )
        total += part
        dangling += part_dangling
    line[0], line[1] = total, dangling


@numba.njit(forceinline=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator, unused-ignore]
def _corrected(x, c, degree, kept, share):  # type: ignore[no-untyped-def]
    total = dangling = 0.0
    for i in range(len(x)):
        value = x[i] + np.float64(c[i])
        value = 0.0 if value < 0.0 else value
        count = max(np.float64(degree[i]), 1.0)
        x[i] = value
        share[i] = value / count
        total += value
        dangling += share[i] * (count - np.float64(kept[i]))
    return total, dangling


@inlined
def _full_piece(  # type: ignore[no-untyped-def]
    lengths, starts, sources, degree, share, x, c, r, sink, teleport, scalars, low, high, line, totals, exponent_bits
):
    row_factor, dangling, rest, to_unit = scalars
    sink_step, teleport_step = u64(len(sink) > 1), u64(len(teleport) > 1)
    l1 = squares = linf = mass = total = largest = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        _gather(lengths, starts, sources, share, begin // BLOCK_ROWS, begin, size, totals, 0, 0)
        block_x, block_c = x[begin : begin + size], c[begin : begin + size]
        block_r, counts = r[begin : begin + size], degree[begin : begin + size]
        if len(sink) > 1 or len(teleport) > 1:
            for i in range(size):
                j = u64(begin + i)
                given = dangling * sink[j * sink_step] + rest * teleport[j * teleport_step]
                totals[i] = row_factor * totals[i] + given
        else:
            given = dangling * sink[0] + rest * teleport[0]
            for i in range(size):
                totals[i] = row_factor * totals[i] + given
        for i in range(size):
            block_r[i] = totals[i] - block_x[i] * to_unit
            block_x[i] = totals[i]
        block_c[:] = 0.0
        for i in range(size):
            count = np.float64(counts[i])
            totals[i] = _share(block_r[i], count, exponent_bits)
        part_l1, part_squares, part_total, part_mass = _full_sums(block_r, block_x)
        l1 += part_l1
        squares += part_squares
        total += part_total
        mass += part_mass
        linf = max(linf, _largest(block_r))
        largest = max(largest, _largest(totals[:size]))
    line[L1], line[SQUARES], line[LINF] = l1, squares, linf
    line[MASS], line[TOTAL], line[LARGEST] = mass, total, largest


@inlined
def _low_piece(  # type: ignore[no-untyped-def]
    lengths, starts, sources, degree, kept, z, out, c, sink, factor, added, scale, seed, low, high, line, scratch,
    exponent_bits, mantissa_bits, mode,
):  # fmt: skip
    totals, share, loss = scratch
    raised = _raising(exponent_bits)
    l1 = total = lost = largest = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        _gather(lengths, starts, sources, z, begin // BLOCK_ROWS, begin, size, totals, exponent_bits, mantissa_bits)
        block_c = c[begin : begin + size]
        if len(sink) > 1:
            to = sink[begin : begin + size]
            for i in range(size):
                totals[i] = factor * (totals[i] * raised) + added * to[i]
                block_c[i] += c.dtype.type(totals[i])
        else:
            given = added * sink[0]
            for i in range(size):
                totals[i] = factor * (totals[i] * raised) + given
                block_c[i] += c.dtype.type(totals[i])
        counts, there, stored = degree[begin : begin + size], kept[begin : begin + size], out[begin : begin + size]
        _quantise(
            totals, counts, there, stored, begin, size, share, loss, scale, seed, exponent_bits, mantissa_bits, mode
        )
        part_l1, part_total, part_lost = _sums(totals[:size], loss[:size])
        l1 += part_l1
        total += part_total
        lost += part_lost
        largest = max(largest, _largest(share[:size]))
    line[L1], line[SQUARES], line[LINF] = l1, -1.0, 0.0
    line[LOST], line[TOTAL], line[LARGEST] = lost, total, largest


@inlined
def _quantise_piece(r, degree, kept, out, scale, seed, low, high, line, scratch, exponent_bits, mantissa_bits, mode):  # type: ignore[no-untyped-def]
    _, share, loss = scratch
    lost = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        size, values = end - begin, r[begin:end]
        _quantise(
            values, degree[begin:end], kept[begin:end], out[begin:end], begin, size, share, loss, scale, seed,
            exponent_bits, mantissa_bits, mode,
        )  # fmt: skip
        lost += _sums(values, loss[:size])[2]
    line[LOST] = lost


@inlined
def _raising(exponent_bits):  # type: ignore[no-untyped-def]
    # What `_raised` leaves out.
    return 1.0 if exponent_bits in (8, 11) else 2.0 ** (1024 - (1 << (exponent_bits - 1)))


@numba.njit(forceinline=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator, unused-ignore]
def _product(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return np.float64(total)


@inlined
def _products_piece(z, factors, low, high, products, room, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # Of the differences of z one after the other, and of these with the last z; see `cpms.precision.anderson`.
    products[:] = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        for slot in range(SLOTS):
            stored, values, factor = z[slot, begin : begin + size], room[slot], factors[slot]
            for i in range(size):
                values[i] = np.float32(_raised(stored, u64(i), exponent_bits, mantissa_bits) * factor)
        for slot in range(DEPTH):
            values, following = room[slot], room[slot + 1]
            for i in range(size):
                values[i] -= following[i]
        at = 0
        for i in range(DEPTH):
            for j in range(i + 1):
                products[at] += _product(room[i][:size], room[j][:size])
                at += 1
        for i in range(SLOTS):
            products[at] += _product(room[i][:size], room[DEPTH][:size])
            at += 1


@inlined
def _combine_piece(  # type: ignore[no-untyped-def]
    z, to_real, g, weights, c, degree, kept, scale, seed, low, high, line, room, scratch, exponent_bits, mantissa_bits,
    mode,
):  # fmt: skip
    # Adds the combination to c, and makes the first z of what is then on its way; see `cpms.precision.anderson`.
    r, share, loss = scratch
    there = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        found, block_c, counts = room[0], c[begin : begin + size], degree[begin : begin + size]
        found[:size] = 0.0
        r[:size] = 0.0
        for slot in range(SLOTS):
            stored, weight = z[slot, begin : begin + size], weights[slot] * to_real[slot]
            added = g[slot - 1] * to_real[slot] if slot else 0.0
            for i in range(size):
                value = _raised(stored, u64(i), exponent_bits, mantissa_bits)
                r[i] += weight * value
                found[i] += np.float32(added * value)
        for i in range(size):
            count = max(np.float64(counts[i]), 1.0)
            block_c[i] += np.float32(count * found[i])
            r[i] *= count
        _quantise(
            r, counts, kept[begin : begin + size], z[0, begin : begin + size], begin, size, share, loss, scale, seed,
            exponent_bits, mantissa_bits, mode,
        )  # fmt: skip
        _, total, lost = _sums(r[:size], loss[:size])
        there += total - lost
    line[LOST] = there


@inlined
def _shared_scale(largest, exponent_bits):  # type: ignore[no-untyped-def]
    # The rule of `cpms.formats.quantization.shared_scale`.
    if exponent_bits == WIDE_EXPONENT_BITS or not 0.0 < largest < np.inf:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    return max(-1000, min(1000, bias - (3 if exponent_bits > 4 else 1) - math.frexp(largest)[1]))


@inlined
def _norm(sums, norm):  # type: ignore[no-untyped-def]
    return sums[0] if norm == 0 else math.sqrt(sums[1]) if norm == 1 else sums[2]


@inlined
def _added_up(lines, total):  # type: ignore[no-untyped-def]
    # The third sum of a full sweep and the last of any are maxima.
    total[:] = 0.0
    for piece in range(len(lines)):
        for column in range(COLUMNS):
            if column in (LINF, LARGEST):
                total[column] = max(total[column], lines[piece, column])
            else:
                total[column] += lines[piece, column]


# Loops, since expressions of arrays take seconds to compile.
@_compiled
def _put(line, total):  # type: ignore[no-untyped-def]
    for column in range(COLUMNS):
        line[column] = total[column]


@_compiled
def _joined(products, total):  # type: ignore[no-untyped-def]
    total[:] = 0.0
    for piece in range(len(products)):
        for k in range(PRODUCTS):
            total[k] += products[piece, k]


@_compiled
def _combined(weights, largests, found_sums):  # type: ignore[no-untyped-def]
    """Return how large at most, and of which sum, what slots hold is with these weights."""
    largest = found_sum = 0.0
    for slot in range(SLOTS):
        largest += abs(weights[slot] * largests[slot])
        found_sum += weights[slot] * found_sums[slot]
    return largest, found_sum


@cache
def rounds_kernel(exponent_bits: int, mantissa_bits: int, mode: int) -> Any:
    """Return what does rounds on end, each a correction, a full sweep and low sweeps.

    All lanes go through the same sweeps, each over its own pieces, wait for each other after each pass, and
    add up the sums of all pieces alike, so that all decide alike. Sums that some lanes may still read
    and others already write lie apart: those of even and odd low sweeps, of corrections, of full sweeps and of
    extrapolations, which go without where ``z`` has two slots and not `SLOTS`.

    The first lane writes a line of ``report`` a sweep. Another outer step follows if fewer than ``enough`` sweeps are
    done, the residual sweep found at most ``noise_tolerance`` times the predicted residual, and the outer step has had
    fewer than ``most_low`` inner sweeps. The ``norm`` is 0, 1 or 2 for l1, l2, linf. Returns the number of sweeps.
    """

    @_compiled
    def rounds(  # type: ignore[no-untyped-def]
        lane, cuts, control, lengths, starts, sources, degree, kept, share, x, c, r, z, sink, teleport, damping,
        low, inner_reduction, noise_tolerance, tol, norm, most, most_low, enough, seed, bounds, sums, products, report,
    ):  # fmt: skip
        first, last, lanes = cuts[lane], cuts[lane + 1], len(cuts) - 1
        scratch = _room(), _room(), _room()
        total = np.empty(COLUMNS)
        room = np.empty((SLOTS, BLOCK_ROWS), np.float32)
        scales, largests, found_sums = np.empty(SLOTS, np.int64), np.empty(SLOTS), np.empty(SLOTS)
        to_real, weights, factors = np.empty(SLOTS), np.empty(SLOTS), np.empty(SLOTS)
        g, matrix, all_products = np.empty(DEPTH), np.empty((DEPTH, DEPTH)), np.empty(PRODUCTS)
        slots, raised = len(z), _raising(exponent_bits)
        count = barriers = 0
        promised, entered_s = 0.0, _seconds()
        while True:
            for piece in range(first, last):
                _correct_piece(x, c, degree, kept, share, bounds[piece], bounds[piece + 1], sums[2, piece])
            barriers += lanes
            _wait(control, barriers)
            _added_up(sums[2], total)
            scalars = damping / total[0], damping * total[1] / total[0], 1.0 - damping, 1.0 / total[0]
            for piece in range(first, last):
                _full_piece(
                    lengths, starts, sources, degree, share, x, c, r, sink, teleport, scalars,
                    bounds[piece], bounds[piece + 1], sums[3, piece], scratch[0], exponent_bits,
                )  # fmt: skip
            barriers += lanes
            _wait(control, barriers)
            _added_up(sums[3], total)
            if lane == 0:
                _put(report[count], total)
                report[count, ENDED] = _seconds() - entered_s
            count += 1
            size, found, largest = total[L1], _norm(total, norm), total[LARGEST]
            began = size
            if not (
                low and tol <= found < np.inf and count < most and (count == 1 or size <= noise_tolerance * promised)
            ):
                break
            now, here = 0, 0
            scales[0] = np.int64(_shared_scale(largest, exponent_bits))
            largests[0], found_sums[0] = largest, total[TOTAL]
            for piece in range(first, last):
                _quantise_piece(
                    r, degree, kept, z[0], scales[0], seed + u64(count), bounds[piece], bounds[piece + 1],
                    sums[1, piece], scratch, exponent_bits, mantissa_bits, mode,
                )  # fmt: skip
            barriers += lanes
            _wait(control, barriers)
            _added_up(sums[1], total)
            lost = total[LOST]
            until = _low_until(inner_reduction, tol, damping, size, found)
            full = count
            while size > until and count < most and count - full < most_low:
                if now == DEPTH:
                    for slot in range(SLOTS):
                        to_real[slot] = raised * 2.0 ** -scales[slot]
                        factors[slot] = to_real[slot] / largests[0]
                    for piece in range(first, last):
                        _products_piece(
                            z, factors, bounds[piece], bounds[piece + 1], products[piece], room, exponent_bits,
                            mantissa_bits,
                        )  # fmt: skip
                    barriers += lanes
                    _wait(control, barriers)
                    _joined(products, all_products)
                    _coefficients(all_products, matrix, g)
                    weights[:] = 0.0
                    weights[DEPTH] = 1.0
                    for j in range(DEPTH):
                        weights[j] -= g[j]
                        weights[j + 1] += g[j]
                    largests[0], found_sums[0] = _combined(weights, largests, found_sums)
                    scales[0] = np.int64(_shared_scale(largests[0], exponent_bits))
                    for piece in range(first, last):
                        _combine_piece(
                            z, to_real, g, weights, c, degree, kept, scales[0], seed + u64(count), bounds[piece],
                            bounds[piece + 1], sums[4, piece], room, scratch, exponent_bits, mantissa_bits, mode,
                        )  # fmt: skip
                    barriers += lanes
                    _wait(control, barriers)
                    _added_up(sums[4], total)
                    lost, now = found_sums[0] - total[LOST], 0
                    slots = SLOTS if _pays(all_products, g) else 2
                out = now + 1 if now + 1 < slots else 0
                following = np.int64(_shared_scale(largests[now], exponent_bits))
                factor, added = damping * 2.0 ** -scales[now], damping * lost
                for piece in range(first, last):
                    _low_piece(
                        lengths, starts, sources, degree, kept, z[now], z[out], c, sink, factor, added, following,
                        seed + u64(count + 1), bounds[piece], bounds[piece + 1], sums[here, piece], scratch,
                        exponent_bits, mantissa_bits, mode,
                    )  # fmt: skip
                barriers += lanes
                _wait(control, barriers)
                _added_up(sums[here], total)
                if lane == 0:
                    _put(report[count], total)
                    report[count, ENDED] = _seconds() - entered_s
                count += 1
                size, lost, now, here = total[L1], total[LOST], out, 1 - here
                scales[now], largests[now], found_sums[now] = following, total[LARGEST], total[TOTAL]
            promised = max(size, inner_reduction * began)  # Combinations overshoot; rounding does not.
            if count >= min(most, enough) or count - full >= most_low:
                break
        return count

    return rounds
