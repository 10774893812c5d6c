"""Compiled conjugate gradient iterations: a product and two passes over vectors, on lanes that meet at a barrier.

A lane has whole ranges of rows (``bounds``), and writes the sums of each to a line of its own; after a barrier all
lanes add them in the order of the ranges, so that results do not depend on the number of threads and all lanes take the
same decisions. An iteration reads the matrix once, p three times, and x, r and q at most twice; rows that a lane
multiplied are those whose vectors it updates, and lie in its cache. Products and sums are float64.

Values are plain numbers (`NATIVE`), none (`ONES`), or codes of a byte into a table of 256 numbers (`TABLE`), which all
packed floats of 8 bits become. Sixteen bits (`HALVES`) are decoded by shifts. Columns are read (`COLUMNS`), or
found by a dictionary of rows (`cpms.sparse.row_patterns`): of distances (`DISTANCES`), or of values too
(`WHOLE`). Loops over slices from 0 become vector instructions; unsigned indices leave out the test for negative ones.

Vectors r and p are plain, or stored in few bits (`cpms.backends.cpu.krylov.stored_cg_loops`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cpu.krylov.basis_loops import dot_product, summed
from cpms.backends.cpu.krylov.stored_cg_loops import turn_blocks, turn_packed, update_blocks, update_packed
from cpms.backends.cpu.lane_barrier import meet
from cpms.base.jit import compiled, inlined_in_loops

u64 = np.uint64
inlined: Any = inlined_in_loops()
ONES, NATIVE, TABLE, HALVES = range(4)
COLUMNS, DISTANCES, WHOLE = range(3)
_RUN: Any = 512  # rows of one pattern that are multiplied at a time: 4 KiB of sums
_SHORT: Any = 8  # fewer rows of one pattern are multiplied one by one
SQUARE, CURVATURE, NEXT = range(3)
"""Columns of the report: as in `cpms.contracts.conjugate_gradients.CgStep`."""


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
def _multiply(starts, columns, values, table, factor, p, q, low, high, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows."""
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
def _multiply_by_distances(  # type: ignore[no-untyped-def]
    starts,
    values,
    table,
    factor,
    of_row,
    pattern_starts,
    distances,
    p,
    q,
    low,
    high,
    kind,
    exponent_bits,
    mantissa_bits,
):
    """Do q = A p in a range of rows whose columns are those of their patterns."""
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
def _multiply_whole(of_row, pattern_starts, distances, table, factor, p, q, sums, low, high):  # type: ignore[no-untyped-def]
    """Do q = A p in a range of rows that are in a dictionary: runs of one pattern as vectors, others one by one."""
    row = low
    while row < high:
        pattern = of_row[row]
        begin, end = pattern_starts[pattern], pattern_starts[pattern + 1]
        stop, limit = row + 1, min(high, row + _RUN)
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
                sums[i] = 0.0
            at = begin
            while at + 3 <= end:
                u, v, w = table[u64(at)], table[u64(at + 1)], table[u64(at + 2)]
                to_u, to_v = first + u64(distances[u64(at)]), first + u64(distances[u64(at + 1)])
                to_w = first + u64(distances[u64(at + 2)])
                for i in range(count):
                    sums[i] += u * np.float64(p[to_u + i]) + v * np.float64(p[to_v + i]) + w * np.float64(p[to_w + i])
                at += 3
            while at < end:
                u, to_u = table[u64(at)], first + u64(distances[u64(at)])
                for i in range(count):
                    sums[i] += u * np.float64(p[to_u + i])
                at += 1
            for i in range(count):
                q[first + i] = factor * sums[i]
        row = stop


@summed
def _update(x, r, p, q, alpha):  # type: ignore[no-untyped-def]
    """Do x += alpha p and r -= alpha q; return r.r and r.q of what is stored."""
    square = of_residual = 0.0
    for i in range(len(x)):
        x[i] += alpha * np.float64(p[i])
        r[i] = np.float64(r[i]) - alpha * np.float64(q[i])
        value = np.float64(r[i])
        square += value * value
        of_residual += value * np.float64(q[i])
    return square, of_residual


