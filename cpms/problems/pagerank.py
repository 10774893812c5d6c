"""PageRank as an equation: graph, damping, teleport distribution and dangling rule.

The matrix of the equation is never formed: solvers apply it as a sparse product, a rank-one update for dangling nodes,
and a constant vector for teleport (Langville and Meyer, Deeper inside PageRank, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles
from cpms.base.types import DANGLING_RULES, DanglingRule, Floats
from cpms.base.validation import described, real
from cpms.graph.graph import Graph, require_graph

_LEAST_SUM = float(np.finfo(np.float64).smallest_normal)
"""Least out-weight of a node: the reciprocal of a smaller one may be infinite."""


@dataclass(frozen=True, eq=False)
class Problem:
    """x = damping (P x + w s) + (1 - damping) v, with s the mass of x on dangling nodes.

    P is the transposed adjacency matrix with each column divided by its sum, v the teleport
    distribution, and w either v or uniform.

    Parameters
    ----------
    graph : Graph
    damping : float
        Strictly between 0 and 1.
    teleport : ndarray of float64, shape (nodes,), optional
        v, of sum 1; None is uniform. One number, shape (1,), is that of every node.
    dangling : {"teleport", "uniform"} or ndarray of float64, shape (nodes,)
        Where the mass of dangling nodes goes: w = v, w uniform, or w itself, of sum 1.
    """

    graph: Graph
    damping: float = 0.85
    teleport: Floats | None = None
    dangling: DanglingRule | Floats = "teleport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "damping", real("damping", self.damping))
        if not 0.0 < self.damping < 1.0:
            raise InputError(f"damping is {self.damping}; it must lie strictly between 0 and 1")
        require_graph(self.graph)
        rule = isinstance(self.dangling, str) and self.dangling in DANGLING_RULES
        if not rule and not isinstance(self.dangling, np.ndarray):
            rules = ", ".join(map(repr, DANGLING_RULES))
            raise InputError(f"dangling is {described(self.dangling)}; it can be {rules} or a distribution")
        if isinstance(self.dangling, np.ndarray):
            object.__setattr__(self, "dangling", doubles("dangling", self.dangling))
            if self.dangling.shape != (self.graph.nodes,):
                raise InputError(f"dangling has shape {self.dangling.shape}; give one number a node")
        if self.teleport is not None:
            object.__setattr__(self, "teleport", doubles("teleport", self.teleport))
            if self.teleport.shape not in ((self.graph.nodes,), (1,)):
                raise InputError(f"teleport has shape {self.teleport.shape}; give one number a node, or one for all")
        if self.graph.weights is not None:
            sums = self.graph.out_weight
            wrong = np.flatnonzero((self.graph.out_degree > 0) & ~((sums >= _LEAST_SUM) & np.isfinite(sums)))
            if len(wrong):
                node = self.graph.node_id(int(wrong[0]))
                raise InputError(
                    f"the weights of the edges that leave node {node!r} sum to {float(sums[wrong[0]])}, "
                    "which float64 cannot divide by; multiply all weights by a power of two"
                )

    @property
    def dangling_follows_teleport(self) -> bool:
        """Whether the mass of dangling nodes goes where teleport does: w = v."""
        if isinstance(self.dangling, str):
            return self.dangling == "teleport" or self.teleport is None
        return False

    @property
    def teleport_or_scalar(self) -> Floats:
        """v: shape (nodes,), or (1,) where every node has the same."""
        return np.full(1, 1.0 / self.graph.nodes) if self.teleport is None else self.teleport

    @property
    def sink_or_scalar(self) -> Floats:
        """w: shape (nodes,), or (1,) where every node has the same."""
        if isinstance(self.dangling, str):
            return np.full(1, 1.0 / self.graph.nodes) if self.dangling == "uniform" else self.teleport_or_scalar
        return self.dangling
