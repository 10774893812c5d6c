"""Linear elasticity of a cube by trilinear finite elements: three displacements a point, blocks of 3 by 3."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.sources.matrices.block_stencils import block_stencil

if TYPE_CHECKING:
    import scipy.sparse

_CORNERS = list(product((0, 1), repeat=3))


def elasticity(*, side: int, poisson: float = 0.3) -> scipy.sparse.csr_array:
    """Return the stiffness matrix of an elastic cube that is held on its whole surface.

    Parameters
    ----------
    side : int
        Free points along each side; a row has at most 81 entries.
    poisson : float
        Poisson's ratio, from -1 to 0.5 without both; Young's modulus is 1.

    Examples
    --------
    >>> made = elasticity(side=3)
    >>> made.shape, bool(abs(made - made.T).max() == 0.0)
    ((81, 81), True)
    """
    if side < 1 or not -1.0 < poisson < 0.5:
        raise InputError(
            f"elasticity of {side} points a side at Poisson's ratio {poisson}; give 1 or more, and between -1 and 0.5"
        )
    stiffness = _element(poisson)
    steps = list(product((-1, 0, 1), repeat=3))
    blocks = np.zeros((len(steps), 3, 3))
    for a, first in enumerate(_CORNERS):
        for b, second in enumerate(_CORNERS):
            step = tuple(int(j - i) for i, j in zip(first, second, strict=True))
            blocks[steps.index((step[0], step[1], step[2]))] += stiffness[a, :, b, :]
    opposite = blocks[::-1].transpose(0, 2, 1)
    blocks = (blocks + opposite) / 2.0  # Symmetric to the last bit.
    blocks[np.abs(blocks) < 1e-14 * np.abs(blocks).max()] = 0.0
    return block_stencil((side, side, side), steps, blocks)


def _element(poisson: float) -> Floats:
    """Return the stiffness of a unit cube, shape (8, 3, 8, 3), by Gauss's rule of two points a direction."""
    shear = 1.0 / (2.0 * (1.0 + poisson))
    lame = poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson))
    corners = np.array(_CORNERS, np.float64)
    found = np.zeros((8, 3, 8, 3))
    for point in product((0.5 - 12**-0.5, 0.5 + 12**-0.5), repeat=3):
        each = np.where(corners == 1.0, point, 1.0 - np.array(point))
        slopes = np.stack([(2.0 * corners[:, k] - 1.0) * np.delete(each, k, 1).prod(1) for k in range(3)], axis=1)
        found += lame * np.einsum("ai,bj->aibj", slopes, slopes)
        found += shear * np.einsum("aj,bi->aibj", slopes, slopes)
        found += shear * np.einsum("ak,bk,ij->aibj", slopes, slopes, np.eye(3))
    return found / 8.0
