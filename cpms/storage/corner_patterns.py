"""Corner patterns of a format, for tests: special values, and the values beside which its rounding changes.

Random patterns hit a NaN with a full payload, or the neighbour of a tie between two subnormal numbers, too seldom to
find a fault there. Bisection on the bits of float64 finds two neighbouring numbers that the format rounds to different
results, where its errors are largest. It needs to know nothing of the format's codes. The exact ties between the two
results, and the neighbours of all these numbers, are corner patterns, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from cpms.base.types import Floats
from cpms.formats.formats import Format, SegmentFormat
from cpms.storage.array import SegmentedArray, encode

_INFINITY, _ONES = 0x7FF << 52, (1 << 52) - 1
_ALL_CODES = 12
"""Most bits of a code with which bisection begins at all numbers of the format."""
_MOST_STARTS = 1536
"""About the number of values at which bisection begins otherwise."""
_MOST_VALUES = 1 << 16
"""About the most values of an array in which each corner pattern has a group of its own."""
_FIRST = 32
"""Special values of a group format that are always tried; of the others it is a sample."""
_LARGEST = _INFINITY - 1
"""Bits of the largest float64."""
Bits = npt.NDArray[np.uint64]
Quantised = Callable[[Floats], Floats]


def special_values() -> Floats:
    """Return NaN, infinities, zeros, subnormal numbers, and powers of two with their neighbours, for any format.

    NaN have each payload of one bit, which becomes an infinity where that bit is cut off, and each payload of leading
    ones, where rounding carries into the exponent. The values that matter most come first.

    Examples
    --------
    >>> found = special_values()
    >>> [bits in found.view(np.uint64) for bits in (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000001, 1, 1 << 63)]
    [True, True, True, True]
    """
    first, *others = special_sizes()
    return np.concatenate([_both_signs(first), _both_signs(np.unique(np.concatenate(others)))])


def special_sizes() -> tuple[Bits, Bits, Bits, Bits]:
    """Return the bits of `special_values` without signs, in four groups.

    These are the values that matter most, NaN, subnormal numbers, and powers of two with their neighbours.

    Examples
    --------
    >>> [hex(group[-1]) for group in special_sizes()]
    ['0x7fffffffffffffff', '0x7ff8000000000000', '0x7ffffffffffff', '0x7fe0000000000001']
    """
    places = np.uint64(1) << np.arange(52, dtype=np.uint64)
    ones = np.uint64(_ONES) & ~(places - np.uint64(1))
    exponents = np.arange(1, 0x7FF, dtype=np.uint64) << np.uint64(52)
    first = [0, 1, _ONES, 1 << 52, _LARGEST, _INFINITY, *(_INFINITY | payload for payload in (1, 1 << 51, _ONES))]
    return (
        np.array(first, np.uint64),
        np.uint64(_INFINITY) | np.concatenate([places, ones]),
        np.concatenate([places, ones, np.uint64(_ONES) - ones]),
        np.concatenate([exponents - np.uint64(1), exponents, exponents + np.uint64(1)]),
    )


def fitting(storage: Format, values: Floats) -> Floats:
    """Return the values that a format can store.

    A format without NaN stores no NaN, and no infinity either if it stores numbers in groups.

    Examples
    --------
    >>> import cpms
    >>> fitting(cpms.format_named("int8"), np.array([np.nan, 1.0])).tolist()
    [1.0]
    """
    values = values if storage.has_nan else values[~np.isnan(values)]
    return values if storage.has_nan or storage.group == 1 else values[np.isfinite(values)]


def corner_arrays(storage: Format) -> Iterator[Floats]:
    """Yield arrays of the corner patterns of a format: special values, and those beside which its rounding changes.

    In a format of groups, each special value has a group of its own. The largest number of a group decides how the
    others are rounded, and the largest of an array may decide its scale. So an array contains the largest number with
    which bisection found its patterns.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> found = np.concatenate(list(corner_arrays(FP16)))
    >>> tie = 1.0 + 2.0**-11
    >>> [value in found for value in (tie, np.nextafter(tie, 2.0), np.nextafter(tie, 0.0), 2.0**-25)]
    [True, True, True, True]
    """
    special = fitting(storage, special_values())
    if storage.group > 1:
        others = special[_FIRST :: -(-len(special) * storage.group // _MOST_VALUES)]
        yield _alone(np.concatenate([special[:_FIRST], others]), storage.group)
        largest = _sizes(storage, 6)
    else:
        yield special
        largest = np.array([storage.max_normal])
    starts = _starts(storage)
    for read in range(1, storage.levels + 1):
        for most in largest:
            near = starts if storage.group == 1 else most * np.random.default_rng(read).uniform(-1.0, 1.0, 256)
            found = _corners(partial(_beside, storage, read, most), near)
            below = np.abs(found) <= most
            yield fitting(storage, _with_largest(found[below], most, storage.group))
            if storage.group == 1:
                yield found[~below]
        if storage.group > 1:
            few = starts[:: -(-8 * len(starts) * storage.group // _MOST_VALUES)]
            found = _corners(partial(_largest_of_group, storage, read), few)
            yield _alone(fitting(storage, found), storage.group)


def _both_signs(sizes: Bits) -> Floats:
    return np.concatenate([sizes, sizes | np.uint64(1 << 63)]).view(np.float64)


@np.errstate(all="ignore")
def _sizes(storage: Format, count: int) -> Floats:
    """Return so many sizes between the ends of a format's normal range, both included."""
    least, most = np.log2([storage.min_normal, min(storage.max_normal, float(np.finfo(np.float64).max))]).tolist()
    found: Floats = np.minimum(np.exp2(np.linspace(least, most, count)), storage.max_normal)
    return found


