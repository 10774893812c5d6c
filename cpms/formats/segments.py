"""Float64 cut into segments, most significant bits first: customized precision by mantissa segmentation (CPMS)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

from cpms.base.errors import InputError
from cpms.base.validation import described, is_iterable, whole
from cpms.formats.protocol import Format, Rounding, require_name, require_read

DOUBLE_BITS = 64
DEVICE_WIDTHS = (8, 16, 32, 64)
"""Bits of the segments that kernels of devices load and store."""
DOUBLE_EXPONENT_BITS = 11
DOUBLE_HEAD_BITS = 12
"""Sign and exponent of a float64: the bits before its mantissa."""


@dataclass(frozen=True)
class SegmentFormat(Format, compiled=True):
    """A float64 cut into segments, most significant bits first (CPMS).

    The k-th segments of ``block`` values lie side by side, followed by their (k+1)-th segments; a last block of fewer
    values is laid out the same way, so an array of any length occupies 8 bytes a value. Reading the first segments
    alone gives the float64 with its low bits cleared.

    Parameters
    ----------
    name : str
        Name in results and on the command line.
    widths : tuple of int
        Bits of each segment: whole bytes, 64 bits in all. Devices have segments of 8, 16, 32 and 64 bits alone.
    block : int or None
        Values in a block; None puts each segment into a plane of its own.
    rounding : {"zero", "nearest"}
        How writing fewer than all segments treats the remaining bits: it cuts them, as the paper does, or rounds to the
        nearest (ties to even). Writes of fewer than 12 bits, which hold no mantissa, always cut.

    Notes
    -----
    Source: Grützmacher, Anzt, Scheidegger, Quintana-Ortí, "High-Performance GPU Implementation
    of PageRank with Reduced Precision based on Mantissa Segmentation", section IV.A.

    Examples
    --------
    >>> import cpms
    >>> mine = cpms.SegmentFormat("mine", (16, 16, 32), block=64)
    >>> mine.segments, mine.bits(2), mine.mantissa_kept(2), mine.unit_roundoff(1)
    (3, 32, 20, 0.0625)
    """

    name: str
    widths: tuple[int, ...]
    block: int | None
    rounding: Rounding = "zero"

    def __post_init__(self) -> None:
        require_name(self.name)
        if isinstance(self.widths, str | bytes) or not is_iterable(self.widths):
            raise InputError(
                f"format {described(self.name)} has segment widths {described(self.widths)}; "
                "give a tuple such as (32, 32)"
            )
        widths = tuple(whole("segment width", width) for width in islice(self.widths, DOUBLE_BITS))
        object.__setattr__(self, "widths", widths)
        if any(width < 1 or width % 8 for width in self.widths) or sum(self.widths) != DOUBLE_BITS:
            raise InputError(
                f"format {described(self.name)} has segment widths {described(self.widths)}; they must be whole bytes, "
                "such as 8, 24 or 32 bits, and sum to 64"
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
    def levels(self) -> int:
        """Number of segments."""
        return len(self.widths)

    @property
    def exact(self) -> bool:
        """Whether a full read returns the float64 that was written: always."""
        return True

    @property
    def unit(self) -> int:
        """Bits of the greatest common divisor of all widths: segments begin at multiples of it and are made of it."""
        return math.gcd(*self.widths)

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

    def checked_read(self, read: int | None) -> int:
        """Return ``read``, or all segments for None; refuse numbers that the format does not have."""
        return require_read(self.name, read, self.segments, "segment")
