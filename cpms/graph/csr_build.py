"""Compressed rows (CSR) from an edge list, by a radix sort on all threads.

The key of an edge is its target above its source. One pass distributes the keys to buckets of neighbouring targets
(most significant digit first). Each bucket is then sorted in a core's cache by the digits that are left (least
significant digit first; Knuth, The Art of Computer Programming 3, section 5.2.5). The bits that a bucket's keys have in
common are not stored, so that a key of up to a million nodes takes 32 bits. The sort is stable: sources ascend within a
target, and repeated edges keep their order. It takes O(nodes + edges) time and one more copy of the edges. The result
does not depend on the number of threads. Short lists are sorted by NumPy, which spares compiled loops.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.text.phases import phase
from cpms.base.types import Floats

Ints = npt.NDArray[Any]


class Compressed(NamedTuple):
    """In-edges of every node, as in `cpms.Graph`."""

    indptr: npt.NDArray[np.int64]
    sources: Ints
    weights: Floats | None


_FEWEST_COMPILED, _FEWEST_TO_LOAD, _FEWEST_WEIGHTED_TO_LOAD = 1 << 14, 1 << 21, 1 << 18
"""Edges from which compiled loops repay: once they are loaded, with their loading from a cache, and with that where
edges have weights, which NumPy sorts by two keys and a permutation."""
_sorted_edges = 0
"""Edges that NumPy has sorted in this process. Compiled loops are loaded once this number reaches their threshold."""
_BUCKET = 1 << 15
"""Edges and nodes of a bucket: more would leave a core's second-level cache, and fewer make too many write streams."""
_MOST_BUCKETS = 2048
_DIGIT = 11
"""Bits of a digit of the source at most, whose counters lie in a core's first-level cache."""
_PART, _GROUPS = 1 << 17, 4
"""Least number of edges of a thread, and number of groups of buckets for each thread, which balance their times."""
_SHORT_KEY, _MOST_NODES = 32, 1 << 32
"""Bits of a short key, and most nodes of graphs whose keys have at most 64 bits."""
_DISTRIBUTED = 0.35
"""Part of the time of a sort after which the keys are in their buckets."""


def by_target(sources: Ints, targets: Ints, weights: Floats | None, nodes: int) -> Compressed:
    """Group edges by target, sources ascending, repeated edges in their given order.

    Parameters
    ----------
    sources, targets : ndarrays of integers, shape (edges,)
        From 0 to ``nodes - 1``.
    weights : ndarray of float64, shape (edges,), or None
    nodes : int

    Examples
    --------
    >>> by_target(np.array([2, 0]), np.array([1, 1]), None, 3)
    Compressed(indptr=array([0, 0, 2, 2]), sources=array([0, 2], dtype=int32), weights=None)
    """
    global _sorted_edges
    fewest = _FEWEST_TO_LOAD if weights is None else _FEWEST_WEIGHTED_TO_LOAD
    if "cpms.graph.csr_loops" in sys.modules or _sorted_edges + len(sources) >= fewest:
        fewest = _FEWEST_COMPILED
    if len(sources) < fewest:
        _sorted_edges += len(sources)
    sort = _sorted_by_numpy if len(sources) < fewest or nodes > _MOST_NODES else _sorted_by_buckets
    return sort(sources, targets, weights, nodes, np.dtype(np.int32 if nodes < 2**31 else np.int64))


def _sorted_by_numpy(
    sources: Ints, targets: Ints, weights: Floats | None, nodes: int, dtype: np.dtype[Any]
) -> Compressed:
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(targets.astype(np.int64, copy=False), minlength=nodes), out=indptr[1:])
    bits = (nodes - 1).bit_length()
    if weights is not None or 2 * bits > 64:
        order = np.lexsort((sources, targets))
        return Compressed(indptr, sources[order].astype(dtype), None if weights is None else weights[order])
    keys = targets.astype(np.uint64)
    keys <<= np.uint64(bits)
    keys |= sources.astype(np.uint64)
    keys.sort()
    keys &= np.uint64((1 << bits) - 1)
    return Compressed(indptr, keys.astype(dtype), None)


