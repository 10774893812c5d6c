"""Matrices of one stencil on all points of a box, assembled row by row in compiled loops.

A stencil is a list of neighbours and a small dense block for each; neighbours outside the box are left out, which is
a Dirichlet condition on the layer around it. Points are numbered with the last coordinate fastest. Assembly costs one
pass that counts and one that fills, on all threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.host_memory import require_memory
from cpms.base.jit import compiled
from cpms.base.text.phases import phase
from cpms.base.types import Floats

if TYPE_CHECKING:
    import scipy.sparse

_MOST_ENTRIES = 2**31 - 1
_ROWS_A_PART = 1 << 14


def block_stencil(sides: tuple[int, int, int], neighbours: Any, blocks: Floats) -> scipy.sparse.csr_array:
    """Return the matrix of a stencil on a box.

    Parameters
    ----------
    sides : (int, int, int)
        Points along each coordinate.
    neighbours : sequence of (int, int, int), in ascending order
    blocks : ndarray of float64, shape (neighbours, b, b)
        Zeros are left out.

    Examples
    --------
    >>> block_stencil((1, 1, 3), [(0, 0, -1), (0, 0, 0)], np.array([[[-1.0]], [[2.0]]])).toarray().tolist()
    [[2.0, 0.0, 0.0], [-1.0, 2.0, 0.0], [0.0, -1.0, 2.0]]
    """
    import scipy.sparse

    steps, size = np.asarray(neighbours, np.int64), blocks.shape[1]
    rows = int(np.prod(sides)) * size
    entries = rows // size * int(np.count_nonzero(blocks))
    if min(sides) < 1 or entries > _MOST_ENTRIES:
        raise InputError(
            f"a box of {sides} points with {len(steps)} neighbours each has no rows, or 2**31 entries or more; give "
            "fewer points, and one at least"
        )
    require_memory(4 * rows + 12 * entries, f"a matrix of {rows:,} rows and {entries:,} entries", "give a smaller side")
    box = np.asarray(sides, np.int64)
    starts = np.zeros(rows + 1, np.int32)
    cuts = threads.ranges(rows // size, at_least=_ROWS_A_PART, parts=64)
    with phase("assembling rows", 2 * len(cuts)) as assembling:
        given, none = (box, steps, blocks, starts), (np.empty(0, np.int32), np.empty(0))
        threads.each(assembling.counting(lambda part: _rows(*given, *none, *part)), cuts)
        np.cumsum(starts, dtype=np.int32, out=starts)
        columns, values = np.empty(int(starts[-1]), np.int32), np.empty(int(starts[-1]))
        threads.each(assembling.counting(lambda part: _rows(*given, columns, values, *part)), cuts)
    return scipy.sparse.csr_array((values, columns, starts), shape=(rows, rows))


@compiled()
def _rows(box, steps, blocks, starts, columns, values, low, high):  # type: ignore[no-untyped-def]
    """Write the entries of some points' rows from their starts on; without columns, write their counts behind these."""
    size, counts = blocks.shape[1], len(columns) == 0
    for point in range(low, high):
        z, y, x = point // (box[1] * box[2]), point // box[2] % box[1], point % box[2]
        for row in range(point * size, (point + 1) * size):
            slot = 0 if counts else starts[row]
            for k in range(len(steps)):
                c, b, a = z + steps[k, 0], y + steps[k, 1], x + steps[k, 2]
                if 0 <= c < box[0] and 0 <= b < box[1] and 0 <= a < box[2]:
                    first = ((c * box[1] + b) * box[2] + a) * size
                    for j in range(size):
                        if blocks[k, row - point * size, j] != 0.0:
                            if not counts:
                                columns[slot] = first + j
                                values[slot] = blocks[k, row - point * size, j]
                            slot += 1
            if counts:
                starts[row + 1] = slot
