r"""Extrapolation of low sweeps: of what the last few found, the combination that leaves the least.

A low sweep takes what is on its way, (z, m), the shares that edges carry and the mass that is spread, to
r = damping (A^T z + m w), adds r to c, and sends r on, rounded. All of that is linear: taking
``sum_j g_j ((z_j, m_j) - (z_j+1, m_j+1))`` from what is on its way after sweep k, and adding ``sum_j g_j r_j+1`` to c,
changes nothing of where low sweeps lead. With the g for which least is left in the L2 norm of the shares this is
Anderson acceleration of depth `DEPTH` (J. ACM 12, 1965), which costs vectors in every sweep; every `DEPTH` sweeps
alone, as Pratapa, Suryanarayana and Pask do it (J. Comput. Phys. 306, 2016), it takes away as many sweeps and next to
no time. Vectors of a few bits will do: rounding is noise of the size that low sweeps make anyway. Batches on a device
(`cpms.backends.cuda.batch.inner_sweeps`), and graphs that outgrow its cache (``pagerank/deferred_update.cuh``), keep these vectors
for c, too: sweeps write z alone, and c, or x itself, gets ``sum_j z_j`` and the combination in one pass.
Ranks (`cpms.backends.mpi.sweeps.device_refinement`) tell each other the products of what each has sent, find the same g, and
combine each its own.
"""

from __future__ import annotations

from typing import Any

from cpms.formats.formats import FloatFormat

DEPTH = 8
"""Sweeps between two extrapolations, and differences that each combines."""
SLOTS = DEPTH + 1
"""Vectors z that are kept for it."""
PRODUCTS = DEPTH * (DEPTH + 3) // 2 + 1
"""Of the differences with each other, lower triangle row by row, then with the last z, and of that with itself."""
LEAST_EXPONENT_BITS = 5
"""Formats with fewer have no range for the shares of dangling nodes, which nobody gathers, beside the others.

Batches on a device store what dangling nodes keep divided by a mean out-degree, and extrapolate in any format.
"""
_WORTH = 0.95
"""Of the norm of the last z, what may be left at most."""
_DAMPED = 1e-5
"""Added to the squares of the differences, as a share of them."""


def slots_for(storage: FloatFormat) -> int:
    """Return how many z of a format low sweeps need: two where they go without extrapolation.

    Examples
    --------
    >>> from cpms.formats.formats import E4M3, FP16
    >>> slots_for(FP16), slots_for(E4M3)
    (9, 2)
    """
    return SLOTS if storage.exponent_bits >= LEAST_EXPONENT_BITS else 2


def is_worthwhile(products: Any, g: Any) -> bool:
    """Return whether enough less is left with the g of least squares: else low sweeps go on without.

    On graphs without cycles, or with few, a sweep has nothing in common with those before.

    Examples
    --------
    >>> import numpy as np
    >>> is_worthwhile(np.append(np.zeros(PRODUCTS - 1), 1.0), np.zeros(DEPTH))
    False
    """
    left = products[PRODUCTS - 1]
    for i in range(DEPTH):
        left -= g[i] * products[PRODUCTS - 1 - DEPTH + i]
    return bool(left < _WORTH * _WORTH * products[PRODUCTS - 1])


def coefficients(products: Any, matrix: Any, g: Any) -> None:
    """Solve for the g of least squares by Cholesky's method; 0 where they are not finite.

    Parameters
    ----------
    products : ndarray of float64, shape (PRODUCTS,)
    matrix : ndarray of float64, shape (DEPTH, DEPTH)
        Room.
    g : ndarray of float64, shape (DEPTH,)
        The result.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> differences, last = rng.normal(size=(50, DEPTH)), rng.normal(size=50)
    >>> gram = (differences.T @ differences)[np.tril_indices(DEPTH)]
    >>> g = np.empty(DEPTH)
    >>> coefficients(np.concatenate([gram, differences.T @ last, [last @ last]]), np.empty((DEPTH, DEPTH)), g)
    >>> bool(np.allclose(g, np.linalg.lstsq(differences, last)[0], rtol=1e-3, atol=1e-4))
    True
    """
    at = 0
    for i in range(DEPTH):
        for j in range(i + 1):
            total = products[at]
            at += 1
            if i == j:
                total *= 1.0 + _DAMPED
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = total / matrix[j, j]
            elif total > 0.0:
                matrix[i, i] = total**0.5
            else:
                g[:] = 0.0
                return
    for i in range(DEPTH):
        total = products[at + i]
        for k in range(i):
            total -= matrix[i, k] * g[k]
        g[i] = total / matrix[i, i]
    for i in range(DEPTH - 1, -1, -1):
        total = g[i]
        for k in range(i + 1, DEPTH):
            total -= matrix[k, i] * g[k]
        g[i] = total / matrix[i, i]
    for i in range(DEPTH):
        if not -1e9 < g[i] < 1e9:
            g[:] = 0.0
            return
