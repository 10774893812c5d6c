"""Compiled loops of products with a stored matrix, and of operations on stored vectors.

Values are decoded tile by tile into a buffer in a core's first cache, in loops that the compiler turns into vector
instructions, and multiplied from there. An accessor that decodes value by value would cost more than the bytes that it
saves. The functions that return kernels put integers alone into their closures, so that Numba's cache on disk finds the
kernels in a later process. Indices are unsigned, which saves Numba's test for negative ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.base.jit import compiled, inlined_in_loops, numba
from cpms.storage.host_loops import widened_float

u64 = np.uint64
inlined: Any = inlined_in_loops()
TILE: Any = 1024  # Values decoded at a time: 8 KiB of float64.
ONES, NATIVE, SEGMENTS, PACKED, CODES, BLOCKS = range(6)
"""Storage of values: none, as all are 1; float64 or float32; segments; packed floats; codes; block floats."""
PLAIN: tuple[tuple[int, ...], tuple[int, ...]] = (NATIVE, 0, 0, 0), (1,)
"""``spec`` and ``segment_units`` of plain vectors, arguments of the functions that return kernels."""


def _decode_any(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]
    """Put the float64 bits of ``count`` values from ``at`` on into a buffer of uint64; `_decoder` chooses the code."""
    raise NotImplementedError


decode: Any = _decode_any


def _decode_nothing(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]
    """Leave values that need no decoding."""


def _decode_segments(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    _, read, block, units = spec
    done = 0
    while done < count:
        index = at + done
        begin = 0 if block == 0 else index // block * block
        size = length if block == 0 else min(block, length - begin)
        run = min(count - done, size - (index - begin))
        base = begin * units
        shift = 64
        for k in range(read):
            units_here = segment_units[k]
            shift -= units_here * (64 // units)
            for unit in range(units_here):
                left = u64(shift + unit * (64 // units))
                first = base + (index - begin) * units_here + unit
                segment = stored[first : first + run * units_here]
                into = buffer[done : done + run]
                if k + unit == 0 and units_here == 1:
                    for i in range(run):
                        into[i] = u64(segment[i]) << left
                elif k + unit == 0:
                    for i in range(run):
                        into[i] = u64(segment[i * units_here]) << left
                elif units_here == 1:
                    for i in range(run):
                        into[i] |= u64(segment[i]) << left
                else:
                    for i in range(run):
                        into[i] |= u64(segment[i * units_here]) << left
            base += size * units_here
        done += run


def decode_packed(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Put the float64 bits of packed floats into a buffer; arguments are those of `decode`."""
    _, exponent_bits, mantissa_bits, _ = spec
    sign_at = exponent_bits + mantissa_bits
    part = stored[at : at + count]
    for i in range(count):
        raw = u64(part[i])
        # Stored matrices and vectors are finite, so the largest exponent never occurs.
        value = widened_float(raw & u64((1 << sign_at) - 1), exponent_bits, mantissa_bits)
        buffer[i] = np.float64(value).view(np.uint64) | (raw >> u64(sign_at) << u64(63))


