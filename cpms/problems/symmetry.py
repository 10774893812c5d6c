"""Whether a large matrix equals its transpose exactly, by all threads and without the transpose.

Each entry above the diagonal is searched for in the row that its column names. If all of them have an equal one across,
and as many entries lie below the diagonal as above, no entry is left without an equal one.
"""

from __future__ import annotations

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.sparse.matrix import Matrix

_ROWS = 1 << 14
"""Least number of rows in a task of a thread."""


def equals_transpose(matrix: Matrix) -> bool:
    """Return whether each entry of a square matrix has an equal one across the diagonal.

    Examples
    --------
    >>> [equals_transpose(Matrix.from_dense([[2.0, -1.0], [below, 3.0]])) for below in (-1.0, 0.0)]
    [True, False]
    """
    given = matrix.indptr, matrix.indices, matrix.given_values()
    found = threads.each(lambda part: _balance(*given, *part), threads.ranges(matrix.rows, at_least=_ROWS))
    return all(is_equal for is_equal, _ in found) and sum(balance for _, balance in found) == 0


@compiled()
def _balance(indptr, indices, values, low, high):  # type: ignore[no-untyped-def]
    """Return whether entries above the diagonal in some rows have equal ones across, and their number less those below.

    Rows are ascending, so a binary search finds an entry. The search ends with the first entry that has none.
    """
    balance = 0
    for row in range(low, high):
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if column < row:
                balance -= 1
            elif column > row:
                balance += 1
                first, end = indptr[column], indptr[column + 1]
                last = end
                while first < last:
                    middle = (first + last) >> 1
                    if indices[middle] < row:
                        first = middle + 1
                    else:
                        last = middle
                if first == end or indices[first] != row or values[first] != values[k]:
                    return False, balance
    return True, balance
