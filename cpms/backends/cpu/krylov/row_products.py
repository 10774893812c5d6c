"""Compiled products of a range of rows, for iterations whose passes are fused: entries, patterns of rows, or both.

Values are plain numbers (`NATIVE`), none (`ONES`), or codes of a byte into a table of 256 numbers (`TABLE`), which all
packed floats of 8 bits become. Sixteen bits (`HALVES`) are decoded by shifts. Columns are read (`COLUMNS`), or
found by a dictionary of rows (`cpms.sparse.row_patterns`): of distances (`DISTANCES`), or of values too
(`WHOLE`). Loops over slices from 0 become vector instructions; unsigned indices leave out the test for negative ones.

A loop calls the product of its shape in a branch on that number, and is compiled with that one alone. A product that a
loop held in its closure would be another one in each process to Numba's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base.jit import inlined_in_loops

u64 = np.uint64
inlined: Any = inlined_in_loops()
ONES, NATIVE, TABLE, HALVES = range(4)
COLUMNS, DISTANCES, WHOLE = range(3)
RUN: Any = 512  # rows of one pattern that are multiplied at a time: 4 KiB of sums
_SHORT: Any = 8  # fewer rows of one pattern are multiplied one by one


@inlined
def _value(values, table, k, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    if kind == 0:
        return 1.0
    if kind == 2:
        return table[u64(values[k])]
    if kind == 3:
        raw = u64(values[k])
        sign_at = u64(exponent_bits + mantissa_bits)
        size = (raw & u64((1 << (exponent_bits + mantissa_bits)) - 1)) << u64(52 - mantissa_bits)
        # Stored matrices are finite, so the largest exponent never occurs.
        value = u64(size).view(np.float64) * 2.0 ** (1024 - (1 << (exponent_bits - 1)))
        return u64(np.float64(value).view(np.uint64) | (raw >> sign_at << u64(63))).view(np.float64)
    return np.float64(values[k])


@inlined
def multiply(matrix, p, q, low, high, _buffer, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows."""
    starts, columns, values, table, factor, _, _, _ = matrix
    for row in range(low, high):
        k, end = u64(starts[row]), u64(starts[row + 1])
        a = b = c = d = 0.0
        while k + u64(4) <= end:
            k1, k2, k3 = k + u64(1), k + u64(2), k + u64(3)
            a += _value(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k])])
            b += _value(values, table, k1, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k1])])
            c += _value(values, table, k2, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k2])])
            d += _value(values, table, k3, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k3])])
            k += u64(4)
        while k < end:
            a += _value(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(p[u64(columns[k])])
            k += u64(1)
        q[row] = factor * ((a + b) + (c + d))


@inlined
def multiply_by_distances(matrix, p, q, low, high, _buffer, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows whose columns are those of their patterns."""
    starts, _, values, table, factor, of_row, pattern_starts, distances = matrix
    for row in range(low, high):
        k, at = u64(starts[row]), u64(pattern_starts[of_row[row]])
        end = u64(pattern_starts[of_row[row] + 1])
        a = b = 0.0
        while at + u64(2) <= end:
            near, next_one = p[u64(row + distances[at])], p[u64(row + distances[at + u64(1)])]
            a += _value(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(near)
            b += _value(values, table, k + u64(1), kind, exponent_bits, mantissa_bits) * np.float64(next_one)
            at += u64(2)
            k += u64(2)
        if at < end:
            near = p[u64(row + distances[at])]
            a += _value(values, table, k, kind, exponent_bits, mantissa_bits) * np.float64(near)
        q[row] = factor * (a + b)


@inlined
def multiply_whole(matrix, p, q, low, high, buffer, _kind, _exponent_bits, _mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows that are in a dictionary: runs of one pattern as vectors, others one by one."""
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
