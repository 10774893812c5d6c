"""Device arrays of one problem besides matrix and iterates: teleport, dangling nodes, degrees, and the sums of a sweep.

They are uploaded once, in the order of positions, so that a composed sweep moves nothing but its own sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import vectors
from cpms.backends.cuda.arrays.launch_norms import Reduction
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.reordering import Reordering
from cpms.base.types import Floats
from cpms.problems.pagerank import Problem
from cpms.sparse.transition_values import divisor


@dataclass(frozen=True, eq=False)
class OperatorData:
    """The sums of a sweep, and its operands besides matrix and vectors, in the order of positions.

    Parameters
    ----------
    found : device array of float64, shape (5,)
        Dangling mass as stored, L1 norm of the change, its sum of squares, mass, largest change.
    workspace : Reduction
    dangling_nodes : device array of uint32
    divisor : device array of uint32, shape (vector length,), or None
        Out-degrees in the pattern layout.
    sink, teleport : device arrays of float64, shape (1,) or (nodes,)
    order, position : device arrays of uint32, shape (nodes,), or None
        The node at each position and the position of each node, where nodes are reordered.
    """

    found: Any
    workspace: Reduction
    dangling_nodes: Any
    divisor: Any | None
    sink: Any
    teleport: Any
    order: Any | None
    position: Any | None

    @classmethod
    def of(cls, problem: Problem, *, pattern: bool, reordering: Reordering | None) -> OperatorData:
        """Upload the operands of a problem's sweeps."""
        arrays, graph = current().arrays, problem.graph

        def reordered(values: Floats) -> Any:
            uploaded = arrays.asarray(values)
            return uploaded if reordering is None or len(values) == 1 else uploaded[reordering.order]

        dangling = arrays.asarray(graph.dangling_nodes.astype(np.uint32))
        return cls(
            found=arrays.zeros(5, np.float64),
            workspace=Reduction.make(),
            dangling_nodes=dangling if reordering is None else arrays.sort(reordering.position[dangling]),
            divisor=_divisor(problem, reordering) if pattern else None,
            sink=reordered(problem.sink_or_scalar),
            teleport=reordered(problem.teleport_or_scalar),
            order=None if reordering is None else reordering.order,
            position=None if reordering is None else reordering.position,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the divisors, which take the place of edge values in the pattern layout."""
        return 0 if self.divisor is None else int(self.divisor.nbytes)

    def to_stored(self, values: Any) -> Any:
        """Return nodes' values as vectors hold them: in the order of positions, divided by the out-degree."""
        moved = values if self.order is None else values[self.order]
        return moved if self.divisor is None else moved / self.divisor[: len(moved)]

    def to_real(self, values: Any) -> Any:
        """Undo `to_stored`."""
        real = values if self.divisor is None else values * self.divisor[: len(values)]
        return real if self.position is None else real[self.position]


def _divisor(problem: Problem, reordering: Reordering | None) -> Any:
    arrays = current().arrays
    degrees = arrays.asarray(divisor(problem.graph))
    filled = arrays.ones(vectors.vector_length(problem.graph.nodes), np.uint32)
    filled[: problem.graph.nodes] = degrees if reordering is None else degrees[reordering.order]
    return filled