@summed
def _turn(r, p, beta):  # type: ignore[no-untyped-def]
    """Do p = r + beta p; return r.p of what is stored."""
    total = 0.0
    for i in range(len(r)):
        p[i] = np.float64(r[i]) + beta * np.float64(p[i])
        total += np.float64(r[i]) * np.float64(p[i])
    return total


@compiled(error_model="numpy")
def dot(p, q, low, high):  # type: ignore[no-untyped-def]
    """Return p.q of a range."""
    return dot_product(p[low:high], q[low:high])


@cache
def lanes_kernel(shape: int, kind: int, exponent_bits: int, mantissa_bits: int, vectors: tuple[int, ...]) -> Any:
    """Return the iterations of a lane, for one way to store columns, values, and vectors.

    ``vectors`` is what kernels of `cpms.backends.cpu.product_loops` are compiled for: plain, packed floats, or block
    floats, which ranges of rows do not cut. ``decoded`` is p as products read it, p itself for plain vectors.
    Iterations end after as many as ``report`` has rows, when the residual is at ``target``, before a direction without
    positive curvature, or when a size is not below ``limit``; lane 0 reports (`SQUARE`, `CURVATURE`, `NEXT`) for each.
    ``first`` holds the first range of each lane.
    """
    stored = vectors[0]

    @compiled(error_model="numpy")
    def iterate(  # type: ignore[no-untyped-def]
        lane, first, control, bounds, starts, columns, values, table, factor, of_row, pattern_starts, distances,
        x, r, p, q, decoded, limit, product, target, sums, report,
    ):  # fmt: skip
        buffer = np.empty(_RUN)
        lanes, parts, arrivals, done = len(first) - 1, len(bounds) - 1, 0, 0
        while done < len(report):
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if shape == 2:
                    _multiply_whole(of_row, pattern_starts, distances, table, factor, decoded, q, buffer, low, high)
                elif shape == 1:
                    patterns = of_row, pattern_starts, distances
                    of_values = values, table, factor
                    ends = decoded, q, low, high
                    _multiply_by_distances(starts, *of_values, *patterns, *ends, kind, exponent_bits, mantissa_bits)
                else:
                    of_rows = starts, columns, values, table, factor, decoded, q, low, high
                    _multiply(*of_rows, kind, exponent_bits, mantissa_bits)
                sums[0, part] = dot_product(decoded[low:high], q[low:high])
            arrivals += lanes
            meet(control, arrivals)
            curvature = 0.0
            for part in range(parts):
                curvature += sums[0, part]
            if lane == 0:
                report[done, 0], report[done, 1], report[done, 2] = 0.0, curvature, 0.0
            if not (curvature > 0.0 and curvature < np.inf):
                return done + 1
            alpha = product / curvature
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if stored == 1:
                    own = x[low:high], r[low:high], p[low:high], q[low:high]
                    sums[1, part], sums[2, part] = _update(*own, alpha)
                elif stored == 5:
                    whole = x, r, p, q, low, high, alpha, limit, vectors
                    sums[1, part], sums[2, part] = update_blocks(*whole)
                else:
                    whole = x, r, p, q, low, high, alpha, limit, vectors
                    sums[1, part], sums[2, part] = update_packed(*whole)
            arrivals += lanes
            meet(control, arrivals)
            square = of_residual = 0.0
            for part in range(parts):
                square += sums[1, part]
                of_residual += sums[2, part]
            beta = -of_residual / curvature
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if stored == 1:
                    sums[3, part] = _turn(r[low:high], p[low:high], beta)
                elif stored == 5:
                    turned = r, p, decoded, low, high, beta, limit, vectors
                    sums[3, part] = turn_blocks(*turned)
                else:
                    turned = r, p, decoded, low, high, beta, limit, vectors
                    sums[3, part] = turn_packed(*turned)
            arrivals += lanes
            meet(control, arrivals)
            product = 0.0
            for part in range(parts):
                product += sums[3, part]
            if lane == 0:
                report[done, 0], report[done, 2] = square, product
            done += 1
            if not square > target * target or product == 0.0 or not np.isfinite(square + product):
                break
        return done

    return iterate
