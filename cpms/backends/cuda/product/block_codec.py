"""Block floating point in device memory: the bytes of `cpms.storage.block_float`, encoded and decoded there."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.codec import as_float64
from cpms.backends.cuda.kernels.product import decode_blocks, encode_blocks
from cpms.backends.cuda.product.launch import whole_blocks
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError
from cpms.formats.block_float import LEAST_EXPONENT, BlockFloatFormat
from cpms.storage.block_float import BlockFloatArray


def encode(values: Any, format: BlockFloatFormat) -> BlockFloatArray:
    """Return device values in block floating point.

    Raises
    ------
    InputError
        If one of them is infinite or NaN.
    """
    given = as_float64(values)
    memory = current().arrays.zeros(format.nbytes(len(given)), np.uint8)
    made = BlockFloatArray(memory, len(given), format)
    write(made, given)
    return made


def write(stored: BlockFloatArray, values: Any) -> None:
    """Overwrite all values, with exponents of their own."""
    given, backend = as_float64(values), current()
    if given.shape != (stored.length,):
        raise InputError(f"the array holds {stored.length} values; {given.shape} cannot be written into it")
    largest = float(backend.arrays.absolute(given).max()) if stored.length else 0.0
    if not np.isfinite(largest):
        raise InputError(f"{stored.format.name} has no infinity and no NaN; all values must be finite")
    variant = encode_blocks(stored.format)
    backend.run(variant, whole_blocks(stored.length), (given, stored.memory, np.uint64(stored.length)))
    stored.top = max(int(np.frexp(largest)[1]), LEAST_EXPONENT) if largest else LEAST_EXPONENT


def decode(stored: BlockFloatArray) -> Any:
    """Return the values as a device array of float64."""
    backend = current()
    values = backend.arrays.empty(stored.length, np.float64)
    variant = decode_blocks(stored.format)
    backend.run(variant, whole_blocks(stored.length), (stored.memory, values, np.uint64(stored.length)))
    return values
