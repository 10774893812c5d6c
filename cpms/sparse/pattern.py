"""Structure alone: 4 bytes an edge, since 1 / out-degree belongs to the node and not to the edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.errors import UnsupportedError
from cpms.graph import Graph
from cpms.sparse.csr import unsigned_indptr, unsigned_sources


@dataclass(frozen=True, eq=False)
class Pattern:
    """The 0/1 structure of P by rows, and what each node's value is divided by before it is gathered.

    ``divisor`` is the out-degree, or 1 for dangling nodes, from which nothing is ever gathered:
    x is then ``z * divisor`` for every node, and only z need be stored.
    """

    indptr: npt.NDArray[Any]
    sources: npt.NDArray[Any]
    divisor: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.indptr.nbytes + self.sources.nbytes + self.divisor.nbytes


def build(graph: Graph) -> Pattern:
    """Return the structure of P.

    Raises
    ------
    UnsupportedError
        If the graph has weights.

    Examples
    --------
    >>> build(Graph.from_edges([0, 0], [0, 1])).divisor.tolist()
    [2, 1]
    """
    if graph.weights is not None:
        raise UnsupportedError(f"layout 'pattern' stores no values, but {graph.name} has weights; use csr")
    return Pattern(unsigned_indptr(graph), unsigned_sources(graph), divisor(graph))


def divisor(graph: Graph) -> npt.NDArray[np.uint32]:
    """Return the out-degree of each node, or 1 where it is 0, shape (nodes,).

    Examples
    --------
    >>> divisor(Graph.from_edges([0, 0], [0, 1])).tolist()
    [2, 1]
    """
    return np.maximum(graph.out_degree, 1).astype(np.uint32)
