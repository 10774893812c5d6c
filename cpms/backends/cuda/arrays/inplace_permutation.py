"""Conversion in place of blocks that are too large for shared memory, planes above all.

Values are first converted in chunks that fit. The chunks' segments then move to their planes along the cycles of that
permutation (in-place permutation by cycles, Knuth, TAOCP 1.3.3). Cycles are divided into parts that move concurrently,
and each part saves the chunk at its first position alone. The tail beyond whole chunks moves last. That reads and
writes the array twice, with 64 MiB besides at most.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.arrays import launch_convert
from cpms.backends.cuda.arrays.launch_convert import MAX_STAGED
from cpms.backends.cuda.kernels.template import CYCLE_PERMUTATION
from cpms.backends.cuda.runtime.current import current
from cpms.base.jit import compiled
from cpms.formats.formats import DOUBLE_BITS, SegmentFormat
from cpms.storage.segment_views import segment_units

_PARTS = 1024
_MOVED_BYTES = 1 << 25
"""Bytes moved at a time where source and target overlap."""


class CycleParts(NamedTuple):
    """Some cycles one after the other, each with its first position again at its end, divided into parts.

    Part s begins at ``path[begins[s]]`` and makes ``counts[s]`` moves.
    """

    path: npt.NDArray[np.uint32]
    begins: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]


def convert(bits: Any, storage: SegmentFormat, *, to_segments: bool) -> None:
    """Turn float64 values into one block of segments as long as the array, or back, in place.

    Parameters
    ----------
    bits : device array of uint64, shape (n,)
    storage : SegmentFormat
        Its widths count; its block does not.
    to_segments : bool
        The direction.
    """
    chunk = MAX_STAGED
    count = len(bits) // chunk
    staged = replace(storage, block=chunk)
    if count == 0:
        launch_convert.convert_spans(bits, staged, to_segments=to_segments)
    elif to_segments:
        launch_convert.convert_spans(bits, staged, to_segments=True)
        _permute(bits[: count * chunk], storage, count, inverse=False)
        _join_tail(bits, storage, count * chunk)
    else:
        _split_tail(bits, storage, count * chunk)
        _permute(bits[: count * chunk], storage, count, inverse=True)
        launch_convert.convert_spans(bits, staged, to_segments=False)


def positions(sizes: list[int], count: int) -> npt.NDArray[np.int64]:
    """Return the position in planes of each chunk of ``count`` blocks, shape (count * sum(sizes),).

    Examples
    --------
    >>> positions([1, 1], 2).tolist()
    [0, 2, 1, 3]
    """
    before = np.cumsum([0, *sizes])
    target = [count * before[k] + np.arange(count)[:, None] * size + np.arange(size) for k, size in enumerate(sizes)]
    return np.concatenate(target, axis=1).ravel()


def cycle_parts(target: npt.NDArray[np.int64], parts: int) -> list[CycleParts]:
    """Divide the cycles of a permutation into parts, some whole cycles at a time.

    Parameters
    ----------
    target : ndarray of int64, shape (n,)
    parts : int
        A cycle as long as the permutation has about so many parts, and so has each batch.

    Examples
    --------
    >>> [[part.tolist() for part in batch] for batch in cycle_parts(np.array([0, 2, 1]), 8)]
    [[[1, 2, 1], [0, 1], [1, 1]]]
    """
    path, begins, counts, ends = _cycles(target, max(1, -(-len(target) // parts)))
    # A batch ends with the first cycle at which it has `parts` parts.
    batches: list[CycleParts] = []
    done = 0
    while done < len(begins):
        cycle = np.searchsorted(ends, done + parts)
        last = int(ends[min(cycle, len(ends) - 1)])
        first_position = int(begins[done])
        after = int(begins[last]) if last < len(begins) else len(path)
        batches.append(
            CycleParts(path[first_position:after], begins[done:last] - np.uint32(first_position), counts[done:last])
        )
        done = last
    return batches


@compiled()
def _cycles(target, longest):  # type: ignore[no-untyped-def]
    """Return the path of all cycles, its parts, and the count of parts at the end of each cycle."""
    count = len(target)
    seen = np.zeros(count, np.uint8)
    path = np.empty(2 * count, np.uint32)
    begins = np.empty(count, np.uint32)
    counts = np.empty(count, np.uint32)
    ends = np.empty(count, np.int64)
    length = part = cycles = 0
    for start in range(count):
        if seen[start] or target[start] == start:
            continue
        first, at = length, start
        while not seen[at]:
            seen[at] = 1
            path[length] = at
            length += 1
            at = target[at]
        for begin in range(first, length, longest):
            begins[part] = begin
            counts[part] = min(longest, length - begin)
            part += 1
        path[length] = start
        length += 1
        ends[cycles] = part
        cycles += 1
    return path[:length], begins[:part], counts[:part], ends[:cycles]


@lru_cache(maxsize=16)
def _batches(sizes: tuple[int, ...], count: int, inverse: bool) -> list[CycleParts]:
    """Return the moves of `positions`, or of the inverse; cached, since a solve needs the same again."""
    target = positions(list(sizes), count)
    if not inverse:
        return cycle_parts(target, _PARTS)
    back = np.empty_like(target)
    back[target] = np.arange(len(target))
    return cycle_parts(back, _PARTS)


def _permute(bits: Any, storage: SegmentFormat, count: int, *, inverse: bool) -> None:
    backend = current()
    words = MAX_STAGED * storage.unit // DOUBLE_BITS
    for batch in _batches(segment_units(storage), count, inverse):
        saved = backend.arrays.empty(len(batch.begins) * words, np.uint64)
        path, begins, counts = map(backend.arrays.asarray, batch)
        blocks, chunk = len(batch.begins), np.uint32(words)
        save_first, permute_cycles = CYCLE_PERMUTATION
        backend.run(save_first, blocks, (bits, path, begins, chunk, saved))
        backend.run(permute_cycles, blocks, (bits, path, begins, counts, chunk, saved))


def _join_tail(bits: Any, storage: SegmentFormat, main: int) -> None:
    """Extend each plane of ``main`` values by those of the tail block."""
    rest = len(bits) - main
    if rest == 0:
        return
    octets = bits.view(np.uint8)
    tail = octets[8 * main :].copy()
    for begin, size in reversed(_planes(storage)):
        _move(octets, begin * main, begin * len(bits), size * main)
        end = begin * len(bits) + size * main
        octets[end : end + size * rest] = tail[begin * rest : (begin + size) * rest]


def _split_tail(bits: Any, storage: SegmentFormat, main: int) -> None:
    """Undo `_join_tail`."""
    rest = len(bits) - main
    if rest == 0:
        return
    octets = bits.view(np.uint8)
    tail = octets[: 8 * rest].copy()
    for begin, size in _planes(storage):
        end = begin * len(bits) + size * main
        tail[begin * rest : (begin + size) * rest] = octets[end : end + size * rest]
    for begin, size in _planes(storage):
        _move(octets, begin * len(bits), begin * main, size * main)
    octets[8 * main :] = tail


def _planes(storage: SegmentFormat) -> list[tuple[int, int]]:
    """Return each segment's first byte and its bytes, of one value."""
    sizes = [width // 8 for width in storage.widths]
    return [(sum(sizes[:k]), size) for k, size in enumerate(sizes)]


def _move(octets: Any, source: int, target: int, count: int) -> None:
    """Move ``count`` bytes within an array; source and target may overlap."""
    if source == target:
        return
    begins = range(0, count, _MOVED_BYTES)
    for begin in reversed(begins) if target > source else begins:
        size = min(_MOVED_BYTES, count - begin)
        moved = octets[source + begin : source + begin + size].copy()
        octets[target + begin : target + begin + size] = moved
