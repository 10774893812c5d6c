"""Numbers that users give, of whatever type, as Python's own."""

from __future__ import annotations

import operator
from typing import Any

from cpms.errors import InputError


def real(name: str, value: Any) -> float:
    """Return what ``name`` was given as a float.

    Raises
    ------
    InputError
        If it is no number.

    Examples
    --------
    >>> from fractions import Fraction
    >>> real("damping", Fraction(1, 4))
    0.25
    """
    if not isinstance(value, str | bytes):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise InputError(f"{name} is {value!r}; it must be a number")


def whole(name: str, value: Any) -> int:
    """Return what ``name`` was given as an int.

    Raises
    ------
    InputError
        If it is no whole number.

    Examples
    --------
    >>> import numpy as np
    >>> whole("max_iterations", np.int16(7)), whole("max_iterations", 1e3)
    (7, 1000)
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}; it must be a whole number") from None
