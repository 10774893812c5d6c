"""How far the low sweeps of a round go."""

from __future__ import annotations

import math

from cpms.precision.anderson import DEPTH

_TRUSTED, _NOISE = 0.97, 0.35
"""Of the tolerance, and what rounding adds at most to the residual of a round that goes down to its gain, in parts of
that: 0.35 was the most seen, in ``fp16``, on web graphs."""
_SLOWEST = 0.85
"""Damping whose number of low sweeps no other needs more of."""


def inner_tolerance(inner_reduction: float, tol: float, contraction: float, l1: float, size: float) -> float:
    r"""Return until which \|\|r\|\|_1 low sweeps go on.

    What a low sweep found, r, is added to x, so that contraction P r is left, and no more than ``contraction`` times its norm;
    and what rounding lost. The next full sweep should find less than ``tol``; below ``inner_reduction`` times the norm at which
    the round began rounding has the last word.

    Parameters
    ----------
    inner_reduction : float
        Of the round.
    tol : float
        In the norm asked for.
    contraction : float
    l1, size : float
        What the round's full sweep found: \|\|r\|\|_1, and r in the norm asked for. Where that is not the L1 norm,
        less is known of how it goes on, and half the tolerance is aimed at.

    Examples
    --------
    >>> f"{inner_tolerance(0.004, 1e-10, 0.85, 1e-4, 1e-4):.3g}"
    '4e-07'
    >>> f"{inner_tolerance(0.004, 1e-10, 0.85, 1e-9, 1e-9):.3g}"
    '1.12e-10'
    """
    if size == 0.0:  # Nothing is left.
        return math.inf
    within = _TRUSTED * tol / contraction - _NOISE * inner_reduction / contraction * l1 if size == l1 else 0.0
    return max(inner_reduction * l1, 0.5 * tol * l1 / size, within)


def inner_max_iterations(inner_reduction: float, contraction: float) -> int:
    r"""Return after how many low sweeps the last one of a round is due, however much is left.

    Each leaves ``contraction`` times \|\|r\|\|_1 at most, and the combinations of a few of them seldom more. That takes
    long where the contraction is near 1, and a round gains what it can gain early: rounding feeds what fades by the contraction
    alone, up to 1 / (1 - contraction) times as much as one sweep rounds, and nothing but a full sweep tells that from a
    residual. So above a contraction of 0.85 a round has as many sweeps as 0.85 needs for a gain that is weaker by as much.
    It ends where the next combination is due: what the last one made of rounding has faded by then.

    Examples
    --------
    >>> [inner_max_iterations(0.0005, contraction) for contraction in (0.5, 0.85, 0.99, 0.9999)]
    [24, 56, 40, 16]
    """
    within_reach = min(1.0, inner_reduction * max(1.0, (1.0 - _SLOWEST) / (1.0 - contraction)))
    enough = math.log(within_reach) / math.log(min(contraction, _SLOWEST))
    return DEPTH * max(2, math.ceil(enough / DEPTH) + 1)


def inner_coefficients(inner_reduction: float, tol: float, contraction: float) -> tuple[float, float]:
    r"""Return what \|\|r\|\|_1 may be left, and how much less for each 1 that the full sweep found: kernels take both.

    Examples
    --------
    >>> reach, noise = inner_coefficients(0.0005, 1e-10, 0.85)
    >>> inner_tolerance(0.0005, 1e-10, 0.85, 1e-9, 1e-9) == reach - noise * 1e-9
    True
    """
    return _TRUSTED * tol / contraction, _NOISE * inner_reduction / contraction
