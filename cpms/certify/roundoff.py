"""Bounds of the rounding error of a residual in float64, and the error bound of an answer.

Standard forward error analysis of sums (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapter
4), counted for the sums that `cpms.certify` and the engines use.
"""

from __future__ import annotations

import math

UNIT = 2.0**-53
"""Unit roundoff of float64: the largest relative error of an operation."""
ROW_BLOCK = 1024
"""Entries of a block of a long row, which engine cpu sums recursively; a multiple of 4."""
_PAIRWISE_BLOCK, _BLOCK_ADDITIONS = 128, 26
"""Terms of the smallest block of NumPy's pairwise summation, and additions that a term passes in it."""
_OTHERS = 12
"""Operations on a term besides additions: division, weight and its sum, damping, teleport, dangling, change."""


def pairwise_additions(terms: int) -> int:
    """Return the largest number of additions on a term in NumPy's pairwise sum of contiguous terms.

    Examples
    --------
    >>> pairwise_additions(100), pairwise_additions(128 << 20)
    (26, 46)
    """
    return _BLOCK_ADDITIONS + max(0, math.ceil(math.log2(max(terms, 1) / _PAIRWISE_BLOCK)))


def compensated_additions(terms: int) -> int:
    """Return the number of additions with the same error bound as a compensated sum of nonnegative terms.

    The error of that sum is u times the sum, and (n u)^2 times the sum of absolute values (Ogita, Rump and Oishi,
    Accurate sum and dot product, 2005, proposition 4.5).

    Examples
    --------
    >>> compensated_additions(10**6), compensated_additions(2**31)
    (3, 514)
    """
    return 2 + math.ceil(terms * terms * UNIT)


def of_residual(additions: int) -> float:
    """Return a bound of the rounding error of ||G(x) - x||_1, for x of mass 1 and ``additions`` on a term of a row.

    A sum of positive terms with k operations on each has a relative error of at most k u / (1 - k u) (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd edition, section 4.2). The terms of G(x) and x have mass 2 together. The
    error of the sum over the changes is relative to the residual, far below its printed digits.

    Examples
    --------
    >>> round(of_residual(pairwise_additions(10**6)) / UNIT)
    102
    """
    return of_terms((additions + _OTHERS) * UNIT)


def of_terms(relative: float) -> float:
    """Return a bound of the rounding error of ||G(x) - x||_1 from a bound of each term's relative error.

    The terms of G(x) and x have mass 2 together. The certificate on devices counts its own operations on a term.

    Examples
    --------
    >>> of_terms(0.25)
    0.6666666666666666
    """
    return 2.0 * relative / (1.0 - relative)


def error_bound(residual_l1: float, roundoff: float, damping: float) -> float:
    """Return the bound (residual_l1 + roundoff) / (1 - damping) of ||x - x*||_1.

    From x - x* = (x - G(x)) + (G(x) - G(x*)) and ||G(x) - G(x*)||_1 <= damping ||x - x*||_1, G being affine with a
    matrix whose columns sum to at most damping.

    Parameters
    ----------
    residual_l1 : float
        ||G(x) - x||_1 as computed in float64.
    roundoff : float
        Bound of its rounding error; see `of_residual`.
    damping : float

    Examples
    --------
    >>> error_bound(1e-10, 0.0, 0.5)
    2e-10
    """
    return (residual_l1 + roundoff) / (1.0 - damping)
