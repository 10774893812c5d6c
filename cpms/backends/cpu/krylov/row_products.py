"""Compiled products q = A p of a range of rows in CSR, for iterations whose passes are fused.

Values (``kind``) are not stored where all are 1 (`ONES`). Otherwise they are plain numbers (`NATIVE`), codes of a byte
into a table of 256 numbers (`TABLE`), as all packed floats of 8 bits can be, or packed floats of 16 bits (`HALVES`),
which shifts decode. Columns (``shape``) are stored (`COLUMNS`), or come from a dictionary of rows
(`cpms.sparse.row_patterns`), which has the distances of a row's columns from the diagonal (`DISTANCES`), or these
distances and the values (`WHOLE`).

A row's sum has two or four accumulators, so that no addition waits for the one before. Unsigned indices save Numba's
test for negative ones. A caller branches on ``shape``, which is a constant, so it is compiled with one product alone.
It cannot take the product from its closure: Numba's cache on disk would not find such a kernel in another process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base.jit import inlined_in_loops
from cpms.storage.host_loops import widened_float

u64 = np.uint64
inlined: Any = inlined_in_loops()
ONES, NATIVE, TABLE, HALVES = range(4)
COLUMNS, DISTANCES, WHOLE = range(3)
RUN: Any = 512  # most consecutive rows of one pattern that are multiplied together: 4 KiB of sums
_SHORT: Any = 8  # consecutive rows of one pattern below which rows are multiplied one by one


@inlined
def value_at(values, table, k, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Return the value of entry k."""
    if kind == ONES:
        return 1.0
    if kind == TABLE:
        return table[u64(values[k])]
    if kind == HALVES:
        raw = u64(values[k])
        sign_at = u64(exponent_bits + mantissa_bits)
        # Stored matrices are finite, so the largest exponent never occurs.
        value = widened_float(raw & u64((1 << (exponent_bits + mantissa_bits)) - 1), exponent_bits, mantissa_bits)
        return u64(np.float64(value).view(np.uint64) | (raw >> sign_at << u64(63))).view(np.float64)
    return np.float64(values[k])


@inlined
def multiply(matrix, p, q, low, high, _buffer, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows with stored columns."""
    starts, columns, values, table, factor, _, _, _ = matrix
    for row in range(low, high):
        k, end = u64(starts[row]), u64(starts[row + 1])
        a = b = c = d = 0.0
        while k + u64(4) <= end:
            k1, k2, k3 = k + u64(1), k + u64(2), k + u64(3)
            a += value_at(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k])])
            b += value_at(values, table, k1, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k1])])
            c += value_at(values, table, k2, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k2])])
            d += value_at(values, table, k3, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k3])])
            k += u64(4)
        while k < end:
            a += value_at(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k])])
            k += u64(1)
        q[row] = factor * ((a + b) + (c + d))


@inlined
def multiply_by_distances(matrix, p, q, low, high, _buffer, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows whose columns come from their patterns, and whose values are stored."""
    starts, _, values, table, factor, of_row, pattern_starts, distances = matrix
    for row in range(low, high):
        k, at = u64(starts[row]), u64(pattern_starts[of_row[row]])
        end = u64(pattern_starts[of_row[row] + 1])
        a = b = 0.0
        while at + u64(2) <= end:
            near, next_one = p[u64(row + distances[at])], p[u64(row + distances[at + u64(1)])]
            a += value_at(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(near)
            b += value_at(values, table, k + u64(1), kind, exponent_bits, mantissa_bits) * np.float64(next_one)
            at += u64(2)
            k += u64(2)
        if at < end:
            near = p[u64(row + distances[at])]
            a += value_at(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(near)
        q[row] = factor * (a + b)


@inlined
def multiply_whole(matrix, p, q, low, high, buffer, _kind, _exponent_bits, _mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows whose columns and values come from their patterns.

    In a run of rows with one pattern, each entry of the pattern multiplies a run of p, in vector instructions. Short
    runs are multiplied row by row.
    """
    _, _, _, table, factor, of_row, pattern_starts, distances = matrix
    row = low
    while row < high:
        pattern = of_row[row]
        begin, end = pattern_starts[pattern], pattern_starts[pattern + 1]
        stop, limit = row + 1, min(high, row + RUN)
        while stop < limit and of_row[stop] == pattern:
            stop += 1
        if stop - row < _SHORT:
            for one in range(row, stop):
                a = b = c = d = 0.0
                at = begin
                while at + 4 <= end:
                    a += table[u64(at)] * np.float64(p[u64(one + distances[u64(at)])])
                    b += table[u64(at + 1)] * np.float64(p[u64(one + distances[u64(at + 1)])])
                    c += table[u64(at + 2)] * np.float64(p[u64(one + distances[u64(at + 2)])])
                    d += table[u64(at + 3)] * np.float64(p[u64(one + distances[u64(at + 3)])])
                    at += 4
                while at < end:
                    a += table[u64(at)] * np.float64(p[u64(one + distances[u64(at)])])
                    at += 1
                q[one] = factor * ((a + b) + (c + d))
        else:
            count, first = u64(stop - row), u64(row)
            for i in range(count):
                buffer[i] = 0.0
            at = begin
            while at + 3 <= end:
                u, v, w = table[u64(at)], table[u64(at + 1)], table[u64(at + 2)]
                to_u, to_v = first + u64(distances[u64(at)]), first + u64(distances[u64(at + 1)])
                to_w = first + u64(distances[u64(at + 2)])
                for i in range(count):
                    buffer[i] += u * np.float64(p[to_u + i]) + v * np.float64(p[to_v + i]) + w * np.float64(p[to_w + i])
                at += 3
            while at < end:
                u, to_u = table[u64(at)], first + u64(distances[u64(at)])
                for i in range(count):
                    buffer[i] += u * np.float64(p[to_u + i])
                at += 1
            for i in range(count):
                q[first + i] = factor * buffer[i]
        row = stop