@np.errstate(all="ignore")
def _starts(storage: Format) -> Floats:
    """Return finite values at which bisection begins, and the ends of the format's ranges.

    They are all numbers of a format of few codes, else random ones of every binade.
    """
    if storage.group == 1 and storage.levels == 1 and storage.bits() <= _ALL_CODES:
        codes = np.arange(2 ** storage.bits()).astype(storage.code_type)
        values = SegmentedArray(codes.view(np.uint8), len(codes), storage).decode()
    else:
        random, normal = np.random.default_rng(0), _sizes(storage, _MOST_STARTS // 2)
        # The powers of two below the normal range reach its least number.
        below = storage.min_normal * np.exp2(-np.arange(60.0))
        values = np.concatenate([normal, below, below, below]) * random.uniform(1.0, 2.0, len(normal) + 180)
        values = np.concatenate([values, np.exp2(np.round(np.log2(normal))), below])
        values *= random.choice([-1.0, 1.0], len(values))
    ends = np.array([0.0, 1.0, storage.min_normal, storage.max_normal, storage.max_finite])
    values = np.concatenate([values, ends, -ends])
    return values[np.isfinite(values)]


def _beside(storage: Format, read: int, most: float, values: Floats) -> Floats:
    """Return values rounded in groups that contain a number, or in an array that ends with it."""
    given = _with_largest(values, most, storage.group)
    stored = _stored(storage, given, read)
    return stored[: len(values)] if storage.group == 1 else _without_largest(stored, len(values), storage.group)


def _largest_of_group(storage: Format, read: int, values: Floats) -> Floats:
    return _stored(storage, _alone(values, storage.group), read)[:: storage.group]


def _stored(storage: Format, values: Floats, read: int) -> Floats:
    return encode(values, storage, segments=read if isinstance(storage, SegmentFormat) else None).decode(read)


def _with_largest(values: Floats, most: float, group: int) -> Floats:
    if group == 1:
        return np.append(values, most)
    groups = -(-len(values) // (group - 1))
    padded = np.zeros(groups * (group - 1))
    padded[: len(values)] = values
    return np.column_stack([np.full(groups, most), padded.reshape(groups, group - 1)]).ravel()


def _without_largest(values: Floats, length: int, group: int) -> Floats:
    return values.reshape(-1, group)[:, 1:].ravel()[:length]


def _alone(values: Floats, group: int) -> Floats:
    """Return groups of zeros that begin with one value each."""
    found = np.zeros((len(values), group))
    found[:, 0] = values
    return found.ravel()


@np.errstate(all="ignore")
def _corners(quantised: Quantised, starts: Floats) -> Floats:
    """Return the values near each start beside which the rounding changes, the ties there, and neighbours of all."""
    last, following = _changes(quantised, starts)
    lower, upper = quantised(last), quantised(following)
    ties = lower + (upper - lower) / 2.0
    around = np.concatenate([last, lower, upper, ties[np.isfinite(ties)], starts])
    around = around[np.isfinite(around)]
    found = np.concatenate([around, following, np.nextafter(around, np.inf), np.nextafter(around, -np.inf)])
    return np.unique(found[np.isfinite(found)].view(np.uint64)).view(np.float64)


def _changes(quantised: Quantised, starts: Floats) -> tuple[Floats, Floats]:
    """Return the value of largest size that is stored as the same number as each start, and the float64 after it."""
    bits = starts.view(np.uint64)
    sign: Bits = bits & np.uint64(1 << 63)
    low: Bits = bits & np.uint64((1 << 63) - 1)
    high, first = low.copy(), quantised(starts).view(np.uint64)

    def same(size: Bits) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = quantised((size | sign).view(np.float64)).view(np.uint64) == first
        return found

    for place in range(63):
        inside = same(high) & (high < _LARGEST)
        high = np.where(inside, np.minimum(low + np.uint64(1 << place), np.uint64(_LARGEST)), high)
        if not inside.any():
            break
    sound = ~same(high)
    sign, low, high, first = sign[sound], low[sound], high[sound], first[sound]
    while len(low) and (high - low).max() > 1:
        middle = low + (high - low) // np.uint64(2)
        inside = same(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return (low | sign).view(np.float64), (high | sign).view(np.float64)
