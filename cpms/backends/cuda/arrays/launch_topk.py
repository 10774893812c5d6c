"""Top-k selection in device memory: launcher of ``topk/topk.cu``, with a sort for larger k.

Blocks keep sorted lists of their k largest, merge them bitonically, and skip values below a shared threshold: one pass
over the values (streaming top-k, as Johnson et al., arXiv:1702.08734, with lists in shared memory). Beyond
`MAX_SELECTED` the values are sorted, which costs several passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cpms.analysis.topk_checks import checked
from cpms.backends.cuda.arrays.codec import as_device_array
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.kernels.structs import TOPK_TILES
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import pack

MAX_VALUES = 1 << 31
"""Values in one launch, which counts in 32 bits."""
MAX_SELECTED = streaming.TOPK_SIZES[-1]
_LOADS_BYTES = 64
_BLOCKS_EACH = 4
_MAX_BLOCKS = 1024
"""Bytes that a thread of ``topk/topk.cu`` loads at a time, blocks that a multiprocessor holds, and blocks at most."""
_STRIDES = 64
_FIRST_TILES = 8
"""Candidate strides, and first tiles over which each is evaluated."""


@dataclass(frozen=True, eq=False)
class Workspace:
    """Lists of the blocks, their shared threshold and counter, and the result; one launch at a time.

    Parameters
    ----------
    keys : device array of uint64 or uint32, shape (blocks * k,)
        Values as integers in the same order.
    positions : device array of uint32, shape (blocks * k,)
    threshold : device array of uint64, shape (1,)
    done : device array of uint32, shape (1,)
    values : device array of float64 or float32, shape (k,)
    found : device array of int64, shape (k,)
        The largest values, and their positions.
    """

    keys: Any
    positions: Any
    threshold: Any
    done: Any
    values: Any
    found: Any

    @classmethod
    def make(cls, values: Any, k: int) -> Workspace:
        """Return a workspace for the ``k`` largest of as many values of this type."""
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
    """Return the ``k`` largest device values and their positions; see `cpms.topk`."""
    given = as_device_array(values)
    k = checked(given, k)
    given = current().arrays.ascontiguousarray(given)
    needed_bytes = 4 * int(given.nbytes) if k > MAX_SELECTED else 16 * _MAX_BLOCKS * k
    with current().memory_for(f"the {k:,} largest of {len(given):,} values", needed_bytes):
        return _by_sorting(given, k) if k > MAX_SELECTED else _by_reduction(given, k)


def launch(values: Any, k: int, workspace: Workspace, *, in_order: bool = False) -> None:
    """Put the ``k`` largest of at most `MAX_VALUES` values, 0 < k <= `MAX_SELECTED`, into a workspace made for them.

    ``in_order`` reads the values from first to last, which is slow where they rise.
    """
    size = next(size for size in streaming.TOPK_SIZES if size >= k)
    item_bytes = int(values.dtype.itemsize)
    blocks = _blocks(values)
    begin = min(len(values), -current().address(values) % 16 // item_bytes)
    tiles = (len(values) - begin) // (THREADS * _LOADS_BYTES // item_bytes)
    stride = 1 if in_order or not tiles else _stride(tiles, blocks)
    step = blocks * stride % max(1, tiles)
    arguments = (
        *(values, np.uint32(len(values)), pack(TOPK_TILES, begin=begin, count=tiles, stride=stride, step=step)),
        *(np.uint32(k), workspace.keys, workspace.positions),
        *(workspace.threshold, workspace.done, workspace.values, workspace.found),
    )
    current().run(streaming.topk(values.dtype.name, size), blocks, arguments)


def _by_sorting(values: Any, k: int) -> tuple[Any, Any]:
    arrays = current().arrays
    positions = arrays.argsort(~_keys(values), kind="stable")[:k].copy()
    return values[positions], positions


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
    """Return the largest of the parts' largest, in the order of the parts, so that ties are in order of positions."""
    arrays = current().arrays
    if k == 0:
        return arrays.empty(0, values.dtype), arrays.empty(0, np.int64)
    if len(values) <= MAX_VALUES:
        workspace = Workspace.make(values, k)
        launch(values, k, workspace)
        return workspace.values, workspace.found
    parts = [values[begin : begin + MAX_VALUES] for begin in range(0, len(values), MAX_VALUES)]
    found = [_by_reduction(part, min(k, len(part))) for part in parts]
    positions = arrays.concatenate([found_at + i * MAX_VALUES for i, (_, found_at) in enumerate(found)])
    largest, chosen = _by_reduction(arrays.concatenate([largest for largest, _ in found]), k)
    return largest, positions[chosen]


def _blocks(values: Any) -> int:
    each = _LOADS_BYTES // int(values.dtype.itemsize)
    return min(_MAX_BLOCKS, current().grid_size(len(values), each=each, per_processor=_BLOCKS_EACH))


@lru_cache
def _stride(tiles: int, blocks: int) -> int:
    """Return a stride coprime to ``tiles``, whose multiples visit the tiles in a scattered order.

    A block visits every ``blocks``-th multiple. Of candidates near the golden section, the stride is the one with the
    fewest running maxima or minima in that order: on values that rise, or fall, each of them costs a merge.

    Examples
    --------
    >>> _stride(1, 4), _stride(12, 4), _stride(1000, 132)
    (1, 11, 641)
    """
    golden = max(1, int(tiles * (math.sqrt(5) - 1) / 2))
    candidates = [golden + j for j in range(_STRIDES) if math.gcd(golden + j, tiles) == 1]
    return min(candidates, key=lambda stride: _records(blocks * stride % tiles, tiles, -(-tiles // blocks)))


def _records(step: int, tiles: int, count: int) -> int:
    """Return the running maxima, or minima if they are more, of ``count`` tiles a step apart."""
    firsts = np.linspace(0, tiles, _FIRST_TILES, endpoint=False).astype(np.int64)
    visited = (firsts[:, None] + np.arange(count) * step) % tiles
    larger = np.count_nonzero(np.diff(np.maximum.accumulate(visited, axis=1), axis=1))
    smaller = np.count_nonzero(np.diff(np.minimum.accumulate(visited, axis=1), axis=1))
    return int(max(larger, smaller))
