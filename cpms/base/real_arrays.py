"""Arrays of real numbers from whatever a user gives: refused where a conversion would invent or lose something."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.validation import described, require_real, shortened

Floats = npt.NDArray[np.float64]
_REAL = "biuf"
_HALF_WORD = 2**32


def plain_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return ``values`` as an array of whatever they hold, without a copy where they are one.

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
    """Return ``values`` as an array of integers, floats or truth values, without a copy where they are one.

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
        raise InputError(f"{name} must be numbers that fit float64, not {_found(values, array)}; convert them first")
    return array


def doubles(name: str, values: Any) -> Floats:
    """Return ``values`` as contiguous float64, each rounded to the nearest; a copy only where it needs one.

    Raises
    ------
    InputError
        As `real_array` does.

    Examples
    --------
    >>> doubles("weights", [True, 2]).tolist()
    [1.0, 2.0]
    """
    array = real_array(name, values)
    with np.errstate(over="ignore", invalid="ignore"):  # A long double beyond the range of float64 is infinite there.
        given: Floats = np.asarray(array, dtype=np.float64, order="C")
    return given


def vector(name: str, values: Any) -> Floats:
    """Return ``values`` as `doubles` does; refuse other than one dimension.

    Examples
    --------
    >>> vector("values", [1, 2]).shape
    (2,)
    """
    given = doubles(name, values)
    if given.ndim != 1:
        raise InputError(f"{name} have {given.ndim} dimensions; give one")
    return given


def rounded_to_odd(name: str, values: Any, *, overflows: bool) -> Floats:
    """Return ``values``, of one dimension, as float64 from which formats of fewer bits are rounded as from themselves.

    A number between two float64 values becomes the one of them whose last bit is 1. That says to every rounding that
    drops two bits or more that something lies below: one to the nearest and one that cuts give what they would have
    given of the number itself. Long doubles and integers from 2**53 on are such numbers; all others stay as they are.

    Parameters
    ----------
    overflows : bool
        Whether numbers that round to no finite float64 are infinite, as to the nearest, or the largest, as cut.

    Notes
    -----
    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57 (2008).

    Examples
    --------
    >>> rounded_to_odd("values", [2**60 + 1, 2**60], overflows=True).astype(int) - 2**60
    array([256,   0])
    """
    array, nearest = real_array(name, values), vector(name, values)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # Two halves, each of them exact, and what their sum loses, which is exact too.
        high, low = ((array // _HALF_WORD).astype(np.float64) * _HALF_WORD, (array % _HALF_WORD).astype(np.float64))
        lost = low - (nearest - high)
    elif array.dtype.kind == "f" and array.dtype.itemsize > nearest.itemsize:
        with np.errstate(invalid="ignore"):
            lost = array - nearest
    else:
        return nearest
    return _odd(nearest, lost, overflows)


def _odd(nearest: Floats, lost: npt.NDArray[Any], overflows: bool) -> Floats:
    """Return the odd neighbour of each ``nearest + lost``; NaN and infinities have lost nothing."""
    inexact = np.isfinite(lost) & (lost != 0)
    beyond = np.isinf(nearest) & np.isinf(lost)
    away = inexact & ((lost < 0) != np.signbit(nearest)) & (nearest != 0)
    result = np.where(away, np.nextafter(nearest, 0.0), nearest)
    result.view(np.uint64)[inexact] |= np.uint64(1)
    if not overflows:
        result[beyond] = np.copysign(np.finfo(np.float64).max, nearest[beyond])
    return result


def _found(values: Any, array: npt.NDArray[Any]) -> str:
    kinds = {"M": "dates", "m": "times", "U": "text", "S": "bytes", "c": "complex numbers", "V": "records"}
    if array.dtype.kind == "O" and array.ndim == 0:
        return described(values)
    if array.dtype.kind == "O":
        odd = next((item for item in array.flat if not isinstance(item, float)), None)
        return f"objects such as {described(odd)}"
    return kinds.get(array.dtype.kind, str(array.dtype))
