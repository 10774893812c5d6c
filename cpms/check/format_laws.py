"""Laws of storage formats, tested against exact rational arithmetic; `cpms.check` exports them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import CpmsError
from cpms.base.real_arrays import vector
from cpms.base.text.counted import counted
from cpms.base.types import Floats
from cpms.formats.formats import DOUBLE_BITS, FloatFormat, Format, SegmentFormat, format_of
from cpms.storage.array import convert_inplace, encode

_GUARD = 16


class LawError(CpmsError, AssertionError):
    """A law does not hold; the text names the law and the value that violates it.

    Parameters
    ----------
    text : str
    value, got, expected : float, optional
        The value that violates a law of formats, the result for it, and the right result.
    segment : int, optional
        The last segment, from 0 on, that the law read or wrote.
    """

    def __init__(
        self,
        text: str,
        value: float | None = None,
        got: float | None = None,
        expected: float | None = None,
        *,
        segment: int | None = None,
    ) -> None:
        super().__init__(text)
        self.value, self.got, self.expected, self.segment = value, got, expected, segment


def round_trip(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that a full read returns the bits that were written.

    A format that cannot keep every float64, such as a packed float, must instead store unchanged the values that it
    returned.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.round_trip(cpms.CPMS4, [0.1, float("nan")])
    """
    storage, given = _given(format, values)
    stored = encode(given, storage)
    if not storage.exact:
        # Into the same array: a scaled format keeps its exponent.
        given = stored.decode()
        stored.write(given)
    _same_bits("a full read returns what was written", storage, given, stored.decode(), given)