def _decode_blocks(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    width = spec[1]
    blocks = (length + 31) // 32
    end = (blocks + 1) // 2 * 4
    exponents, words = stored[:end].view(np.int16), stored[end:].view(np.uint32)
    if width == 16:  # No field crosses a word's end, so loops over a block become vector instructions.
        fields, done = stored[end:].view(np.uint16), 0
        while done < count:
            block, place = (at + done) // 32, (at + done) % 32
            run, unit = min(count - done, 32 - place), u64((1008 + exponents[block]) << 52).view(np.float64)
            part, into = fields[at + done : at + done + run], buffer[done : done + run]
            for i in range(run):
                value = np.float64(np.int32(part[i] & 0x7FFF)) * unit
                into[i] = np.float64(value).view(np.uint64) | (u64(part[i] >> 15) << u64(63))
            done += run
        return
    for i in range(count):
        block, bit = (at + i) // 32, (at + i) % 32 * width
        first, word = block * width, bit >> 5
        both = u64(words[first + word]) | u64(words[first + min(word + 1, width - 1)]) << u64(32)
        bits = both >> u64(bit & 31)
        size = np.float64(bits & u64((1 << (width - 1)) - 1))
        value = size * u64((1024 - width + exponents[block]) << 52).view(np.float64)
        buffer[i] = np.float64(value).view(np.uint64) | (bits >> u64(width - 1) << u64(63))


def _decode_codes(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    table = stored[:2048].view(np.uint64)
    codes = stored[2048 + at : 2048 + at + count]
    for i in range(count):
        buffer[i] = table[u64(codes[i])]


_DECODERS = {
    ONES: _decode_nothing,
    NATIVE: _decode_nothing,
    SEGMENTS: _decode_segments,
    PACKED: decode_packed,
    CODES: _decode_codes,
    BLOCKS: _decode_blocks,
}


@numba.extending.overload(decode, prefer_literal=True, jit_options={"forceinline": True})  # type: ignore[untyped-decorator, unused-ignore]
def _decoder(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the decoder of one storage; compiling all of them would take longer than compiling the rest of a loop."""
    return _DECODERS[kind.literal_value]


@inlined
def _scale_back(value, row_exponents, row):  # type: ignore[no-untyped-def]
    """Return a row's sum divided by the power of two by which its stored values are scaled."""
    return value * u64((1023 - row_exponents[row]) << 52).view(np.float64)


@inlined
def end_rows(sums, begin, count, order, out, scalars, row_exponents, add, dot):  # type: ignore[no-untyped-def]
    """Write rows of a product, given their sums and the place of the first; return their part of the dot product.

    ``order`` has the row at each place, or is empty if these are equal. A call writes many rows, since Numba counts
    references to arrays in each call, which takes longer than a row.
    """
    alpha, beta, factor = scalars
    scales, adds, dots = len(row_exponents) > 0, len(add) > 0, len(dot) > 0
    dotted = 0.0
    for i in range(count):
        row = u64(order[begin + i]) if len(order) > 0 else u64(begin + i)
        value = alpha * sums[i]
        value = _scale_back(value, row_exponents, row) if scales else value
        if beta != 0.0:
            value += beta * out[row]
        if adds:
            value += factor * add[row]
        out[row] = value
        if dots:
            dotted += np.float64(out[row]) * dot[row]
    return dotted


@cache
def csr_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of products of rows ``low`` to ``high`` in CSR.

    Parameters
    ----------
    spec : tuple of int
        Storage of the values: a kind and its numbers. These are the segments that are read, the values of a block or 0
        for planes, and the units of a value for `SEGMENTS`; bits of exponent and mantissa for `PACKED`; and bits of a
        value for `BLOCKS`.
    segment_units : tuple of int
        Widths of segments in units.

    Notes
    -----
    The kernel returns its rows' part of the epilogue's dot product. Of its arguments, ``scalars`` are alpha, beta and
    the epilogue's factor, and ``real`` is an empty array of the type of products and sums.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(starts, columns, values, x, out, scalars, row_exponents, add, dot, real, low, high):  # type: ignore[no-untyped-def]
        buffer = np.empty(TILE, np.uint64)
        last = np.int64(starts[high])
        length = len(columns)
        sums, order = np.empty(TILE, real.dtype), np.empty(0, np.uint32)
        alpha, beta, _ = scalars
        is_plain = len(row_exponents) + len(add) + len(dot) == 0 and beta == 0.0
        dotted = 0.0
        tile, tile_begin, tile_end = buffer.view(np.float64), u64(0), u64(0)
        for first in range(low, high, TILE):
            rows = min(TILE, high - first)
            for i in range(rows):
                row = first + i
                k, end = u64(starts[row]), u64(starts[row + 1])
                a = b = real.dtype.type(0)
                # Plain values have a loop of their own, without tests for tiles: most rows are short.
                if kind == NATIVE:
                    while k + u64(2) <= end:
                        a += real.dtype.type(values[k]) * real.dtype.type(x[columns[k]])
                        b += real.dtype.type(values[k + u64(1)]) * real.dtype.type(x[columns[k + u64(1)]])
                        k += u64(2)
                    if k < end:
                        a += real.dtype.type(values[k]) * real.dtype.type(x[columns[k]])
                        k += u64(1)
                while k < end:
                    if k >= tile_end:
                        count = min(TILE, last - np.int64(k))
                        if kind != ONES:
                            decode(values, np.int64(k), count, length, buffer, segment_units, kind, spec)
                        tile_begin, tile_end = k, k + u64(count)
                    stop = min(end, tile_end)
                    while k + u64(2) <= stop:
                        if kind == ONES:
                            a += real.dtype.type(x[columns[k]])
                            b += real.dtype.type(x[columns[k + u64(1)]])
                        else:
                            at = k - tile_begin
                            a += real.dtype.type(tile[at]) * real.dtype.type(x[columns[k]])
                            b += real.dtype.type(tile[at + u64(1)]) * real.dtype.type(x[columns[k + u64(1)]])
                        k += u64(2)
                    if k < stop:
                        if kind == ONES:
                            a += real.dtype.type(x[columns[k]])
                        else:
                            a += real.dtype.type(tile[k - tile_begin]) * real.dtype.type(x[columns[k]])
                        k += u64(1)
                if is_plain:
                    out[row] = alpha * (a + b)
                else:
                    sums[i] = a + b
            if not is_plain:
                dotted += end_rows(sums, first, rows, order, out, scalars, row_exponents, add, dot)
        return dotted

    return product


@cache
def slices_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of products of rows at places ``low`` to ``high`` in ELL or SELL, ``block`` rows at a time.

    Arguments, here and of the kernel, are those of `csr_kernel`, with ``order`` as in `end_rows`.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(  # type: ignore[no-untyped-def]
        starts, columns, values, order, slice_rows, block, rows, x, out, scalars, row_exponents, add, dot,
        real, low, high,
    ):  # fmt: skip
        buffer = np.empty(TILE, np.uint64)
        sums = np.empty(block, real.dtype)
        length = len(columns)
        dotted = 0.0
        for begin in range(low, high, block):
            here = begin // slice_rows
            slot, end = np.int64(starts[here]) + begin % slice_rows, np.int64(starts[here + 1])
            sums[:] = 0
            tile_begin = tile_end = slot
            while slot < end:
                names = columns[slot : slot + block]
                if kind == NATIVE:
                    tile = values[slot : slot + block]
                else:
                    if slot >= tile_end:
                        # A slice of one block is contiguous; in a longer one, blocks of a column are apart.
                        count = min(TILE, end - slot) if block == slice_rows else block
                        decode(values, slot, count, length, buffer, segment_units, kind, spec)
                        tile_begin, tile_end = slot, slot + count
                    tile = buffer.view(np.float64)[slot - tile_begin : slot - tile_begin + block]
                for i in range(block):
                    sums[i] += real.dtype.type(tile[i]) * real.dtype.type(x[names[i]])
                slot += slice_rows
            count = min(block, rows - begin)
            dotted += end_rows(sums, begin, count, order, out, scalars, row_exponents, add, dot)
        return dotted

    return product


@cache
def coo_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of products of rows ``low`` to ``high`` in COO, whose entries are ``begin`` to ``end``.

    Other arguments are those of `csr_kernel`.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(row_numbers, columns, values, x, out, scalars, row_exponents, add, dot, real, begin, end, low, high):  # type: ignore[no-untyped-def]
        buffer = np.empty(TILE, np.uint64)
        sums = np.zeros(high - low, real.dtype)
        length = len(columns)
        for first in range(begin, end, TILE):
            count = min(TILE, end - first)
            if kind == NATIVE:
                tile = values[first : first + count]
            else:
                if kind != ONES:
                    decode(values, first, count, length, buffer, segment_units, kind, spec)
                tile = buffer.view(np.float64)
            for i in range(count):
                k = u64(first + i)
                term = real.dtype.type(x[columns[k]])
                if kind != ONES:
                    term *= real.dtype.type(tile[i])
                sums[u64(row_numbers[k]) - u64(low)] += term
        order = np.empty(0, np.uint32)
        return end_rows(sums, low, high - low, order, out, scalars, row_exponents, add, dot)

    return product


@cache
def rows_of_block_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of products of rows with a block of vectors, shape (columns, k), in CSR and COO.

    The matrix is read once for all vectors.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(starts, columns, values, x, out, alpha, beta, row_exponents, real, low, high):  # type: ignore[no-untyped-def]
        buffer = np.empty(TILE, np.uint64)
        sums = np.empty(x.shape[1], real.dtype)
        length = len(columns)
        for row in range(low, high):
            sums[:] = 0
            for first in range(np.int64(starts[row]), np.int64(starts[row + 1]), TILE):
                count = min(TILE, np.int64(starts[row + 1]) - first)
                if kind == NATIVE:
                    tile = values[first : first + count]
                else:
                    if kind != ONES:
                        decode(values, first, count, length, buffer, segment_units, kind, spec)
                    tile = buffer.view(np.float64)
                for i in range(count):
                    of_column = x[np.int64(columns[first + i])]
                    for j in range(len(sums)):
                        if kind == ONES:
                            sums[j] += real.dtype.type(of_column[j])
                        else:
                            sums[j] += real.dtype.type(tile[i]) * real.dtype.type(of_column[j])
            for j in range(len(sums)):
                value = alpha * sums[j]
                if len(row_exponents) > 0:
                    value = _scale_back(value, row_exponents, row)
                if beta != 0.0:
                    value += beta * out[row, j]
                out[row, j] = value

    return product


@cache
def slices_of_block_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:
    """Return the kernel of products of places ``low`` to ``high`` in ELL or SELL with a block of vectors.

    The matrix is read once for all vectors.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(  # type: ignore[no-untyped-def]
        starts, columns, values, order, slice_rows, block, rows, x, out, alpha, beta, row_exponents, real, low, high
    ):
        buffer = np.empty(TILE, np.uint64)
        sums = np.empty((block, x.shape[1]), real.dtype)
        length = len(columns)
        for begin in range(low, high, block):
            here = begin // slice_rows
            slot, end = np.int64(starts[here]) + begin % slice_rows, np.int64(starts[here + 1])
            sums[:] = 0
            while slot < end:
                if kind == NATIVE:
                    tile = values[slot : slot + block]
                else:
                    decode(values, slot, block, length, buffer, segment_units, kind, spec)
                    tile = buffer.view(np.float64)
                for i in range(block):
                    of_column = x[np.int64(columns[slot + i])]
                    for j in range(x.shape[1]):
                        sums[i, j] += real.dtype.type(tile[i]) * real.dtype.type(of_column[j])
                slot += slice_rows
            for i in range(min(block, rows - begin)):
                row = np.int64(order[begin + i]) if len(order) > 0 else begin + i
                for j in range(x.shape[1]):
                    value = alpha * sums[i, j]
                    if len(row_exponents) > 0:
                        value = _scale_back(value, row_exponents, row)
                    if beta != 0.0:
                        value += beta * out[row, j]
                    out[row, j] = value

    return product


@compiled()
def update(y, alpha, x, low, high):  # type: ignore[no-untyped-def]
    """Do ``y += alpha x`` in a range; return the sums of absolute values and squares of y, and its largest one."""
    sizes = squares = largest = 0.0
    for i in range(low, high):
        y[i] = np.float64(y[i]) + alpha * np.float64(x[i])
        size = abs(np.float64(y[i]))
        sizes += size
        squares += size * size
        largest = max(largest, size)
    return sizes, squares, largest
