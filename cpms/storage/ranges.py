"""Ranges of formats: powers of two with which arrays fit them, and counts of the values that do not.

A shared power of two is the scalar scaling of Higham, Pranesh and Zounon (SIAM J. Sci. Comput. 41, 2019). Overflow and
underflow are those of IEEE 754, section 7, for each value by itself: a finite value whose rounding is no finite number
overflows, as does one beyond the range of a format that saturates; one other than 0 that becomes 0 underflows. Counting
costs a decoding and some passes over the values.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats
from cpms.base.validation import shortened, whole
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, Format, SegmentFormat
from cpms.formats.protocol import ask, described_format

MOST_EXPONENT = 1 << 12
"""Largest size of the exponent of an array, whose values are stored times 2**exponent."""
Overflow: TypeAlias = Literal["raise", "saturate", "inf"]
"""Treatment of values beyond the range: an error, the largest number, or an infinity."""


class Counts(NamedTuple):
    """Values that a format did not keep.

    Parameters
    ----------
    overflow : int
        Finite values beyond the largest number of the format, at the array's exponent.
    underflow : int
        Values other than 0 that became 0.
    nan : int
        Values that were NaN.
    """

    overflow: int
    underflow: int
    nan: int


def distribution_exponent(format: Format) -> int:
    """Return the power of two with which a distribution is stored, whose largest value may become 1."""
    return array_exponent(np.ones(1), format)


def array_exponent(values: Floats, format: Format) -> int:
    """Return e of an array, whose values are stored times 2**e: 0 unless the format is scaled."""
    if isinstance(format, FloatFormat):
        return shared_exponent(values, format) if format.scaled else 0
    if isinstance(format, SegmentFormat):
        return 0
    who = f"exponent_of of {described_format(format)}"
    exponent = whole(who, ask(format, "exponent_of", values))
    if abs(exponent) > MOST_EXPONENT:
        raise InputError(f"{who} is {exponent}; it must be from -{MOST_EXPONENT} to {MOST_EXPONENT}")
    return exponent


def shared_exponent(values: Floats, format: FloatFormat) -> int:
    """Return the power of two that brings the largest finite size just below the format's largest binade.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> shared_exponent(np.array([1e-6]), FP16)
    34
    """
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    if not np.isfinite(largest):
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return 0 if largest == 0 else int(format.bias - np.frexp(largest)[1])


def require_overflow(overflow: object) -> None:
    """Refuse all but the ways to treat values that are beyond the range of a format."""
    require_one_of("overflow", overflow, get_args(Overflow))


def counted(stored: Any, given: Floats, written: int, overflow: Overflow) -> Counts:
    """Return what a stored array did not keep of the given values; treat those that overflow as asked, in place.

    Parameters
    ----------
    stored : SegmentedArray
        In main memory.
    given : ndarray of float64, shape (n,)
    written : int
        Segments that were written.
    overflow : {"raise", "saturate", "inf"}

    Raises
    ------
    InputError
        If a value is to be refused, or the format has neither infinities nor NaN to stand for it.
    """
    format, most = stored.format, _largest(stored, written)
    found, saturates = stored.decode(written).reshape(-1), _saturates(stored, most)
    beyond = _overflowing(given, found, format, most, saturates=saturates)
    if beyond.any() and not (saturates and overflow == "saturate"):
        stored.write(_replaced(given, beyond, format, most, overflow).reshape(stored.shape), segments=written)
        found = stored.decode(written).reshape(-1)
    lost = (found == 0.0) & (given != 0.0)
    return Counts(int(beyond.sum()), int(lost.sum()), int(np.isnan(given).sum()))


def _largest(stored: Any, written: int) -> float:
    """Return the largest number that an array can hold, with so many segments written."""
    if isinstance(stored.format, SegmentFormat):
        dropped = np.uint64(DOUBLE_BITS - stored.format.bits(written))
        bits = np.array([np.finfo(np.float64).max]).view(np.uint64) >> dropped << dropped
        return float(bits.view(np.float64)[0])
    with np.errstate(over="ignore"):
        return float(np.ldexp(stored.format.max_finite, -stored.exponent))


def _saturates(stored: Any, most: float) -> bool:
    """Return whether the format turns twice its largest number into that number, or one beside it."""
    if isinstance(stored.format, SegmentFormat) or math.isinf(2.0 * most):
        return False
    probe = replace(stored, memory=np.zeros(stored.format.nbytes(1), np.uint8), length=1, shape=())
    probe.write([2.0 * most])
    return bool(probe.decode()[0] == most)


def _overflowing(
    given: Floats, found: Floats, format: Format, most: float, *, saturates: bool
) -> npt.NDArray[np.bool_]:
    """Return which values overflow, from what the format made of them."""
    finite, sizes = np.isfinite(given), np.abs(given)
    beyond: npt.NDArray[np.bool_] = finite & (sizes > most)
    if format.group > 1:  # A group may be NaN as a whole where one of its values is.
        return beyond
    if not saturates:
        infinite: npt.NDArray[np.bool_] = finite & ~np.isfinite(found)
        return infinite
    # Two's complement has a negative number more, one step beyond the others: values are rounded to it, too.
    step = np.abs(found) - most
    rounded: npt.NDArray[np.bool_] = beyond & ~((step > 0.0) & (2.0 * np.abs(sizes - np.abs(found)) <= step))
    return rounded


def _replaced(given: Floats, beyond: npt.NDArray[np.bool_], format: Format, most: float, overflow: Overflow) -> Floats:
    """Return the values with those beyond the range as the largest number, or as an infinity, which may be NaN."""
    if overflow == "raise":
        at = int(np.argmax(beyond))
        refuse_overflow(format, at, float(given[at]), most)
    if overflow == "inf":
        refuse_infinity(format)
    outside = most if overflow == "saturate" else np.inf if format.has_infinity else np.nan
    return np.where(beyond, np.copysign(outside, given), given)


def refuse_overflow(format: Format, at: int, value: float, most: float) -> None:
    """Refuse a value that is beyond the largest number of a format."""
    raise InputError(
        f"value {at}, {value}, is beyond {shortened(format.name)}, which ends at {most}; "
        "give overflow='saturate' or 'inf'"
    )


def refuse_infinity(format: Format) -> None:
    """Refuse formats without infinity and NaN, one of which would stand for values beyond the largest number."""
    if not (format.has_infinity or format.has_nan):
        raise InputError(f"{shortened(format.name)} has no infinity and no NaN; give overflow='saturate' or 'raise'")
