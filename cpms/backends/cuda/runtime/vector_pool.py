"""Pool of device vectors, reused from solve to solve so that captured CUDA graphs stay valid."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Generic

from cpms.base.types import Vector


class VectorPool(Generic[Vector]):
    """Pool of vectors: a caller gets a shallow copy of one, which returns to the pool when the copy is collected.

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
    >>> pool = VectorPool(Vector)
    >>> x, out = pool.vector(), pool.vector()
    >>> memory = x.memory
    >>> del x
    >>> pool.vector().memory is memory, out.memory is memory
    (True, False)
    """

    def __init__(self, make: Callable[[], Vector]) -> None:
        self._make = make
        self._free: list[Vector] = []

    def pair(self) -> tuple[Vector, Vector]:
        """Make the two vectors that callers get next, so that graphs on them can be captured before."""
        made = self._make(), self._make()
        self._free += made
        return made

    def vector(self) -> Vector:
        """Return a vector that no other caller has; its content is undefined."""
        owned = self._free.pop() if self._free else self._make()
        handle = copy.copy(owned)
        weakref.finalize(handle, self._free.append, owned)
        return handle
