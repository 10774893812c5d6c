"""Bytes that sweeps of power iteration must move at least, by layout, format and bits that are read."""

from __future__ import annotations

from collections.abc import Mapping

from cpms.formats.formats import FP64
from cpms.formats.protocol import Format
from cpms.graph.graph import Graph

_BYTES_OF_A_ROW = {"csr": 4, "ell": 0, "pattern": 8, "coo": 0}


def least_bytes(graph: Graph, storage: Format, layout: str, read: int) -> int:
    """Return the minimum traffic of a sweep in bytes: every stored entry, every row, each vector value once.

    Examples
    --------
    >>> least_bytes(Graph.from_edges([0, 1], [1, 0]), FP64, "csr", 1)
    64
    """
    entries = graph.nodes * int(graph.in_degree.max()) if layout == "ell" else graph.edges
    values = 0 if layout == "pattern" else storage.traffic(entries, read)
    indices = entries * (8 if layout == "coo" else 4) + graph.nodes * _BYTES_OF_A_ROW[layout]
    return indices + values + 2 * storage.traffic(graph.nodes, read)


def of_solve(graph: Graph, storage: Format, layout: str, sweeps: Mapping[int, int]) -> int | None:
    """Return the minimum traffic of all sweeps of a solve; None for other layouts.

    Parameters
    ----------
    graph : Graph
    storage : Format
        Sweeps of a number of bits that no level of it has are in plain float64.
    layout : str
    sweeps : mapping of int to int
        Number of sweeps by the bits that they read.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2
    >>> graph = Graph.from_edges([0, 1], [1, 0])
    >>> of_solve(graph, CPMS2, "csr", {32: 1, 64: 2}) == least_bytes(graph, CPMS2, "csr", 1) + 2 * 64
    True
    """
    if layout not in _BYTES_OF_A_ROW:
        return None
    levels = {storage.bits(read): read for read in range(1, storage.levels + 1)}
    each = {bits: (storage, levels[bits]) if bits in levels else (FP64, 1) for bits in sweeps}
    return sum(count * least_bytes(graph, each[bits][0], layout, each[bits][1]) for bits, count in sweeps.items())
