"""Device arrays that the sweeps of one problem share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import vectors
from cpms.backends.cuda.arrays.launch_norms import Reduction
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.reordering import Numbering
from cpms.base.types import Floats
from cpms.problems.pagerank import Problem
from cpms.sparse.pattern import divisor


@dataclass(frozen=True, eq=False)
class Work:
    """What a sweep found, and what it needs besides matrix and vectors; all in the order of places.

    Parameters
    ----------
    found : device array of float64, shape (5,)
        Dangling mass as stored, L1 norm of the change, its sum of squares, mass, largest change.
    room : Reduction
    dangling_nodes : device array of uint32
    divisor : device array of uint32, shape (vector length,), or None
        Out-degrees in the pattern layout.
    sink, teleport : device arrays of float64, shape (1,) or (nodes,)
    order, place : device arrays of int32, shape (nodes,), or None
        The node in each place and the place of each node, where these differ.
    """

    found: Any
    room: Reduction
    dangling_nodes: Any
    divisor: Any | None
    sink: Any
    teleport: Any
    order: Any | None
    place: Any | None

    @classmethod
    def of(cls, problem: Problem, *, pattern: bool, numbering: Numbering | None) -> Work:
        """Upload what a problem's sweeps need."""
        arrays, graph = current().arrays, problem.graph

        def placed(values: Floats) -> Any:
            there = arrays.asarray(values)
            return there if numbering is None or len(values) == 1 else there[numbering.order]

        dangling = arrays.asarray(graph.dangling_nodes.astype(np.uint32))
        return cls(
            found=arrays.zeros(5, np.float64),
            room=Reduction.make(),
            dangling_nodes=dangling if numbering is None else arrays.sort(numbering.place[dangling]),
            divisor=_divisor(problem, numbering) if pattern else None,
            sink=placed(problem.sink_or_scalar),
            teleport=placed(problem.teleport_or_scalar),
            order=None if numbering is None else numbering.order,
            place=None if numbering is None else numbering.place,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of what stands for part of the matrix: the divisors."""
        return 0 if self.divisor is None else int(self.divisor.nbytes)

    def to_stored(self, values: Any) -> Any:
        """Return nodes' values as vectors hold them: in the order of places, divided by the out-degree."""
        moved = values if self.order is None else values[self.order]
        return moved if self.divisor is None else moved / self.divisor[: len(moved)]

    def to_real(self, values: Any) -> Any:
        """Undo `to_stored`."""
        real = values if self.divisor is None else values * self.divisor[: len(values)]
        return real if self.place is None else real[self.place]


def _divisor(problem: Problem, numbering: Numbering | None) -> Any:
    arrays = current().arrays
    degrees = arrays.asarray(divisor(problem.graph))
    filled = arrays.ones(vectors.vector_length(problem.graph.nodes), np.uint32)
    filled[: problem.graph.nodes] = degrees if numbering is None else degrees[numbering.order]
    return filled
