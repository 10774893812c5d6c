"""Conversion of array arguments to real numbers, refused if it would lose or invent values.

NumPy drops imaginary parts and masks and turns text and dates into numbers without an error; these are refused.
Numbers of more bits than float64 has are rounded to odd, so that a second rounding to a storage format equals a single
one. Arrays of float64 are not copied. Beside these, inner products that start no threads.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.base.validation import described, require_real, shortened

_REAL = "biuf"
_HALF_WORD = 2**32
_DOUBLE_BYTES = 8
_EXACT_INTEGER = 2**53
"""Size up to which every integer is a float64."""


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view of an array; the array itself remains writable.

    Examples
    --------
    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    view = array.view()
    view.flags.writeable = False
    return view


def plain_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return ``values`` as an array of any type, without a copy of an array.

    Raises
    ------
    InputError
        If they are no rectangular array.

    Examples
    --------
    >>> plain_array("names", ["a", "b"]).dtype.kind
    'U'
    """
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    try:
        with warnings.catch_warnings():  # A masked element of a list would become NaN.
            warnings.simplefilter("error")
            return np.asarray(values)
    except Exception as error:  # noqa: BLE001 - objects of others raise anything as they become arrays
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name} cannot be an array ({shortened(reason)}); give a list or array") from None


def real_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return ``values`` as an array of integers, floats or booleans, without a copy of an array.

    Raises
    ------
    InputError
        If they are no rectangular array, or hold dates, text, None, complex numbers or other objects.

    Examples
    --------
    >>> real_array("weights", [1, 2.5]).dtype
    dtype('float64')
    """
    require_real(name, values)
    array = plain_array(name, values)
    if array.dtype.kind not in _REAL:
        raise InputError(f"{name} must be numbers that fit float64, not {_content(values, array)}; convert them first")
    return array


def doubles(name: str, values: Any) -> Floats:
    """Return ``values`` as contiguous float64, rounded to nearest, copied only if necessary.

    Raises
    ------
    InputError
        As in `real_array`.

    Examples
    --------
    >>> doubles("weights", [True, 2]).tolist()
    [1.0, 2.0]
    """
    array = real_array(name, values)
    with np.errstate(over="ignore", invalid="ignore"):  # A long double beyond the range of float64 is infinite there.
        given: Floats = np.asarray(array, dtype=np.float64, order="C")
    return given


def require_exact(name: str, array: Any) -> None:
    """Refuse an array of integers, or of long doubles, that float64 rounds: a certificate would be of other numbers.

    Raises
    ------
    InputError

    Examples
    --------
    >>> require_exact("b", np.array([2**53]))
    >>> require_exact("b", np.array([2**53 + 1]))
    Traceback (most recent call last):
    cpms.base.errors.InputError: b holds integers beyond 2**53, which float64 rounds; convert it to float64 first
    """
    kind, is_wide = array.dtype.kind, array.dtype.itemsize >= _DOUBLE_BYTES
    if kind in "iu" and is_wide and array.size and max(abs(int(array.min())), int(array.max())) > _EXACT_INTEGER:
        raise InputError(f"{name} holds integers beyond 2**53, which float64 rounds; convert it to float64 first")
    if kind == "f" and array.dtype.itemsize > _DOUBLE_BYTES:
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = array.astype(np.float64)
        if not np.array_equal(rounded, array, equal_nan=True):
            raise InputError(f"{name} holds long doubles, which float64 rounds; convert it to float64 first")


def vector(name: str, values: Any) -> Floats:
    """Return ``values`` as contiguous float64 of one dimension.

    Examples
    --------
    >>> vector("values", [1, 2]).shape
    (2,)
    """
    given = doubles(name, values)
    if given.ndim != 1:
        raise InputError(f"{name} have {given.ndim} dimensions; give one")
    return given


def rounded_to_odd(values: Any, *, overflows: bool) -> Floats:
    """Return ``values``, of one dimension, as float64 rounded to odd: a second rounding equals a single one.

    A number between two float64 values becomes the one of them whose last bit is 1. A later rounding that drops two
    bits or more, to nearest or towards zero, then has the same result as for the number itself. Long doubles and
    integers from 2**53 on are rounded so; all other numbers are exact in float64.

    Parameters
    ----------
    overflows : bool
        Whether numbers beyond the range become infinite, as rounding to nearest does, or the largest finite float64.

    Notes
    -----
    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57 (2008).

    Examples
    --------
    >>> rounded_to_odd([2**60 + 1, 2**60], overflows=True).astype(int) - 2**60
    array([256,   0])
    """
    array, nearest = real_array("values", values), vector("values", values)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # Two halves, each exact in float64, and the rounding error of their sum, which is exact, too.
        high, low = ((array // _HALF_WORD).astype(np.float64) * _HALF_WORD, (array % _HALF_WORD).astype(np.float64))
        rounding_error = low - (nearest - high)
    elif array.dtype.kind == "f" and array.dtype.itemsize > nearest.itemsize:
        with np.errstate(invalid="ignore"):
            rounding_error = array - nearest
    else:
        return nearest
    return _odd_neighbour(nearest, rounding_error, overflows)


def _odd_neighbour(nearest: Floats, rounding_error: npt.NDArray[Any], overflows: bool) -> Floats:
    """Return the odd neighbour of each ``nearest + rounding_error``; NaN and infinities have no error."""
    inexact = np.isfinite(rounding_error) & (rounding_error != 0)
    beyond = np.isinf(nearest) & np.isinf(rounding_error)
    away = inexact & ((rounding_error < 0) != np.signbit(nearest)) & (nearest != 0)
    result = np.where(away, np.nextafter(nearest, 0.0), nearest)
    result.view(np.uint64)[inexact] |= np.uint64(1)
    if not overflows:
        result[beyond] = np.copysign(np.finfo(np.float64).max, nearest[beyond])
    return result


def _content(values: Any, array: npt.NDArray[Any]) -> str:
    kinds = {"M": "dates", "m": "times", "U": "text", "S": "bytes", "c": "complex numbers", "V": "records"}
    if array.dtype.kind == "O" and array.ndim == 0:
        return described(values)
    if array.dtype.kind == "O":
        odd = next((item for item in array.flat if not isinstance(item, float)), array.flat[0] if array.size else None)
        return f"objects such as {described(odd)}"
    return kinds.get(array.dtype.kind, str(array.dtype))


def inner_product(a: Floats, b: Floats) -> float:
    """Return the sum of products, in NumPy's pairwise order.

    A product of BLAS leaves threads that spin for a while, on the processors that compiled lanes then wait for.

    Examples
    --------
    >>> inner_product(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.add.reduce(a * b))


def euclidean_norm(values: Floats) -> float:
    """Return the square root of the sum of squares, of values whose squares neither overflow nor vanish.

    Examples
    --------
    >>> euclidean_norm(np.array([3.0, 4.0]))
    5.0
    """
    return math.sqrt(inner_product(values, values))
