"""The certificate of a solution of A x = b: an upper bound of ||b - A x||_2, by code that no solver shares.

The residual is found by compensated dot products of the given float64 matrix (Dot2; see `cpms.certify.linear_loops`),
as if in twice the precision, and a bound of what rounding did to it is added. Backward errors are those of Rigal and
Gaches (normwise) and of Oettli and Prager (componentwise); see Higham, Accuracy and Stability of Numerical Algorithms,
2nd edition, section 7.1. A certificate costs one pass over the matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.real_arrays import inner_product
from cpms.base.types import Floats
from cpms.certify import linear_loops
from cpms.problems.linear_system import LinearSystem

_ROWS = 1 << 14
"""Least number of rows in a task of a thread."""
_OF_NORMS = 2.0**-49
"""More than the relative error of a norm by `norm`: of squares, their sum, and the root."""
_TINY = 2.0**-1070
"""More than the error of a norm, or of a product with a tolerance, that lies below the normal numbers."""


@dataclass(frozen=True)
class Certificate:
    """What is proved of a solution.

    Attributes
    ----------
    residual : float
        ||b - A x||_2 as computed; inf if x or a product with it is not finite.
    roundoff : float
        Bound of the difference of ``residual`` to the exact norm.
    b_norm : float
        ||b||_2.
    normwise_backward_error : float
        The least relative change of A (Frobenius norm) and b for which x is the exact solution.
    componentwise_backward_error : float
        The same where each entry changes relative to itself; inf where a residual stands in a row of zeros.
    of : str
        Which matrix the residual is of: "the matrix as given", or "the stored matrix" where no other exists.
    smallest_eigenvalue : float or None
        A lower bound of the eigenvalues of a symmetric positive definite A, as it was given.
    estimated_eigenvalue : float or None
        An estimate of the smallest eigenvalue of such an A, from the coefficients of conjugate gradients. It is no
        bound: with few iterations it is too large. With a preconditioner M, Jacobi's or block Jacobi's, it is that of
        M^-1 A times the least one of M, which is at most that of A.

    Notes
    -----
    With r = b - A x, the normwise backward error is ||r|| / (||A|| ||x|| + ||b||) (Rigal and Gaches, J. ACM 14, 1967),
    the componentwise one the largest |r|_i / (|A| |x| + |b|)_i (Oettli and Prager, Numer. Math. 6, 1964).

    Examples
    --------
    >>> import cpms
    >>> found = cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0]).certificate
    >>> found.meets(1e-10), found.of
    (True, 'the matrix as given')
    """

    residual: float
    roundoff: float
    b_norm: float
    normwise_backward_error: float
    componentwise_backward_error: float
    of: str = "the matrix as given"
    smallest_eigenvalue: float | None = None
    estimated_eigenvalue: float | None = None

    @property
    def bound(self) -> float:
        """An upper bound of ||b - A x||_2; 0 where that is known to be 0."""
        total = self.residual + self.roundoff
        return total * (1.0 + _OF_NORMS) + _TINY if total > 0.0 else 0.0

    @property
    def relative(self) -> float:
        """``bound`` over ||b||_2; 0 where both are 0."""
        if self.bound == 0.0:
            return 0.0
        return self.bound / self.b_norm * (1.0 + _OF_NORMS) if self.b_norm > 0.0 else math.inf

    @property
    def error_bound(self) -> float | None:
        """Bound of ||x - x*||_2, ``bound`` over the smallest eigenvalue; None where that is not known."""
        return None if self.smallest_eigenvalue is None else self.bound / self.smallest_eigenvalue * (1.0 + _OF_NORMS)

    @property
    def error_estimate(self) -> float | None:
        """Estimate of ``error_bound``: ``bound`` over the estimated smallest eigenvalue; None without an estimate."""
        return None if self.estimated_eigenvalue is None else self.bound / self.estimated_eigenvalue

    def meets(self, tol: float) -> bool:
        """Return whether the exact residual is at most ``tol`` times ||b||_2.

        Examples
        --------
        >>> import cpms
        >>> cpms.Certificate(1e-11, 1e-20, 1.0, 1e-11, 1e-11).meets(1e-10)
        True
        """
        return self.bound == 0.0 or self.bound <= tol * self.b_norm * (1.0 - _OF_NORMS) - _TINY


class Residual(NamedTuple):
    """A residual, row by row: its values, bounds of their rounding errors, and |A| |x| + |b|."""

    values: Floats
    bounds: Floats
    sizes: Floats


def residual(system: LinearSystem, b: Floats, x: Floats) -> Residual:
    """Return b - A x in float64 of values that have twice its precision.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[1.0, 1e16], [0.0, 1.0]]))
    >>> residual(system, np.array([1e16, 1.0]), np.array([1.0, 1.0])).values.tolist()
    [-1.0, 0.0]
    """
    matrix = system.matrix
    if not x.any():
        return Residual(b.copy(), np.zeros(system.size), np.abs(b))
    found = Residual(np.empty(system.size), np.empty(system.size), np.empty(system.size))
    given = matrix.indptr, matrix.indices, matrix.given_values(), x, b
    threads.each(
        lambda part: linear_loops.residual_rows(*given, *found, *part), threads.ranges(system.size, at_least=_ROWS)
    )
    return found


def norm(values: Floats) -> float:
    """Return the 2-norm, infinite if it is beyond float64.

    Its relative error is below 2**-49, or its absolute one is 2**-1074.

    Examples
    --------
    >>> norm(np.array([3.0, 4.0])), norm(np.array([1e200, 0.0])), norm(np.array([0.0, 1e-200]))
    (5.0, 1e+200, 1e-200)
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest if largest == 0.0 else math.inf
    exponent = min(max(math.frexp(largest)[1], -1000), 1000)
    scale = math.ldexp(1.0, -exponent)
    parts = threads.ranges(len(values), at_least=_ROWS)
    squares = math.fsum(threads.each(lambda part: float(linear_loops.sum_of_squares(values, scale, *part)), parts))
    try:
        return math.ldexp(math.sqrt(squares), exponent)
    except OverflowError:
        return math.inf


