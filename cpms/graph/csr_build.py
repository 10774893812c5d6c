"""Compressed rows (CSR) from an edge list, by two stable counting sorts.

Sorting by source first and by target next leaves sources ascending within each target, as in Gustavson's transposition
(ACM Trans. Math. Softw. 4, 1978). It takes O(nodes + edges) time and one more copy of the edges, on one
thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.base.jit import compiled

Ints = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class Compressed(NamedTuple):
    """In-edges of every node, as in `cpms.Graph`."""

    indptr: npt.NDArray[np.int64]
    sources: Ints
    weights: Floats | None


@compiled()
def _row_starts(keys, rows):  # type: ignore[no-untyped-def]
    starts = np.zeros(rows + 1, np.int64)
    for k in range(len(keys)):
        starts[keys[k] + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    return starts


@compiled()
def _group(keys, values, weights, cursor, out, out_weights):  # type: ignore[no-untyped-def]
    weighted = len(weights) > 0
    for k in range(len(keys)):
        at = cursor[keys[k]]
        cursor[keys[k]] = at + 1
        out[at] = values[k]
        if weighted:
            out_weights[at] = weights[k]


@compiled()
def _transpose(starts, values, weights, cursor, out, out_weights):  # type: ignore[no-untyped-def]
    weighted = len(weights) > 0
    for row in range(len(starts) - 1):
        for k in range(starts[row], starts[row + 1]):
            at = cursor[values[k]]
            cursor[values[k]] = at + 1
            out[at] = row
            if weighted:
                out_weights[at] = weights[k]


def by_target(sources: Ints, targets: Ints, weights: Floats | None, nodes: int) -> Compressed:
    """Group edges by target, sources ascending, repeated edges in their given order.

    Two stable counting sorts, first by source and then by target, take O(nodes + edges) time and one more copy of the
    edges.
    """
    given = np.zeros(0) if weights is None else weights
    by_source = np.empty_like(targets)
    by_source_weights = np.empty_like(given)
    starts = _row_starts(sources, nodes)
    _group(sources, targets, given, starts[:-1].copy(), by_source, by_source_weights)
    indptr = _row_starts(targets, nodes)
    grouped = np.empty_like(sources)
    grouped_weights = np.empty_like(given)
    _transpose(starts, by_source, by_source_weights, indptr[:-1].copy(), grouped, grouped_weights)
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
    """Merge repeated edges into one whose weight is their sum; without weights, their number, if any edge repeats."""
    first = ~is_duplicate(edges)
    if edges.weights is None and first.all():
        return edges
    weights = np.ones(len(edges.sources)) if edges.weights is None else edges.weights
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(weights, starts) if len(starts) else weights
    return select(Compressed(edges.indptr, edges.sources, None), first)._replace(weights=sums)


def frozen(edges: Compressed) -> Compressed:
    """Return the edges in arrays of the same memory that nobody can write to."""
    for array in edges:
        if array is not None:
            array.flags.writeable = False
    return edges
