"""A system of linear equations, and the facts of its matrix that decide which method may solve it.

Symmetry compares every value with the one across the diagonal, and dominance adds up whole rows. These facts cost one
transposition and a few passes over the values, once a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.real_arrays import euclidean_norm
from cpms.base.types import Floats
from cpms.sparse.matrix import Matrix

_ROUNDING_OF_LOGS = 2.0**-36
"""Tolerance of sums of logarithms along paths, relative to the largest of these sums."""
_ROUNDING = 2.0**-46
"""Tolerance of symmetry, relative to the largest value: an assembly may sum a_ij and a_ji in different orders."""
_ROWS = 1 << 15
"""Least number of rows in a task of a thread."""
_MANY = 1 << 22
"""Entries of a matrix from which on exact symmetry is looked for without a transpose, which one thread makes."""


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
    def _transpose(self) -> tuple[Any, Floats | None]:
        """The transpose in SciPy's CSR, and None; where it has the places of the matrix, None and its values alone.

        Both live as long as the system: of a symmetric matrix the values are its own, in no other memory.
        """
        matrix = self.matrix
        if matrix.entries >= _MANY and self._equals_transpose:
            return None, matrix.given_values()
        turned = matrix.to_scipy().T.tocsr()
        if not (np.array_equal(turned.indptr, matrix.indptr) and np.array_equal(turned.indices, matrix.indices)):
            return turned, None
        given = matrix.given_values()
        return None, given if np.array_equal(turned.data, given) else turned.data

    @property
    def _equals_transpose(self) -> bool:
        from cpms.problems.symmetry import equals_transpose  # Small matrices do without its compiled loop.

        return equals_transpose(self.matrix)

    @property
    def _turned(self) -> Any:
        """The transpose in SciPy's CSR, with sorted indices; None where `_across` is enough."""
        return self._transpose[0]

    @property
    def _across(self) -> Floats | None:
        """The value across the diagonal from each stored one; None where some are not stored."""
        return self._transpose[1]

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the matrix equals its transpose, up to rounding errors of an assembly."""
        given, across = self.matrix.given_values(), self._across
        if across is not None and (across is given or self.matrix.values is None):
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            beside = given - across if across is not None else (self.matrix.to_scipy() - self._turned).data
            difference = float(np.abs(beside).max(initial=0.0))
            return difference == 0.0 or bool(difference <= _ROUNDING * np.abs(given).max())

    @cached_property
    def asymmetry(self) -> float:
        """The Frobenius norm of A - A^T over that of A + A^T; inf if these are opposite matrices.

        Examples
        --------
        >>> round(LinearSystem(Matrix.from_dense([[3.0, 4.0], [-4.0, 3.0]])).asymmetry, 3)
        1.333
        """
        given, across = self.matrix.given_values(), self._across
        exponent = -np.frexp(np.abs(given).max(initial=0.0))[1]  # Sums of unscaled values may overflow.
        with np.errstate(under="ignore"):
            if across is None:
                ours, theirs = (_scaled(each, exponent) for each in (self.matrix.to_scipy(), self._turned))
                skew, even = (ours - theirs).data, (ours + theirs).data
            else:
                ours, theirs = np.ldexp(given, exponent), np.ldexp(across, exponent)
                skew, even = ours - theirs, ours + theirs
            sizes = euclidean_norm(skew), euclidean_norm(even)
        return sizes[0] / sizes[1] if sizes[1] > 0.0 else np.inf

    @cached_property
    def _extremes(self) -> tuple[float, float, float]:
        """The least diagonal entry, and the least and the largest size of one."""
        diagonal = self.diagonal

        def within(part: tuple[int, int]) -> tuple[float, float, float]:
            entries = diagonal[slice(*part)]
            sizes = np.abs(entries)
            return float(entries.min()), float(sizes.min()), float(sizes.max())

        found = threads.each(within, threads.ranges(len(diagonal), at_least=_ROWS))
        least, least_sizes, sizes = zip(*found, strict=True)
        return min(least), min(least_sizes), max(sizes)

    @property
    def has_positive_diagonal(self) -> bool:
        """Whether each diagonal entry is positive, as those of positive definite matrices are."""
        return self._extremes[0] > 0.0

    @cached_property
    def has_inverse_diagonal(self) -> bool:
        """Whether 1 over each diagonal entry is a finite number."""
        with np.errstate(divide="ignore", over="ignore"):
            return bool(np.isfinite(1.0 / np.float64(self._extremes[1])))

    @cached_property
    def dominance(self) -> float:
        """The largest ratio, over rows, of the sum of off-diagonal sizes to the diagonal size; inf where that is 0.

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
        """An estimate of the asymptotic convergence factor of Jacobi's method; inf if a diagonal entry is 0.

        It is the largest off-diagonal row sum of sqrt(|a_ij a_ji|) / sqrt(|a_ii a_jj|). Where a diagonal similarity
        makes the matrix symmetric, as for upwind convection, no eigenvalue of the iteration is larger.

        Examples
        --------
        >>> LinearSystem(Matrix.from_dense([[2.0, -4.0], [-0.25, 2.0]])).jacobi_rate
        0.5
        """
        sizes = np.abs(self.diagonal)
        if not (sizes > 0.0).all():
            return np.inf
        scale = 1.0 / np.sqrt(sizes)
        products = abs(self.matrix.to_scipy()).sqrt()
        if self._across is None:
            products = products.multiply(abs(self._turned).sqrt()).tocsr()
        else:
            products.data *= np.sqrt(np.abs(self._across))
        sums = scale * np.asarray(products @ scale)
        return float(np.maximum(sums - 1.0, 0.0).max(initial=0.0))

    @cached_property
    def is_symmetrizable(self) -> bool:
        """Whether a diagonal similarity makes the matrix symmetric, so that its eigenvalues are real.

        Kolmogorov's criterion: log |a_ij / a_ji| must be p_i - p_j for a potential p, one number a row. A spanning
        forest gives p, and every other entry is compared with it.

        Examples
        --------
        >>> LinearSystem(Matrix.from_dense([[2.0, -4.0], [-0.25, 2.0]])).is_symmetrizable
        True
        >>> LinearSystem(Matrix.from_dense([[2.0, -4.0], [0.25, 2.0]])).is_symmetrizable
        False
        """
        given, across = self.matrix.to_scipy(), self._across
        if across is None or not given.data.all():
            given = given.copy()
            given.eliminate_zeros()
            others = LinearSystem(Matrix.from_scipy(given))._across
            if others is None:
                return False
            across = others
        if ((given.data > 0.0) != (across > 0.0)).any():
            return False
        rows = np.repeat(np.arange(self.size), np.diff(given.indptr))
        potential = _potentials(rows, given, across)
        above = np.flatnonzero(rows < given.indices)
        differences = potential[rows[above]] - potential[given.indices[above]]
        misses = np.abs(differences - _log_ratios(given.data[above], across[above]))
        return bool((misses <= _ROUNDING_OF_LOGS * np.abs(potential).max(initial=1.0)).all())

    @cached_property
    def diagonal_spread(self) -> float:
        """The largest size of a diagonal entry over the smallest; inf where one is 0."""
        _, least, largest = self._extremes
        with np.errstate(over="ignore"):
            return float(np.float64(largest) / least) if least > 0.0 else np.inf


