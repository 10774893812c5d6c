"""Packed binary floats of 8, 16 or 32 bits, which follow IEEE 754 in all but their widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from cpms.base.errors import InputError
from cpms.base.validation import described, whole
from cpms.formats.protocol import Format, Rounding, require_name, require_read
from cpms.formats.segments import DOUBLE_BITS, DOUBLE_EXPONENT_BITS


@dataclass(frozen=True)
class FloatFormat(Format, compiled=True):
    """A packed binary float of 8, 16 or 32 bits: sign, exponent, mantissa, as IEEE 754 reads them.

    Subnormals are gradual; the largest exponent means infinity and NaN (OCP's E4M3 spends it on numbers instead, so its
    largest value is 448 and that of ``e4m3`` here 240).

    Parameters
    ----------
    name : str
        Name in results and on the command line.
    exponent_bits, mantissa_bits : int
        2 to 11 and at least 1; with the sign they fill 8, 16 or 32 bits.
    rounding : {"nearest", "zero", "stochastic"}
        To the nearest (ties to even), cut, or up with the probability of the part cut off.
    scaled : bool
        Multiply an array by one shared power of two, so that its largest value is near the largest of the format and
        small values keep their bits. Not with 11 exponent bits.
    seed : int
        Of stochastic rounding; the bits depend on it and on the index alone. Parts below 2^-10 of the smallest
        subnormal number never round up.

    Examples
    --------
    >>> import cpms
    >>> half = cpms.FloatFormat("half", 5, 10)
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
        require_name(self.name)
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
        if self.scaled and self.exponent_bits == DOUBLE_EXPONENT_BITS:
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

    def checked_read(self, read: int | None) -> int:
        """Return 1, the only possible number of segments."""
        return require_read(self.name, read, 1, "segment")
