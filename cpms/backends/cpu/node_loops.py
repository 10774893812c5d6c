"""Loops over vectors of nodes by all threads.

Ranges of nodes depend on the length alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy.typing as npt

from cpms.base import threads
from cpms.base.jit import compiled
from cpms.base.types import Floats

Answer = TypeVar("Answer")
_compiled: Any = compiled(error_model="numpy", _nrt=False)
_PART_NODES, _MOST_PARTS = 1 << 15, 64
_FEWEST_COMPILED = 1 << 13
"""Least number of nodes for which a compiled loop saves more time than loading it takes."""


def each(work: Callable[[int, int], Answer], count: int) -> list[Answer]:
    """Call ``work(low, high)`` for ranges of ``count`` nodes, and return the results in their order.

    Examples
    --------
    >>> each(lambda low, high: high - low, 50_000)
    [32768, 17232]
    """
    return threads.each(lambda part: work(*part), threads.ranges(count, at_least=_PART_NODES, parts=_MOST_PARTS))


def scatter(values: Floats, nodes: npt.NDArray[Any], out: Floats, *, times: float = 1.0) -> None:
    """Set ``out[nodes] = values * times``; ``nodes`` are all different.

    Examples
    --------
    >>> import numpy as np
    >>> out = np.zeros(3)
    >>> scatter(np.array([1.0, 2.0]), np.array([2, 0]), out)
    >>> out.tolist()
    [2.0, 0.0, 1.0]
    """
    if len(nodes) < _FEWEST_COMPILED:
        out[nodes] = values * times
        return
    each(lambda low, high: _scatter(values, nodes, out, times, low, high), len(nodes))


@_compiled
def _scatter(values, nodes, out, times, low, high):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        out[nodes[i]] = values[i] * times
