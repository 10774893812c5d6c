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

    P is the transposed adjacency matrix with each column divided by its sum, v the teleport distribution, and w either
    v, uniform, or any other distribution.

    Parameters
    ----------
    graph : Graph
    damping : float
        Strictly between 0 and 1.
    teleport : ndarray of float64, shape (nodes,), optional
        v, of sum 1; None is uniform. An array of shape (1,) holds the one value of all nodes.
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
        if self.graph.nodes == 0:
            raise InputError(f"{self.graph.name} is empty; it needs at least one node")
        if isinstance(self.dangling, str):
            _require_rule(self.dangling)
        else:
            object.__setattr__(self, "dangling", _distribution("dangling", self.dangling, (self.graph.nodes,)))
        if self.teleport is not None:
            given = _distribution("teleport", self.teleport, (self.graph.nodes,), (1,))
            object.__setattr__(self, "teleport", given)
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
        if not isinstance(self.dangling, str):
            return False
        return self.dangling == "teleport" or self.teleport is None

    @property
    def needs_products(self) -> bool:
        """Whether batches need a matrix with values, or a sink that is neither teleport nor uniform."""
        return self.graph.weights is not None or not isinstance(self.dangling, str)

    @property
    def teleport_or_scalar(self) -> Floats:
        """v: shape (nodes,), or (1,) where every node has the same."""
        return np.full(1, 1.0 / self.graph.nodes) if self.teleport is None else self.teleport

    @property
    def sink_or_scalar(self) -> Floats:
        """w: shape (nodes,), or (1,) where every node has the same."""
        if not isinstance(self.dangling, str):
            return self.dangling
        return np.full(1, 1.0 / self.graph.nodes) if self.dangling == "uniform" else self.teleport_or_scalar


def _require_rule(name: str) -> None:
    if name not in DANGLING_RULES:
        rules = ", ".join(map(repr, DANGLING_RULES))
        raise InputError(f"dangling is {described(name)}; it can be {rules}, or a distribution over the nodes")


def _distribution(name: str, values: Floats, *shapes: tuple[int, ...]) -> Floats:
    found = doubles(name, values)
    if found.shape not in shapes:
        one = ", or one for all" if (1,) in shapes else ""
        raise InputError(f"{name} has shape {found.shape}; give one number a node{one}")
    return found
