"""Stopping criteria of inner sweeps: tolerance and iteration limit of an outer step.

In mixed-precision iterative refinement inner sweeps end when the predicted residual is below a forcing term times the
residual at the start (Eisenstat and Walker, SIAM J. Sci. Comput. 17, 1996), or when the next residual sweep will find
less than the tolerance of the solve. The latter bound accounts for the contraction of one sweep and for the rounding
errors of the format. Kernels evaluate it from two coefficients. `cpms.backends.cpu.refine_loops` compiles
`inner_tolerance`, which therefore calls no other function of this module.
"""

from __future__ import annotations

import math

from cpms.precision.anderson import DEPTH

_TOLERANCE_FRACTION, _ROUNDING_FRACTION = 0.97, 0.35
"""Fraction of the tolerance to reach, and bound of the rounding errors of an outer step, over the reduced residual."""
_SLOWEST_CONTRACTION = 0.85
"""Contraction factor above which the iteration limit no longer grows."""


def inner_tolerance(inner_reduction: float, tol: float, contraction: float, l1: float, size: float) -> float:
    r"""Return the norm \|\|r\|\|_1 at which inner sweeps end.

    An inner sweep adds its residual r to x. The next residual is then ``contraction`` P r, of at most ``contraction``
    times the norm, and the rounding errors. The next residual sweep should find less than ``tol``. Below
    ``inner_reduction`` times the norm at the start of the outer step rounding errors dominate.

    Parameters
    ----------
    inner_reduction : float
        Reduction factor that is planned for the outer step.
    tol : float
        Tolerance of the solve, in its norm.
    contraction : float
        Contraction factor of one sweep in the L1 norm.
    l1, size : float
        Norms of r that the residual sweep of the outer step computed: \|\|r\|\|_1, and r in the norm of the solve.
        If that is not the L1 norm, its contraction is not known, and the goal is half the tolerance.

    Examples
    --------
    >>> f"{inner_tolerance(0.004, 1e-10, 0.85, 1e-4, 1e-4):.3g}"
    '4e-07'
    >>> f"{inner_tolerance(0.004, 1e-10, 0.85, 1e-9, 1e-9):.3g}"
    '1.12e-10'
    """
    if size == 0.0:  # The iterate is exact.
        return math.inf
    below_tol = (
        _TOLERANCE_FRACTION * tol / contraction - _ROUNDING_FRACTION * inner_reduction / contraction * l1
        if size == l1
        else 0.0
    )
    return max(inner_reduction * l1, 0.5 * tol * l1 / size, below_tol)


def inner_max_iterations(inner_reduction: float, contraction: float) -> int:
    r"""Return the iteration limit of the inner sweeps of an outer step.

    A sweep multiplies \|\|r\|\|_1 by ``contraction`` at most, and a combination of several sweeps seldom by more. Near
    a contraction factor of 1 that takes many sweeps, most of them in vain: rounding errors accumulate to
    1 / (1 - contraction) times those of one sweep, and only a residual sweep separates them from a residual. Above a
    contraction of 0.85 the limit is therefore that of 0.85 for a reduction that is weaker by the same ratio. The limit
    is a multiple of `DEPTH`: by the next combination the rounding errors that the last one amplified have decayed.

    Examples
    --------
    >>> [inner_max_iterations(0.0005, contraction) for contraction in (0.5, 0.85, 0.99, 0.9999)]
    [24, 56, 40, 16]
    """
    weaker = max(1.0, (1.0 - _SLOWEST_CONTRACTION) / (1.0 - contraction))
    reduction = min(1.0, inner_reduction * weaker)
    iterations = math.log(reduction) / math.log(min(contraction, _SLOWEST_CONTRACTION))
    return DEPTH * max(2, math.ceil(iterations / DEPTH) + 1)


def inner_coefficients(inner_reduction: float, tol: float, contraction: float) -> tuple[float, float]:
    r"""Return the coefficients a and b of the bound a - b \|\|r\|\|_1 in `inner_tolerance`, for kernels.

    Examples
    --------
    >>> a, b = inner_coefficients(0.0005, 1e-10, 0.85)
    >>> inner_tolerance(0.0005, 1e-10, 0.85, 1e-9, 1e-9) == a - b * 1e-9
    True
    """
    return _TOLERANCE_FRACTION * tol / contraction, _ROUNDING_FRACTION * inner_reduction / contraction
