"""The face-adjacency graph of a uniformly refined mesh of quadrilaterals around an obstacle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.graph.graph import Graph
from cpms.sources.generators._limits import MOST_NODES, check_size

Ints = npt.NDArray[np.int64]

_COARSE_ROWS, _COARSE_COLUMNS, _OBSTACLE = 3, 9, (1, 4)
_MOST_REFINEMENTS = 13
"""Refinements of the largest mesh whose cells are counted in 32 bits."""
_TOP = (0, 1, 3, 2)
"""Number of the child at (y, x) of a coarse cell, in the order (0, 0), (0, 1), (1, 0), (1, 1)."""
_AROUND = ((0, 0), (0, 1), (1, 1), (1, 0))
"""Children (y, x) once around their parent."""


def adaptive(refinements: int, *, name: str, stand_in_for: str | None) -> Graph:
    """Return the graph of 26 coarse cells (a channel of 9 x 3 less an inner one), refined uniformly.

    The children of cell c are numbered 4 c to 4 c + 3. Child 0 touches the centre of c's own parent and the others
    follow once around, so that just one cell of every sixteen has no smaller neighbour. The edge of two cells goes from
    the larger to the smaller number.

    Examples
    --------
    >>> graph = adaptive(3, name="mesh", stand_in_for=None)
    >>> graph.nodes, graph.edges, len(graph.dangling_nodes)
    (1664, 3216, 104)
    """
    if refinements > _MOST_REFINEMENTS:
        raise InputError(
            f"{name}: size is {refinements}; it counts refinements and must be at most {_MOST_REFINEMENTS}"
        )
    cells = 26 * 4**refinements
    check_size(name, cells, 2 * cells, most_nodes=MOST_NODES)
    side = 2**refinements
    within = _numbers(refinements)
    rows, columns = _COARSE_ROWS * side, _COARSE_COLUMNS * side
    number = np.full((rows, columns), -1, np.int64)
    coarse = [(r, c) for r in range(_COARSE_ROWS) for c in range(_COARSE_COLUMNS) if (r, c) != _OBSTACLE]
    for cell, (r, c) in enumerate(coarse):
        number[r * side : (r + 1) * side, c * side : (c + 1) * side] = within + cell * side * side
    pairs = [(number[:, 1:], number[:, :-1]), (number[1:], number[:-1])]
    inner = [(a >= 0) & (b >= 0) for a, b in pairs]
    larger = np.concatenate([np.maximum(a, b)[ok].astype(np.int32) for (a, b), ok in zip(pairs, inner, strict=True)])
    smaller = np.concatenate([np.minimum(a, b)[ok].astype(np.int32) for (a, b), ok in zip(pairs, inner, strict=True)])
    return Graph.from_edges(larger, smaller, nodes=26 * side * side, name=name, stand_in_for=stand_in_for)


def _numbers(refinements: int) -> Ints:
    """Return the number of each fine cell within its coarse one, shape (2**refinements, 2**refinements)."""
    number = np.zeros((1, 1), np.int64)
    for level in range(refinements):
        finer = np.empty((2 * len(number), 2 * len(number)), np.int64)
        for y in (0, 1):
            for x in (0, 1):
                finer[y::2, x::2] = 4 * number + _child_digits(level, number, y, x)
        number = finer
    return number


def _child_digits(level: int, number: Ints, y: int, x: int) -> Ints:
    """Return which child of each cell lies at (y, x)."""
    if level == 0:
        return np.full_like(number, _TOP[2 * y + x])
    digits = np.empty_like(number)
    for parent_y in (0, 1):
        for parent_x in (0, 1):
            centre = _AROUND.index((1 - parent_y, 1 - parent_x))
            digits[parent_y::2, parent_x::2] = (centre - _AROUND.index((y, x))) % 4
    return digits
