"""Checks of the arguments of `cpms.solve`, `cpms.Solver` and `cpms.dominant_eigenpair`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.api.linear.vectors import are_finite
from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles, real_array, require_exact
from cpms.base.types import Floats
from cpms.base.validation import at_least, described, real
from cpms.storage.block_float import STORED
from cpms.storage.device import on_device
from cpms.storage.interchange import received


def vector(name: str, given: Any, size: int) -> Floats:
    """Return an argument as float64 in main memory, shape (size,); all values must be finite, and exact in float64.

    Examples
    --------
    >>> vector("b", [1, 2], 2).tolist()
    [1.0, 2.0]
    """
    plain_numbers = not on_device(given) and not isinstance(given, STORED)
    if plain_numbers:
        require_exact(name, numbers := real_array(name, given))
        given = doubles(name, numbers)
    array, _ = received(name, given, "main")
    shape = array.shape if hasattr(array, "shape") else (len(array),)
    if shape not in ((size,), (size, 1)):
        raise InputError(f"{name} has shape {shape}; the matrix needs ({size},)")
    plain = array if isinstance(array, np.ndarray) else array.decode()
    values: Floats = np.ascontiguousarray(plain.reshape(size), dtype=np.float64)
    if not are_finite(values):
        wrong = int(np.argmin(np.isfinite(values)))
        raise InputError(f"{name} holds {values[wrong]} at {wrong}; all values must be finite")
    return values


def columns(name: str, given: Any, size: int) -> list[Any] | None:
    """Return the columns of an argument of two dimensions, shape (size, k), each for `vector`; None for any other.

    Examples
    --------
    >>> [column.tolist() for column in columns("b", [[1.0, 2.0], [3.0, 4.0]], 2)]
    [[1.0, 3.0], [2.0, 4.0]]
    """
    held = given if isinstance(given, (np.ndarray, *STORED)) or on_device(given) else real_array(name, given)
    if getattr(held, "ndim", 1) != 2:
        return None
    if held.shape[0] != size:
        raise InputError(
            f"{name} has shape {tuple(held.shape)}; the matrix needs ({size},), or ({size}, k) for k vectors"
        )
    return [held[:, j] for j in range(held.shape[1])]


def right_hand_sides(b: Any, x0: Any, size: int) -> list[tuple[Any, Any]] | None:
    """Return the columns of b, each with that of x0 or None, for `vector`; None where b has one dimension.

    Examples
    --------
    >>> right_hand_sides([[1.0], [3.0]], None, 2)
    [(array([1., 3.]), None)]
    """
    rights = columns("b", b, size)
    if rights is None:
        return None
    starts = [None] * len(rights) if x0 is None else columns("x0", x0, size)
    if starts is None or len(starts) != len(rights):
        raise InputError(f"b has {len(rights)} columns; give x0 in the shape of b, or leave it out")
    return list(zip(rights, starts, strict=True))


def step_function(given: Any) -> Any:
    """Return ``on_step``, which must be a function or None.

    Examples
    --------
    >>> step_function(print) is print
    True
    """
    if given is not None and not callable(given):
        raise InputError(f"on_step is {described(given)}; give a function of a cpms.LinearStep")
    return given


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


def most_iterations(given: Any, size: int) -> int:
    """Return ``max_iterations`` of a system of that size; by default 10 times the size, from 1,000 to 100,000.

    Examples
    --------
    >>> most_iterations(None, 500), most_iterations(3, 500)
    (5000, 3)
    """
    return max(1000, min(10 * size, 100_000)) if given is None else at_least(0, "max_iterations", given)
