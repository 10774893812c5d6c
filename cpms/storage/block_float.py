"""Arrays in block floating point: encode, decode, overwrite.

Compiled loops convert blocks in threads, and read and write each value once. For tests,
`cpms.formats.oracle.encode_block_floats` makes the same bytes in Python, value by value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.formats.block_float import BLOCK_VALUES, LEAST_EXPONENT, BlockFloatFormat
from cpms.storage.array import SegmentedArray
from cpms.storage.device import block_codec, on_device

_PART_BLOCKS = 1 << 10
"""Least number of blocks for a thread."""


@dataclass(eq=False)
class BlockFloatArray:
    """Values in block floating point: 32 values share an exponent.

    Make one with `encode_blocks`.

    Parameters
    ----------
    memory : array of uint8, shape (format.nbytes(length),)
        First the exponents of blocks as int16, padded to whole words of 32 bits; then ``width`` words for each block.
        In these, the fields of values follow one another from the lowest bit on, each with its sign as highest bit.
    length : int
        Number of values.
    format : BlockFloatFormat
    top : int
        Largest exponent of all blocks.

    Examples
    --------
    >>> from cpms.formats.block_float import BFP16
    >>> encode_blocks(np.array([1.0, -0.5, 2.0**-20]), BFP16).decode().tolist()
    [1.0, -0.5, 0.0]
    """

    memory: Any
    length: int
    format: BlockFloatFormat
    top: int = field(default=LEAST_EXPONENT)
    exponent: ClassVar[int] = 0

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.format.nbytes(self.length)

    def decode(self, read: int | None = None) -> Floats:
        """Return the values as float64, in the memory where they lie."""
        self.format.checked_read(read)
        if on_device(self.memory):
            found: Floats = block_codec().decode(self)
            return found
        from cpms.storage import host_loops

        width, (exponents, words), values = self.format.width, self._parts(), np.empty(self.length)
        threads.each(
            lambda part: host_loops.decode_block_floats(exponents, words, values, width, *part),
            threads.ranges(len(words), at_least=_PART_BLOCKS),
        )
        return values

    def write(self, values: npt.ArrayLike, *, segments: int | None = None) -> None:
        """Overwrite all values; exponents are chosen anew."""
        self.format.checked_read(segments)
        if on_device(self.memory):
            block_codec().write(self, values)
            return
        given = np.ascontiguousarray(values, dtype=np.float64)
        if given.shape != (self.length,):
            raise InputError(f"the array holds {self.length} values; {given.shape} cannot be written into it")
        if not np.isfinite(given).all():
            raise InputError(f"{self.format.name} has no infinity and no NaN; all values must be finite")
        width, (exponents, words) = self.format.width, self._parts()
        from cpms.storage import host_loops

        least = LEAST_EXPONENT
        threads.each(
            lambda part: host_loops.encode_block_floats(given, exponents, words, width, least, *part),
            threads.ranges(len(words), at_least=_PART_BLOCKS),
        )
        self.top = int(exponents.max(initial=LEAST_EXPONENT))

    def _parts(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.uint32]]:
        blocks = -(-self.length // BLOCK_VALUES)
        end = 4 * (-(-blocks // 2))
        words = self.memory[end:].view(np.uint32).reshape(blocks, self.format.width)
        return self.memory[:end].view(np.int16)[:blocks], words


STORED = (SegmentedArray, BlockFloatArray)
"""The classes of stored vectors."""


def encode_blocks(values: npt.ArrayLike, format: BlockFloatFormat) -> BlockFloatArray:
    """Return values in block floating point, in new memory, on the device for values that lie there.

    Raises
    ------
    InputError
        If they have more than one dimension, or one of them is infinite or NaN.
    """
    if on_device(values):
        encoded: BlockFloatArray = block_codec().encode(values, format)
        return encoded
    given = np.ascontiguousarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise InputError(f"values have {given.ndim} dimensions; give one")
    made = BlockFloatArray(np.zeros(format.nbytes(len(given)), np.uint8), len(given), format)
    made.write(given)
    return made
