"""Where blocks and warps that stay begin: at steps of about equal cost."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr

Integers = npt.NDArray[np.int64]

_COUNT_LINES = Variant("count_lines")
_WARP = 32
"""Threads that look at a step together."""
_LINE_BYTES = 128


class _Weights(NamedTuple):
    """What 256 edges, a row, and a line of the first-level cache that gathers of such a step touch cost in a sweep."""

    step: int
    row: int
    line: int


_STREAMED, _CACHED = _Weights(100, 1, 0), _Weights(200, 2, 1)
_LOW = _Weights(1300, 10, 3)
"""Of low sweeps that write no more of a row than z. Of steps of 60 to 200 rows and lines of 0 to 1, on an H100, these
were the best on webs together, and meshes do not mind: without lines, and 160 rows a step, sweeps of three webs took
1 to 3 % longer."""


def streamed_costs(slots: padded_csr.PaddedCsr) -> Integers:
    """Return what all steps before each one cost, and all of them, where memory has to stream; in rows."""
    return _without_lines(slots, _STREAMED)


def low_costs(slots: padded_csr.PaddedCsr, sources: Any, value_bytes: int) -> Integers:
    """Return the same of low sweeps, in tenths of rows; parameters are those of `cached_costs`."""
    return _with_lines(slots, sources, value_bytes, _LOW)


def cached_costs(slots: padded_csr.PaddedCsr, sources: Any, value_bytes: int) -> Integers:
    """Return the same where the device's cache has it all; in lines.

    Parameters
    ----------
    slots : Slots
    sources : device array of uint32
        By slot.
    value_bytes : int
        Of what is gathered.
    """
    return _with_lines(slots, sources, value_bytes, _CACHED)


def _without_lines(slots: padded_csr.PaddedCsr, weights: _Weights) -> Integers:
    cost: Integers = weights.row * slots.rows_ended + weights.step * np.arange(slots.tiles + 1)
    return cost


def _with_lines(slots: padded_csr.PaddedCsr, sources: Any, value_bytes: int, weights: _Weights) -> Integers:
    touched = current().arrays.empty(slots.tiles, np.uint16)
    arguments = sources, np.uint32(slots.tiles), np.uint32(_LINE_BYTES // value_bytes), touched
    current().run(_COUNT_LINES, current().spread(_WARP * slots.tiles), arguments)
    cost = _without_lines(slots, weights)
    cost[1:] += weights.line * np.cumsum(current().to_host(touched), dtype=np.int64)
    return cost


def equal_cuts(cost: Integers, begins: Integers, ends: Integers, parts: int) -> Integers:
    """Return where parts of about equal cost begin within each of some stretches of steps.

    Parameters
    ----------
    cost : array of int, shape (steps + 1,)
        Of all steps before.
    begins, ends : arrays of int, shape (stretches,)
    parts : int

    Returns
    -------
    array of int, shape (stretches, parts)

    Examples
    --------
    >>> equal_cuts(np.array([0, 1, 2, 3, 4, 8]), np.array([0, 2]), np.array([4, 5]), 2).tolist()
    [[0, 2], [2, 5]]
    """
    total = cost[ends] - cost[begins]
    wanted = cost[begins, None] + total[:, None] * np.arange(parts) // parts
    found: Integers = np.clip(np.searchsorted(cost, wanted), begins[:, None], ends[:, None])
    return found


def full_cuts(cost: Integers, begins: Integers, ends: Integers, parts: int) -> Integers:
    """Return such cuts where no part is empty, but for the last ones of a stretch of fewer steps than parts.

    Examples
    --------
    >>> full_cuts(np.array([0, 1, 2, 3, 256]), np.array([0]), np.array([4]), 2).tolist()
    [[0, 3]]
    >>> full_cuts(np.array([0, 9, 10, 11]), np.array([0, 2]), np.array([2, 3]), 3).tolist()
    [[0, 1, 2], [2, 3, 3]]
    """
    counts = np.minimum(parts, ends - begins)[:, None]
    places = np.arange(parts)
    wanted = cost[begins, None] + (cost[ends] - cost[begins])[:, None] * places // counts
    found = np.maximum.accumulate(np.searchsorted(cost, wanted) - places, axis=1) + places
    filled: Integers = np.minimum(np.minimum(found, ends[:, None] - counts + places), ends[:, None])
    return filled


def of_all(cost: Integers, parts: int) -> Integers:
    """Return the first step of each of so many parts of all steps, or of as many as there are steps; none is empty."""
    steps = len(cost) - 1
    (begins,) = full_cuts(cost, np.zeros(1, np.int64), np.array([steps]), min(parts, steps))
    return np.asarray(begins)


def of_blocks(cost: Integers, block_begins: Integers, most: int) -> Integers:
    """Return the first step of each warp of blocks that begin at these steps: as many each, at most so many."""
    ends = np.append(block_begins[1:], len(cost) - 1)
    return full_cuts(cost, block_begins, ends, min(most, int((ends - block_begins).max()))).ravel()


def at_rows(slots: padded_csr.PaddedCsr, begins: Integers, warps: int) -> tuple[padded_csr.PaddedCsr, Integers] | None:
    """Return slots, and steps near those given, for blocks of so many warps to begin at.

    A block begins with a row, so that it need not wait for what others leave of rows, unless no row begins within an
    eighth of a block of where it was to begin: then it begins amid one, or so few steps from there. None where a block
    does that and another has fewer steps than warps: a warp without a step must not lie within a row.
    """
    wanted = begins * WHOLE_VALUES
    amid = slots.rows_at(current().arrays.asarray(wanted.astype(np.uint32)))
    row = current().to_host(amid).astype(np.int64)
    room = WHOLE_VALUES * np.diff(np.append(begins, slots.tiles))
    before, behind = wanted - slots.starts_of(row), slots.starts_of(row + 1) - wanted
    is_behind = (behind < before) & (row + 2 < len(slots.starts))
    near = np.where(is_behind, behind, before) <= room // 8
    row += near & is_behind
    moved = slots.aligned_to_tiles(np.unique(row[near]))
    found = (moved.starts_of(row) + np.where(near, 0, before)) // WHOLE_VALUES
    lengths = np.diff(np.append(found, moved.tiles))
    full = near[1:].all() or lengths.min() >= warps
    return (moved, found) if full and (lengths > 0).all() else None
