"""Finite differences on regular grids: Laplacians, and convection with diffusion in a constant or circulating wind."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.errors import InputError
from cpms.sources.matrices.block_stencils import block_stencil

if TYPE_CHECKING:
    import scipy.sparse

POINTS = {5: (2, False), 9: (2, True), 7: (3, False), 27: (3, True)}
"""Dimensions of the grid of a stencil of so many points, and whether it takes diagonal neighbours."""
_MOST_ROWS = 2**27
_MOST_CONTRAST = 1e150
"""Products of two coefficients are below the largest float64."""
_WIND = (1.0, 0.5, 0.25)
"""Of `convection`, by coordinate, the fastest last."""


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
    if points not in POINTS:
        raise InputError(f"a stencil has {points} points; it can have {', '.join(map(str, POINTS))}")
    dimensions, diagonal = POINTS[points]
    sides = _box(dimensions, side)
    near = [step for step in _steps(dimensions) if diagonal or np.abs(step).sum() <= 1]
    values = [points - 1.0 if not any(step) else -1.0 for step in near]
    return block_stencil(sides, near, np.array(values).reshape(-1, 1, 1))


def convection(*, side: int, dimensions: int = 3, peclet: float = 10.0) -> scipy.sparse.csr_array:
    """Return diffusion with convection in a constant wind on a grid, by upwind differences.

    Parameters
    ----------
    side : int
    dimensions : {2, 3}
    peclet : float
        Convection over diffusion from point to point, 0 or more.

    Examples
    --------
    >>> convection(side=3, dimensions=2, peclet=2.0).toarray()[4].tolist()
    [0.0, -2.0, 0.0, -3.0, 7.0, -1.0, 0.0, -1.0, 0.0]
    """
    if dimensions not in (2, 3) or not peclet >= 0.0:
        raise InputError(f"convection in {dimensions} dimensions at Peclet number {peclet}; give 2 or 3, and 0 or more")
    sides = _box(dimensions, side)
    near = [step for step in _steps(dimensions) if np.abs(step).sum() <= 1]
    upwind = [sum(peclet * wind for wind, along in zip(_WIND[::-1], step, strict=True) if along < 0) for step in near]
    values = -np.array([1.0 + extra for extra in upwind])
    centre = near.index((0, 0, 0))
    values[centre] = -(values.sum() - values[centre])
    return block_stencil(sides, near, values.reshape(-1, 1, 1))


def recirculation(*, side: int, peclet: float = 10.0) -> scipy.sparse.csr_array:
    """Return diffusion with convection in a wind that circulates in the square, by upwind differences.

    The wind is (2y(1 - x²), -2x(1 - y²)) on [-1, 1]², example 3.1.4 of Elman, Silvester and Wathen (2nd edition, 2014);
    ``peclet`` is its largest convection over diffusion from point to point. No two rows have the same values.

    Examples
    --------
    >>> recirculation(side=3, peclet=0.0).toarray()[4].tolist()
    [0.0, -1.0, 0.0, -1.0, 4.0, -1.0, 0.0, -1.0, 0.0]
    """
    _box(2, side)
    if not peclet >= 0.0:
        raise InputError(f"recirculation at Peclet number {peclet}; give 0 or more")
    at = np.linspace(-1.0, 1.0, side + 2)[1:-1]
    x, y = at[None, :], at[:, None]
    along_x, along_y = peclet * y * (1.0 - x**2), -peclet * x * (1.0 - y**2)
    west, east = 1.0 + np.maximum(along_x, 0.0), 1.0 - np.minimum(along_x, 0.0)
    south, north = 1.0 + np.maximum(along_y, 0.0), 1.0 - np.minimum(along_y, 0.0)
    centre = (west + east + south + north).ravel()
    west[:, 0] = east[:, -1] = 0.0
    west, east = west.ravel(), east.ravel()
    south, north = south.ravel(), north.ravel()
    return _of_diagonals({-side: -south[side:], -1: -west[1:], 0: centre, 1: -east[:-1], side: -north[:-side]})


def diffusion(*, side: int, dimensions: int = 3, contrast: float = 1000.0, seed: int = 1) -> scipy.sparse.csr_array:
    """Return diffusion in a material that differs from cell to cell, by finite volumes; positive definite.

    Parameters
    ----------
    side : int
    dimensions : {2, 3}
    contrast : float
        The largest coefficient over the smallest, 1 to 1e150; logarithms are uniform, and the flow through a face is by
        the harmonic mean of its two cells. No two rows have the same values.
    seed : int

    Examples
    --------
    >>> diffusion(side=3, dimensions=2, contrast=1.0).toarray()[4].tolist()
    [0.0, -1.0, 0.0, -1.0, 4.0, -1.0, 0.0, -1.0, 0.0]
    """
    if dimensions not in (2, 3) or not 1.0 <= contrast <= _MOST_CONTRAST or seed < 0:
        raise InputError(
            f"diffusion in {dimensions} dimensions of contrast {contrast}, seed {seed}; give 2 or 3 dimensions, a "
            f"contrast from 1 to {_MOST_CONTRAST:g}, and a seed from 0"
        )
    sides = _box(dimensions, side)[3 - dimensions :]
    cells = contrast ** np.random.default_rng(seed).random(sides)
    centre = np.zeros(cells.size)
    strides = [side ** (dimensions - 1 - axis) for axis in range(dimensions)]
    bands: dict[int, Any] = {}
    for axis, stride in enumerate(strides):
        low, high = np.take(cells, range(side - 1), axis), np.take(cells, range(1, side), axis)
        inner = 2.0 * low * high / (low + high)
        faces = np.concatenate([np.take(cells, [0], axis), inner, np.take(cells, [side - 1], axis)], axis)
        before, after = (np.take(faces, range(k, side + k), axis).ravel() for k in (0, 1))
        centre += before + after
        if side > 1:
            after = np.where(np.arange(cells.size) // stride % side == side - 1, 0.0, after)
            bands[stride] = bands[-stride] = -after[: cells.size - stride]
    bands[0] = centre
    return _of_diagonals(bands)


def _of_diagonals(diagonals: dict[int, Any]) -> scipy.sparse.csr_array:
    """Return the matrix of diagonals by their offsets, without zeros."""
    import scipy.sparse

    offsets = sorted(diagonals)
    banded = scipy.sparse.diags_array([diagonals[each] for each in offsets], offsets=offsets)
    made: scipy.sparse.csr_array = scipy.sparse.csr_array(banded)
    made.eliminate_zeros()
    made.indices, made.indptr = made.indices.astype(np.int32), made.indptr.astype(np.int32)
    return made


def _box(dimensions: int, side: int) -> tuple[int, int, int]:
    most = math.floor(_MOST_ROWS ** (1 / dimensions) + 1e-9)
    if not 1 <= side <= most:
        raise InputError(f"a grid in {dimensions} dimensions has side {side}; give 1 to {most:,}")
    return (1 if dimensions == 2 else side, side, side)


def _steps(dimensions: int) -> list[tuple[int, int, int]]:
    around = (-1, 0, 1)
    return [(c, b, a) for c, b, a in product((0,) if dimensions == 2 else around, around, around)]
