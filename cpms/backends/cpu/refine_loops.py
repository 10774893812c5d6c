"""Compiled outer steps of method ``refine`` on processors; `cpms.solvers.refine` has the equations.

A residual sweep computes r = b - A x in float64. Inner sweeps iterate on the correction with z = Q(r / degree), which
edges read in few bits, and Anderson's method extrapolates them (Walker and Ni, 2011). Sums are float64 throughout. A
sweep reads the pattern of the matrix and gathers one value an edge. A call does several outer steps, so that threads
start once.

The rules of `cpms.backends.cpu.sweep_loops` for captured integers and unsigned indices hold here, too. A thread has
whole ranges of rows (``bounds``), and writes the sums of each range to a place of their own in ``sums``. These are
added in the order of the ranges, so results are the same for any number of threads. Loops over the rows of a block that
have no branch become vector instructions.

Each pass is compiled on its own, and the loop of passes calls it at its address (`cpms.base.jit.called_at`). Only inner
sweeps depend on the format Q, so for a second format of a process they alone are compiled. Helpers are inlined in few
places, and views of arrays are few, since the time of compilation grows with both.
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
from cpms.base.compilation.instructions import bits_of, real_of
from cpms.base.jit import address_of, called_at, compiled, inlined_in_loops, numba
from cpms.certify.roundoff import ROW_BLOCK
from cpms.formats.segments import DOUBLE_EXPONENT_BITS
from cpms.precision.anderson import DEPTH, HISTORY_VECTORS, LEAST_EXPONENT_BITS, PRODUCTS, coefficients, is_worthwhile
from cpms.precision.inner_stopping import inner_tolerance
from cpms.sparse.jagged import BLOCK_ROWS, FEWEST_ROWS
from cpms.storage.host_loops import random_bits

u64 = np.uint64
inlined: Any = inlined_in_loops()
linked: Any = inlined_in_loops(forceinline=False)
summed: Any = inlined_in_loops(fastmath={"reassoc"})
_instruction: Any = numba.extending.intrinsic
_literal_instruction: Any = numba.extending.intrinsic(prefer_literal=True)
_declared: Any = numba.core.cgutils.get_or_insert_function
_placed: Any = numba.core.cgutils.alloca_once
types: Any = numba.core.types
_compiled: Any = compiled(error_model="numpy", _nrt=False)
_inner_tolerance, _coefficients, _is_worthwhile = linked(inner_tolerance), linked(coefficients), linked(is_worthwhile)
_ONE_IN_BITS = 1 << 52
"""2**52. The float64 2.0**52 plus an integer below it has that integer as its low bits."""
_SIZE_BITS = (1 << 63) - 1
CORRECTIONS, RESIDUALS, COMBINATIONS = 2, 3, 4
"""First index into ``sums`` for the passes that add c, compute r, and quantise a combination.

Inner sweeps have 0 and 1 in turn, so that none of them overwrites sums that another thread still reads.
"""
L1, SQUARES, LINF, MASS, TOTAL, LARGEST = range(6)
"""Columns of the sums of a residual sweep: norms of r, sum of x, sum of r, largest |r| / degree."""
LOST = MASS
"""Column of the sum of r that is lost to Q and dangling nodes; inner sweeps have it in place of the sum of x.

Their SQUARES are below 0.
"""
KEPT = SQUARES
"""Column of the sum of the rest of r, in passes that quantise r."""
COLUMNS = 6
ENDED = COLUMNS
"""Column of the report after the sums: the time at which a sweep ended, in seconds since the call.

