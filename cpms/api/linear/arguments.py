"""Checks of the arguments of `cpms.solve`, `cpms.Solver` and `cpms.dominant_eigenpair`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles
from cpms.base.types import Floats
from cpms.base.validation import described, real, whole
from cpms.storage.block_float import STORED
from cpms.storage.device import on_device
from cpms.storage.interchange import received


def vector(name: str, given: Any, size: int) -> Floats:
    """Return an argument as float64 in main memory, shape (size,); all values must be finite.

    Examples
    --------
    >>> vector("b", [1, 2], 2).tolist()
    [1.0, 2.0]
    """
    plain_numbers = not on_device(given) and not isinstance(given, STORED)
    array, _ = received(name, doubles(name, given) if plain_numbers else given, "main")
    shape = array.shape if hasattr(array, "shape") else (len(array),)
    if shape not in ((size,), (size, 1)):
        raise InputError(f"{name} has shape {shape}; the matrix needs ({size},)")
    plain = array if isinstance(array, np.ndarray) else array.decode()
    values: Floats = np.ascontiguousarray(plain.reshape(size), dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InputError(f"{name} holds {values[wrong[0]]} at {int(wrong[0])}; all values must be finite")
    return values


def positive(name: str, given: Any) -> float:
    """Return an argument as a positive finite float.

    Examples
    --------
    >>> positive("tol", 1e-8)
    1e-08
    """
    value = real(name, given)
    if not 0.0 < value < math.inf:
        raise InputError(f"{name} is {described(given)}; it must be positive")
    return value


def at_least(least: int, name: str, given: Any) -> int:
    """Return an argument as a whole number that is not below ``least``.

    Examples
    --------
    >>> at_least(1, "restart", 30)
    30
    """
    value = whole(name, given)
    if value < least:
        raise InputError(f"{name} is {value}; it must be {least} or more")
    return value
