"""Numbers that users give, of whatever type, as Python's own, and numbers as users read them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

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
    if not isinstance(value, str | bytes | bool | np.bool_):
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
    >>> whole("max_iterations", np.int16(7)), whole("max_iterations", 1e3)
    (7, 1000)
    """
    if isinstance(value, float | np.floating) and value.is_integer():
        return int(value)
    if not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InputError(f"{name} is {value!r}; it must be a whole number")


def require_real(name: str, values: Any) -> None:
    """Refuse arrays whose values NumPy would turn into floats by leaving out a part of them: complex or masked ones.

    Examples
    --------
    >>> require_real("start", np.ones(3))
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; say what masked values count: .filled(0.0)")
    if isinstance(values, np.ndarray) and values.dtype.kind == "c":
        raise InputError(f"{name} holds complex numbers; give real ones")


def finite(value: float) -> float | None:
    """Return what JSON has for a number: nothing for one that is not finite.

    Examples
    --------
    >>> finite(0.5), finite(float("nan"))
    (0.5, None)
    """
    return value if math.isfinite(value) else None


def shown(value: float | None, digits: int = 3) -> str:
    """Return what a reader gets of what `finite` returned.

    Examples
    --------
    >>> shown(0.123456), shown(None)
    ('0.123', 'not finite')
    """
    return "not finite" if value is None else f"{value:.{digits}g}"