It is NaN where the system has no clock for compiled code.
"""
LARGESTS, SUMS, TO_REAL, WEIGHTS, HISTORY_ROWS = range(5)
"""Rows of ``history``, which has a column for each stored z: largest |r| / degree, sum of r, factor, and weight."""


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


@_literal_instruction
def _stored_vector(typing_context, address, slot, rows, width):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return vector ``slot`` of the stored vectors at an address, as integers of ``width`` bits."""
    element = getattr(types, f"int{width.literal_value}")
    vector = types.Array(element, 1, "C")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        address, slot, rows, _ = arguments
        long = ir.IntType(64)
        size = ir.Constant(long, width.literal_value // 8)
        data = builder.add(address, builder.mul(builder.mul(slot, rows), size))
        array = context.make_array(vector)(context, builder)
        pointer = builder.inttoptr(data, array.data.type)
        library: Any = numba.np.arrayobj
        library.populate_array(array, data=pointer, shape=[rows], strides=[size], itemsize=size, meminfo=None)
        return array._getvalue()

    return vector(address, slot, rows, width), generate


def _decoded(builder: Any, numbers: Any, shift: Any, mask: Any, by_floats: Any) -> Any:
    """Return a stored number, or a vector of them, as float64.

    Stored values are signed integers, whose sign bit is the number's. Widths with the exponent of float32 or float64
    become one by a shift; the others become a float64 that is 2^(bias - 1023) times too small.
    """
    vector = numbers.type if isinstance(numbers.type, ir.VectorType) else None
    index, long, double = ir.IntType(32), ir.IntType(64), ir.DoubleType()
    element = vector.element if vector else numbers.type

    def wide(kind: Any) -> Any:
        return ir.VectorType(kind, vector.count) if vector else kind

    def each(value: Any) -> Any:
        if not vector:
            return value
        first = builder.insert_element(ir.Constant(wide(value.type), ir.Undefined), value, ir.Constant(index, 0))
        return builder.shuffle_vector(first, first, ir.Constant(wide(index), [0] * vector.count))

    if element == double:
        return numbers
    signed = numbers if element == long else builder.sext(numbers, wide(long))
    heads = builder.and_(builder.shl(signed, each(shift)), each(mask))
    narrow = builder.sext(numbers, wide(index)) if element.width < index.width else numbers
    narrow = builder.trunc(numbers, wide(index)) if element == long else narrow
    patterns = builder.shl(narrow, each(builder.trunc(shift, index)))
    floats = builder.bitcast(patterns, wide(ir.FloatType()))
    by_heads = builder.bitcast(heads, wide(double))
    return builder.select(by_floats, builder.fpext(floats, wide(double)), by_heads)


def _loaded(context: Any, builder: Any, kinds: Any, arrays: Any, k: Any) -> Any:
    """Return the stored number that entry ``k`` gathers."""
    z, sources = (
        context.make_array(kind)(context, builder, array).data for kind, array in zip(kinds, arrays, strict=True)
    )
    at = builder.load(builder.gep(sources, [k]))
    long = ir.IntType(64)
    return builder.load(builder.gep(z, [builder.zext(at, long) if at.type != long else at]))


@_instruction
def _gathered(typing_context, z, sources, k, shift, mask, by_floats):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the value that entry ``k`` gathers, as float64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        number = _loaded(context, builder, signature.args[:2], arguments[:2], arguments[2])
        return _decoded(builder, number, *arguments[3:])

    return types.float64(z, sources, k, shift, mask, by_floats), generate


@_instruction
def _add_eight(typing_context, totals, i, z, sources, k, shift, mask, by_floats):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add to ``totals[i : i + 8]`` the values that eight entries from ``k`` on gather, by vector instructions.

    It is written in LLVM's instructions, since Numba would compile as many indices and numbers for seconds.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        totals, place, z, sources, k, *how = arguments
        numbers = None
        for lane in range(8):
            at = builder.add(k, ir.Constant(k.type, lane))
            number = _loaded(context, builder, signature.args[2:4], (z, sources), at)
            numbers = numbers or ir.Constant(ir.VectorType(number.type, 8), ir.Undefined)
            numbers = builder.insert_element(numbers, number, ir.Constant(ir.IntType(32), lane))
        values = _decoded(builder, numbers, *how)
        data = context.make_array(signature.args[0])(context, builder, totals).data
        there = builder.bitcast(builder.gep(data, [place]), values.type.as_pointer())
        builder.store(builder.fadd(builder.load(there, align=8), values), there, align=8)
        return context.get_dummy_value()

    return types.none(totals, i, z, sources, k, shift, mask, by_floats), generate


@inlined
def _gather(lengths, starts, sources, z, block, begin, size, totals, shift, mask, by_floats):  # type: ignore[no-untyped-def]
    # Sums of a block's rows, in the order of entries of `cpms.sparse.jagged`.
    k = starts[block]
    rows = size
    column = u64(0)
    for i in range(size):
        totals[i] = 0.0
    while True:
        while rows > 0 and u64(lengths[begin + rows - 1]) <= column:
            rows -= 1
        if rows < FEWEST_ROWS:
            break
        whole = rows // 8 * 8
        for i in range(0, whole, 8):
            _add_eight(totals, i, z, sources, k, shift, mask, by_floats)
            k += u64(8)
        for i in range(whole, rows):
            totals[i] += _gathered(z, sources, k, shift, mask, by_floats)
            k += u64(1)
        column += u64(1)
    for i in range(rows):
        end = k + (u64(lengths[begin + i]) - column)
        while end - k > u64(ROW_BLOCK):
            stop = k + u64(ROW_BLOCK)
            a = b = c = d = 0.0
            while k < stop:
                a += _gathered(z, sources, k, shift, mask, by_floats)
                b += _gathered(z, sources, k + u64(1), shift, mask, by_floats)
                c += _gathered(z, sources, k + u64(2), shift, mask, by_floats)
                d += _gathered(z, sources, k + u64(3), shift, mask, by_floats)
                k += u64(4)
            totals[i] += (a + b) + (c + d)
        a = b = c = d = 0.0
        while k + u64(4) <= end:
            a += _gathered(z, sources, k, shift, mask, by_floats)
            b += _gathered(z, sources, k + u64(1), shift, mask, by_floats)
            c += _gathered(z, sources, k + u64(2), shift, mask, by_floats)
            d += _gathered(z, sources, k + u64(3), shift, mask, by_floats)
            k += u64(4)
        while k < end:
            a += _gathered(z, sources, k, shift, mask, by_floats)
            k += u64(1)
        totals[i] += (a + b) + (c + d)


@inlined
def _contribution(r, count, of_dangling):  # type: ignore[no-untyped-def]
    # r / degree. No edge gathers the value of a dangling node, but extrapolation needs it.
    return r / (count if count > 1.0 else 1.0) if count > 0.0 or of_dangling else 0.0


@inlined
def _quantise(  # type: ignore[no-untyped-def]
    r, degree, internal_degree, z, base, size, contribution, loss, scale, seed, largest_finite, least_normal,
    to_multiples, exponent_bits, mantissa_bits, mode,
):  # fmt: skip
    # z = Q(r / degree * 2^scale), clamped to the largest finite number; loss = r - internal_degree z.
    scale_up, scale_down = math.ldexp(1.0, scale), math.ldexp(1.0, -scale)
    bias = (1 << (exponent_bits - 1)) - 1
    low_bits = u64(_ONE_IN_BITS // (1 << mantissa_bits) - 1)
    dropped = u64(52 - mantissa_bits)
    offset = u64((1023 - bias) << mantissa_bits)
    of_dangling = exponent_bits >= LEAST_EXPONENT_BITS
    for i in range(size):
        out_degree = np.float64(degree[i])
        quotient = _contribution(r[i], out_degree, of_dangling)
        contribution[i] = abs(quotient)
        clamped = abs(quotient) * scale_up
        clamped = largest_finite if clamped > largest_finite else clamped
        bits = bits_of(clamped)
        noise = random_bits(seed, base + i) if mode == 2 else u64(0)
        if mode == 1:
            bits += (low_bits >> u64(1)) + ((bits >> dropped) & u64(1))
        elif mode == 2:
            bits += noise & low_bits
        packed = (bits >> dropped) - offset
        stored_value = real_of(bits & ~low_bits)
        if exponent_bits < 11:
            multiples = (least_normal if clamped > least_normal else clamped) * to_multiples
            if mode == 1:
                multiples = np.rint(multiples)
            elif mode == 2:
                multiples = np.floor(multiples + np.float64(noise >> u64(11)) * 2.0**-53)
            else:
                multiples = np.floor(multiples)
            small = bits_of(multiples + 4503599627370496.0) & u64(_ONE_IN_BITS - 1)
            normal = clamped >= least_normal
            packed = packed if normal else small
            stored_value = stored_value if normal else multiples / to_multiples
        sign = bits_of(quotient) >> u64(63)
        z[i] = z.dtype.type(packed | (sign << u64(exponent_bits + mantissa_bits)))
        loss[i] = r[i] - np.float64(internal_degree[i]) * math.copysign(stored_value * scale_down, quotient)


@summed
def _sums(r, loss, count):  # type: ignore[no-untyped-def]
    # The compiler reorders these sums into vectors of partial sums, in the same order at every call.
    size = total = lost = 0.0
    for i in range(count):
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
def _largest(values, count):  # type: ignore[no-untyped-def]
    # Absolute values of float64 compare like their bits as integers, and NaN is larger than all of them.
    most = u64(0)
    for i in range(count):
        bits = bits_of(values[i]) & u64(_SIZE_BITS)
        most = bits if bits > most else most
    return real_of(most)


@summed
def _corrected(x, c, degree, internal_degree, contribution):  # type: ignore[no-untyped-def]
    total = dangling = 0.0
    for i in range(len(x)):
        value = x[i] + np.float64(c[i])
        value = 0.0 if value < 0.0 else value
        count = np.float64(degree[i])
        count = count if count > 1.0 else np.float64(1.0)
        x[i] = value
        contribution[i] = value / count
        total += value
        dangling += contribution[i] * (count - np.float64(internal_degree[i]))
    return total, dangling


@_compiled
def _correct(x, c, degree, internal_degree, contribution, bounds, first, last, sums):  # type: ignore[no-untyped-def]
    """Add c to x in some ranges of rows."""
    for row_range in range(first, last):
        low, high, line = bounds[row_range], bounds[row_range + 1], sums[CORRECTIONS, row_range]
        total = dangling = 0.0
        for begin in range(low, high, BLOCK_ROWS):
            end = begin + BLOCK_ROWS if begin + BLOCK_ROWS < high else high
            part, part_dangling = _corrected(
                x[begin:end], c[begin:end], degree[begin:end], internal_degree[begin:end], contribution[begin:end]
            )
            total += part
            dangling += part_dangling
        line[0], line[1] = total, dangling


@_compiled
def _find_residual(  # type: ignore[no-untyped-def]
    lengths, starts, sources, degree, contribution, x, c, r, sink, teleport, row_factor, dangling, rest, to_unit,
    of_dangling, bounds, first, last, sums, scratch,
):  # fmt: skip
    """Sweep over some ranges of rows in float64: x becomes A x, and r the change."""
    sink_step, teleport_step, totals = u64(len(sink) > 1), u64(len(teleport) > 1), scratch[0]
    for row_range in range(first, last):
        low, high, line = bounds[row_range], bounds[row_range + 1], sums[RESIDUALS, row_range]
        l1 = squares = linf = mass = total = largest = 0.0
        for begin in range(low, high, BLOCK_ROWS):
            size = BLOCK_ROWS if begin + BLOCK_ROWS < high else high - begin
            _gather(lengths, starts, sources, contribution, begin // BLOCK_ROWS, begin, size, totals, 0, 0, False)
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
                block_c[i] = 0.0
            for i in range(size):
                count = np.float64(counts[i])
                totals[i] = _contribution(block_r[i], count, of_dangling)
            part_l1, part_squares, part_total, part_mass = _residual_sums(block_r, block_x)
            l1 += part_l1
            squares += part_squares
            total += part_total
            mass += part_mass
            part_linf, part_largest = _largest(block_r, size), _largest(totals, size)
            linf = part_linf if part_linf > linf else linf
            largest = part_largest if part_largest > largest else largest
        line[L1], line[SQUARES], line[LINF] = l1, squares, linf
        line[MASS], line[TOTAL], line[LARGEST] = mass, total, largest


def limits(exponent_bits: int, mantissa_bits: int) -> tuple[float, float, float]:
    """Return the largest finite and the least normal number, and the factor that makes multiples of the least one.

    Examples
    --------
    >>> limits(5, 10)
    (65504.0, 6.103515625e-05, 16777216.0)
    """
    bias = (1 << (exponent_bits - 1)) - 1
    largest = (2.0 - 2.0**-mantissa_bits) * 2.0**bias
    return largest, 2.0 ** (1 - bias), 2.0 ** min(bias - 1 + mantissa_bits, 1000)


@cache
def inner_sweep(exponent_bits: int, mantissa_bits: int, width: int, mode: int) -> Any:
    """Return the inner sweep over some ranges of rows for a format and a rounding mode.

    With ``from_r`` the sweep gathers nothing and quantises r. Widths of the format are constants of the code, which is
    faster than shifts by variables.
    """
    largest_finite, least_normal, to_multiples = limits(exponent_bits, mantissa_bits)
    by_floats = int(exponent_bits == 8)
    head_shift, mask, head_factor = head_of(exponent_bits, mantissa_bits)
    shift, decode_factor = (23 - mantissa_bits, 1.0) if by_floats else (head_shift, head_factor)

    @_compiled
    def inner(  # type: ignore[no-untyped-def]
        lengths, starts, sources, degree, internal_degree, c, r, sink, z_address, slot_in, slot_out, factor, added,
        scale, seed, from_r, bounds, first, last, sums, line_number, scratch,
    ):  # fmt: skip
        rows = len(r)
        z, out = _stored_vector(z_address, slot_in, rows, width), _stored_vector(z_address, slot_out, rows, width)
        totals, contribution, loss = scratch[0], scratch[1], scratch[2]
        for row_range in range(first, last):
            low, high, line = bounds[row_range], bounds[row_range + 1], sums[line_number, row_range]
            l1 = total = lost = kept = largest = 0.0
            for begin in range(low, high, BLOCK_ROWS):
                size = BLOCK_ROWS if begin + BLOCK_ROWS < high else high - begin
                block_c, block_r = c[begin : begin + size], r[begin : begin + size]
                if from_r:
                    for i in range(size):
                        totals[i] = block_r[i]
                else:
                    block = begin // BLOCK_ROWS
                    _gather(lengths, starts, sources, z, block, begin, size, totals, shift, mask, by_floats == 1)
                    if len(sink) > 1:
                        to = sink[begin : begin + size]
                        for i in range(size):
                            totals[i] = factor * (totals[i] * decode_factor) + added * to[i]
                            block_c[i] += np.float32(totals[i])
                    else:
                        given = added * sink[0]
                        for i in range(size):
                            totals[i] = factor * (totals[i] * decode_factor) + given
                            block_c[i] += np.float32(totals[i])
                block_degree, block_internal = degree[begin : begin + size], internal_degree[begin : begin + size]
                _quantise(
                    totals, block_degree, block_internal, out[begin : begin + size], begin, size, contribution, loss,
                    scale, seed, largest_finite, least_normal, to_multiples, exponent_bits, mantissa_bits, mode,
                )  # fmt: skip
                part_l1, part_total, part_lost = _sums(totals, loss, size)
                l1 += part_l1
                total += part_total
                lost += part_lost
                kept += part_total - part_lost
                part_largest = _largest(contribution, size)
                largest = part_largest if part_largest > largest else largest
            line[L1], line[SQUARES], line[LINF] = l1, kept if from_r else -1.0, 0.0
            line[LOST], line[TOTAL], line[LARGEST] = lost, total, largest

    return inner


@_literal_instruction
def _head(typing_context, address, k, width, shift, mask):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return number ``k`` of ``width`` bits at an address, as the head of a float64."""
    element = ir.IntType(width.literal_value)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        address, k, _, shift, mask = arguments
        number = builder.load(builder.gep(builder.inttoptr(address, element.as_pointer()), [k]))
        return _decoded(builder, number, shift, mask, ir.Constant(ir.IntType(1), 0))

    return types.float64(address, k, width, shift, mask), generate


@summed
def _product(a, b, count):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(count):
        total += a[i] * b[i]
    return np.float64(total)


@cache
def products_of_history(width: int) -> Any:
    """Return the pass that computes, by ranges of rows, the dot products that Anderson's method needs.

    They are those of the differences of consecutive z, and of these with the last z (`cpms.precision.anderson`). Loops
    end at lengths of arrays and not at constants, so that LLVM does not unroll them.
    """

    @_compiled
    def products_of_ranges(  # type: ignore[no-untyped-def]
        z_address, factors, rows, bounds, first, last, products, vectors, head_shift, head_mask, head_factor
    ):
        depth = len(vectors) - 1
        for row_range in range(first, last):
            low, high, found = bounds[row_range], bounds[row_range + 1], products[row_range]
            for at in range(len(found)):
                found[at] = 0.0
            for begin in range(low, high, BLOCK_ROWS):
                size = BLOCK_ROWS if begin + BLOCK_ROWS < high else high - begin
                for slot in range(depth + 1):
                    vector, factor, at = vectors[slot], factors[slot] * head_factor, slot * rows + begin
                    for i in range(size):
                        vector[i] = np.float32(_head(z_address, at + i, width, head_shift, head_mask) * factor)
                for slot in range(depth):
                    vector, following = vectors[slot], vectors[slot + 1]
                    for i in range(size):
                        vector[i] -= following[i]
                at = 0
                for i in range(depth + 1):
                    for j in range(i + 1):
                        one, other = (i, j) if i < depth else (j, depth)
                        found[at] += _product(vectors[one], vectors[other], size)
                        at += 1

    return products_of_ranges


@cache
def combination(width: int) -> Any:
    """Return the pass that adds Anderson's combination to c, by ranges of rows, and sets r to the residual after it.

    See `cpms.precision.anderson`.
    """

    @_compiled
    def combine_ranges(  # type: ignore[no-untyped-def]
        z_address, history, g, c, degree, r, bounds, first, last, vectors, scratch, head_shift, head_mask, head_factor
    ):
        rows, slots, added_vector, total = len(r), len(vectors), vectors[0], scratch[0]
        for row_range in range(first, last):
            low, high = bounds[row_range], bounds[row_range + 1]
            for begin in range(low, high, BLOCK_ROWS):
                size = BLOCK_ROWS if begin + BLOCK_ROWS < high else high - begin
                for i in range(size):
                    added_vector[i] = np.float32(0.0)
                    total[i] = 0.0
                for slot in range(slots):
                    to_real, at = history[TO_REAL, slot] * head_factor, slot * rows + begin
                    weight = history[WEIGHTS, slot] * to_real
                    added = g[slot - 1] * to_real if slot > 0 else 0.0
                    for i in range(size):
                        value = _head(z_address, at + i, width, head_shift, head_mask)
                        total[i] += weight * value
                        added_vector[i] += np.float32(added * value)
                block_c, block_r = c[begin : begin + size], r[begin : begin + size]
                counts = degree[begin : begin + size]
                for i in range(size):
                    count = np.float64(counts[i])
                    count = count if count > 1.0 else np.float64(1.0)
                    block_c[i] += np.float32(count * added_vector[i])
                    block_r[i] = total[i] * count

    return combine_ranges


@linked
def _shared_scale(largest, exponent_bits):  # type: ignore[no-untyped-def]
    # The rule of `cpms.formats.quantization.shared_scale`.
    if exponent_bits == DOUBLE_EXPONENT_BITS or not 0.0 < largest < np.inf:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    scale = bias - (3 if exponent_bits > 4 else 1) - math.frexp(largest)[1]
    return -1000 if scale < -1000 else 1000 if scale > 1000 else scale


@linked
def _reduce(sums, line, total):  # type: ignore[no-untyped-def]
    # Columns LINF and LARGEST are maxima, the others sums.
    for column in range(len(total)):
        found = 0.0
        for row_range in range(sums.shape[1]):
            value = sums[line, row_range, column]
            if column in (LINF, LARGEST):
                found = value if value > found else found
            else:
                found += value
        total[column] = found


@linked
def _report(report, count, total, seconds):  # type: ignore[no-untyped-def]
    for column in range(len(total)):
        report[count, column] = total[column]
    report[count, ENDED] = seconds


@linked
def _plan_combination(products, history, all_products, matrix, g):  # type: ignore[no-untyped-def]
    """Compute the coefficients g and the weights of all z; slot 0 then describes the weighted sum.

    Its LARGESTS is an upper bound.
    """
    for k in range(len(all_products)):
        found = 0.0
        for row_range in range(len(products)):
            found += products[row_range, k]
        all_products[k] = found
    _coefficients(all_products, matrix, g)
    depth = len(g)
    for j in range(depth + 1):
        history[WEIGHTS, j] = 1.0 if j == depth else 0.0
    for j in range(depth):
        history[WEIGHTS, j] -= g[j]
        history[WEIGHTS, j + 1] += g[j]
    largest = found_sum = 0.0
    for slot in range(depth + 1):
        largest += abs(history[WEIGHTS, slot] * history[LARGESTS, slot])
        found_sum += history[WEIGHTS, slot] * history[SUMS, slot]
    history[LARGESTS, 0], history[SUMS, 0] = largest, found_sum


def _signatures(index: Any) -> list[tuple[Any, ...]]:
    """Return the types of arguments of the passes at the addresses that `outer_steps` calls, in their order."""
    real, whole, seed = types.float64, types.int64, types.uint64
    reals, floats, wholes = real[::1], types.float32[::1], whole[::1]
    counts, starts, lines = types.uint32[::1], types.uint64[::1], real[:, ::1]
    blocks, vectors = types.Array(real, 2, "C"), types.Array(types.float32, 2, "C")
    pattern = counts, starts, index[::1]
    ranges = wholes, whole, whole
    head = whole, whole, real
    return [
        (reals, floats, counts, counts, reals, *ranges, real[:, :, ::1]),
        (*pattern, counts, reals, reals, floats, reals, reals, reals, *(real,) * 4, types.boolean, *ranges,
         real[:, :, ::1], blocks),
        (*pattern, counts, counts, floats, reals, reals, *(whole,) * 3, real, real, whole, seed, types.boolean, *ranges,
         real[:, :, ::1], whole, blocks),
        (whole, reals, whole, *ranges, lines, vectors, *head),
        (whole, blocks, reals, floats, counts, reals, *ranges, vectors, blocks, *head),
    ]  # fmt: skip


CORRECT, RESIDUAL, INNER, PRODUCTS_OF_HISTORY, COMBINATION = range(5)
_call_correct, _call_residual, _call_inner, _call_products, _call_combination = (
    called_at(*both) for both in zip(_signatures(types.uint32), _signatures(types.uint64), strict=True)
)


@cache
def passes_of(exponent_bits: int, mantissa_bits: int, width: int, mode: int) -> tuple[Any, ...]:
    """Return the passes over ranges of rows that `outer_steps` calls, of a format.

    Only the inner sweep depends on the format; the others on its width at most.
    """
    inner = inner_sweep(exponent_bits, mantissa_bits, width, mode)
    return _correct, _find_residual, inner, products_of_history(width), combination(width)


@cache
def addresses(exponent_bits: int, mantissa_bits: int, width: int, mode: int, index_bits: int) -> Any:
    """Return the addresses of the passes of a format, compiled for indices of some width."""
    passes = passes_of(exponent_bits, mantissa_bits, width, mode)
    signatures = _signatures(getattr(types, f"uint{index_bits}"))
    return np.array([address_of(*each) for each in zip(passes, signatures, strict=True)])


def head_of(exponent_bits: int, mantissa_bits: int) -> tuple[int, int, float]:
    """Return how a stored number becomes the leading bits of a float64: a shift, a mask, and a factor.

    The mask removes the copies of the sign bit that sign extension makes.

    Examples
    --------
    >>> head_of(11, 4)
    (48, -1, 1.0)
    """
    if exponent_bits == 11:
        return 52 - mantissa_bits, -1, 1.0
    size_bits = ((1 << (exponent_bits + mantissa_bits)) - 1) << (52 - mantissa_bits)
    return 52 - mantissa_bits, size_bits - (1 << 63), 2.0 ** (1024 - (1 << (exponent_bits - 1)))


def workspace() -> tuple[Any, ...]:
    """Return the arrays of one thread: vectors of a block, aligned to cache lines, and numbers of the history."""
    scratch = np.empty(3 * BLOCK_ROWS + 7)
    aligned = scratch[-(scratch.ctypes.data >> 3) & 7 :][: 3 * BLOCK_ROWS].reshape(3, BLOCK_ROWS)
    vectors = np.empty((HISTORY_VECTORS, BLOCK_ROWS), np.float32)
    history, scales = np.empty((HISTORY_ROWS, HISTORY_VECTORS)), np.empty(HISTORY_VECTORS, np.int64)
    sizes = HISTORY_VECTORS, COLUMNS, DEPTH, (DEPTH, DEPTH), PRODUCTS
    return aligned, vectors, history, scales, *(np.empty(size) for size in sizes)


@_compiled
def outer_steps(  # type: ignore[no-untyped-def]
    lane, first_ranges, control, passes, lengths, starts, sources, degree, internal_degree, contribution, x, c, r,
    z_address, slots, sink, teleport, exponent_bits, head, damping, has_inner, inner_reduction, noise_tolerance, tol,
    norm, max_sweeps, max_inner_sweeps, enough, seed, bounds, sums, products, report, scratch, vectors, history,
    scales, factors, total, g, matrix, all_products,
):  # fmt: skip
    """Do consecutive outer steps: a correction, a residual sweep and inner sweeps each.

    Each thread sweeps its own ranges, and a barrier follows each pass. All threads then add the sums of all ranges in
    the same order, so all take the same decisions. Consecutive passes write to different parts of ``sums``, which saves
    a second barrier. Sweeps are extrapolated if there are `HISTORY_VECTORS` ``slots``, and not if there are two.

    The first thread writes a row of ``report`` for each sweep. Another outer step follows if fewer than ``enough``
    sweeps are done, the residual is at most ``noise_tolerance`` times the predicted one, and the outer step had fewer
    than ``max_inner_sweeps`` inner sweeps. The ``norm`` is 0, 1 or 2 for l1, l2, linf. The kernel returns the number of
    sweeps.

    It is compiled once for all formats, and calls the passes by their addresses ``passes``: Numba would optimise a
    linked pass again with each of its callers.
    """
    first, last, lanes, depth = first_ranges[lane], first_ranges[lane + 1], len(first_ranges) - 1, len(g)
    of_dangling = exponent_bits >= LEAST_EXPONENT_BITS
    count = barriers = 0
    predicted_residual, entered_s = 0.0, _seconds()
    while True:
        _call_correct(passes[CORRECT], (x, c, degree, internal_degree, contribution, bounds, first, last, sums))
        barriers += lanes
        meet(control, barriers)
        _reduce(sums, np.int64(CORRECTIONS), total)
        _call_residual(
            passes[RESIDUAL],
            (
                lengths, starts, sources, degree, contribution, x, c, r, sink, teleport, damping / total[0],
                damping * total[1] / total[0], 1.0 - damping, 1.0 / total[0], of_dangling, bounds, first, last, sums,
                scratch,
            ),
        )  # fmt: skip
        barriers += lanes
        meet(control, barriers)
        _reduce(sums, np.int64(RESIDUALS), total)
        if lane == 0:
            _report(report, np.int64(count), total, _seconds() - entered_s)
        count += 1
        size, largest = total[L1], total[LARGEST]
        found = size if norm == 0 else math.sqrt(total[SQUARES]) if norm == 1 else total[LINF]
        residual_l1 = size
        if not (
            has_inner
            and tol <= found < np.inf
            and count < max_sweeps
            and (count == 1 or size <= noise_tolerance * predicted_residual)
        ):
            break
        slot_in, slot_out, line, from_r = 0, 0, 1, True
        scale = _shared_scale(largest, exponent_bits)
        scales[0], history[LARGESTS, 0], history[SUMS, 0] = scale, largest, total[TOTAL]
        until = _inner_tolerance(inner_reduction, tol, damping, size, found)
        inner_begin, parity, factor, added = count, 0, 0.0, 0.0
        while True:
            _call_inner(
                passes[INNER],
                (
                    lengths, starts, sources, degree, internal_degree, c, r, sink, z_address, slot_in, slot_out, factor,
                    added, scale, seed + u64(count + 1 - from_r), from_r, bounds, first, last, sums, line, scratch,
                ),
            )  # fmt: skip
            barriers += lanes
            meet(control, barriers)
            _reduce(sums, np.int64(line), total)
            if not from_r:
                if lane == 0:
                    _report(report, np.int64(count), total, _seconds() - entered_s)
                count += 1
                size, slot_in, parity = total[L1], slot_out, 1 - parity
                scales[slot_in], history[LARGESTS, slot_in], history[SUMS, slot_in] = (
                    scale,
                    total[LARGEST],
                    total[TOTAL],
                )
            lost = history[SUMS, 0] - total[KEPT] if line == COMBINATIONS else total[LOST]
            if not (size > until and count < max_sweeps and count - inner_begin < max_inner_sweeps):
                break
            from_r = slot_in == depth
            if from_r:
                for slot in range(depth + 1):
                    history[TO_REAL, slot] = math.ldexp(1.0, -scales[slot])
                    factors[slot] = history[TO_REAL, slot] / history[LARGESTS, 0]
                _call_products(
                    passes[PRODUCTS_OF_HISTORY],
                    (z_address, factors, len(r), bounds, first, last, products, vectors, *head),
                )
                barriers += lanes
                meet(control, barriers)
                _plan_combination(products, history, all_products, matrix, g)
                _call_combination(
                    passes[COMBINATION],
                    (z_address, history, g, c, degree, r, bounds, first, last, vectors, scratch, *head),
                )
                slots = depth + 1 if _is_worthwhile(all_products, g) else 2
                slot_in, slot_out, line = 0, 0, COMBINATIONS
                scale = _shared_scale(history[LARGESTS, 0], exponent_bits)
                scales[0] = scale
            else:
                slot_out, line = slot_in + 1 if slot_in + 1 < slots else 0, parity
                scale = _shared_scale(history[LARGESTS, slot_in], exponent_bits)
                factor, added = damping * math.ldexp(1.0, -scales[slot_in]), damping * lost
        # A combination may reduce r further than its target, but the residual sweep may not confirm that.
        least = inner_reduction * residual_l1
        predicted_residual = least if least > size else size
        if count >= max_sweeps or count >= enough or count - inner_begin >= max_inner_sweeps:
            break
    return count
