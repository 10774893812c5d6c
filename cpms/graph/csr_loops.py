"""Compiled loops of a parallel counting sort of edges; see `cpms.graph.csr_build`.

A bucket holds the ids that agree but for their ``shift`` low bits. Edges are sorted by ``keys``; ``values`` are their
other ends, and ``weights`` are empty for edges without.
"""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled


@compiled()
def count(keys, shift, counts):  # type: ignore[no-untyped-def]
    """Add the number of keys of each bucket to ``counts``."""
    for key in keys:
        counts[np.uint64(key) >> np.uint64(shift)] += 1


@compiled()
def distribute(keys, values, weights, shift, cursor, out_keys, out_values, out_weights):  # type: ignore[no-untyped-def]
    """Append each edge to its bucket, which is next written at ``cursor``."""
    for k in range(len(keys)):
        bucket = np.uint64(keys[k]) >> np.uint64(shift)
        at = cursor[bucket]
        cursor[bucket] = at + 1
        out_keys[at] = keys[k]
        out_values[at] = values[k]
        if len(weights) > 0:
            out_weights[at] = weights[k]


@compiled()
def sort_and_distribute(  # type: ignore[no-untyped-def]
    buckets, bounds, shift, keys, values, weights, cursor, out_keys, out_values, out_weights
):
    """Sort each of some buckets by key, and append its edges to buckets by value, in which they keep that order."""
    longest = 0
    for bucket in range(buckets[0], buckets[1]):
        longest = max(longest, bounds[bucket + 1] - bounds[bucket])
    own_keys, own_values = np.empty(longest, out_values.dtype), np.empty(longest, out_keys.dtype)
    own_weights = np.empty(longest if len(weights) > 0 else 0)
    mask = np.uint64((1 << shift) - 1)
    places = np.empty(1 << shift, np.int64)
    for bucket in range(buckets[0], buckets[1]):
        begin, end = bounds[bucket], bounds[bucket + 1]
        places[:] = 0
        for k in range(begin, end):
            places[np.uint64(keys[k]) & mask] += 1
        before = 0
        for nth in range(len(places)):
            here = places[nth]
            places[nth] = before
            before += here
        for k in range(begin, end):
            place = np.uint64(keys[k]) & mask
            at = places[place]
            places[place] = at + 1
            own_keys[at] = keys[k]
            own_values[at] = values[k]
            if len(weights) > 0:
                own_weights[at] = weights[k]
        for k in range(end - begin):
            other = np.uint64(own_values[k]) >> np.uint64(shift)
            at = cursor[other]
            cursor[other] = at + 1
            out_keys[at] = own_values[k]
            out_values[at] = own_keys[k]
            if len(weights) > 0:
                out_weights[at] = own_weights[k]


@compiled()
def finish(bucket, bounds, shift, keys, values, weights, indptr, out, out_weights):  # type: ignore[no-untyped-def]
    """Sort a bucket by key: write its values, and where the values of each of its keys begin."""
    mask = np.uint64((1 << shift) - 1)
    begin, end, low = bounds[bucket], bounds[bucket + 1], bucket << shift
    places = np.zeros(min(1 << shift, len(indptr) - 1 - low), np.int64)
    for k in range(begin, end):
        places[np.uint64(keys[k]) & mask] += 1
    before = begin
    for nth in range(len(places)):
        here = places[nth]
        places[nth] = before
        indptr[low + nth] = before
        before += here
    for k in range(begin, end):
        place = np.uint64(keys[k]) & mask
        at = places[place]
        places[place] = at + 1
        out[at] = values[k]
        if len(weights) > 0:
            out_weights[at] = weights[k]
