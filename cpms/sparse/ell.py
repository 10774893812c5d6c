"""ELLPACK (ELL): every row padded to the length of the longest one, stored column by column.

The layout is that of the package ELLPACK (Rice and Boisvert, Solving Elliptic Problems Using ELLPACK, 1985). The CPMS
paper measures it beside CSR: accesses of adjacent rows coalesce, but a graph with one long row pays for it in all rows.
Building it needs the padded matrix in float64 and in its storage format at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import host_memory
from cpms.base.errors import UnsupportedError
from cpms.formats.formats import FP64, Format
from cpms.graph.graph import Graph
from cpms.sparse.csr import unsigned_sources
from cpms.sparse.transition_values import edge_values
from cpms.storage.array import SegmentedArray, convert_inplace, encode


@dataclass(frozen=True, eq=False)
class Ell:
    """Entry k of row j is ``values[k * rows + j]`` in column ``sources[k * rows + j]``.

    Rows shorter than ``width`` are padded with zeros in column j.
    """

    rows: int
    width: int
    sources: npt.NDArray[Any]
    values: SegmentedArray

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.sources.nbytes + self.values.nbytes

    def to_float64(self, graph: Graph) -> Ell:
        """Return the same matrix in float64; values in a segment format are converted in place."""
        if self.values.format.exact:
            values = self.values.restore_inplace()
        else:
            values = np.zeros(self.rows * self.width)
            values[padded_positions(graph)] = edge_values(graph)
        return Ell(self.rows, self.width, self.sources, convert_inplace(values, FP64))


def needed_bytes(graph: Graph, storage: Format) -> int:
    """Return the bytes of the padded matrix."""
    entries = graph.nodes * int(graph.in_degree.max())
    return entries * graph.sources.itemsize + storage.nbytes(entries)


def refusal(graph: Graph, storage: Format, free_bytes: int) -> str | None:
    """Return why the padded matrix cannot be built within ``free_bytes``, as a sentence; None if it can."""
    # While it is built the values exist twice: as float64 and in the storage format.
    entries = graph.nodes * int(graph.in_degree.max())
    peak_bytes = needed_bytes(graph, storage) + 8 * entries
    if peak_bytes <= free_bytes:
        return None
    return (
        f"layout 'ell' pads every row of {graph.name} to {entries // graph.nodes} entries and needs "
        f"{peak_bytes:,} bytes, but {free_bytes:,} are free; use csr"
    )


def padded_positions(graph: Graph) -> npt.NDArray[np.int64]:
    """Return the position of each stored edge in the padded arrays, shape (edges,)."""
    targets = graph.targets
    return (np.arange(graph.edges) - graph.indptr[targets]) * graph.nodes + targets


def build(graph: Graph, storage: Format) -> Ell:
    """Return P in ELL.

    Raises
    ------
    UnsupportedError
        If the padded matrix would exceed the free memory; the error states both in bytes.

    Examples
    --------
    >>> build(Graph.from_edges([0, 0, 1], [0, 1, 1]), FP64).values.decode().tolist()
    [0.5, 0.5, 0.0, 1.0]
    """
    reason = refusal(graph, storage, host_memory.free_bytes())
    if reason:
        raise UnsupportedError(reason)
    width = int(graph.in_degree.max())
    positions = padded_positions(graph)
    sources = np.tile(np.arange(graph.nodes, dtype=unsigned_sources(graph).dtype), width)
    sources[positions] = unsigned_sources(graph)
    values = np.zeros(graph.nodes * width)
    values[positions] = edge_values(graph)
    return Ell(graph.nodes, width, sources, encode(values, storage))
