"""A system of linear equations, and the facts of its matrix that decide which method may solve it.

Symmetry compares every value with the one across the diagonal, and dominance adds up whole rows. They
cost one transposition and a few passes over the values, once a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.sparse.matrix import Matrix

_ROUNDING = 2.0**-46
"""Of values across the diagonal, relative to the largest one, as sums of elements in another order leave."""


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The matrix of a square system, with what is known of it.

    Parameters
    ----------
    matrix : Matrix
        Square.

    Raises
    ------
    InputError
        If the matrix is not square.

    Examples
    --------
    >>> system = LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.0, 2.0]]))
    >>> system.is_symmetric, system.has_positive_diagonal, system.dominance
    (True, True, 0.5)
    """

    matrix: Matrix

    def __post_init__(self) -> None:
        if self.matrix.rows != self.matrix.columns:
            raise InputError(f"the matrix has shape {self.matrix.shape}; a system that is solved here has a square one")

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.matrix.rows

    @cached_property
    def diagonal(self) -> Floats:
        """The main diagonal, shape (size,)."""
        return self.matrix.diagonal()

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the matrix equals its transpose but for what rounding of an assembly may do to a value."""
        given: Any = self.matrix.to_scipy()
        turned = given.T.tocsr()
        if (given != turned).nnz == 0:
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(abs(given - turned).max() <= _ROUNDING * abs(given).max())

    @property
    def has_positive_diagonal(self) -> bool:
        """Whether each diagonal entry is positive, as those of positive definite matrices are."""
        return bool((self.diagonal > 0).all())

    @cached_property
    def dominance(self) -> float:
        """The largest ratio of a row's sizes beside the diagonal to its diagonal entry; inf where that is 0.

        Below 1 the matrix is strictly diagonally dominant, and Jacobi's method reduces errors by the ratio at least.
        """
        sizes = np.abs(self.diagonal)
        given = self.matrix.to_scipy()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            beside = np.asarray(abs(given).sum(axis=1)).ravel() - sizes
            ratios = np.where(sizes > 0, np.maximum(beside, 0.0) / sizes, np.inf)
        return float(ratios.max(initial=0.0))

    @cached_property
    def jacobi_rate(self) -> float:
        """An estimate of the factor by which a sweep of Jacobi's method reduces errors in the end; inf without one.

        It is the largest row sum of sqrt(|a_ij a_ji|) beside the diagonal, over sqrt(|a_ii a_jj|). Where a diagonal
        similarity makes the matrix symmetric, as it does convection upwind, no eigenvalue of the iteration is larger.

        Examples
        --------
        >>> LinearSystem(Matrix.from_dense([[2.0, -4.0], [-0.25, 2.0]])).jacobi_rate
        0.5
        """
        sizes = np.abs(self.diagonal)
        if not (sizes > 0.0).all():
            return np.inf
        given = abs(self.matrix.to_scipy()).sqrt()
        scale = 1.0 / np.sqrt(sizes)
        products = given.multiply(given.T).tocsr()
        sums = scale * np.asarray(products @ scale)
        return float(np.maximum(sums - 1.0, 0.0).max(initial=0.0))

    @cached_property
    def diagonal_spread(self) -> float:
        """The largest size of a diagonal entry over the smallest; inf where one is 0."""
        sizes = np.abs(self.diagonal)
        least = sizes.min(initial=np.inf)
        return float(sizes.max(initial=0.0) / least) if least > 0.0 else np.inf

    @cached_property
    def frobenius_norm(self) -> float:
        """Frobenius norm of the matrix, found without overflow."""
        values = self.matrix.given_values()
        largest = float(np.abs(values).max(initial=0.0))
        return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0
