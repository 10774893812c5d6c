"""Vectors in a format whose memory passes of Krylov methods and sweeps read without tests for the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.runtime.current import current
from cpms.formats.block_float import BLOCK_VALUES, BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.storage.block_float import BlockFloatArray


def padded_length(length: int) -> int:
    """Return a number of values rounded up to whole blocks.

    Examples
    --------
    >>> padded_length(33)
    64
    """
    return -(-length // BLOCK_VALUES) * BLOCK_VALUES


class PaddedVector:
    """Memory of a vector that is padded with zeros, and what products take it as; None is float64."""

    def __init__(self, storage: VectorFormat | None, length: int) -> None:
        arrays, padded = current().arrays, padded_length(length)
        if isinstance(storage, BlockFloatFormat):
            self.memory = arrays.zeros(storage.nbytes(length), np.uint8)
            self.operand: Any = BlockFloatArray(self.memory, length, storage)
        else:
            self.memory = arrays.zeros(padded, np.float64 if storage is None else np.float32)
            self.operand = self.memory[:length]
