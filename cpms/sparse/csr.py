"""Compressed sparse rows of P, values in a storage format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.format import FP64, Format
from cpms.graph import Graph
from cpms.segmented import SegmentedArray, convert_inplace, encode
from cpms.sparse.edge_values import edge_values


@dataclass(frozen=True, eq=False)
class Csr:
    """Row j of P holds ``values[k]`` in column ``sources[k]`` for k from ``indptr[j]`` to ``indptr[j + 1]``."""

    indptr: npt.NDArray[Any]
    sources: npt.NDArray[Any]
    values: SegmentedArray

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.indptr.nbytes + self.sources.nbytes + self.values.nbytes

    def to_float64(self, graph: Graph) -> Csr:
        """Return the same matrix in plain float64; a segment format gives up its memory for it."""
        return Csr(self.indptr, self.sources, to_float64(self.values, graph))


def build(graph: Graph, storage: Format) -> Csr:
    """Return P in CSR.

    Parameters
    ----------
    graph : Graph
    storage : SegmentFormat or FloatFormat
        Of the values, which are 1 / out-degree of the source (or its share of the weight).

    Examples
    --------
    >>> from cpms.format import FP64
    >>> build(Graph.from_edges([0, 0], [0, 1]), FP64).values.decode().tolist()
    [0.5, 0.5]
    """
    return Csr(unsigned_indptr(graph), unsigned_sources(graph), encode(edge_values(graph), storage))


def unsigned_indptr(graph: Graph) -> npt.NDArray[Any]:
    """Row starts in 4 bytes where the edges allow it, else 8; unsigned, which compiled loops index faster."""
    dtype = np.uint32 if graph.edges < 2**32 else np.uint64
    return graph.indptr.astype(dtype)


def unsigned_sources(graph: Graph) -> npt.NDArray[Any]:
    """Return the sources as unsigned integers, without a copy."""
    return graph.sources.view(f"uint{8 * graph.sources.itemsize}")


def to_float64(values: SegmentedArray, graph: Graph) -> SegmentedArray:
    """Return stored edge values as plain float64, in place for segments, from the graph for packed floats."""
    if values.format.exact:
        return convert_inplace(values.restore_inplace(), FP64)
    return convert_inplace(edge_values(graph), FP64)
