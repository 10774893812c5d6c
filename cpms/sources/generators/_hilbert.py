"""Orders of points along a Hilbert curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.jit import compiled

_LEAF = 4
_LEAST_ROUND = 16


def insertion_order(points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return a biased randomised insertion order of points that are already in random order.

    Rounds [n/4, n), [n/16, n/4), … keep their places; within a round points follow a Hilbert curve whose cells are
    split at medians, down to leaves of 4 points, which stay in their random order.

    Parameters
    ----------
    points : ndarray of float64, shape (2, n)

    Returns
    -------
    ndarray of int64, shape (n,)
        Which point comes at each place.

    Notes
    -----
    Source: Amenta, Choi, Rote, "Incremental constructions con BRIO", 2003; median splits as in
    the spatial sorting of computational geometry libraries.

    Examples
    --------
    >>> sorted(insertion_order(np.random.default_rng(1).random((2, 40)))) == list(range(40))
    True
    """
    order = np.arange(points.shape[1], dtype=np.int64)
    end = len(order)
    while end >= _LEAST_ROUND:
        begin = end // 4
        _median_hilbert(points, order, begin, end)
        end = begin
    _median_hilbert(points, order, 0, end)
    return order


def curve_index(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """Return each cell's place along the Hilbert curve of a 2**bits square.

    Examples
    --------
    >>> curve_index(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 1).tolist()
    [0, 1, 2, 3]
    """
    x, y = x.copy(), y.copy()
    place = np.zeros(len(x), np.int64)
    for bit in range(bits - 1, -1, -1):
        side = np.int64(1) << bit
        right, up = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ up)
        flip = ~up & right
        x[flip], y[flip] = side - 1 - (x[flip] & (side - 1)), side - 1 - (y[flip] & (side - 1))
        swap = ~up
        x[swap], y[swap] = y[swap], x[swap].copy()
    return place


jit: Any = compiled()


@jit
def _select(points, order, low, high, middle, axis, falling):  # type: ignore[no-untyped-def]
    """Rearrange ``order[low:high]`` so that place ``middle`` splits it as if it were sorted."""
    last = high - 1
    while low < last:
        pivot = points[axis, order[(low + last) // 2]]
        i, j = low, last
        while i <= j:
            if falling:
                while points[axis, order[i]] > pivot:
                    i += 1
                while points[axis, order[j]] < pivot:
                    j -= 1
            else:
                while points[axis, order[i]] < pivot:
                    i += 1
                while points[axis, order[j]] > pivot:
                    j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            low = i
        else:
            return


@jit
def _median_hilbert(points, order, begin, end):  # type: ignore[no-untyped-def]
    """Order places ``begin`` to ``end`` along a Hilbert curve; each cell is split at medians into quarters m0 to m4."""
    stack = [(begin, end, 0, False, False)]
    while len(stack) > 0:
        m0, m4, axis, along, across = stack.pop()
        if m4 - m0 <= _LEAF:
            order[m0:m4].sort()
            continue
        other = 1 - axis
        m2 = m0 + (m4 - m0) // 2
        _select(points, order, m0, m4, m2, axis, along)
        m1 = m0 + (m2 - m0) // 2
        _select(points, order, m0, m2, m1, other, across)
        m3 = m2 + (m4 - m2) // 2
        _select(points, order, m2, m4, m3, other, not across)
        stack.append((m0, m1, other, across, along))
        stack.append((m1, m2, axis, along, across))
        stack.append((m2, m3, axis, along, across))
        stack.append((m3, m4, other, not across, not along))