def require_lower_bound(value: float, system: LinearSystem) -> None:
    """Refuse a lower bound of the eigenvalues that lies above a diagonal entry, or of a matrix that is not symmetric.

    Raises
    ------
    InputError

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> require_lower_bound(1.0, LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.0, 2.0]])))
    """
    row = int(np.argmin(system.diagonal))
    if value > system.diagonal[row]:
        raise InputError(
            f"smallest_eigenvalue is {value}, but row {row} of A has {system.diagonal[row]} on the diagonal, and no "
            "diagonal entry of a symmetric matrix lies below its smallest eigenvalue; give a lower bound of that"
        )
    if not system.is_symmetric:
        raise InputError(
            "smallest_eigenvalue bounds errors of symmetric matrices, and A is not symmetric; leave it out"
        )


def rayleigh_quotient(b: Floats, x: Floats, found: Residual) -> float:
    """Return an upper bound of x.Ax / x.x, which is at least the smallest eigenvalue of A; inf where it overflows.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> b, x = np.array([1.0, 1.0]), np.array([1.0, 1.0])
    >>> quotient = rayleigh_quotient(b, x, residual(LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.0, 2.0]])), b, x))
    >>> 1.0 <= quotient < 1.0 + 1e-12
    True
    """
    largest = float(np.abs(x).max(initial=0.0))
    if not 0.0 < largest < math.inf:
        return math.inf
    exponent = -math.frexp(largest)[1]
    with np.errstate(over="ignore", invalid="ignore"):
        y, right, values, bounds = (np.ldexp(each, exponent) for each in (x, b, found.values, found.bounds))
        sizes = inner_product(np.abs(y), np.abs(right) + np.abs(values))
        rounding = 4.0 * (len(x) + 4) * 2.0**-53
        top = inner_product(y, right) - inner_product(y, values) + inner_product(np.abs(y), bounds) + rounding * sizes
        quotient = top / inner_product(y, y)
        quotient += rounding * abs(quotient) + _TINY
    return quotient if math.isfinite(quotient) else math.inf


def certificate(
    system: LinearSystem,
    b: Floats,
    x: Floats,
    *,
    of: str = "the matrix as given",
    smallest_eigenvalue: float | None = None,
) -> Certificate:
    """Return the certificate of a solution.

    Parameters
    ----------
    system : LinearSystem
    b, x : ndarray of float64, shape (size,)
    of : str
        What the system's matrix is.
    smallest_eigenvalue : float, optional
        A lower bound of the eigenvalues of a symmetric matrix.

    Raises
    ------
    InputError
        If ``smallest_eigenvalue`` is above the Rayleigh quotient of x, and so no lower bound.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[2.0, 0.0], [0.0, 4.0]]))
    >>> found = certificate(system, np.array([2.0, 4.0]), np.array([1.0, 1.5]), smallest_eigenvalue=2.0)
    >>> found.residual, found.error_bound >= 0.5, found.meets(0.5), found.meets(0.4)
    (2.0, True, True, False)
    """
    b_norm = norm(b)
    if not np.isfinite(x).all():
        return Certificate(math.inf, 0.0, b_norm, math.inf, math.inf, of, smallest_eigenvalue)
    found = residual(system, b, x)
    if smallest_eigenvalue is not None and smallest_eigenvalue > (quotient := rayleigh_quotient(b, x, found)):
        raise InputError(
            f"smallest_eigenvalue is {smallest_eigenvalue}, but x.Ax / x.x is {quotient:.6g} for the answer x, and the "
            "smallest eigenvalue of A is at most that; give a lower bound of it"
        )
    size = norm(found.values) if np.isfinite(found.values).all() and np.isfinite(found.bounds).all() else math.inf
    roundoff = norm(found.bounds) + _OF_NORMS * size if math.isfinite(size) else math.inf
    scale = system.matrix.frobenius_norm * norm(x) + b_norm
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.abs(found.values) + found.bounds
        ratios = np.where(sizes > 0, sizes / found.sizes, 0.0)
    ratios[(found.values == 0.0) & (found.sizes == 0.0)] = 0.0
    normwise = (size + roundoff) / scale if scale > 0.0 else 0.0
    return Certificate(size, roundoff, b_norm, normwise, float(ratios.max(initial=0.0)), of, smallest_eigenvalue)
