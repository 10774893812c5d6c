"""Separation of marks that would cover each other, by moving each by at most its width.

Marks that are nearer than their width repel each other until they touch, as in force-directed layouts (Fruchterman and
Reingold, Software: Practice and Experience 21, 1991). As none is moved by more than its width, many marks at one place
still overlap. The cost is a few hundred times the square of the number of marks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_STEPS = 300


def apart(places: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the places of separated marks; these and the given ones are in units of a mark's width.

    Two marks at one place become neighbours, and more of them begin on a circle.

    Parameters
    ----------
    places : array of float64, shape (marks, 2)

    Examples
    --------
    >>> apart(np.array([[1.0, 1.0], [1.0, 1.0], [3.0, 1.0]])).round(2).tolist()
    [[1.5, 1.0], [0.5, 1.0], [3.0, 1.0]]
    """
    _, group = np.unique(places.round(6), axis=0, return_inverse=True)
    group = group.reshape(-1)
    start = np.zeros_like(places)
    for each in range(group.max(initial=-1) + 1):
        together = np.flatnonzero(group == each)
        turn = 2 * np.pi * np.arange(len(together)) / len(together)
        start[together] = 1e-3 * (len(together) > 1) * np.column_stack([np.cos(turn), np.sin(turn)])
    moved = places + start
    for _ in range(_STEPS):
        between = moved[:, None] - moved
        distance = np.hypot(*np.moveaxis(between, 2, 0))
        np.fill_diagonal(distance, np.inf)
        if (distance > 1 - 1e-6).all():
            break
        push = np.maximum(1 - distance, 0) / (2 * np.maximum(distance, 1e-9))
        away = moved + (push[..., None] * between).sum(axis=1) - places
        moved = places + away / np.maximum(1, np.hypot(*away.T))[:, None]
    return moved
