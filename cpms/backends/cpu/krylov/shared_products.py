"""Compiled products of a range of rows with the p of several right-hand sides, which share each read of the matrix.

A block holds the values of all p for a row side by side, so that an entry of the matrix, and a cache line of p, are
read once for all. Each right-hand side's sum has the accumulators of `cpms.backends.cpu.krylov.row_products` in the
same order, so its bits are the same.
"""

from __future__ import annotations

from typing import Any

from cpms.backends.cpu.krylov.row_products import COLUMNS, u64, value_at
from cpms.base.compilation.instructions import add_products, stack_reals
from cpms.base.jit import inlined_in_loops
from cpms.contracts.conjugate_gradients import SHARED

_TWO: Any = 2 * SHARED
_FOUR: Any = 4 * SHARED


@inlined_in_loops()
def multiply_for_all(matrix, p, q, low, high, shape, kind, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Do q[j] = A p[:, j] in a range of rows whose values are stored; columns are, or come from patterns of rows."""
    starts, columns, values, table, factor, of_row, pattern_starts, distances = matrix
    sums, together = stack_reals(_FOUR), 4 if shape == COLUMNS else 2
    for row in range(low, high):
        k, end = u64(starts[row]), u64(starts[row + 1])
        ahead = u64(0) if shape == COLUMNS else u64(pattern_starts[of_row[row]]) - k
        for i in range(_FOUR):
            sums[i] = 0.0
        while k + u64(together) <= end:
            for i in range(together):
                at = k + u64(i)
                column = u64(columns[at]) if shape == COLUMNS else u64(row + distances[at + ahead])
                add_products(
                    sums, i, value_at(values, table, at, kind, exponent_bits, mantissa_bits), p, column, SHARED
                )
            k += u64(together)
        while k < end:
            column = u64(columns[k]) if shape == COLUMNS else u64(row + distances[k + ahead])
            add_products(sums, 0, value_at(values, table, k, kind, exponent_bits, mantissa_bits), p, column, SHARED)
            k += u64(1)
        for j in range(SHARED):
            q[j, row] = factor * ((sums[j] + sums[SHARED + j]) + (sums[_TWO + j] + sums[_TWO + SHARED + j]))
