"""Number formats as frozen data: float64 in segments, and packed floats of 8 to 32 bits.

Segments are those of customized precision by mantissa segmentation (CPMS, Grützmacher et al.); packed floats follow
IEEE 754 in all but their widths. Widths, ranges, unit roundoffs and bytes are derived from a few fields. A format is
a value: it is compared, hashed and recorded as such, and creating one costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias, cast, get_args

from cpms.base.errors import InputError
from cpms.base.text.suggestions import nearest, unknown
from cpms.base.validation import as_whole, described, is_iterable, shortened, whole

Rounding: TypeAlias = Literal["zero", "nearest", "stochastic"]

DOUBLE_BITS = 64
DOUBLE_HEAD_BITS = 12
"""Sign and exponent of a float64: the bits before its mantissa."""
BLOCK_BYTES = 128
"""Bytes of one segment's block in the CPMS paper: a cache line of its GPUs."""


@dataclass(frozen=True)
class SegmentFormat:
    """A float64 cut into segments, most significant bits first (CPMS).

    The k-th segments of ``block`` values lie side by side, followed by their (k+1)-th segments;
    a last block of fewer values is laid out the same way, so an array of any length occupies 8
    bytes a value. Reading the first segments alone gives the float64 with its low bits cleared.

    Parameters
    ----------
    name : str
        Name in results and on the command line.
    widths : tuple of int
        Bits of each segment: 8, 16, 32 or 64, summing to 64.
    block : int or None
        Values in a block; None puts each segment into a plane of its own.
    rounding : {"zero", "nearest"}
        How writing fewer than all segments treats the remaining bits: it cuts them, as the paper
        does, or rounds to the nearest (ties to even). Writes of fewer than 12 bits, which hold no
        mantissa, always cut.

    Notes
    -----
    Source: Grützmacher, Anzt, Scheidegger, Quintana-Ortí, "High-Performance GPU Implementation
    of PageRank with Reduced Precision based on Mantissa Segmentation", section IV.A.

    Examples
    --------
    >>> mine = SegmentFormat("mine", (16, 16, 32), block=64)
    >>> mine.segments, mine.bits(2), mine.mantissa_kept(2), mine.unit_roundoff(1)
    (3, 32, 20, 0.0625)
    """

    name: str
    widths: tuple[int, ...]
    block: int | None
    rounding: Rounding = "zero"

    def __post_init__(self) -> None:
        _check_name(self.name)
        if isinstance(self.widths, str | bytes) or not is_iterable(self.widths):
            raise InputError(
                f"format {described(self.name)} has segment widths {described(self.widths)}; "
                "give a tuple such as (32, 32)"
            )
        widths = tuple(whole("segment width", width) for width in islice(self.widths, DOUBLE_BITS))
        object.__setattr__(self, "widths", widths)
        if any(width not in (8, 16, 32, 64) for width in self.widths) or sum(self.widths) != DOUBLE_BITS:
            raise InputError(
                f"format {described(self.name)} has segment widths {described(self.widths)}; they can be 8, 16, 32 "
                "or 64 bits and must sum to 64"
            )
        if self.block is not None:
            object.__setattr__(self, "block", whole("block", self.block))
        if self.block is not None and self.block < 1:
            raise InputError(
                f"format {described(self.name)} has a block of {self.block} values; give 1 or more, or None"
            )
        if not isinstance(self.rounding, str) or self.rounding not in ("zero", "nearest"):
            raise InputError(
                f"format {described(self.name)} rounds {described(self.rounding)}; "
                "segments can round to 'zero' or 'nearest'"
            )

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.widths)

    @property
    def exact(self) -> bool:
        """Whether a full read returns the float64 that was written: always."""
        return True

    @property
    def unit(self) -> int:
        """Bits of the narrowest segment: every segment starts at a multiple of it."""
        return min(self.widths)

    def bits(self, read: int | None = None) -> int:
        """Bits that a read of the first ``read`` segments keeps (all by default)."""
        return sum(self.widths[: self.checked_read(read)])

    def mantissa_kept(self, read: int | None = None) -> int:
        """Explicit mantissa bits among them; 0 where not even the exponent is whole."""
        return max(0, self.bits(read) - DOUBLE_HEAD_BITS)

    def unit_roundoff(self, read: int | None = None) -> float:
        """Bound of the relative error of a normal float64 that is read: 2^-m cut, 2^-(m+1) rounded, 0 if whole."""
        if self.bits(read) == DOUBLE_BITS:
            return 0.0
        rounds = self.rounding == "nearest" and self.bits(read) >= DOUBLE_HEAD_BITS
        return 2.0 ** -(self.mantissa_kept(read) + rounds)

    def bytes_read(self, read: int | None = None) -> int:
        """Bytes of one value that a read of the first ``read`` segments touches."""
        return self.bits(read) // 8

    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values."""
        return 8 * _length(length)

    def checked_read(self, read: int | None) -> int:
        """Return ``read``, or all segments for None; refuse numbers that the format does not have."""
        count = self.segments if read is None else _count(read)
        if not 1 <= count <= self.segments:
            raise InputError(
                f"{shortened(self.name)} has {self.segments} segment{'s' if self.segments > 1 else ''}; "
                f"{described(count)} of them cannot be read or written"
            )
        return count


@dataclass(frozen=True)
class FloatFormat:
    """A packed binary float of 8, 16 or 32 bits: sign, exponent, mantissa, as IEEE 754 reads them.

    Subnormals are gradual; the largest exponent means infinity and NaN (OCP's E4M3 spends it on
    numbers instead, so its largest value is 448 and that of ``e4m3`` here 240).

    Parameters
    ----------
    name : str
        Name in results and on the command line.
    exponent_bits, mantissa_bits : int
        2 to 11 and at least 1; with the sign they fill 8, 16 or 32 bits.
    rounding : {"nearest", "zero", "stochastic"}
        To the nearest (ties to even), cut, or up with the probability of the part cut off.
    scaled : bool
        Multiply an array by one shared power of two, so that its largest value is near the
        largest of the format and small values keep their bits. Not with 11 exponent bits.
    seed : int
        Of stochastic rounding; the bits depend on it and on the index alone. Parts below 2^-10 of the
        smallest subnormal number never round up.

    Examples
    --------
    >>> half = FloatFormat("half", 5, 10)
    >>> half.width, half.max_finite, half.min_normal
    (16, 65504.0, 6.103515625e-05)
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    rounding: Rounding = "nearest"
    scaled: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.scaled, bool):
            raise InputError(f"format {described(self.name)} has scaled={described(self.scaled)}; give True or False")
        for field in ("exponent_bits", "mantissa_bits", "seed"):
            object.__setattr__(self, field, whole(field, getattr(self, field)))
        if not 2 <= self.exponent_bits <= 11 or self.mantissa_bits < 1 or self.width not in (8, 16, 32):
            raise InputError(
                f"format {described(self.name)} has {self.exponent_bits} exponent and {self.mantissa_bits} mantissa "
                "bits; it needs 2 to 11 exponent bits, 1 or more mantissa bits, and 8, 16 or 32 with the sign"
            )
        if not isinstance(self.rounding, str) or self.rounding not in get_args(Rounding):
            raise InputError(
                f"format {described(self.name)} rounds {described(self.rounding)}; "
                f"it can be one of {get_args(Rounding)}"
            )
        if self.scaled and self.exponent_bits == DOUBLE_HEAD_BITS - 1:
            raise InputError(
                f"format {described(self.name)} has the range of float64 and takes no scale; leave 'scaled' out"
            )
        if not 0 <= self.seed < 2**DOUBLE_BITS:
            raise InputError(
                f"format {described(self.name)} has the seed {self.seed}; give an integer from 0 to 2**64 - 1"
            )

    @property
    def width(self) -> int:
        """Bits of a stored value."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def segments(self) -> int:
        """A packed float is read whole: one segment."""
        return 1

    @property
    def exact(self) -> bool:
        """Whether a full read returns the float64 that was written: not in general."""
        return False

    @property
    def bias(self) -> int:
        """Bias of the stored exponent."""
        return int(2 ** (self.exponent_bits - 1)) - 1

    @property
    def max_finite(self) -> float:
        """Largest finite value."""
        return (2.0 - 2.0**-self.mantissa_bits) * 2.0**self.bias

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value."""
        return 2.0 ** (1 - self.bias)

    def bits(self, read: int | None = None) -> int:
        """Bits of a stored value."""
        self.checked_read(read)
        return self.width

    def mantissa_kept(self, read: int | None = None) -> int:
        """Explicit mantissa bits."""
        self.checked_read(read)
        return self.mantissa_bits

    def unit_roundoff(self, read: int | None = None) -> float:
        """Bound of the relative error of a value in the normal range."""
        return 2.0 ** -(self.mantissa_kept(read) + (self.rounding == "nearest"))

    def bytes_read(self, read: int | None = None) -> int:
        """Bytes of a stored value."""
        return self.bits(read) // 8

    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values."""
        return self.width // 8 * _length(length)

    def checked_read(self, read: int | None) -> int:
        """Return 1, the only possible number of segments."""
        count = 1 if read is None else _count(read)
        if count != 1:
            raise InputError(
                f"{shortened(self.name)} is one segment; {described(count)} of them cannot be read or written"
            )
        return 1


Format: TypeAlias = SegmentFormat | FloatFormat


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise InputError(f"the name of a format is {described(name)}; give text")


def _count(read: object) -> int:
    """Return a number of segments of any size; the caller checks the range."""
    count = as_whole(read)
    return whole("segments", read) if count is None else count


def _length(length: int) -> int:
    count = whole("length", length)
    if count < 0:
        raise InputError(f"length is {count}; an array has 0 values or more")
    return count


def segment_format(name: str, *widths: int, planes: bool = False) -> SegmentFormat:
    """Make a `SegmentFormat` in blocks of 128 bytes of its narrowest segment, or in planes.

    Examples
    --------
    >>> segment_format("cpms2", 32, 32).block
    32
    """
    return SegmentFormat(name, widths, None if planes else BLOCK_BYTES * 8 // min(widths))


FP64 = SegmentFormat("fp64", (64,), None)
CPMS2 = segment_format("cpms2", 32, 32)
CPMS4 = segment_format("cpms4", 16, 16, 16, 16)
CPMS8 = segment_format("cpms8", *[8] * 8)
CPMS2_PLANES = segment_format("cpms2-planes", 32, 32, planes=True)
CPMS4_PLANES = segment_format("cpms4-planes", 16, 16, 16, 16, planes=True)
CPMS8_PLANES = segment_format("cpms8-planes", *[8] * 8, planes=True)
FP32 = FloatFormat("fp32", 8, 23)
FP16 = FloatFormat("fp16", 5, 10)
BF16 = FloatFormat("bf16", 8, 7)
E4M3 = FloatFormat("e4m3", 4, 3)
E5M2 = FloatFormat("e5m2", 5, 2)

NAMED: tuple[Format, ...] = (
    *(FP64, CPMS2, CPMS4, CPMS8, CPMS2_PLANES, CPMS4_PLANES, CPMS8_PLANES),
    *(FP32, FP16, BF16, E4M3, E5M2),
)


def format_of(given: Format | str) -> Format:
    """Return a format that is given by itself or by its name; see `format_named`.

    Examples
    --------
    >>> format_of("cpms4") is format_of(CPMS4)
    False
    >>> format_of("cpms4") == format_of(CPMS4)
    True
    """
    return given if isinstance(given, SegmentFormat | FloatFormat) else format_named(given)


def format_named(name: str) -> Format:
    """Return the format that the command line and configurations call ``name``.

    A named format, ``seg16-16-32`` (128-byte blocks of the narrowest segment) or ``e6m9``,
    followed by any of ``-planes``, ``-nearest``, ``-zero``, ``-stochastic`` and ``-scaled``.

    Raises
    ------
    InputError
        If the name is none of these.

    Examples
    --------
    >>> format_named("cpms4-nearest").rounding, format_named("seg16-16-32").block
    ('nearest', 64)
    >>> format_named("e5m10-scaled").scaled
    True
    """
    if not isinstance(name, str):
        raise InputError(f"storage is {described(name)}; give a format such as cpms.CPMS4, or the name of one")
    by_name = {known.name: known for known in NAMED}
    stem, suffixes = name, []
    while stem not in by_name and (match := re.fullmatch(r"(.+)-(planes|nearest|zero|stochastic|scaled)", stem)):
        stem = match[1]
        suffixes.append(match[2])
    base = by_name.get(stem) or _spelled(stem)
    if base is None:
        forms = ", a form such as seg16-16-32 or e6m9, and end in -planes, -nearest, -zero, -stochastic or -scaled"
        raise InputError(unknown("storage", name, by_name, forms, near=_near(name, stem, by_name)))
    for suffix in reversed(suffixes):
        base = _with_suffix(base, suffix)
    return replace(base, name=name)


def _near(name: str, stem: str, known: Iterable[str]) -> str | None:
    """Return the name in small letters if that is a format, or the nearest stem with the endings given."""
    with suppress(InputError):
        if name != name.lower():
            return format_named(name.lower()).name
    near = nearest(stem, known)
    return near and near + name[len(stem) :]


def _spelled(stem: str) -> Format | None:
    if match := re.fullmatch(r"seg(\d{1,2}(?:-\d{1,2})*)", stem, re.ASCII):
        widths = tuple(int(width) for width in match[1].split("-"))
        return segment_format(stem, *widths) if min(widths) else None
    if match := re.fullmatch(r"e(\d{1,2})m(\d{1,2})", stem, re.ASCII):
        return FloatFormat(stem, int(match[1]), int(match[2]))
    return None


def _with_suffix(base: Format, suffix: str) -> Format:
    if isinstance(base, SegmentFormat):
        if suffix == "planes":
            return replace(base, block=None)
        if suffix in ("nearest", "zero"):
            return replace(base, rounding=cast(Rounding, suffix))
        raise InputError(f"{base.name} is made of segments; -{suffix} is for packed floats such as fp16")
    if suffix == "planes":
        raise InputError(f"{base.name} is a packed float; -planes is for segments such as cpms4")
    if suffix == "scaled":
        return replace(base, scaled=True)
    return replace(base, rounding=cast(Rounding, suffix))
