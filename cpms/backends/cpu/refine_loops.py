"""Sweeps of method ``refine``, compiled for one format Q; sums are float64 throughout.

A residual sweep computes r = b - A x in float64. Inner sweeps iterate on the correction with z = Q(r / degree), and
Anderson's method extrapolates them (Walker and Ni, 2011). A call makes several outer steps, so that threads start once.

The rules of `cpms.backends.cpu.sweep_loops` for captured integers and unsigned indices hold here, too. A thread has
whole ranges of rows (``bounds``) and writes the sums of each range to a line of ``sums``. These are added in the order
of the ranges, so results are the same for any number of threads. Loops without a branch over the rows of a block become
vector instructions.
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

from cpms.backends.cpu.lane_barrier import meet
from cpms.base.jit import compiled, inlined_in_loops, numba
from cpms.certify.roundoff import ROW_BLOCK
from cpms.formats.quantization import WIDE_EXPONENT_BITS
from cpms.precision.anderson import DEPTH, HISTORY_VECTORS, LEAST_EXPONENT_BITS, PRODUCTS, coefficients, is_worthwhile
from cpms.precision.inner_stopping import inner_tolerance
from cpms.sparse.jagged import BLOCK_ROWS, FEWEST_ROWS

u64 = np.uint64
inlined: Any = inlined_in_loops()
summed: Any = inlined_in_loops(fastmath={"reassoc"})
_instruction: Any = numba.extending.intrinsic
_declared: Any = numba.core.cgutils.get_or_insert_function
_placed: Any = numba.core.cgutils.alloca_once
types: Any = numba.core.types
_compiled: Any = compiled(error_model="numpy")
_inner_tolerance, _coefficients = _compiled(inner_tolerance), _compiled(coefficients)
_is_worthwhile = _compiled(is_worthwhile)
_ONE_IN_BITS = 1 << 52
"""Added to a float64 below 2^52 that holds an integer, as 2.0**52: its low bits are that integer."""
_SIZE_BITS = (1 << 63) - 1
L1, SQUARES, LINF, MASS, TOTAL, LARGEST = range(6)
"""The sums of a residual sweep: norms of r, mass of x, sum of r, largest |r| / degree."""
LOST = MASS
"""In inner sweeps, in place of the mass of x: the mass of r lost to Q and dangling nodes. Their SQUARES are below 0."""
COLUMNS = 6
ENDED = COLUMNS
"""Column of the report after the sums: the seconds after which a sweep ended, NaN where the system has no
clock for it."""


@_instruction
def _seconds(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the seconds of a monotonic clock, where the system has a call for it."""

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
    # The mask of a format's bits in the head of a float64, without the copies of its sign.
    size_bits = ((1 << (exponent_bits + mantissa_bits)) - 1) << (52 - mantissa_bits)
    return np.int64(size_bits - (1 << 63)) if exponent_bits < 11 else np.int64(-1)


