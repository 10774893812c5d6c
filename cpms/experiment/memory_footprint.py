"""Memory of an engine for a problem: the sum over all arrays that its objects reach, each buffer counted once."""

from __future__ import annotations

from typing import Any

from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_ARRAYS = ("__array_interface__", "__cuda_array_interface__")


def held_bytes(*holders: object) -> int:
    """Return the bytes of all arrays and OpenCL buffers reached from objects of this package or SciPy, each once.

    Problems and graphs are excluded, since they are the input of an engine.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.zeros(100)
    >>> held_bytes([values, values[:3]], {"more": np.zeros(2, np.float32)})
    808
    """
    waiting, seen, total = list(holders), set(), 0
    while waiting:
        item = _owner(waiting.pop())
        if id(item) in seen:
            continue
        seen.add(id(item))
        if _is_array(item):
            total += item.nbytes
        elif _is_from(item, "pyopencl") and type(item).__name__ == "Buffer":
            total += item.size
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set):
            waiting += item
        elif _is_from(item, "cpms", "scipy") and not isinstance(item, Problem | Graph):
            waiting += getattr(item, "__dict__", {}).values()
    return total


def _owner(item: Any) -> Any:
    """Return the array that owns the memory of a view."""
    while _is_array(item) and _is_array(getattr(item, "base", None)):
        item = item.base
    return item


def _is_array(item: Any) -> bool:
    return hasattr(item, "nbytes") and any(hasattr(item, name) for name in _ARRAYS)


def _is_from(item: Any, *packages: str) -> bool:
    return type(item).__module__.partition(".")[0] in packages
