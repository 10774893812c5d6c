"""Block floating point: 32 values share one exponent, and each has a sign and a magnitude of fixed point.

The format follows FRSZ2 (Grützmacher et al., "FRSZ2 for In-Register Block Compression Inside GMRES on GPUs", 2024):
decoding takes a shift and a product, reads are whole cache lines, and all bits but the sign are digits. A value that is
small in its block keeps few digits: the error is relative to the largest value of the block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from cpms.base.errors import InputError
from cpms.base.validation import whole
from cpms.formats.protocol import require_read

BLOCK_VALUES = 32
WIDTHS = (16, 21, 32)
LEAST_EXPONENT = -900
"""Least exponent of a block: the values of its digits are normal float64 numbers, and smaller values become 0."""


class OneSegment(ABC):
    """A format whose values are read whole; it has what `cpms.FloatFormat` derives, as far as it applies."""

    name: str
    segments = 1

    @abstractmethod
    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values, with all that they share."""

    def traffic(self, length: int, read: int | None = None) -> int:
        """Bytes of ``length`` values that a read touches: all."""
        self.checked_read(read)
        return self.nbytes(length)

    def checked_read(self, read: int | None) -> int:
        """Return 1, the only level there is."""
        return require_read(self.name, read, 1, "segment")


@dataclass(frozen=True)
class BlockFloatFormat(OneSegment):
    """A value is a sign and ``width - 1`` bits of magnitude, times a power of two that 32 values share.

    A block whose largest size is below 2**e stores value v as the integer nearest to |v| 2**(width - 1 - e), ties to
    even, at most 2**(width - 1) - 1.

    Examples
    --------
    >>> BFP16.unit_in(1), BFP21.nbytes(32)
    (6.103515625e-05, 88)
    """

    name: str
    width: int
    exact = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width", self.width))
        if self.width not in WIDTHS:
            raise InputError(f"format {self.name!r} has {self.width} bits a value; block floats have 16, 21 or 32")

    def bits(self, read: int | None = None) -> int:
        """Bits of a value, its share of the exponent left out."""
        self.checked_read(read)
        return self.width

    def unit_in(self, exponent: int) -> float:
        """Return the distance of neighbouring values in a block whose sizes are below 2**exponent."""
        return 2.0 ** (max(exponent, LEAST_EXPONENT) - self.width + 1)

    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values: exponents of 16 bits, to whole words, then whole blocks."""
        blocks = -(-length // BLOCK_VALUES)
        return 4 * (-(-blocks // 2)) + 4 * self.width * blocks


BFP16 = BlockFloatFormat("bfp16", 16)
BFP21 = BlockFloatFormat("bfp21", 21)
BFP32 = BlockFloatFormat("bfp32", 32)
BLOCK_FLOATS = (BFP16, BFP21, BFP32)
