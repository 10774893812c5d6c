"""Laws of storage formats, tested against exact rational arithmetic; `cpms.check` exports them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import CpmsError
from cpms.base.real_arrays import Floats, vector
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, Format, SegmentFormat, format_of
from cpms.storage.array import convert_inplace, encode

_GUARD = 16


class LawError(CpmsError, AssertionError):
    """A law does not hold; the text names the law and the value that breaks it."""


def round_trip(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that a full read returns the bits that were written.

    Of a packed float, which cannot keep every float64, check instead that what it returns is stored
    unchanged when it is written again.

    Examples
    --------
    >>> from cpms import CPMS4
    >>> round_trip(CPMS4, [0.1, float("nan")])
    """
    storage, given = _given(format, values)
    stored = encode(given, storage)
    if isinstance(storage, FloatFormat):
        # Into the same array: a scaled format keeps its exponent.
        given = stored.decode()
        stored.write(given)
    _same_bits("a full read returns what was written", storage, given, stored.decode(), given)


def partial_read_is_mask(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that reading the first k segments gives the float64 with its other bits cleared, for each k.

    Packed floats have no partial read; for them there is nothing to check.

    Examples
    --------
    >>> from cpms import CPMS8
    >>> partial_read_is_mask(CPMS8, [0.1, float("nan")])
    """
    storage, given = _given(format, values)
    if isinstance(storage, FloatFormat):
        return
    stored = encode(given, storage)
    for read in range(1, storage.segments + 1):
        law = f"a read of {read} segments keeps the first {storage.bits(read)} bits"
        _same_bits(law, storage, given, stored.decode(read), _masked(given, storage.bits(read)))


def reading_more_never_moves_away(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that a read of k + 1 segments is no farther from the value than one of k, for each k.

    NaN has no distance and is left out; an infinity is as far from every number as from any other.

    Examples
    --------
    >>> from cpms import CPMS8
    >>> reading_more_never_moves_away(CPMS8, [0.1, -1e-310])
    """
    storage, given = _given(format, values)
    stored = encode(given, storage)
    nearest = np.full(len(given), np.inf)
    for read in range(1, storage.segments + 1):
        distance = _distance(stored.decode(read), given)
        law = f"a read of {read} segments is no farther from the value than one of {read - 1}"
        _hold(law, storage, given, stored.decode(read), distance <= nearest)
        nearest = distance


def truncation_is_idempotent(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that what a write of the first k segments stored is stored unchanged by a second such write.

    Examples
    --------
    >>> from cpms import format_named
    >>> truncation_is_idempotent(format_named("cpms4-nearest"), [0.1, 1 / 3])
    """
    storage, given = _given(format, values)
    for segments in range(1, storage.segments + 1):
        stored = encode(given, storage, segments=segments)
        once = stored.decode(segments)
        stored.write(once, segments=segments)
        law = f"a second write of {segments} segments changes nothing"
        _same_bits(law, storage, given, stored.decode(segments), once)


def relative_error(format: Format | str, values: npt.ArrayLike) -> None:
    """Check the bounds on the relative error of each normal number, for k written and for k read segments.

    With m mantissa bits in k segments, a read of k is within 2^-m of a value that was written
    whole; a write of k is within ``format.unit_roundoff(k)``, half of that where it rounds to the
    nearest. Neither is claimed for subnormal numbers, of float64 or of the packed format, nor for
    numbers that round to infinity.

    Examples
    --------
    >>> from cpms import FP16, CPMS4
    >>> relative_error(CPMS4, [0.1, 1 / 3])
    >>> relative_error(FP16, [0.1, 1 / 3])
    """
    storage, given = _given(format, values)
    whole = encode(given, storage)
    for count in range(1, storage.segments + 1):
        written = encode(given, storage, segments=count).decode(count)
        _within(f"{count} written segments", storage, given, written, whole.exponent, storage.unit_roundoff(count))
        if isinstance(storage, SegmentFormat):
            cut = 2.0 ** -storage.mantissa_kept(count)
            _within(f"a read of {count} segments", storage, given, whole.decode(count), 0, cut)


def inplace_equals_out_of_place(format: SegmentFormat | str, values: npt.ArrayLike) -> None:
    """Check that conversion in place gives the bytes of `cpms.encode`, touches no other, and can be undone.

    Examples
    --------
    >>> from cpms import CPMS4
    >>> inplace_equals_out_of_place(CPMS4, [0.1, 1 / 3])
    """
    storage, given = _given(format, values)
    guarded = np.concatenate([np.full(_GUARD, -np.pi), given, np.full(_GUARD, -np.pi)])
    inside = guarded[_GUARD : _GUARD + len(given)]
    stored = convert_inplace(inside, storage)
    differs = np.flatnonzero(stored.memory != encode(given, storage).memory)
    if len(differs):
        raise LawError(f"{storage.name}: in place, byte {differs[0]} of {len(given)} values is not that of encode")
    _same_bits("conversion back gives the values", storage, given, stored.restore_inplace(), given)
    outside = np.concatenate([guarded[:_GUARD], guarded[_GUARD + len(given) :]])
    if (outside != -np.pi).any():
        raise LawError(f"{storage.name}: conversion in place of {len(given)} values wrote outside the array")


FORMAT_LAWS = (
    round_trip,
    partial_read_is_mask,
    reading_more_never_moves_away,
    truncation_is_idempotent,
    relative_error,
)
"""Laws of every format that rounds the same way each time; each takes a format and float64 values."""


def _given(format: Format | str, values: npt.ArrayLike) -> tuple[Any, Floats]:
    return format_of(format), vector("values", values)


def _same_bits(law: str, format: Format, given: Floats, got: Floats, expected: Floats) -> None:
    _hold(law, format, given, got, got.view(np.uint64) == expected.view(np.uint64))


def _hold(law: str, format: Format, given: Floats, got: Floats, holds: npt.NDArray[np.bool_]) -> None:
    """Raise unless the law holds for every value; name the first for which it does not."""
    if not holds.all():
        i = int(np.argmin(holds))
        value, bits, answer = float(given[i]), int(given.view(np.uint64)[i]), float(got[i])
        raise LawError(f"{format.name}: {law}, but value {i}, {value} (bits {bits:#018x}), gives {answer}")


def _masked(values: Floats, bits: int) -> Floats:
    kept: npt.NDArray[np.uint64] = values.view(np.uint64) & np.uint64(2**DOUBLE_BITS - 2 ** (DOUBLE_BITS - bits))
    return kept.view(np.float64)


def _distance(got: Floats, given: Floats) -> Floats:
    """Return |got - given|, rounded, which keeps order; 0 for NaN and for equal infinities."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isnan(given) | (got == given), 0.0, np.abs(got - given)))


def _within(what: str, format: Format, given: Floats, got: Floats, exponent: int, bound: float) -> None:
    """Hold normal numbers that stay finite to a relative error, in exact arithmetic."""
    least, largest = float(np.finfo(np.float64).smallest_normal), float(np.finfo(np.float64).max)
    if isinstance(format, FloatFormat):
        with np.errstate(over="ignore"):
            scaled = np.ldexp([format.min_normal, format.max_finite], -exponent)
        least, largest = max(least, float(scaled[0])), min(largest, float(scaled[1]))
    size = np.abs(given)
    holds = np.ones(len(given), dtype=np.bool_)
    for i in np.flatnonzero((size >= least) & (size <= largest) & np.isfinite(got)):
        exact = Fraction(float(given[i]))
        holds[i] = abs(Fraction(float(got[i])) - exact) <= Fraction(bound) * abs(exact)
    _hold(f"{what} are within {bound} of a normal number", format, given, got, holds)
