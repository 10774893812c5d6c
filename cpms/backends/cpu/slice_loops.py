"""Compiled products of slices of 32 rows (SELL) whose values are decoded in registers.

The sums of eight rows are in registers while a loop goes over the columns of a slice. This is the loop order of
Kreutzer et al. (SIAM J. Sci. Comput. 36, 2014) for one vector register. A slice is passed four times, and its cache
lines are in the first cache after the first time. A value is decoded by a few instructions and without a buffer, whose
traffic would cost more than the bytes that few bits save. Formats of several segments, and block floats, are decoded by
tiles in `product_loops`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cpu.product_loops import CODES, NATIVE, PACKED, SEGMENTS, end_rows
from cpms.base.jit import compiled, inlined_in_loops
from cpms.storage.host_loops import widened_float

u64 = np.uint64
inlined: Any = inlined_in_loops()


def decodes(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> bool:
    """Return whether values of a format are decoded in registers; arguments are those of `slices_kernel`.

    Examples
    --------
    >>> decodes((NATIVE, 0, 0, 0), (1,)), decodes((SEGMENTS, 2, 0, 4), (1, 1, 1, 1))
    (True, False)
    """
    return spec[0] in (NATIVE, PACKED, CODES) or (spec[0] == SEGMENTS and spec[1] == segment_units[0] == 1)


@inlined
def _value(stored, table, k, kind, first, second, third):  # type: ignore[no-untyped-def]
    """Return value ``k`` as float64."""
    if kind == NATIVE:
        return np.float64(stored[k])
    if kind == SEGMENTS:
        at = k if second == 0 else k // u64(second) * u64(second * third) + k % u64(second)
        return u64(u64(stored[at]) << u64(64 - 64 // third)).view(np.float64)
    if kind == CODES:
        return np.float64(table[u64(stored[u64(2048) + k])])
    raw = u64(stored[k])
    # Matrices are finite, so the largest exponent never occurs.
    size = widened_float(raw & u64((1 << (first + second)) - 1), first, second)
    return u64(np.float64(size).view(np.uint64) | raw >> u64(first + second) << u64(63)).view(np.float64)


@cache
def slices_kernel(spec: tuple[int, ...], segment_units: tuple[int, ...]) -> Any:  # noqa: ARG001
    """Return the kernel of products of rows at places ``low`` to ``high`` in SELL.

    The kernel returns these rows' part of the dot product. Arguments, here and of the kernel, are those of
    `cpms.backends.cpu.product_loops.slices_kernel`, except for the sizes of slices and blocks, which are 32.
    """
    kind = spec[0]

    @compiled(error_model="numpy")
    def product(  # type: ignore[no-untyped-def]
        starts, columns, values, order, rows, x, out, scalars, row_exponents, add, dot, real, low, high
    ):
        sums = np.empty(32, real.dtype)
        table = values[:2048].view(np.float64) if kind == CODES else np.empty(0, np.float64)
        alpha, beta, _ = scalars
        is_plain = len(order) + len(row_exponents) + len(add) + len(dot) == 0 and beta == 0.0
        dotted = 0.0
        typed = real.dtype.type
        for begin in range(low, high, 32):
            here = begin // 32
            first, end = u64(starts[here]), u64(starts[here + 1])
            for lane in range(0, 32, 8):
                a = b = c = d = e = f = g = h = typed(0)
                k = first + u64(lane)
                while k < end:
                    a += typed(_value(values, table, k, *spec)) * typed(x[columns[k]])
                    b += typed(_value(values, table, k + u64(1), *spec)) * typed(x[columns[k + u64(1)]])
                    c += typed(_value(values, table, k + u64(2), *spec)) * typed(x[columns[k + u64(2)]])
                    d += typed(_value(values, table, k + u64(3), *spec)) * typed(x[columns[k + u64(3)]])
                    e += typed(_value(values, table, k + u64(4), *spec)) * typed(x[columns[k + u64(4)]])
                    f += typed(_value(values, table, k + u64(5), *spec)) * typed(x[columns[k + u64(5)]])
                    g += typed(_value(values, table, k + u64(6), *spec)) * typed(x[columns[k + u64(6)]])
                    h += typed(_value(values, table, k + u64(7), *spec)) * typed(x[columns[k + u64(7)]])
                    k += u64(32)
                sums[lane], sums[lane + 1], sums[lane + 2], sums[lane + 3] = a, b, c, d
                sums[lane + 4], sums[lane + 5], sums[lane + 6], sums[lane + 7] = e, f, g, h
            count = min(32, rows - begin)
            if is_plain:  # A loop without branches.
                into = out[begin : begin + count]
                for i in range(count):
                    into[i] = alpha * sums[i]
                continue
            dotted += end_rows(sums, begin, count, order, out, scalars, row_exponents, add, dot)
        return dotted

    return product
