"""An estimate of the smallest eigenvalue, from the coefficients of conjugate gradients.

Conjugate gradients carry out Lanczos' method on the first residual (Golub and Van Loan, Matrix Computations, 4th
edition, section 11.3). Let alpha_j be the step lengths and beta_j the ratios of consecutive r.p. The tridiagonal matrix
with 1/alpha_j + beta_(j-1)/alpha_(j-1) on its diagonal and sqrt(beta_j)/alpha_j beside it has the Ritz values as its
eigenvalues. In exact arithmetic the smallest Ritz value is at least the smallest eigenvalue of A, and near it once the
solve has converged. With few bits it is an estimate, not a bound.

With a preconditioner M^-1 they are the Ritz values of B = M^-1/2 A M^-1/2. For symmetric positive definite A and M,
x.Ax is at least the smallest eigenvalue of B times x.Mx. So the product of the smallest eigenvalues of B and of M is at
most the smallest eigenvalue of A.
"""

from __future__ import annotations

import math

import numpy as np


def smallest_eigenvalue(steps: list[tuple[float, float]]) -> float | None:
    """Return the smallest Ritz value; None for fewer than two steps, or where float64 cannot hold the computation.

    Parameters
    ----------
    steps : list of (float, float)
        For each iteration in turn, r.p before it, and p.Ap. Steps from the first invalid pair on are not used.

    Examples
    --------
    >>> round(smallest_eigenvalue([(2.0, 6.0), (0.5, 0.75)]), 6)
    1.078835
    """
    kept = steps
    for j, (product, curvature) in enumerate(steps):
        if not (product > 0.0 and curvature > 0.0 and math.isfinite(product) and math.isfinite(curvature)):
            kept = steps[:j]
            break
    if len(kept) < 2:
        return None
    import scipy.linalg

    products, curvatures = np.array(kept).T
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = curvatures / products
        ratios = products[1:] / products[:-1]
        diagonal = inverse.copy()
        diagonal[1:] += ratios * inverse[:-1]
        beside = np.sqrt(ratios) * inverse[:-1]
    if not (np.isfinite(diagonal).all() and np.isfinite(beside).all()):
        return None
    try:
        least = float(scipy.linalg.eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))[0])
    except np.linalg.LinAlgError:  # Entries near the ends of float64's range.
        return None
    return least if least > 0.0 else None
