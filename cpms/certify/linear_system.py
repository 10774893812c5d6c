"""The certificate of a solution of A x = b: an upper bound of ||b - A x||_2, by code that no solver shares.

The residual is found by compensated dot products of the given float64 matrix (Dot2; see `cpms.certify.linear_loops`),
as if in twice the precision, and a bound of what rounding did to it is added. Backward errors are those of Rigal and
Gaches (normwise) and of Oettli and Prager (componentwise); see Higham, Accuracy and Stability of Numerical Algorithms,
2nd edition, section 7.1. A certificate costs one pass over the matrix.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.real_arrays import inner_product
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.certify import linear_loops
from cpms.problems.linear_system import LinearSystem

_ROWS = 1 << 14
"""Least number of rows in a task of a thread."""
_OF_NORMS = 2.0**-49
"""More than the relative error of a norm by `norm`: of squares, their sum, and the root."""
_LARGEST = sys.float_info.max
_AS_GIVEN, _AS_STORED = "the matrix as given", "the stored matrix"
_LEAST = 2.0**-1074
"""The least positive float64: more than the error of a norm that lies below the normal numbers."""
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
        The same where each entry changes relative to itself; inf if x or a product with it is not finite.
    of : str
        Which matrix the residual is of: "the matrix as given", or "the stored matrix" where no other exists.
    smallest_eigenvalue : float or None
        A lower bound of the eigenvalues of a symmetric positive definite A, as it was given; of (A + A^T) / 2 if A is
        symmetric up to rounding alone.
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
    of: str = _AS_GIVEN
    smallest_eigenvalue: float | None = None
    estimated_eigenvalue: float | None = None

    @property
    def bound(self) -> float:
        """An upper bound of ||b - A x||_2; 0 where that is known to be 0."""
        total = self.residual + self.roundoff
        return 0.0 if total == 0.0 else total * (1.0 + _OF_NORMS) + _TINY

    @property
    def relative(self) -> float:
        """``bound`` over ||b||_2; 0 where both are 0."""
        if self.bound == 0.0:
            return 0.0
        least = self.b_norm - _LEAST
        return self.bound / least * (1.0 + _OF_NORMS) if least > 0.0 else math.inf

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
        if not math.isfinite(self.bound):
            return False
        return self.bound == 0.0 or self.bound <= tol * (self.b_norm - _LEAST) * (1.0 - _OF_NORMS) - _TINY


class Residual(NamedTuple):
    """A residual, row by row: its values, bounds of their rounding errors, and |A| |x| + |b|."""

    values: Floats
    bounds: Floats
    sizes: Floats


class _Summary(NamedTuple):
    """What a certificate needs of a residual: sums of squares by parts, and the componentwise backward error."""

    squares: list[tuple[float, int]]
    squares_of_bounds: list[tuple[float, int]]
    ratio: float


def residual(system: LinearSystem, b: Floats, x: Floats) -> Residual:
    """Return b - A x in float64 of values that have twice its precision.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> system = LinearSystem(Matrix.from_dense([[1.0, 1e16], [0.0, 1.0]]))
    >>> residual(system, np.array([1e16, 1.0]), np.array([1.0, 1.0])).values.tolist()
    [-1.0, 0.0]
    """
    if not x.any():
        return Residual(b.copy(), np.zeros(system.size), np.abs(b))
    found = _empty(system.size)
    _summary(system, b, x, found)
    return found


def _empty(rows: int) -> Residual:
    return Residual(np.empty(rows), np.empty(rows), np.empty(rows))


def _summary(system: LinearSystem, b: Floats, x: Floats, found: Residual | None) -> _Summary:
    """Return what a certificate needs of b - A x for an x other than 0; ``found`` receives the residual if it is given.

    A part's residual is summed up while it is in a core's cache; threads reuse the memory of parts.
    """
    matrix, spare = system.matrix, list[Residual]()
    given = matrix.indptr, matrix.indices, matrix.given_values(), x, b

    def of_rows(part: tuple[int, int]) -> tuple[float, tuple[float, int], tuple[float, int]]:
        low, high = part
        try:
            rows = spare.pop() if found is None else Residual(*(each[low:high] for each in found))
        except IndexError:  # No thread is done with a part.
            rows = _empty(min(_ROWS, system.size))
        ratio = linear_loops.residual_rows(*given, *rows, low, high)
        squares = [linear_loops.sum_of_squares(each, 0, high - low) for each in (rows.values, rows.bounds)]
        spare.append(rows)
        return ratio, squares[0], squares[1]

    ratios, squares, of_bounds = zip(*threads.each(of_rows, threads.ranges(system.size, at_least=_ROWS)), strict=True)
    return _Summary(list(squares), list(of_bounds), float(np.max(ratios)))


def norm(values: Floats) -> float:
    """Return the 2-norm, infinite if it is beyond float64.

    Its relative error is below 2**-49, or its absolute one is 2**-1074.

    Examples
    --------
    >>> norm(np.array([3.0, 4.0])), norm(np.array([1e200, 0.0])), norm(np.array([0.0, 1e-200]))
    (5.0, 1e+200, 1e-200)
    """
    return _root(_squares(values))


def _squares(values: Floats) -> list[tuple[float, int]]:
    """Return sums of squares of parts, as `cpms.certify.linear_loops.sum_of_squares` does."""
    parts = threads.ranges(len(values), at_least=_ROWS)
    return threads.each(lambda part: linear_loops.sum_of_squares(values, *part), parts)


def _root(squares: list[tuple[float, int]]) -> float:
    """Return the root of a sum of such sums; inf if a value is not finite."""
    if not _are_finite(squares):
        return math.inf
    exponent = max((exponent for total, exponent in squares if total > 0.0), default=0)
    total = math.fsum(math.ldexp(total, 2 * (of_part - exponent)) for total, of_part in squares)
    try:
        return math.ldexp(math.sqrt(total), exponent)
    except OverflowError:
        return math.inf


def _are_finite(squares: list[tuple[float, int]]) -> bool:
    return all(math.isfinite(total) for total, _ in squares)


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
    squares = _squares(x)
    length = _root(squares)
    if not 0.0 < length < math.inf:
        return math.inf
    exponent = -math.frexp(length)[1]

    def sums(part: tuple[int, int]) -> tuple[float, ...]:
        with np.errstate(over="ignore", invalid="ignore"):
            y, right, values, bounds = (
                np.ldexp(each[slice(*part)], exponent) for each in (x, b, found.values, found.bounds)
            )
            sizes = inner_product(np.abs(y), np.abs(right) + np.abs(values))
            products = inner_product(y, right) - inner_product(y, values)
            return sizes, products, inner_product(np.abs(y), bounds), inner_product(y, y)

    parts = threads.each(sums, threads.ranges(len(x), at_least=_ROWS))
    # Sums in any order are within this bound.
    sizes, products, bounds, squares_of_y = (sum(each) for each in zip(*parts, strict=True))
    rounding = 4.0 * (len(x) + 4) * 2.0**-53
    quotient = (products + bounds + rounding * sizes) / squares_of_y
    quotient += rounding * abs(quotient) + _TINY
    return quotient if math.isfinite(quotient) else math.inf


@phase("certifying")
def certificate(
    system: LinearSystem,
    b: Floats,
    x: Floats,
    *,
    smallest_eigenvalue: float | None = None,
) -> Certificate:
    """Return the certificate of a solution.

    Parameters
    ----------
    system : LinearSystem
    b, x : ndarray of float64, shape (size,)
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
    of = _AS_STORED if system.matrix.is_decoded else _AS_GIVEN
    b_norm, of_x = norm(b), _squares(x)
    if not _are_finite(of_x):
        return Certificate(math.inf, 0.0, b_norm, math.inf, math.inf, of, smallest_eigenvalue)
    x_norm = _root(of_x)
    quotient = math.inf
    if x_norm == 0.0:  # No pass over the matrix: b is the residual, in which nothing is rounded.
        found = _Summary(_squares(b), [(0.0, 0)], 1.0 if b_norm > 0.0 else 0.0)
    elif smallest_eigenvalue is None:
        found = _summary(system, b, x, None)
    else:
        rows = _empty(system.size)
        found = _summary(system, b, x, rows)
        quotient = rayleigh_quotient(b, x, rows)
    if smallest_eigenvalue is not None and smallest_eigenvalue > quotient:
        raise InputError(
            f"smallest_eigenvalue is {smallest_eigenvalue}, but x.Ax / x.x is {quotient:.6g} for the answer x, and the "
            "smallest eigenvalue of A is at most that; give a lower bound of it"
        )
    if not _are_finite(found.squares + found.squares_of_bounds):
        return Certificate(math.inf, math.inf, b_norm, math.inf, math.inf, of, smallest_eigenvalue)
    size = _root(found.squares)
    roundoff = _root(found.squares_of_bounds) + _OF_NORMS * size
    normwise = _normwise(size + roundoff, system.matrix.frobenius_norm, x_norm, b_norm)
    return Certificate(size, roundoff, b_norm, normwise, found.ratio, of, smallest_eigenvalue)


def _normwise(size: float, of_matrix: float, of_x: float, of_b: float) -> float:
    """Return the normwise backward error of a residual of that size, at most 1, whatever the range of the norms.

    Examples
    --------
    >>> _normwise(1e-200, 1e-200, 1e-200, 0.0), _normwise(1e300, 1e300, 1e300, 1.0), _normwise(0.0, 0.0, 1.0, 0.0)
    (1.0, 1e-300, 0.0)
    """
    if not math.isfinite(size):
        return math.inf
    norms = [Fraction(max(min(each, _LARGEST) - _LEAST, 0.0)) for each in (of_matrix, of_x, of_b)]
    scale = norms[0] * norms[1] + norms[2]
    return float(min(Fraction(1), Fraction(size) / scale)) if scale > 0 else float(size > 0.0)
