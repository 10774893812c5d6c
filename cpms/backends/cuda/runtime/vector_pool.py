"""Vectors lent to solve after solve, so that graphs of launches on them last."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Vector = TypeVar("Vector")


class VectorPool(Generic[Vector]):
    """What an operator lends: shallow copies of vectors, which it has back once those are gone.

    Parameters
    ----------
    make : callable
        Makes a vector, an object whose shallow copies share its memory.

    Examples
    --------
    >>> import numpy as np
    >>> class Vector:
    ...     def __init__(self):
    ...         self.memory = np.zeros(3)
    >>> lent = VectorPool(Vector)
    >>> x, out = lent.vector(), lent.vector()
    >>> memory = x.memory
    >>> del x
    >>> lent.vector().memory is memory, out.memory is memory
    (True, False)
    """

    def __init__(self, make: Callable[[], Vector]) -> None:
        self._make = make
        self._free: list[Vector] = []

    def pair(self) -> tuple[Vector, Vector]:
        """Make the two vectors that will be lent next, for graphs of launches on them; nothing is to run yet."""
        made = self._make(), self._make()
        self._free += made
        return made

    def vector(self) -> Vector:
        """Return a vector that nobody else has; its content is undefined."""
        kept = self._free.pop() if self._free else self._make()
        lent = copy.copy(kept)
        weakref.finalize(lent, self._free.append, kept)
        return lent
