"""Memory of a solve: the bytes of all arrays that an engine's objects refer to, and the least traffic of sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cpms.formats.formats import FP64
from cpms.formats.protocol import Format
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_ARRAYS = ("__array_interface__", "__cuda_array_interface__")
_STAGES = ("product", "dangling", "update", "distance")
_BYTES_OF_A_ROW = {"csr": 4, "ell": 0, "pattern": 8, "coo": 0}
"""Bytes that a sweep reads for a row besides entries and vectors, by layout: a row start, and in pattern a degree."""


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


def least_bytes(graph: Graph, storage: Format, layout: str, read: int) -> int:
    """Return the minimum traffic of a sweep in bytes: every stored entry, every row, each vector value once.

    Examples
    --------
    >>> least_bytes(Graph.from_edges([0, 1], [1, 0]), FP64, "csr", 1)
    64
    """
    entries = graph.nodes * int(graph.in_degree.max()) if layout == "ell" else graph.edges
    values = 0 if layout == "pattern" else storage.traffic(entries, read)
    return _index_bytes(layout, graph.nodes, entries) + values + 2 * storage.traffic(graph.nodes, read)


def least_bytes_of_stage(graph: Graph, storage: Format, layout: str, read: int, stage: str) -> int:
    """Return the minimum traffic of a stage of a composed sweep in bytes, or of the whole ``sweep``.

    The product is that of `least_bytes`. The dangling mass reads an index and a value of each dangling node, the update
    reads the product and writes the new vector, and the distance reads both vectors. Teleport and sink are uniform.

    Examples
    --------
    >>> graph, stages = Graph.from_edges([0, 0], [1, 2]), ("product", "dangling", "update", "distance", "sweep")
    >>> [least_bytes_of_stage(graph, FP64, "coo", 1, stage) for stage in stages]
    [80, 24, 48, 48, 200]
    """
    if stage == "sweep":
        return sum(least_bytes_of_stage(graph, storage, layout, read, part) for part in _STAGES)
    if stage == "product":
        return least_bytes(graph, storage, layout, read)
    if stage == "dangling":
        dangling = len(graph.dangling_nodes)
        return 4 * dangling + storage.traffic(dangling, read)
    return 2 * storage.traffic(graph.nodes, read)


def _index_bytes(layout: str, nodes: int, entries: int) -> int:
    """Return the bytes of column indices, row indices or row starts, and of degrees where there are no values."""
    return entries * (8 if layout == "coo" else 4) + nodes * _BYTES_OF_A_ROW[layout]


def least_bytes_by_bits(nodes: int, edges: int, layout: str, sweeps: Mapping[int, int]) -> float | None:
    """Return the minimum traffic of all sweeps of a solve in bytes, from counts alone.

    A value takes the bits that its sweep reads. None for layouts that store more entries than the graph has edges.

    Parameters
    ----------
    nodes, edges : int
    layout : str
    sweeps : mapping of int to int
        Number of sweeps by the bits that they read.

    Examples
    --------
    >>> least_bytes_by_bits(2, 2, "csr", {64: 1}), least_bytes_by_bits(2, 2, "pattern", {16: 1, 64: 1})
    (64.0, 88.0)
    """
    if layout == "ell" or layout not in _BYTES_OF_A_ROW:
        return None
    values = 2 * nodes + (0 if layout == "pattern" else edges)
    return sum(count * (_index_bytes(layout, nodes, edges) + values * bits / 8) for bits, count in sweeps.items())


def least_bytes_of_solve(graph: Graph, storage: Format, layout: str, sweeps: Mapping[int, int]) -> int | None:
    """Return the minimum traffic of all sweeps of a solve, in bytes; None for a layout that `least_bytes` lacks.

    Parameters
    ----------
    graph : Graph
    storage : Format
        A sweep whose bits are not those of a level of this format reads plain float64.
    layout : str
    sweeps : mapping of int to int
        Number of sweeps by the bits that they read.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2
    >>> graph = Graph.from_edges([0, 1], [1, 0])
    >>> least_bytes_of_solve(graph, CPMS2, "csr", {32: 1, 64: 2}) == least_bytes(graph, CPMS2, "csr", 1) + 2 * 64
    True
    """
    if layout not in _BYTES_OF_A_ROW:
        return None
    levels = {storage.bits(read): read for read in range(1, storage.levels + 1)}
    each = {bits: (storage, levels[bits]) if bits in levels else (FP64, 1) for bits in sweeps}
    return sum(count * least_bytes(graph, each[bits][0], layout, each[bits][1]) for bits, count in sweeps.items())
