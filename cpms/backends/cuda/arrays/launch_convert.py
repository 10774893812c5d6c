"""Launchers of ``convert/convert.cu``: conversion between float64 and a format, out of place and in place.

They check shapes and types, and pass arguments of the types that kernels expect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError
from cpms.formats.formats import Format, SegmentFormat

MAX_STAGED = 4096
"""Values of the largest block that one thread block converts in place (``convert/convert.cu`` has the same)."""


def encode(values: Any, memory: Any, storage: Format, *, length: int, segments: int, exponent: int, seed: int) -> None:
    """Write float64 ``values``, shape (count,), into the first ``segments`` segments of a stored array.

    Parameters
    ----------
    values : device array of float64, shape (count,)
    memory : device array of uint8, shape (storage.nbytes(length),)
    length : int
        Values of the stored array, at least count.
    exponent : int
        Values are stored times 2**exponent.
    seed : int
        Of stochastic rounding.

    Raises
    ------
    InputError
        If types or sizes do not fit.
    """
    _check(values, memory, storage, length)
    if len(values) == 0:
        return
    backend = current()
    arguments = (
        *(values, memory, np.uint64(len(values)), np.uint64(length), np.int32(exponent)),
        np.uint64(seed % 2**64),
    )
    backend.run(streaming.encode(storage, segments), backend.grid_size(len(values), each=4), arguments)


def decode(memory: Any, values: Any, storage: Format, *, length: int, read: int, exponent: int) -> None:
    """Read a stored array's first values, times 2**exponent, into ``values``; as in `encode`."""
    _check(values, memory, storage, length)
    if len(values) == 0:
        return
    backend = current()
    arguments = (memory, values, np.uint64(len(values)), np.uint64(length), np.int32(exponent))
    backend.run(streaming.decode(storage, read), backend.grid_size(len(values), each=4), arguments)


def convert_tiles(bits: Any, storage: SegmentFormat, *, to_segments: bool) -> int:
    """Convert whole tiles in place, from the start; return how many values they have.

    ``bits`` is a device array of uint64; none are converted where the format has no tiles or the array does not begin
    at a multiple of 16 bytes.
    """
    _check_bits(bits)
    backend = current()
    tile = streaming.tile_values(storage)
    if tile == 0 or len(bits) < tile or backend.address(bits) % 16:
        return 0
    tiles = len(bits) // tile
    blocks = backend.grid_size(tiles * 32, each=1, per_processor=16)
    backend.run(streaming.convert_tiles(storage, to_segments=to_segments), blocks, (bits, np.uint64(tiles)))
    return tiles * tile


def convert_spans(bits: Any, storage: SegmentFormat, *, to_segments: bool) -> None:
    """Convert any number of values in place; blocks hold at most `MAX_STAGED` values."""
    _check_bits(bits)
    if len(bits) == 0:
        return
    block = min(storage.block or len(bits), len(bits))
    if block > MAX_STAGED:
        raise InputError(f"{storage.name} has blocks of {block} values; at most {MAX_STAGED} are converted at once")
    span = max(1, 1024 // block) * block
    backend = current()
    blocks = max(1, min(-(-len(bits) // span), backend.processors * 8))
    arguments = (bits, np.uint64(len(bits)), np.uint32(span))
    backend.run(streaming.convert_spans(storage, to_segments=to_segments), blocks, arguments)


def _check_bits(bits: Any) -> None:
    if bits.dtype != np.uint64 or bits.ndim != 1 or not bits.flags.c_contiguous:
        raise InputError("conversion in place needs a contiguous, one-dimensional array of 64-bit words")


def _check(values: Any, memory: Any, storage: Format, length: int) -> None:
    if values.dtype != np.float64 or values.ndim != 1 or not values.flags.c_contiguous:
        raise InputError(
            f"values are {values.dtype} of shape {values.shape}; give a contiguous array of float64 in one dimension"
        )
    if memory.dtype != np.uint8 or not memory.flags.c_contiguous or memory.size < storage.nbytes(length):
        raise InputError(f"{length} values of {storage.name} need {storage.nbytes(length)} contiguous bytes")
    if len(values) > length:
        raise InputError(f"the array holds {length} values; {len(values)} do not fit")
