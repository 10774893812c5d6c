"""Compiled loops that find the largest values of a range, and the merge of two sorted lists.

A value is compared by its key, an unsigned integer. Keys have the order of the values, with one key for both zeros, and
that of NaN below those of all numbers. ``kernels/cuda/topk/bitonic_merge.cuh`` has the same keys for GPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base.jit import compiled, numba

jit: Any = compiled()

_TILE = 4096
_SIGN = np.uint64(1 << 63)
_NOTHING, _LOWEST = np.uint64(0), np.uint64(0x000FFFFFFFFFFFFF)
"""Key of NaN and of places without a value, and key of -inf."""


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _key(value):  # type: ignore[no-untyped-def]
    number = np.float64(value) + 0.0  # -0 becomes +0
    bits = np.float64(number).view(np.uint64)
    if number != number:
        return _NOTHING
    return ~bits if bits & _SIGN else bits | _SIGN


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _least_number(key):  # type: ignore[no-untyped-def]
    """Return the least number whose key is at least ``key``; a NaN if there is none."""
    kept = max(key, _LOWEST)
    bits = kept ^ _SIGN if kept & _SIGN else ~kept
    return np.uint64(bits).view(np.float64)


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _beats(key, place, other_key, other_place):  # type: ignore[no-untyped-def]
    return key > other_key or (key == other_key and place < other_place)


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _replace_last(keys, places, size, key, place):  # type: ignore[no-untyped-def]
    """Replace the root of a heap, which is its least entry, and restore the order of the heap."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _beats(keys[child], places[child], keys[child + 1], places[child + 1]):
            child += 1
        if _beats(keys[child], places[child], key, place):
            break
        keys[at], places[at] = keys[child], places[child]
        at = child
    keys[at], places[at] = key, place


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _stride(tiles):  # type: ignore[no-untyped-def]
    """Return a number that is coprime to ``tiles``, near 0.618 times it."""
    stride = max(1, int(tiles * 0.6180339887498949))
    while True:
        a, b = stride, tiles
        while b:
            a, b = b, a % b
        if a == 1:
            return stride
        stride += 1


@jit
def select(values, first, last, k):  # type: ignore[no-untyped-def]
    """Return the keys and places of the ``k`` largest of ``values[first:last]``, largest first.

    Tiles are read by a stride, so that few values of an ascending array become candidates. Entries without a value have
    the largest possible place.
    """
    keys = np.full(k, _NOTHING)
    places = np.full(k, np.iinfo(np.int64).max)
    tiles = -(-(last - first) // _TILE)
    stride = _stride(tiles)
    for i in range(tiles):
        low = first + i * stride % tiles * _TILE
        tile = values[low : min(low + _TILE, last)]
        least = keys[0] + np.uint64(low > places[0])
        if least > _NOTHING:
            bound = _least_number(least)
            passing = 0
            for j in range(len(tile)):
                passing += tile[j] >= bound
            if passing == 0:
                continue
        for j in range(len(tile)):
            key = _key(tile[j])
            if _beats(key, low + j, keys[0], places[0]):
                _replace_last(keys, places, k, key, low + j)
    for size in range(k - 1, 0, -1):
        key, place = keys[size], places[size]
        keys[size], places[size] = keys[0], places[0]
        _replace_last(keys, places, size, key, place)
    return keys, places


@jit
def merge(a_keys, a_places, b_keys, b_places):  # type: ignore[no-untyped-def]
    """Return the largest entries of two sorted lists of one length, as many as each has, without a branch."""
    keys, places = np.empty_like(a_keys), np.empty_like(a_places)
    a = b = 0
    for i in range(len(keys)):
        from_b = int(_beats(b_keys[b], b_places[b], a_keys[a], a_places[a]))
        keys[i] = b_keys[b] if from_b else a_keys[a]
        places[i] = b_places[b] if from_b else a_places[a]
        a, b = a + 1 - from_b, b + from_b
    return keys, places
