"""Passes over vectors in main memory, by all threads: checks, and scaling by powers of two.

NumPy's functions run on parts that stay in a core's cache, and intermediate arrays are no longer than a part.
"""

from __future__ import annotations

import numpy as np

from cpms.base import threads
from cpms.base.types import Floats

_AT_LEAST = 1 << 15
"""Least number of values in a task of a thread."""


def _parts(values: Floats) -> list[tuple[int, int]]:
    return threads.ranges(len(values), at_least=_AT_LEAST)


def are_finite(values: Floats) -> bool:
    """Return whether no value is NaN or infinite.

    Examples
    --------
    >>> are_finite(np.array([1.0, -2.0])), are_finite(np.array([1.0, np.nan]))
    (True, False)
    """
    return all(threads.each(lambda part: bool(np.isfinite(values[slice(*part)]).all()), _parts(values)))


def scaled(values: Floats, exponent: int, out: Floats | None = None) -> Floats:
    """Return values times 2**exponent, in ``out`` if it is given; overflow is infinite.

    Examples
    --------
    >>> scaled(np.array([1.0, -3.0]), 2).tolist()
    [4.0, -12.0]
    """
    made = np.empty(len(values)) if out is None else out

    def scale(part: tuple[int, int]) -> None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.ldexp(values[slice(*part)], exponent, out=made[slice(*part)])

    threads.each(scale, _parts(values))
    return made


def are_equal(a: Floats, b: Floats) -> bool:
    """Return whether two vectors of the same length have the same values; none with NaN.

    Examples
    --------
    >>> are_equal(np.array([1.0, 2.0]), np.array([1.0, 2.0])), are_equal(np.array([np.nan]), np.array([np.nan]))
    (True, False)
    """
    return all(threads.each(lambda part: bool((a[slice(*part)] == b[slice(*part)]).all()), _parts(a)))