def partial_read_is_mask(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that reading the first k segments gives the float64 with its other bits cleared, for each k.

    Packed floats have no partial read; for them there is nothing to check.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.partial_read_is_mask(cpms.CPMS8, [0.1, float("nan")])
    """
    storage, given = _given(format, values)
    if not isinstance(storage, SegmentFormat):
        return
    stored = encode(given, storage)
    for read in range(1, storage.segments + 1):
        law = f"a read of {counted(read, 'segment')} keeps the first {storage.bits(read)} bits"
        _same_bits(law, storage, given, stored.decode(read), _masked(given, storage.bits(read)), read - 1)


def reading_more_never_moves_away(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that a read of k + 1 segments is no farther from the value than one of k, for each k.

    NaN has no distance and is left out. An infinity is infinitely far from every number.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.reading_more_never_moves_away(cpms.CPMS8, [0.1, -1e-310])
    """
    storage, given = _given(format, values)
    stored = encode(given, storage)
    nearest = np.full(len(given), np.inf)
    for read in range(1, storage.segments + 1):
        distance = _distance(stored.decode(read), given)
        law = f"a read of {counted(read, 'segment')} is no farther from the value than one of {read - 1}"
        # A format without infinities may store NaN for one, which `specials_are_kept` checks.
        closer = (distance <= nearest) | (np.isnan(distance) & (read == 1))
        _hold(law, storage, given, stored.decode(read), closer, segment=read - 1)
        nearest = distance


def truncation_is_idempotent(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that the values that a write of the first k segments stores do not change by a second such write.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.truncation_is_idempotent(cpms.format_named("cpms4-nearest"), [0.1, 1 / 3])
    """
    storage, given = _given(format, values)
    for segments in range(1, storage.segments + 1):
        stored = encode(given, storage, segments=segments)
        once = stored.decode(segments)
        stored.write(once, segments=segments)
        law = f"a second write of {counted(segments, 'segment')} changes nothing"
        _same_bits(law, storage, given, stored.decode(segments), once, segments - 1)


def relative_error(format: Format | str, values: npt.ArrayLike) -> None:
    """Check the bounds on the relative error of each normal number, for k written and for k read segments.

    With m mantissa bits in k segments, a read of k segments has an error of at most 2^-m, relative to a value that was
    written whole. A write of k segments has an error of at most ``format.unit_roundoff(k)``, which is half of that if
    the format rounds to nearest. The bounds do not hold for subnormal numbers, of float64 or of a packed float, nor for
    numbers that round to infinity.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.relative_error(cpms.CPMS4, [0.1, 1 / 3])
    >>> cpms.check.relative_error(cpms.FP16, [0.1, 1 / 3])
    """
    storage, given = _given(format, values)
    whole = encode(given, storage)
    for count in range(1, storage.segments + 1):
        written = encode(given, storage, segments=count).decode(count)
        bound, segment = storage.unit_roundoff(count), count - 1
        _within(f"{counted(count, 'segment')} written", storage, given, written, whole.exponent, bound, segment)
        if isinstance(storage, SegmentFormat):
            cut = 2.0 ** -storage.mantissa_kept(count)
            _within(f"{counted(count, 'segment')} read", storage, given, whole.decode(count), 0, cut, segment)


def inplace_equals_out_of_place(format: SegmentFormat | str, values: npt.ArrayLike) -> None:
    """Check that conversion in place gives the bytes of `cpms.encode`, writes no others, and can be undone.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.inplace_equals_out_of_place(cpms.CPMS4, [0.1, 1 / 3])
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


def specials_are_kept(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that signs, zeros, NaN and infinities remain such, if the format has them.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.specials_are_kept("e4m3fn", [-0.0, float("nan"), -2.5])
    """
    storage, given = _given(format, values)
    got = encode(given, storage).decode()
    if storage.group == 1:
        _hold("NaN stays NaN, and alone", storage, given, got, np.isnan(got) | ~np.isnan(given))
    if storage.has_infinity:
        _hold(
            "an infinity stays one, since has_infinity is True", storage, given, got, ~np.isinf(given) | (got == given)
        )
    signed = np.isnan(got) | np.isnan(given) | (np.signbit(got) == np.signbit(given))
    unsigned = (got == 0.0) & (not storage.has_negative_zero)
    signs = "" if storage.has_negative_zero else " but that of 0"
    _hold(f"a sign is kept{signs}", storage, given, got, signed | unsigned)


def order_is_kept(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that larger values are not stored as smaller numbers; groups have no such order.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.order_is_kept("posit8", [0.1, 0.2, -3.0])
    """
    storage, given = _given(format, values)
    if storage.group > 1:
        return
    finite = np.sort(given[np.isfinite(given)])
    got = encode(finite, storage).decode()
    sound = np.isfinite(got)
    ordered, kept = finite[sound], got[sound]
    falls = np.flatnonzero(kept[1:] < kept[:-1])
    if len(falls):
        i = int(falls[0])
        less, more = (
            f"{value}, as {answer}" for value, answer in zip(ordered[i : i + 2], kept[i : i + 2], strict=True)
        )
        text = f"{storage.name}: larger values are not stored as smaller numbers, but of two values the less, {less}"
        raise LawError(f"{text}, and the larger, {more}", float(ordered[i]), float(kept[i]))


def codecs_agree(format: Format | str, values: npt.ArrayLike) -> None:
    """Check that a compiled codec stores the bytes, and reads the values, of the format's own encode and decode.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.codecs_agree("mxfp4", [0.1, -2.0])
    """
    storage, given = _given(format, values)
    if isinstance(storage, SegmentFormat | FloatFormat) or storage.numba_codec() is None:
        return
    stored = encode(given, storage)
    if storage.group == 1:
        with np.errstate(all="ignore"):  # Infinities and NaN are values like others.
            codes = np.asarray(storage.encode(np.ldexp(given, stored.exponent)))
            got = np.ldexp(storage.decode(codes), -stored.exponent)
        same = codes == stored.units
        both = same | (np.isnan(got) & np.isnan(stored.decode()))
        _hold("the compiled codec stores the codes of encode", storage, given, stored.decode(), both, got)
        return
    groups = stored.memory.reshape(-1, storage.group_bytes)
    for read in range(1, storage.levels + 1):
        with np.errstate(all="ignore"):
            its = np.ldexp(storage.decode(groups, read).reshape(-1)[: len(given)], -stored.exponent)
        law = f"the compiled codec reads {counted(read, 'level')} as decode does"
        mine = stored.decode(read)
        same = (mine == its) | (np.isnan(mine) & np.isnan(its))
        _hold(law, storage, given, mine, same, its, segment=read - 1)


def _sizes_of_groups(sizes: Floats, group: int) -> Floats:
    """Return the largest size of each value's group."""
    if group == 1 or len(sizes) == 0:
        return sizes
    starts = np.arange(0, len(sizes), group)
    return np.repeat(np.maximum.reduceat(np.nan_to_num(sizes), starts), group)[: len(sizes)]


FORMAT_LAWS = (
    round_trip,
    partial_read_is_mask,
    reading_more_never_moves_away,
    truncation_is_idempotent,
    relative_error,
    specials_are_kept,
    order_is_kept,
    codecs_agree,
)
"""Laws of every format with deterministic rounding; each takes a format and float64 values."""


def _given(format: Format | str, values: npt.ArrayLike) -> tuple[Any, Floats]:
    return format_of(format), vector("values", values)


def _same_bits(
    law: str, format: Format, given: Floats, got: Floats, expected: Floats, segment: int | None = None
) -> None:
    _hold(law, format, given, got, got.view(np.uint64) == expected.view(np.uint64), expected, segment=segment)


def _hold(
    law: str,
    format: Format,
    given: Floats,
    got: Floats,
    holds: npt.NDArray[np.bool_],
    expected: Floats | None = None,
    *,
    segment: int | None = None,
    relative: Floats | None = None,
) -> None:
    """Raise unless the law holds for every value; name the first for which it does not, and its ``relative`` error."""
    if not holds.all():
        i = int(np.argmin(holds))
        value, bits, answer = float(given[i]), int(given.view(np.uint64)[i]), float(got[i])
        wanted = value if expected is None else float(expected[i])
        text = f"{format.name}: {law}, but entry {i}, {value} (bits {bits:#018x}), gives {answer}"
        if relative is not None:
            text += f", an error of {abs(answer - value) / float(relative[i]):.3g} relative to {relative[i]:.3g}"
        raise LawError(text, value, answer, wanted, segment=segment)


def _masked(values: Floats, bits: int) -> Floats:
    kept: npt.NDArray[np.uint64] = values.view(np.uint64) & np.uint64(2**DOUBLE_BITS - 2 ** (DOUBLE_BITS - bits))
    return kept.view(np.float64)


def _distance(got: Floats, given: Floats) -> Floats:
    """Return |got - given|, rounded, which keeps order; 0 for NaN and for equal infinities."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isnan(given) | (got == given), 0.0, np.abs(got - given)))


def _within(what: str, format: Format, given: Floats, got: Floats, exponent: int, bound: float, segment: int) -> None:
    """Raise unless all normal numbers that remain finite have at most this relative error, in exact arithmetic."""
    least, largest = float(np.finfo(np.float64).smallest_normal), float(np.finfo(np.float64).max)
    if not isinstance(format, SegmentFormat):
        with np.errstate(over="ignore"):
            scaled = np.ldexp([format.min_normal, format.max_normal], -exponent)
        least, largest = max(least, float(scaled[0])), min(largest, float(scaled[1]))
    size = np.abs(given)
    relative = size
    if not isinstance(format, FloatFormat | SegmentFormat):
        # Below the range, the absolute error is that at its end. In a group, it is relative to the largest number.
        relative, least = np.maximum(_sizes_of_groups(size, format.group), least), 0.0
    holds = np.ones(len(given), dtype=np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - given) <= bound * relative * (1.0 - 2.0**-40)
    bounded = (size >= least) & (relative <= largest) & (np.isfinite(got) | (format.group == 1))
    for i in np.flatnonzero(bounded & ~near & np.isfinite(given)):
        exact = Fraction(float(given[i]))
        finite = bool(np.isfinite(got[i]))
        overflows = isinstance(format, FloatFormat | SegmentFormat)
        holds[i] = (
            abs(Fraction(float(got[i])) - exact) <= Fraction(bound) * Fraction(float(relative[i]))
            if finite
            else overflows
        )
    normal = "a normal number"
    if not isinstance(format, FloatFormat | SegmentFormat):
        normal = (
            f"a number from min_normal, {format.min_normal:.3g}, to max_normal, {format.max_normal:.3g}, "
            f"and below min_normal within {bound * format.min_normal:.3g}"
        )
    verb = "is" if what.startswith("1 ") else "are"
    _hold(f"{what} {verb} within {bound} of {normal}", format, given, got, holds, segment=segment, relative=relative)