def _sorted_by_buckets(
    sources: Ints, targets: Ints, weights: Floats | None, nodes: int, dtype: np.dtype[Any]
) -> Compressed:
    from cpms.graph import csr_loops as loops

    edges, given, bits = len(sources), np.zeros(0) if weights is None else weights, (nodes - 1).bit_length()
    wanted = min(max(edges, nodes) // _BUCKET, _MOST_BUCKETS)
    shift = max(bits - wanted.bit_length(), 0) if wanted > 1 else bits
    buckets = ((nodes - 1) >> shift) + 1
    parts = threads.ranges(edges, at_least=_PART, parts=threads.available())
    counts = np.zeros((len(parts), buckets), np.int64)
    with phase("sorting edges", 1.0) as sorting:
        threads.each(lambda part: loops.count(targets[slice(*parts[part])], shift, counts[part]), range(len(parts)))
        bounds = np.append(0, np.cumsum(counts.sum(axis=0)))
        cursors = bounds[:-1] + np.cumsum(counts, axis=0) - counts
        keys = np.empty(edges, np.uint32 if bits + shift <= _SHORT_KEY else np.uint64)
        key_weights, grouped_weights = np.empty(len(given)), np.empty(len(given))

        def distribute(part: int) -> None:
            own = slice(*parts[part])
            loops.distribute(sources[own], targets[own], given[own], shift, bits, cursors[part], keys, key_weights)

        threads.each(sorting.counting(distribute, _DISTRIBUTED / max(len(parts), 1)), range(len(parts)))
        indptr, grouped = np.empty(nodes + 1, np.int64), np.empty(edges, dtype)
        indptr[0] = 0
        ends = np.linspace(0, edges, 1 + _GROUPS * len(parts))[1:-1]
        bucket_ends = np.unique([0, *np.searchsorted(bounds[:-1], ends).tolist(), buckets]).tolist()
        groups = list(itertools.pairwise(bucket_ends))
        digit_bits = -(-bits // max(-(-bits // _DIGIT), 1)) or 1
        counters = np.empty(0, np.uint32 if edges < 1 << 32 else np.uint64)

        def sort(group: tuple[int, int]) -> None:
            loops.sort_buckets(
                *(group, bounds, shift, bits, digit_bits, counters, keys, key_weights, indptr, grouped, grouped_weights)
            )

        threads.each(sorting.counting(sort, (1.0 - _DISTRIBUTED) / len(groups)), groups)
    return Compressed(indptr, grouped, None if weights is None else grouped_weights)


def _targets(edges: Compressed) -> Ints:
    nodes = len(edges.indptr) - 1
    return np.repeat(np.arange(nodes, dtype=edges.sources.dtype), np.diff(edges.indptr))


def is_self_loop(edges: Compressed) -> npt.NDArray[np.bool_]:
    """Mark edges from a node to itself."""
    mask: npt.NDArray[np.bool_] = edges.sources == _targets(edges)
    return mask


def is_duplicate(edges: Compressed) -> npt.NDArray[np.bool_]:
    """Mark every edge that repeats the preceding one."""
    mask = np.zeros(len(edges.sources), dtype=np.bool_)
    mask[1:] = edges.sources[1:] == edges.sources[:-1]
    row_begins = edges.indptr[:-1][np.diff(edges.indptr) > 0]
    mask[row_begins] = False
    return mask


def select(edges: Compressed, keep: npt.NDArray[np.bool_]) -> Compressed:
    """Return the marked edges."""
    new_indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)])
    weights = None if edges.weights is None else edges.weights[keep]
    return Compressed(new_indptr[edges.indptr], edges.sources[keep], weights)


def sum_duplicates(edges: Compressed) -> Compressed:
    """Merge repeated edges into one whose weight is their sum; without weights, their number, if any edge repeats.

    Raises
    ------
    InputError
        If a sum is infinite.
    """
    first = ~is_duplicate(edges)
    if edges.weights is None and first.all():
        return edges
    weights = np.ones(len(edges.sources)) if edges.weights is None else edges.weights
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(weights, starts) if len(starts) else weights
    if not np.isfinite(sums).all():
        raise InputError("the weights of a repeated edge add up to infinity; scale them down")
    return select(Compressed(edges.indptr, edges.sources, None), first)._replace(weights=sums)


def frozen(edges: Compressed) -> Compressed:
    """Return the edges in arrays of the same memory that nobody can write to."""
    for array in edges:
        if array is not None:
            array.flags.writeable = False
    return edges
