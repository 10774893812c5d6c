"""Compiled loops of residuals in twice the precision of float64, for certificates of linear systems.

Dot2 of Ogita, Rump and Oishi (Accurate sum and dot product, SIAM J. Sci. Comput. 26, 2005): products are split into
value and error by Dekker's splitting, and the errors of products and sums are added up apart. A term costs 25
operations.
"""

from __future__ import annotations

from typing import Any

from cpms.base.jit import compiled, numba

inlined: Any = numba.njit(inline="always")
_SPLITTER = 134217729.0  # 2**27 + 1
_UNIT = 2.0**-53
_UNDERFLOW = 2.0**-1060  # more than what products below the normal range lose


@inlined
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@inlined
def _two_product(a, b):  # type: ignore[no-untyped-def]
    product = a * b
    wide = _SPLITTER * a
    a_high = wide - (wide - a)
    wide = _SPLITTER * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@compiled(error_model="numpy")
def residual_rows(indptr, indices, values, x, b, residual, bound, sizes, low, high):  # type: ignore[no-untyped-def]
    """Write b - A x of some rows, bounds of what rounding did to it, and the rows of |A| |x| + |b|."""
    for row in range(low, high):
        total, errors, size = b[row], 0.0, abs(b[row])
        for k in range(indptr[row], indptr[row + 1]):
            product, error = _two_product(-values[k], x[indices[k]])
            total, lost = _two_sum(total, product)
            errors += error + lost
            size += abs(product)
        found = total + errors
        terms = indptr[row + 1] - indptr[row] + 2.0
        gamma = terms * _UNIT / (1.0 - terms * _UNIT)
        residual[row] = found
        # A sixteenth more than the bound of Dot2, for the rounding of the bound and of the sizes.
        bound[row] = 1.0625 * (_UNIT * abs(found) + gamma * gamma * size) + terms * _UNDERFLOW
        sizes[row] = size


@compiled(error_model="numpy")
def sum_of_squares(values, scale, low, high):  # type: ignore[no-untyped-def]
    """Return the compensated sum of squares of some values times ``scale``, a power of two."""
    total = errors = 0.0
    for i in range(low, high):
        value = values[i] * scale
        total, lost = _two_sum(total, value * value)
        errors += lost
    return total + errors
