"""Validation of arguments: numbers of any type as Python's own, their texts in errors, and SciPy's matrices.

Numbers of NumPy, fractions and decimals are accepted; booleans, text and complex numbers are not numbers here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from cpms.base.errors import InputError

_LONGEST = 60
"""Characters of an argument that an error repeats."""
_MOST_BITS = 64


def described(value: Any) -> str:
    """Return an argument of any type as text for an error: short and on one line.

    Examples
    --------
    >>> described("x"), described(10**5000), len(described([0] * 100))
    ("'x'", 'a whole number of about 5,001 digits', 62)
    """
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST:
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - foreign objects, and long numbers in lists, raise any exception
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} …"


def shortened(text: str) -> str:
    """Return the beginning of a text on one line, with control characters escaped.

    Examples
    --------
    >>> shortened("web-Google"), len(shortened("x" * 5000)), shortened("x" + 200 * " " + "y")
    ('web-Google', 62, 'x …')
    """
    line = " ".join(text[: 2 * _LONGEST].split())
    line = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in line)
    is_whole = len(line) <= _LONGEST and len(text) <= 2 * _LONGEST
    return line if is_whole else f"{line[:_LONGEST].rstrip()} …"


def real(name: str, value: Any) -> float:
    """Return the argument ``name`` as a float.

    Raises
    ------
    InputError
        If it is no real number, or beyond the range of float64.

    Examples
    --------
    >>> from fractions import Fraction
    >>> real("damping", Fraction(1, 4))
    0.25
    """
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    is_refused = isinstance(value, str | bytes | bytearray | bool | np.ndarray | complex)
    if not is_refused and (not isinstance(value, np.generic) or value.dtype.kind in "iuf"):
        try:
            with np.errstate(over="ignore"):
                return float(value)
        except OverflowError:
            raise InputError(f"{name} is {described(value)}; it must be a number that fits float64") from None
        except Exception:  # noqa: BLE001, S110 - foreign objects raise any exception
            pass
    raise InputError(f"{name} is {described(value)}; it must be a number")


def whole(name: str, value: Any) -> int:
    """Return the argument ``name`` as an int.

    Raises
    ------
    InputError
        If it is no whole number, or has more than 64 bits.

    Examples
    --------
    >>> whole("max_iterations", np.int16(7)), whole("max_iterations", 1e3)
    (7, 1000)
    """
    number = as_whole(value)
    if number is None:
        raise InputError(f"{name} is {described(value)}; it must be a whole number")
    if number.bit_length() > _MOST_BITS:
        raise InputError(f"{name} is {described(value)}; it must be a whole number of at most {_MOST_BITS} bits")
    return number


def at_least(least: int, name: str, value: Any) -> int:
    """Return the argument ``name`` as an int that is not below ``least``.

    Raises
    ------
    InputError
        If it is less, or as `whole` does.

    Examples
    --------
    >>> at_least(1, "restart", 30)
    30
    """
    number = whole(name, value)
    if number < least:
        raise InputError(f"{name} is {number}; it must be {least} or more")
    return number


def as_whole(value: Any) -> int | None:
    """Return a whole number of any type and size as an int; None for anything else.

    Examples
    --------
    >>> as_whole(np.float32(3.0)), as_whole(3.5), as_whole(True), as_whole("3")
    (3, None, None, None)
    """
    if type(value) is int:
        return value
    if isinstance(value, float | np.floating):
        return int(value) if value.is_integer() else None
    if isinstance(value, bool | np.bool_ | np.timedelta64 | np.datetime64):
        return None
    try:
        return operator.index(value)
    except Exception:  # noqa: BLE001 - foreign objects raise any exception
        return None


def is_iterable(values: Any) -> bool:
    """Return whether values can be iterated; arrays of no dimension have the method but raise.

    Examples
    --------
    >>> is_iterable([1]), is_iterable(np.array(1))
    (True, False)
    """
    return isinstance(values, Iterable) and getattr(values, "ndim", 1) != 0


def require_real(name: str, values: Any) -> None:
    """Refuse complex and masked arrays, of which a conversion to floats would drop a part.

    Examples
    --------
    >>> require_real("start", np.ones(3))
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; replace masked values, as .filled(0.0) does")
    if isinstance(values, np.ndarray | np.generic) and values.dtype.kind == "c":
        raise InputError(f"{name} holds complex numbers; give real ones")


def consistent(matrix: Any) -> Any:
    """Return a sparse matrix of SciPy with arrays that its compiled loops can trust, copied only if necessary.

    Arrays are in the byte order of the machine. Matrices of other libraries are returned as they are.

    Raises
    ------
    InputError
        If row starts descend, an index is no integer or lies outside the shape, or arrays differ in length.

    Examples
    --------
    >>> import scipy.sparse
    >>> consistent(scipy.sparse.eye_array(3, format="csr")).nnz
    3
    """
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        return matrix
    held: Any = matrix  # The stubs know no arrays of the class that is left.
    try:
        if held.format in ("csr", "csc", "bsr"):
            places = _places(held.indices, held.indptr)
            held = type(held)((_native(held.data), *places), shape=held.shape)
            held.check_format(full_check=True)
        elif held.format == "coo":
            held = type(held)((_native(held.data), tuple(_places(*held.coords))), shape=held.shape)
        elif held.format == "dia":
            held = type(held)((_native(held.data), *_places(held.offsets)), shape=held.shape)
        elif held.format == "lil" and list(map(len, held.rows)) != list(map(len, held.data)):
            raise ValueError("rows and data differ in length")
        elif held.ndim == 2:
            held.tocsr().check_format(full_check=True)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise InputError(
            f"the matrix is not valid in {held.format.upper()}: {error}; make it anew from rows, columns and values"
        ) from None
    return held


def _native(array: Any) -> Any:
    """Return an array in the byte order of the machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _places(*arrays: Any) -> list[Any]:
    """Return arrays of indices as signed integers in the byte order of the machine."""
    wrong = [str(array.dtype) for array in arrays if array.dtype.kind not in "iu"]
    if wrong:
        raise ValueError(f"indices are {wrong[0]}, not integers")
    return [array.astype(np.int64) if array.dtype.kind == "u" else _native(array) for array in arrays]


def finite(value: float) -> float | None:
    """Return a number for JSON, which has none that are not finite: None for these.

    Examples
    --------
    >>> finite(0.5), finite(float("nan"))
    (0.5, None)
    """
    return value if math.isfinite(value) else None


def shown(value: float | None, digits: int = 3) -> str:
    """Return a result of `finite` as text.

    Examples
    --------
    >>> shown(0.123456), shown(None)
    ('0.123', 'not finite')
    """
    return "not finite" if value is None else f"{value:.{digits}g}"
