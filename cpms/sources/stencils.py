"""Matrices of finite differences on regular grids, as SciPy has them: what products are measured on first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse

POINTS = {5: (2, False), 9: (2, True), 7: (3, False), 27: (3, True)}
"""Dimensions of the grid of a stencil of so many points, and whether it takes diagonal neighbours."""
_MOST_ROWS = 2**27
_SPELLING = re.compile(r"stencil:points=(\d+),side=(\d+)")


def stencil(points: int, side: int) -> scipy.sparse.csr_array:
    """Return the Laplacian of a square or cubic grid: the number of neighbours on the diagonal, -1 beside it.

    Parameters
    ----------
    points : {5, 9, 7, 27}
        In two dimensions 5 or 9, in three 7 or 27.
    side : int
        Grid points along each side.

    Examples
    --------
    >>> stencil(5, 3).toarray()[4].tolist()
    [0.0, -1.0, 0.0, -1.0, 4.0, -1.0, 0.0, -1.0, 0.0]
    """
    import scipy.sparse

    if points not in POINTS:
        raise InputError(f"a stencil has {points} points; it can have {', '.join(map(str, POINTS))}")
    dimensions, diagonal = POINTS[points]
    if side < 1 or side**dimensions > _MOST_ROWS:
        raise InputError(f"a grid of side {side} in {dimensions} dimensions has no rows, or more than {_MOST_ROWS:,}")
    band = scipy.sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    one = scipy.sparse.eye_array(side)
    neighbours: Any
    if diagonal:
        around: Any = scipy.sparse.eye_array(1)
        for _ in range(dimensions):
            around = scipy.sparse.kron(around, band + one, format="csr")
        neighbours = around - scipy.sparse.eye_array(side**dimensions)
    else:
        neighbours = scipy.sparse.csr_array((side**dimensions, side**dimensions))
        for axis in range(dimensions):
            before, behind = scipy.sparse.eye_array(side**axis), scipy.sparse.eye_array(side ** (dimensions - 1 - axis))
            neighbours = neighbours + scipy.sparse.kron(scipy.sparse.kron(before, band), behind, format="csr")
    matrix = scipy.sparse.csr_array((points - 1) * scipy.sparse.eye_array(side**dimensions) - neighbours)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    if matrix.nnz < 2**31:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def is_name(text: str) -> bool:
    """Return whether a configuration calls a stencil so.

    Examples
    --------
    >>> is_name("stencil:points=7,side=256"), is_name("wiki-Vote")
    (True, False)
    """
    return _SPELLING.fullmatch(text) is not None


def named(text: str) -> scipy.sparse.csr_array | None:
    """Return the stencil that a configuration calls ``stencil:points=7,side=256``; None if it is no stencil.

    Examples
    --------
    >>> named("stencil:points=7,side=3").shape, named("wiki-Vote")
    ((27, 27), None)
    """
    match = _SPELLING.fullmatch(text)
    return None if match is None else stencil(int(match[1]), int(match[2]))
