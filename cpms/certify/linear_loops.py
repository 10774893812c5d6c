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
_UNDERFLOW = 2.0**-1060  # More than products below the normal range lose.
_WIDE = 2.0**400  # The sum of squares of values from its inverse up to it neither overflows nor vanishes.
_SCALE_EXPONENT = 600
_SCALE_DOWN = 2.0**-600


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
def residual_rows(indptr, indices, values, x, b, residual, bounds, sizes, low, high):  # type: ignore[no-untyped-def]
    """Write b - A x of rows ``low`` to ``high``, bounds of what rounding did to it, and |A| |x| + |b|.

    Returns the largest ratio of |b - A x| and its bound to the third, of rows whose residual is a number. The exact
    ratio is at most 1, and so is this one. It is 1 of a row whose products all vanish below the range of float64.
    """
    largest = 0.0
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
        # A sixteenth more than the bound of Dot2, for the rounding of the bound and of the sizes.
        bound = 1.0625 * (_UNIT * abs(found) + gamma * gamma * size) + terms * _UNDERFLOW
        residual[row - low], bounds[row - low], sizes[row - low] = found, bound, size
        if size > 0.0:
            largest = max(largest, min(1.0, (abs(found) + bound) / size))
        else:
            for k in range(indptr[row], indptr[row + 1]):
                if values[k] != 0.0 and x[indices[k]] != 0.0:
                    largest = 1.0
    return largest


@compiled(error_model="numpy")
def sum_of_squares(values, low, high):  # type: ignore[no-untyped-def]
    """Return the compensated sum of squares of some values over 4**e, and e; NaN or inf if a value is not finite.

    The power of two keeps squares in the range of float64, and rounds nothing.
    """
    largest = 0.0
    for i in range(low, high):
        if abs(values[i]) > largest:
            largest = abs(values[i])
    scale, exponent = 1.0, 0
    if largest > _WIDE:
        scale, exponent = _SCALE_DOWN, _SCALE_EXPONENT
    elif largest < 1.0 / _WIDE:
        scale, exponent = 1.0 / _SCALE_DOWN, -_SCALE_EXPONENT
    total = errors = 0.0
    for i in range(low, high):
        value = values[i] * scale
        total, lost = _two_sum(total, value * value)
        errors += lost
    return total + errors, exponent
