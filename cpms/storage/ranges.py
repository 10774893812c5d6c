"""Ranges of formats: a power of two that brings an array into the range, and counts of the values beyond it.

A shared power of two is the scalar scaling of Higham, Pranesh and Zounon (SIAM J. Sci. Comput. 41, 2019). Overflow and
underflow are those of IEEE 754, section 7, for each value by itself. A finite value overflows if it is not rounded to a
finite number, or if it lies beyond the range of a format that saturates. A value other than 0 underflows if it becomes
0. Counting decodes the array and takes some passes over the values.
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
"""Largest absolute value of the exponent of an array, whose values are stored times 2**exponent."""
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
    """Return the exponent of an array for a distribution, any value of which may become 1."""
    return array_exponent(np.ones(1), format)


def array_exponent(values: Floats, format: Format) -> int:
    """Return the exponent e of an array whose values are stored times 2**e; it is 0 unless the format is scaled."""
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
    """Return the exponent e for which the largest finite value times 2**e lies one binade below the format's largest.

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
    """Refuse anything but one of `Overflow`."""
    require_one_of("overflow", overflow, get_args(Overflow))


def counted(stored: Any, given: Floats, written: int, overflow: Overflow) -> Counts:
    """Return how many of the given values a stored array did not keep; store those that overflow again, as requested.

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
        If a value overflows and is to be refused, or is to become an infinity where the format has none and no NaN.
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
    """Return the largest number that an array can hold in its first ``written`` segments."""
    if isinstance(stored.format, SegmentFormat):
        dropped = np.uint64(DOUBLE_BITS - stored.format.bits(written))
        bits = np.array([np.finfo(np.float64).max]).view(np.uint64) >> dropped << dropped
        return float(bits.view(np.float64)[0])
    with np.errstate(over="ignore"):
        return float(np.ldexp(stored.format.max_finite, -stored.exponent))


def _saturates(stored: Any, most: float) -> bool:
    """Return whether the format stores twice its largest number as its largest number."""
    if isinstance(stored.format, SegmentFormat) or math.isinf(2.0 * most):
        return False
    probe = replace(stored, memory=np.zeros(stored.format.nbytes(1), np.uint8), length=1, shape=())
    probe.write([2.0 * most])
    return bool(probe.decode()[0] == most)


def _overflowing(
    given: Floats, found: Floats, format: Format, most: float, *, saturates: bool
) -> npt.NDArray[np.bool_]:
    """Return which values overflow, given the values as they are stored."""
    finite, sizes = np.isfinite(given), np.abs(given)
    beyond: npt.NDArray[np.bool_] = finite & (sizes > most)
    if format.group > 1:  # A group may be NaN as a whole where one of its values is.
        return beyond
    if not saturates:
        infinite: npt.NDArray[np.bool_] = finite & ~np.isfinite(found)
        return infinite
    # Two's complement has one more negative number, a step below the others; values that round to it fit, too.
    step = np.abs(found) - most
    rounded: npt.NDArray[np.bool_] = beyond & ~((step > 0.0) & (2.0 * np.abs(sizes - np.abs(found)) <= step))
    return rounded


def _replaced(given: Floats, beyond: npt.NDArray[np.bool_], format: Format, most: float, overflow: Overflow) -> Floats:
    """Return the values with those beyond the range replaced by the largest number, an infinity, or NaN."""
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
    """Refuse a format that has neither an infinity nor a NaN for values beyond its largest number."""
    if not (format.has_infinity or format.has_nan):
        raise InputError(f"{shortened(format.name)} has no infinity and no NaN; give overflow='saturate' or 'raise'")
