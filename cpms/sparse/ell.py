"""ELL: every row padded to the longest, stored column by column."""

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

    Rows shorter than ``width`` are filled with zeros in column j.
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
        """Return the same matrix in plain float64; a segment format gives up its memory for it."""
        if self.values.format.exact:
            values = self.values.restore_inplace()
        else:
            values = np.zeros(self.rows * self.width)
            values[slots(graph)] = edge_values(graph)
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


def slots(graph: Graph) -> npt.NDArray[np.int64]:
    """Return where each stored edge goes in the padded arrays, shape (edges,)."""
    targets = graph.targets
    return (np.arange(graph.edges) - graph.indptr[targets]) * graph.nodes + targets


def build(graph: Graph, storage: Format) -> Ell:
    """Return P in ELL.

    Raises
    ------
    UnsupportedError
        If the padding would exceed the memory at hand; the sentence states the bytes.

    Examples
    --------
    >>> build(Graph.from_edges([0, 0, 1], [0, 1, 1]), FP64).values.decode().tolist()
    [0.5, 0.5, 0.0, 1.0]
    """
    reason = refusal(graph, storage, host_memory.free_bytes())
    if reason:
        raise UnsupportedError(reason)
    width = int(graph.in_degree.max())
    place = slots(graph)
    sources = np.tile(np.arange(graph.nodes, dtype=unsigned_sources(graph).dtype), width)
    sources[place] = unsigned_sources(graph)
    values = np.zeros(graph.nodes * width)
    values[place] = edge_values(graph)
    return Ell(graph.nodes, width, sources, encode(values, storage))