@inlined
def _decoded(stored, index, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # Stored values are signed integers, whose sign bit is the number's. Widths with the exponent of float32
    # or float64 become one by a shift; the others become a float64 that is 2^(bias - 1023) times too small.
    if exponent_bits == 0:
        return stored[index]
    if exponent_bits == 8:
        return np.float64(np.uint32(np.int32(stored[index]) << (23 - mantissa_bits)).view(np.float32))
    head = np.int64(stored[index]) << np.int64(52 - mantissa_bits)
    return np.int64(head & _head_bits(exponent_bits, mantissa_bits)).view(np.float64)


@_instruction
def _add_eight(typing_context, totals, i, stored, shift, bits, are_floats):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add to ``totals[i : i + 8]`` the values of eight stored numbers, as `_decoded` does, by vector instructions."""

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
    # Sums of a block's rows, in the order of entries of `cpms.sparse.jagged`.
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
            totals[i] += _decoded(z, u64(sources[k]), exponent_bits, mantissa_bits)
            k += u64(1)
        column += u64(1)
    for i in range(rows):
        end = k + (u64(lengths[begin + i]) - column)
        while end - k > u64(ROW_BLOCK):
            stop = k + u64(ROW_BLOCK)
            a = b = c = d = 0.0
            while k < stop:
                a += _decoded(z, u64(sources[k]), exponent_bits, mantissa_bits)
                b += _decoded(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
                c += _decoded(z, u64(sources[k + u64(2)]), exponent_bits, mantissa_bits)
                d += _decoded(z, u64(sources[k + u64(3)]), exponent_bits, mantissa_bits)
                k += u64(4)
            totals[i] += (a + b) + (c + d)
        a = b = c = d = 0.0
        while k + u64(4) <= end:
            a += _decoded(z, u64(sources[k]), exponent_bits, mantissa_bits)
            b += _decoded(z, u64(sources[k + u64(1)]), exponent_bits, mantissa_bits)
            c += _decoded(z, u64(sources[k + u64(2)]), exponent_bits, mantissa_bits)
            d += _decoded(z, u64(sources[k + u64(3)]), exponent_bits, mantissa_bits)
            k += u64(4)
        while k < end:
            a += _decoded(z, u64(sources[k]), exponent_bits, mantissa_bits)
            k += u64(1)
        totals[i] += (a + b) + (c + d)


@inlined
def _noise(seed, index):  # type: ignore[no-untyped-def]
    z = seed + (index + u64(1)) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


@inlined
def _contribution(r, count, exponent_bits):  # type: ignore[no-untyped-def]
    # r / degree. No edge gathers that of a dangling node, but extrapolation needs it.
    return r / max(count, 1.0) if count > 0.0 or exponent_bits >= LEAST_EXPONENT_BITS else 0.0


@inlined
def _quantise(  # type: ignore[no-untyped-def]
    r, degree, internal_degree, z, base, size, contribution, loss, scale, seed, exponent_bits, mantissa_bits, mode
):
    # z = Q(r / degree * 2^scale), clamped to the largest finite number; loss = r - internal_degree z.
    bias = (1 << (exponent_bits - 1)) - 1
    largest_finite = (2.0 - 2.0**-mantissa_bits) * 2.0**bias
    least_normal = 2.0 ** (1 - bias)
    to_multiples = 2.0 ** min(bias - 1 + mantissa_bits, 1000)
    scale_up, scale_down = 2.0**scale, 2.0**-scale
    low_bits = u64(_ONE_IN_BITS // (1 << mantissa_bits) - 1)
    dropped = u64(52 - mantissa_bits)
    offset = u64((1023 - bias) << mantissa_bits)
    for i in range(size):
        out_degree = np.float64(degree[i])
        quotient = _contribution(r[i], out_degree, exponent_bits)
        contribution[i] = abs(quotient)
        clamped = min(abs(quotient) * scale_up, largest_finite)
        bits = np.float64(clamped).view(np.uint64)
        noise = _noise(seed, u64(base + i)) if mode == 2 else u64(0)
        if mode == 1:
            bits += (low_bits >> u64(1)) + ((bits >> dropped) & u64(1))
        elif mode == 2:
            bits += noise & low_bits
        packed = (bits >> dropped) - offset
        stored_value = u64(bits & ~low_bits).view(np.float64)
        if exponent_bits < 11:
            multiples = min(clamped, least_normal) * to_multiples
            if mode == 1:
                multiples = np.rint(multiples)
            elif mode == 2:
                multiples = np.floor(multiples + np.float64(noise >> u64(11)) * 2.0**-53)
            else:
                multiples = np.floor(multiples)
            small = np.float64(multiples + 4503599627370496.0).view(np.uint64) & u64(_ONE_IN_BITS - 1)
            normal = clamped >= least_normal
            packed = packed if normal else small
            stored_value = stored_value if normal else multiples / to_multiples
        sign = np.float64(quotient).view(np.uint64) >> u64(63)
        z[i] = z.dtype.type(packed | (sign << u64(exponent_bits + mantissa_bits)))
        loss[i] = r[i] - np.float64(internal_degree[i]) * math.copysign(stored_value * scale_down, quotient)


@summed
def _sums(r, loss):  # type: ignore[no-untyped-def]
    # The compiler orders these sums once, in vectors of partial sums: the order is the same at every call.
    size = total = lost = 0.0
    for i in range(len(r)):
        size += abs(r[i])
        total += r[i]
        lost += loss[i]
    return size, total, lost


@summed
def _residual_sums(r, y):  # type: ignore[no-untyped-def]
    l1 = squares = total = mass = 0.0
    for i in range(len(r)):
        l1 += abs(r[i])
        squares += r[i] * r[i]
        total += r[i]
        mass += y[i]
    return l1, squares, total, mass


@inlined
def _largest(values):  # type: ignore[no-untyped-def]
    # Absolute values of float64 compare like their bits as integers, and NaN is above all.
    bits, most = values.view(np.int64), np.int64(0)
    for i in range(len(bits)):
        most = max(most, bits[i] & _SIZE_BITS)
    return np.int64(most).view(np.float64)


@inlined
def _block_workspace():  # type: ignore[no-untyped-def]
    # Values of a block, aligned to a cache line, so that no vector of eight spans two lines.
    workspace = np.empty(BLOCK_ROWS + 7)
    first = -(workspace.ctypes.data >> 3) & 7
    return workspace[first : first + BLOCK_ROWS]


@inlined
def _correct_range(x, c, degree, internal_degree, contribution, low, high, line):  # type: ignore[no-untyped-def]
    total = dangling = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        part, part_dangling = _corrected(
            x[begin:end], c[begin:end], degree[begin:end], internal_degree[begin:end], contribution[begin:end]
        )
        total += part
        dangling += part_dangling
    line[0], line[1] = total, dangling


@summed
def _corrected(x, c, degree, internal_degree, contribution):  # type: ignore[no-untyped-def]
    total = dangling = 0.0
    for i in range(len(x)):
        value = x[i] + np.float64(c[i])
        value = 0.0 if value < 0.0 else value
        count = max(np.float64(degree[i]), 1.0)
        x[i] = value
        contribution[i] = value / count
        total += value
        dangling += contribution[i] * (count - np.float64(internal_degree[i]))
    return total, dangling


@inlined
def _residual_range(  # type: ignore[no-untyped-def]
    lengths, starts, sources, degree, contribution, x, c, r, sink, teleport, scalars, low, high, line, totals,
    exponent_bits,
):  # fmt: skip
    row_factor, dangling, rest, to_unit = scalars
    sink_step, teleport_step = u64(len(sink) > 1), u64(len(teleport) > 1)
    l1 = squares = linf = mass = total = largest = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        _gather(lengths, starts, sources, contribution, begin // BLOCK_ROWS, begin, size, totals, 0, 0)
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
            totals[i] = _contribution(block_r[i], count, exponent_bits)
        part_l1, part_squares, part_total, part_mass = _residual_sums(block_r, block_x)
        l1 += part_l1
        squares += part_squares
        total += part_total
        mass += part_mass
        linf = max(linf, _largest(block_r))
        largest = max(largest, _largest(totals[:size]))
    line[L1], line[SQUARES], line[LINF] = l1, squares, linf
    line[MASS], line[TOTAL], line[LARGEST] = mass, total, largest


@inlined
def _inner_range(  # type: ignore[no-untyped-def]
    lengths, starts, sources, degree, internal_degree, z, out, c, sink, factor, added, scale, seed, low, high, line,
    scratch, exponent_bits, mantissa_bits, mode,
):  # fmt: skip
    totals, contribution, loss = scratch
    decode_factor = _decode_factor(exponent_bits)
    l1 = total = lost = largest = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        _gather(lengths, starts, sources, z, begin // BLOCK_ROWS, begin, size, totals, exponent_bits, mantissa_bits)
        block_c = c[begin : begin + size]
        if len(sink) > 1:
            to = sink[begin : begin + size]
            for i in range(size):
                totals[i] = factor * (totals[i] * decode_factor) + added * to[i]
                block_c[i] += c.dtype.type(totals[i])
        else:
            given = added * sink[0]
            for i in range(size):
                totals[i] = factor * (totals[i] * decode_factor) + given
                block_c[i] += c.dtype.type(totals[i])
        block_degree, block_internal = degree[begin : begin + size], internal_degree[begin : begin + size]
        _quantise(
            totals, block_degree, block_internal, out[begin : begin + size], begin, size, contribution, loss, scale,
            seed, exponent_bits, mantissa_bits,
            mode,
        )  # fmt: skip
        part_l1, part_total, part_lost = _sums(totals[:size], loss[:size])
        l1 += part_l1
        total += part_total
        lost += part_lost
        largest = max(largest, _largest(contribution[:size]))
    line[L1], line[SQUARES], line[LINF] = l1, -1.0, 0.0
    line[LOST], line[TOTAL], line[LARGEST] = lost, total, largest


@inlined
def _quantise_range(  # type: ignore[no-untyped-def]
    r, degree, internal_degree, out, scale, seed, low, high, line, scratch, exponent_bits, mantissa_bits, mode
):
    _, contribution, loss = scratch
    lost = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, high)
        size, values = end - begin, r[begin:end]
        _quantise(
            values, degree[begin:end], internal_degree[begin:end], out[begin:end], begin, size, contribution, loss,
            scale, seed, exponent_bits, mantissa_bits, mode,
        )  # fmt: skip
        lost += _sums(values, loss[:size])[2]
    line[LOST] = lost


@inlined
def _decode_factor(exponent_bits):  # type: ignore[no-untyped-def]
    # The factor between the values of `_decoded` and those of the format.
    return 1.0 if exponent_bits in (8, 11) else 2.0 ** (1024 - (1 << (exponent_bits - 1)))


@summed
def _product(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return np.float64(total)


@inlined
def _products_range(z, factors, low, high, products, workspace, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    # Dot products of the differences of consecutive z, and of these with the last z; see `cpms.precision.anderson`.
    products[:] = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        for slot in range(HISTORY_VECTORS):
            stored, values, factor = z[slot, begin : begin + size], workspace[slot], factors[slot]
            for i in range(size):
                values[i] = np.float32(_decoded(stored, u64(i), exponent_bits, mantissa_bits) * factor)
        for slot in range(DEPTH):
            values, following = workspace[slot], workspace[slot + 1]
            for i in range(size):
                values[i] -= following[i]
        at = 0
        for i in range(DEPTH):
            for j in range(i + 1):
                products[at] += _product(workspace[i][:size], workspace[j][:size])
                at += 1
        for i in range(HISTORY_VECTORS):
            products[at] += _product(workspace[i][:size], workspace[DEPTH][:size])
            at += 1


@inlined
def _combine_range(  # type: ignore[no-untyped-def]
    z, to_real, g, weights, c, degree, internal_degree, scale, seed, low, high, line, workspace, scratch,
    exponent_bits, mantissa_bits, mode,
):  # fmt: skip
    # Adds the combination to c, and quantises the residual after it; see `cpms.precision.anderson`.
    r, contribution, loss = scratch
    mass = 0.0
    for begin in range(low, high, BLOCK_ROWS):
        size = min(BLOCK_ROWS, high - begin)
        found, block_c, counts = workspace[0], c[begin : begin + size], degree[begin : begin + size]
        found[:size] = 0.0
        r[:size] = 0.0
        for slot in range(HISTORY_VECTORS):
            stored, weight = z[slot, begin : begin + size], weights[slot] * to_real[slot]
            added = g[slot - 1] * to_real[slot] if slot else 0.0
            for i in range(size):
                value = _decoded(stored, u64(i), exponent_bits, mantissa_bits)
                r[i] += weight * value
                found[i] += np.float32(added * value)
        for i in range(size):
            count = max(np.float64(counts[i]), 1.0)
            block_c[i] += np.float32(count * found[i])
            r[i] *= count
        _quantise(
            r, counts, internal_degree[begin : begin + size], z[0, begin : begin + size], begin, size, contribution,
            loss, scale, seed, exponent_bits, mantissa_bits, mode,
        )  # fmt: skip
        _, total, lost = _sums(r[:size], loss[:size])
        mass += total - lost
    line[LOST] = mass


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
def _reduce(lines, total):  # type: ignore[no-untyped-def]
    # The third sum of a residual sweep and the last of any sweep are maxima.
    total[:] = 0.0
    for row_range in range(len(lines)):
        for column in range(COLUMNS):
            if column in (LINF, LARGEST):
                total[column] = max(total[column], lines[row_range, column])
            else:
                total[column] += lines[row_range, column]


# Loops, since expressions of arrays take seconds to compile.
@_compiled
def _write_sums(line, total):  # type: ignore[no-untyped-def]
    for column in range(COLUMNS):
        line[column] = total[column]


@_compiled
def _sum_products(products, total):  # type: ignore[no-untyped-def]
    total[:] = 0.0
    for row_range in range(len(products)):
        for k in range(PRODUCTS):
            total[k] += products[row_range, k]


@_compiled
def _combination_bounds(weights, largests, found_sums):  # type: ignore[no-untyped-def]
    """Return a bound of the largest entry of the weighted sum of all z, and the sum of its entries."""
    largest = found_sum = 0.0
    for slot in range(HISTORY_VECTORS):
        largest += abs(weights[slot] * largests[slot])
        found_sum += weights[slot] * found_sums[slot]
    return largest, found_sum


@cache
def rounds_kernel(exponent_bits: int, mantissa_bits: int, mode: int) -> Any:
    """Return the kernel of consecutive outer steps: a correction, a residual sweep and inner sweeps each.

    Each thread sweeps its own ranges, and a barrier follows each pass. All threads then add the sums of all ranges in
    the same order, so all take the same decisions. Separate lines of ``sums`` avoid a second barrier: those of even and
    of odd inner sweeps, of corrections, of residual sweeps and of extrapolations. Nothing is extrapolated where ``z``
    has two slots and not `HISTORY_VECTORS`.

    The first thread writes a line of ``report`` for each sweep. Another outer step follows if fewer than ``enough``
    sweeps are done, the residual is at most ``noise_tolerance`` times the predicted one, and the outer step had fewer
    than ``max_inner_sweeps`` inner sweeps. The ``norm`` is 0, 1 or 2 for l1, l2, linf. The kernel returns the number of
    sweeps.
    """

    @_compiled
    def outer_steps(  # type: ignore[no-untyped-def]
        lane, first_ranges, control, lengths, starts, sources, degree, internal_degree, contribution, x, c, r, z, sink,
        teleport, damping, has_inner, inner_reduction, noise_tolerance, tol, norm, max_sweeps, max_inner_sweeps,
        enough, seed, bounds, sums, products, report,
    ):  # fmt: skip
        first, last, lanes = first_ranges[lane], first_ranges[lane + 1], len(first_ranges) - 1
        scratch = _block_workspace(), _block_workspace(), _block_workspace()
        total = np.empty(COLUMNS)
        workspace = np.empty((HISTORY_VECTORS, BLOCK_ROWS), np.float32)
        scales, largests, found_sums = (
            np.empty(HISTORY_VECTORS, np.int64),
            np.empty(HISTORY_VECTORS),
            np.empty(HISTORY_VECTORS),
        )
        to_real, weights, factors = np.empty(HISTORY_VECTORS), np.empty(HISTORY_VECTORS), np.empty(HISTORY_VECTORS)
        g, matrix, all_products = np.empty(DEPTH), np.empty((DEPTH, DEPTH)), np.empty(PRODUCTS)
        slots, decode_factor = len(z), _decode_factor(exponent_bits)
        count = barriers = 0
        predicted_residual, entered_s = 0.0, _seconds()
        while True:
            for row_range in range(first, last):
                _correct_range(
                    x, c, degree, internal_degree, contribution, bounds[row_range], bounds[row_range + 1],
                    sums[2, row_range],
                )  # fmt: skip
            barriers += lanes
            meet(control, barriers)
            _reduce(sums[2], total)
            scalars = damping / total[0], damping * total[1] / total[0], 1.0 - damping, 1.0 / total[0]
            for row_range in range(first, last):
                _residual_range(
                    lengths, starts, sources, degree, contribution, x, c, r, sink, teleport, scalars,
                    bounds[row_range], bounds[row_range + 1], sums[3, row_range], scratch[0], exponent_bits,
                )  # fmt: skip
            barriers += lanes
            meet(control, barriers)
            _reduce(sums[3], total)
            if lane == 0:
                _write_sums(report[count], total)
                report[count, ENDED] = _seconds() - entered_s
            count += 1
            size, found, largest = total[L1], _norm(total, norm), total[LARGEST]
            residual_l1 = size
            if not (
                has_inner
                and tol <= found < np.inf
                and count < max_sweeps
                and (count == 1 or size <= noise_tolerance * predicted_residual)
            ):
                break
            slot_in, parity = 0, 0
            scales[0] = np.int64(_shared_scale(largest, exponent_bits))
            largests[0], found_sums[0] = largest, total[TOTAL]
            for row_range in range(first, last):
                _quantise_range(
                    r, degree, internal_degree, z[0], scales[0], seed + u64(count), bounds[row_range],
                    bounds[row_range + 1], sums[1, row_range], scratch, exponent_bits, mantissa_bits, mode,
                )  # fmt: skip
            barriers += lanes
            meet(control, barriers)
            _reduce(sums[1], total)
            lost = total[LOST]
            until = _inner_tolerance(inner_reduction, tol, damping, size, found)
            inner_begin = count
            while size > until and count < max_sweeps and count - inner_begin < max_inner_sweeps:
                if slot_in == DEPTH:
                    for slot in range(HISTORY_VECTORS):
                        to_real[slot] = decode_factor * 2.0 ** -scales[slot]
                        factors[slot] = to_real[slot] / largests[0]
                    for row_range in range(first, last):
                        _products_range(
                            z, factors, bounds[row_range], bounds[row_range + 1], products[row_range], workspace,
                            exponent_bits, mantissa_bits,
                        )  # fmt: skip
                    barriers += lanes
                    meet(control, barriers)
                    _sum_products(products, all_products)
                    _coefficients(all_products, matrix, g)
                    weights[:] = 0.0
                    weights[DEPTH] = 1.0
                    for j in range(DEPTH):
                        weights[j] -= g[j]
                        weights[j + 1] += g[j]
                    largests[0], found_sums[0] = _combination_bounds(weights, largests, found_sums)
                    scales[0] = np.int64(_shared_scale(largests[0], exponent_bits))
                    for row_range in range(first, last):
                        _combine_range(
                            z, to_real, g, weights, c, degree, internal_degree, scales[0], seed + u64(count),
                            bounds[row_range], bounds[row_range + 1], sums[4, row_range], workspace, scratch,
                            exponent_bits, mantissa_bits, mode,
                        )  # fmt: skip
                    barriers += lanes
                    meet(control, barriers)
                    _reduce(sums[4], total)
                    lost, slot_in = found_sums[0] - total[LOST], 0
                    slots = HISTORY_VECTORS if _is_worthwhile(all_products, g) else 2
                slot_out = slot_in + 1 if slot_in + 1 < slots else 0
                next_scale = np.int64(_shared_scale(largests[slot_in], exponent_bits))
                factor, added = damping * 2.0 ** -scales[slot_in], damping * lost
                for row_range in range(first, last):
                    _inner_range(
                        lengths, starts, sources, degree, internal_degree, z[slot_in], z[slot_out], c, sink, factor,
                        added, next_scale, seed + u64(count + 1), bounds[row_range], bounds[row_range + 1],
                        sums[parity, row_range], scratch, exponent_bits, mantissa_bits, mode,
                    )  # fmt: skip
                barriers += lanes
                meet(control, barriers)
                _reduce(sums[parity], total)
                if lane == 0:
                    _write_sums(report[count], total)
                    report[count, ENDED] = _seconds() - entered_s
                count += 1
                size, lost, slot_in, parity = total[L1], total[LOST], slot_out, 1 - parity
                scales[slot_in], largests[slot_in], found_sums[slot_in] = next_scale, total[LARGEST], total[TOTAL]
            predicted_residual = max(size, inner_reduction * residual_l1)  # Combinations overshoot; rounding does not.
            if count >= min(max_sweeps, enough) or count - inner_begin >= max_inner_sweeps:
                break
        return count

    return outer_steps
