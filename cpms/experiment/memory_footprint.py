"""How much memory an engine holds for a problem."""

from __future__ import annotations

from typing import Any

from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_ARRAYS = ("__array_interface__", "__cuda_array_interface__")


def held_bytes(*holders: object) -> int:
    """Return the bytes of all arrays and OpenCL buffers that objects of this package or SciPy hold, each memory once.

    Problems and graphs are not looked into: they are what an engine was given.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.zeros(100)
    >>> held_bytes([values, values[:3]], {"more": np.zeros(2, np.float32)})
    808
    """
    waiting, seen, total = list(holders), set(), 0
    while waiting:
        each = _owner(waiting.pop())
        if id(each) in seen:
            continue
        seen.add(id(each))
        if _is_array(each):
            total += each.nbytes
        elif _comes_from(each, "pyopencl") and type(each).__name__ == "Buffer":
            total += each.size
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple | set):
            waiting += each
        elif _comes_from(each, "cpms", "scipy") and not isinstance(each, Problem | Graph):
            waiting += getattr(each, "__dict__", {}).values()
    return total


def _owner(each: Any) -> Any:
    """Return the array whose memory a view looks at."""
    while _is_array(each) and _is_array(getattr(each, "base", None)):
        each = each.base
    return each


def _is_array(each: Any) -> bool:
    return hasattr(each, "nbytes") and any(hasattr(each, name) for name in _ARRAYS)


def _comes_from(each: Any, *packages: str) -> bool:
    return type(each).__module__.partition(".")[0] in packages
