"""Compiled loops of a parallel radix sort of edges; see `cpms.graph.csr_build`.

A bucket holds the edges whose targets agree but for their ``shift`` low bits. The key of an edge in a bucket is those
bits of its target, and its source in the ``bits`` below. ``weights`` are empty for edges without.
"""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled


@compiled()
def count(targets, shift, counts):  # type: ignore[no-untyped-def]
    """Add the number of targets of each bucket to ``counts``."""
    for target in targets:
        counts[np.uint64(target) >> np.uint64(shift)] += 1


@compiled()
def distribute(sources, targets, weights, shift, bits, cursor, keys, out_weights):  # type: ignore[no-untyped-def]
    """Append the key of each edge to its bucket, which is next written at ``cursor``."""
    mask = np.uint64((1 << shift) - 1)
    for k in range(len(targets)):
        target = np.uint64(targets[k])
        bucket = target >> np.uint64(shift)
        at = cursor[bucket]
        cursor[bucket] = at + 1
        keys[at] = ((target & mask) << np.uint64(bits)) | np.uint64(sources[k])
        if len(weights) > 0:
            out_weights[at] = weights[k]


@compiled()
def _sort_by_digit(keys, weights, shift, mask, places, out, out_weights, kept):  # type: ignore[no-untyped-def]
    """Sort stably by the bits of ``mask`` above the ``shift`` low ones, and write the ``kept`` bits of each key.

    ``places`` holds a counter for each digit; it returns where the keys of each end.
    """
    one = places.dtype.type(1)
    places[:] = 0
    for k in range(len(keys)):
        places[(np.uint64(keys[k]) >> shift) & mask] += one
    before = places.dtype.type(0)
    for digit in range(len(places)):
        here = places[digit]
        places[digit] = before
        before += here
    for k in range(len(keys)):
        key = np.uint64(keys[k])
        digit = (key >> shift) & mask
        at = places[digit]
        places[digit] = at + one
        out[at] = key & kept
        if len(weights) > 0:
            out_weights[at] = weights[k]


@compiled()
def sort_buckets(  # type: ignore[no-untyped-def]
    buckets, bounds, shift, bits, digit_bits, counters, keys, weights, indptr, sources, out_weights
):
    """Sort each of some buckets by key: write its sources, their weights, and where each of its targets begins.

    ``counters`` is an empty array of the integers that count the edges of a bucket.
    """
    longest = 0
    for bucket in range(buckets[0], buckets[1]):
        longest = max(longest, bounds[bucket + 1] - bounds[bucket])
    now, other = np.empty(longest, keys.dtype), np.empty(longest, keys.dtype)
    longest = longest if len(weights) > 0 else 0
    now_weights, other_weights = np.empty(longest), np.empty(longest)
    digits, rows = np.empty(1 << digit_bits, counters.dtype), np.empty(1 << shift, counters.dtype)
    every, row_mask, source_mask = ~np.uint64(0), np.uint64((1 << shift) - 1), np.uint64((1 << bits) - 1)
    for bucket in range(buckets[0], buckets[1]):
        begin, end, low = bounds[bucket], bounds[bucket + 1], bucket << shift
        edges = end - begin
        given = keys[begin:end]
        given_weights = weights[begin:end]
        for done in range(0, bits, digit_bits):
            mask = np.uint64((1 << min(digit_bits, bits - done)) - 1)
            _sort_by_digit(given, given_weights, np.uint64(done), mask, digits, now, now_weights, every)
            given, given_weights = now[:edges], now_weights[:edges]
            now, other, now_weights, other_weights = other, now, other_weights, now_weights
        _sort_by_digit(
            *(given, given_weights, np.uint64(bits), row_mask, rows),
            *(sources[begin:end], out_weights[begin:end], source_mask),
        )
        for row in range(min(len(rows), len(indptr) - 1 - low)):
            indptr[low + row + 1] = begin + rows[row]