def _scaled(matrix: Any, exponent: int) -> Any:
    """Return a copy of a sparse matrix, times 2**exponent."""
    return scipy.sparse.csr_array((np.ldexp(matrix.data, exponent), matrix.indices, matrix.indptr), matrix.shape)


def _log_ratios(values: Floats, across: Floats) -> Floats:
    return np.asarray(np.log(np.abs(values)) - np.log(np.abs(across)))


def _potentials(rows: Any, given: Any, across: Floats) -> Floats:
    """Return a potential that is 0 at the root of each tree of a spanning forest; along edges it differs by ratios."""
    size = given.shape[0]
    order, parents = breadth_first_order(given, 0, return_predecessors=True)
    roots = np.zeros(1, np.int64)
    if len(order) < size:  # Several trees: one more node joins their roots, so that one search reaches all rows.
        roots = np.unique(connected_components(given, directed=False)[1], return_index=True)[1]
        links = np.ones(len(rows) + len(roots))
        ends = np.concatenate([given.indices, roots]), np.concatenate([rows, np.full(len(roots), size)])
        joined = scipy.sparse.csr_array((links, ends[::-1]), shape=(size + 1, size + 1))
        parents = breadth_first_order(joined, size, return_predecessors=True)[1]
    parents = np.append(parents[:size], size).astype(np.int64)
    parents[roots] = size
    found = np.zeros(size + 1)
    to_parent = np.flatnonzero(given.indices == parents[rows])
    found[rows[to_parent]] = _log_ratios(given.data[to_parent], across[to_parent])
    while not (parents == size).all():  # Each round doubles the length of the paths that are added up.
        found += found[parents]
        parents = parents[parents]
    return np.asarray(found[:size])
