"""How far the low sweeps of a round go."""

from __future__ import annotations

import math

from cpms.extrapolation import DEPTH

_TRUSTED, _NOISE = 0.97, 0.35
"""Of the tolerance, and what rounding adds at most to the residual of a round that goes down to its gain, in parts of
that: 0.35 was the most seen, in ``fp16``, on web graphs."""


def low_until(gain: float, tol: float, damping: float, l1: float, size: float) -> float:
    r"""Return until which \|\|r\|\|_1 low sweeps go on.

    What a low sweep found, r, is added to x, so that damping P r is left, and no more than ``damping`` times its norm;
    and what rounding lost. The next full sweep should find less than ``tol``; below ``gain`` times the norm at which
    the round began rounding has the last word.

    Parameters
    ----------
    gain : float
        Of the round.
    tol : float
        In the norm asked for.
    damping : float
    l1, size : float
        What the round's full sweep found: \|\|r\|\|_1, and r in the norm asked for. Where that is not the L1 norm,
        less is known of how it goes on, and half the tolerance is aimed at.

    Examples
    --------
    >>> f"{low_until(0.004, 1e-10, 0.85, 1e-4, 1e-4):.3g}"
    '4e-07'
    >>> f"{low_until(0.004, 1e-10, 0.85, 1e-9, 1e-9):.3g}"
    '1.12e-10'
    """
    within = _TRUSTED * tol / damping - _NOISE * gain / damping * l1 if size == l1 else 0.0
    return max(gain * l1, 0.5 * tol * l1 / size, within)


def low_limit(gain: float, damping: float) -> int:
    r"""Return after how many low sweeps the last one of a round is due, however much is left.

    Each leaves ``damping`` times \|\|r\|\|_1 at most, and the combinations of a few of them seldom more: where that
    many have not reached the gain, what is left goes round by rounding.

    Examples
    --------
    >>> low_limit(0.2, 0.85), low_limit(0.2, 0.99), low_limit(1.0, 0.85)
    (26, 177, 16)
    """
    return min(math.ceil(math.log(gain) / math.log(damping)) + 2 * DEPTH, 2**31 - 1)


def reach_and_noise(gain: float, tol: float, damping: float) -> tuple[float, float]:
    r"""Return what \|\|r\|\|_1 may be left, and how much less for each 1 that the full sweep found: kernels take both.

    Examples
    --------
    >>> reach, noise = reach_and_noise(0.0005, 1e-10, 0.85)
    >>> low_until(0.0005, 1e-10, 0.85, 1e-9, 1e-9) == reach - noise * 1e-9
    True
    """
    return _TRUSTED * tol / damping, _NOISE * gain / damping
