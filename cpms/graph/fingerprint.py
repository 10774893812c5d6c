"""Detection of arrays that change under a graph in use, by sums over residue classes of places.

The constructor of `cpms.Graph` shares memory with its caller, so a caller may write to a graph that an engine has
prepared. A fingerprint has the sum of the 64-bit words of each residue class modulo 61; sorting or permuting an array
in place changes it almost surely, since 61 is prime. It costs one read of the arrays. Arrays that nobody can write to
have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.graph.graph import Graph

_CLASSES = 61
_PART = _CLASSES << 14
"""Words that a thread sums at a time."""


def fingerprint(graph: Graph) -> list[int]:
    """Return the sums of all arrays of a graph that its caller may write to: none of a graph in device memory.

    Examples
    --------
    >>> indptr, sources = np.array([0, 1, 2]), np.array([1, 0], np.int32)
    >>> graph = Graph(indptr, sources)
    >>> before = fingerprint(graph)
    >>> sources[:] = 0, 1
    >>> before == fingerprint(graph), fingerprint(Graph.from_edges([0], [1]))
    (False, [])
    """
    if graph.device_arrays is not None:
        return []
    arrays = (graph.indptr, graph.sources, graph.weights)
    return [total for array in arrays if array is not None and _is_writable(array) for total in _sums_by_class(array)]


def _is_writable(array: npt.NDArray[Any]) -> bool:
    """Return whether the memory of a read-only view can be written to under another name."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    return False


def _sums_by_class(array: npt.NDArray[Any]) -> list[int]:
    octets = np.ascontiguousarray(array).view(np.uint8)
    whole = len(octets) // (8 * _CLASSES) * 8 * _CLASSES
    words = octets[:whole].view(np.uint64)

    def sums(part: tuple[int, int]) -> npt.NDArray[np.uint64]:
        found: npt.NDArray[np.uint64] = words[slice(*part)].reshape(-1, _CLASSES).sum(axis=0, dtype=np.uint64)
        return found

    found = threads.each(sums, threads.ranges(len(words), at_least=_PART))
    rest = octets[whole:].tobytes()
    by_class: npt.NDArray[np.uint64] = np.array(found, np.uint64).reshape(-1, _CLASSES).sum(axis=0)
    return [*by_class.tolist(), int.from_bytes(rest, "little")]
