"""The k largest of values in device memory: launcher of ``topk/topk.cu``, and what it does not serve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cpms.analysis.topk_checks import checked
from cpms.backends.cuda.arrays.codec import adopted
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current

MOST_VALUES = 1 << 31
"""Values in one launch, which counts in 32 bits."""
MOST_KEPT = streaming.TOPK_SIZES[-1]
_LOADS_BYTES = 64
_BLOCKS_EACH = 4
_MOST_BLOCKS = 1024
"""What a thread of ``topk/topk.cu`` loads at a time, how many blocks a multiprocessor holds, and how many may be."""
_STRIDES = 64
_FIRSTS = 8
"""Strides to choose from, and first tiles by which they are judged."""


@dataclass(frozen=True, eq=False)
class Room:
    """The blocks' lists, and what the blocks tell each other; one launch at a time.

    Parameters
    ----------
    keys : device array of uint64 or uint32, shape (blocks * k,)
        Values as integers in the same order.
    places : device array of uint32, shape (blocks * k,)
    bar : device array of uint64, shape (1,)
    done : device array of uint32, shape (1,)
    values : device array of float64 or float32, shape (k,)
    found : device array of int64, shape (k,)
        The answer.
    """

    keys: Any
    places: Any
    bar: Any
    done: Any
    values: Any
    found: Any

    @classmethod
    def make(cls, values: Any, k: int) -> Room:
        """Return one for the ``k`` largest of as many values of this type."""
        arrays, entries = current().arrays, _blocks(values) * k
        key = np.dtype(f"uint{8 * values.dtype.itemsize}")
        return cls(
            arrays.empty(entries, key),
            arrays.empty(entries, np.uint32),
            arrays.zeros(1, np.uint64),
            arrays.zeros(1, np.uint32),
            arrays.empty(k, values.dtype),
            arrays.empty(k, np.int64),
        )


def topk(values: Any, k: int) -> tuple[Any, Any]:
    """Return the ``k`` largest device values and their places; see `cpms.topk`."""
    given = adopted(values)
    k = checked(given, k)
    given = current().arrays.ascontiguousarray(given)
    needed_bytes = 4 * int(given.nbytes) if k > MOST_KEPT else 16 * _MOST_BLOCKS * k
    with current().memory_for(f"the {k:,} largest of {len(given):,} values", needed_bytes):
        return _by_sorting(given, k) if k > MOST_KEPT else _by_reduction(given, k)


def launch(values: Any, k: int, room: Room, *, in_order: bool = False) -> None:
    """Put the ``k`` largest of at most `MOST_VALUES` values, 0 < k <= `MOST_KEPT`, into a room made for them.

    ``in_order`` reads the values from first to last, which is slow where they rise.
    """
    size = next(size for size in streaming.TOPK_SIZES if size >= k)
    item_bytes = int(values.dtype.itemsize)
    blocks = _blocks(values)
    begin = min(len(values), -current().address(values) % 16 // item_bytes)
    tiles = (len(values) - begin) // (THREADS * _LOADS_BYTES // item_bytes)
    stride = 1 if in_order or not tiles else _stride(tiles, blocks)
    numbers = (len(values), begin, tiles, stride, blocks * stride % max(1, tiles), k)
    arguments = (
        *(values, *map(np.uint32, numbers), room.keys, room.places),
        *(room.bar, room.done, room.values, room.found),
    )
    current().run(streaming.topk(values.dtype.name, size), blocks, arguments)


def _by_sorting(values: Any, k: int) -> tuple[Any, Any]:
    arrays = current().arrays
    places = arrays.argsort(~_keys(values), kind="stable")[:k].copy()
    return values[places], places


def _keys(values: Any) -> Any:
    """Return integers in the order of the values, as ``topk/bitonic_merge.cuh``: NaN is 0, both zeros are equal."""
    arrays, item_bytes = current().arrays, values.dtype.itemsize
    word = np.dtype(f"uint{8 * item_bytes}").type
    sign, infinity = word(1 << (8 * item_bytes - 1)), np.array(np.inf, values.dtype).view(word)[()]
    bits = values.view(word)
    size = bits & ~sign
    ordered = arrays.where((bits & sign != 0) & (size != 0), ~bits, size | sign)
    return arrays.where(size > infinity, word(0), ordered)


def _by_reduction(values: Any, k: int) -> tuple[Any, Any]:
    """Return the largest of the pieces' largest, which stand in the order of the pieces, as ties must."""
    arrays = current().arrays
    if k == 0:
        return arrays.empty(0, values.dtype), arrays.empty(0, np.int64)
    if len(values) <= MOST_VALUES:
        room = Room.make(values, k)
        launch(values, k, room)
        return room.values, room.found
    pieces = [values[begin : begin + MOST_VALUES] for begin in range(0, len(values), MOST_VALUES)]
    found = [_by_reduction(piece, min(k, len(piece))) for piece in pieces]
    places = arrays.concatenate([places + i * MOST_VALUES for i, (_, places) in enumerate(found)])
    largest, of_them = _by_reduction(arrays.concatenate([largest for largest, _ in found]), k)
    return largest, places[of_them]


def _blocks(values: Any) -> int:
    each = _LOADS_BYTES // int(values.dtype.itemsize)
    return min(_MOST_BLOCKS, current().spread(len(values), each=each, per_processor=_BLOCKS_EACH))


@lru_cache
def _stride(tiles: int, blocks: int) -> int:
    """Return a number without a divisor in common with ``tiles``, whose multiples jump about.

    Of some near the golden section, it is the one of which a block, which takes every ``blocks``-th multiple, meets
    the fewest that are larger than all before, or smaller: what rises, or is all equal, costs it a merge each time.

    Examples
    --------
    >>> _stride(1, 4), _stride(12, 4), _stride(1000, 132)
    (1, 11, 641)
    """
    golden = max(1, int(tiles * (math.sqrt(5) - 1) / 2))
    candidates = [golden + j for j in range(_STRIDES) if math.gcd(golden + j, tiles) == 1]
    return min(candidates, key=lambda stride: _records(blocks * stride % tiles, tiles, -(-tiles // blocks)))


def _records(step: int, tiles: int, count: int) -> int:
    """Return how many of ``count`` tiles a step apart are larger, or smaller, than all before, by the worse of both."""
    firsts = np.linspace(0, tiles, _FIRSTS, endpoint=False).astype(np.int64)
    taken = (firsts[:, None] + np.arange(count) * step) % tiles
    larger = np.count_nonzero(np.diff(np.maximum.accumulate(taken, axis=1), axis=1))
    smaller = np.count_nonzero(np.diff(np.minimum.accumulate(taken, axis=1), axis=1))
    return int(max(larger, smaller))
