"""How far a residual that is computed in float64 may be from the exact one."""

from __future__ import annotations

import math

UNIT = 2.0**-53
"""Relative error of an operation at most."""
ROW_BLOCK = 1024
"""Entries of a long row that engine cpu adds up one after the other, and then their sums; a multiple of 4."""
_PAIRWISE_BLOCK, _BLOCK_ADDITIONS = 128, 26
"""Terms that NumPy's pairwise summation adds up without halving them, and additions that a term passes there."""
_OTHERS = 12
"""Operations that a term passes beside additions: division, weight and its sum, damping, teleport, dangling, change."""


def pairwise_additions(terms: int) -> int:
    """Return how many additions a term passes at most where NumPy adds up so many that lie side by side.

    Examples
    --------
    >>> pairwise_additions(100), pairwise_additions(128 << 20)
    (26, 46)
    """
    return _BLOCK_ADDITIONS + max(0, math.ceil(math.log2(max(terms, 1) / _PAIRWISE_BLOCK)))


def compensated_additions(terms: int) -> int:
    """Return how many additions are off by as much as a compensated sum of so many terms, none below 0.

    Its error is u of the sum and (n u)^2 of what is added up (Ogita, Rump and Oishi, Accurate sum and dot product,
    proposition 4.5).

    Examples
    --------
    >>> compensated_additions(10**6), compensated_additions(2**31)
    (3, 514)
    """
    return 2 + math.ceil(terms * terms * UNIT)


def of_residual(additions: int) -> float:
    """Return how much ||G(x) - x||_1 may be off, for x of mass 1 whose terms pass so many additions within a row.

    A sum of positive terms that pass k operations each is off by at most k u / (1 - k u) of itself (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd edition, section 4.2); all that is added up to G(x), and x, are of mass
    2. What adding up the changes themselves does is a share of the residual, far below its printed digits.

    Examples
    --------
    >>> round(of_residual(pairwise_additions(10**6)) / UNIT)
    102
    """
    steps = (additions + _OTHERS) * UNIT
    return 2.0 * steps / (1.0 - steps)


def error_bound(residual_l1: float, roundoff: float, damping: float) -> float:
    """Return the bound (residual_l1 + roundoff) / (1 - damping) of ||x - x*||_1.

    From x - x* = (x - G(x)) + (G(x) - G(x*)) and ||G(x) - G(x*)||_1 <= damping ||x - x*||_1, G being affine with a
    matrix whose columns sum to at most damping.

    Parameters
    ----------
    residual_l1 : float
        ||G(x) - x||_1 as float64 gave it.
    roundoff : float
        How much that may be off; see `of_residual`.
    damping : float

    Examples
    --------
    >>> error_bound(1e-10, 0.0, 0.5)
    2e-10
    """
    return (residual_l1 + roundoff) / (1.0 - damping)
