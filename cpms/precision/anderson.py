r"""Anderson acceleration of inner sweeps, applied every few sweeps.

An inner sweep maps z, the quantised residual that is still to be propagated, to the residual r = alpha P z, adds r to
the correction c, and rounds r to the next z. But for rounding that is linear: subtracting
``sum_j g_j (z_j - z_j+1)`` from z after sweep k and adding ``sum_j g_j r_j+1`` to c does not change the limit of inner
sweeps. With the g that minimise the L2 norm of the new z this is Anderson acceleration of depth `DEPTH` (J. ACM 12,
1965), which reads its history in every sweep. Combining every `DEPTH` sweeps alone, as in the alternating method of
Pratapa, Suryanarayana and Pask (J. Comput. Phys. 306, 2016), saves as many sweeps at almost no cost. The history may
have few bits: its rounding errors are of the size that inner sweeps make in any case.

Batches on a device (`cpms.backends.cuda.batch.inner_sweeps`), and graphs that exceed its cache
(``pagerank/deferred_update.cuh``), store the history for the deferred update of c, too. Sweeps then write z alone, and
one pass adds ``sum_j z_j`` and the combination to c, or to x itself. Ranks
(`cpms.backends.mpi.sweeps.device_refinement`) reduce the inner products of their parts, compute the same g, and combine
their own rows.
"""

from __future__ import annotations

from typing import Any

from cpms.formats.formats import FloatFormat

DEPTH = 8
"""Sweeps between two combinations, and differences that each combines."""
HISTORY_VECTORS = DEPTH + 1
"""Vectors z in the history of a combination."""
PRODUCTS = DEPTH * (DEPTH + 3) // 2 + 1
"""Inner products of the differences with each other (lower triangle by rows) and with the last z; z.z comes last."""
LEAST_EXPONENT_BITS = 5
"""Formats with fewer exponent bits lack the range for the values of nodes whose column is zero.

Batches on a device scale the values of such nodes, and combine in any format.
"""
_WORTHWHILE_RATIO = 0.95
"""Largest ratio of the combined norm to the norm of the last z."""
_REGULARISATION = 1e-5
"""Relative addition to the diagonal of the Gram matrix (Tikhonov)."""


def history_vectors(storage: FloatFormat) -> int:
    """Return how many vectors z of a format inner sweeps store: two without combinations.

    Examples
    --------
    >>> from cpms.formats.formats import E4M3, FP16
    >>> history_vectors(FP16), history_vectors(E4M3)
    (9, 2)
    """
    return HISTORY_VECTORS if storage.exponent_bits >= LEAST_EXPONENT_BITS else 2


def is_worthwhile(products: Any, g: Any) -> bool:
    """Return whether the g of least squares reduce the norm enough; if not, inner sweeps continue without them.

    On graphs with few cycles or none, residuals of successive sweeps are nearly orthogonal.

    Examples
    --------
    >>> import numpy as np
    >>> is_worthwhile(np.append(np.zeros(PRODUCTS - 1), 1.0), np.zeros(DEPTH))
    False
    """
    combined = products[PRODUCTS - 1]
    for i in range(DEPTH):
        combined -= g[i] * products[PRODUCTS - 1 - DEPTH + i]
    return bool(combined < _WORTHWHILE_RATIO * _WORTHWHILE_RATIO * products[PRODUCTS - 1])


def coefficients(products: Any, matrix: Any, g: Any) -> None:
    """Solve the normal equations for g by Cholesky factorisation; g is 0 where that breaks down.

    Parameters
    ----------
    products : ndarray of float64, shape (PRODUCTS,)
    matrix : ndarray of float64, shape (DEPTH, DEPTH)
        Workspace.
    g : ndarray of float64, shape (DEPTH,)
        Result.

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
    at, depth = 0, len(g)
    for i in range(depth):
        for j in range(i + 1):
            total = products[at]
            at += 1
            if i == j:
                total *= 1.0 + _REGULARISATION
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = total / matrix[j, j]
            elif total > 0.0:
                matrix[i, i] = total**0.5
            else:
                for k in range(depth):
                    g[k] = 0.0
                return
    for i in range(depth):
        total = products[at + i]
        for k in range(i):
            total -= matrix[i, k] * g[k]
        g[i] = total / matrix[i, i]
    for i in range(depth - 1, -1, -1):
        total = g[i]
        for k in range(i + 1, depth):
            total -= matrix[k, i] * g[k]
        g[i] = total / matrix[i, i]
    for i in range(depth):
        if not -1e9 < g[i] < 1e9:
            for k in range(depth):
                g[k] = 0.0
            return
