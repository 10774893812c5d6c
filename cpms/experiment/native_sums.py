"""Personalised PageRank with values, products and sums in one native float, for a comparison with published results.

Belotti and Izzo report that half precision gave poor scores. Their kernels add the product of an edge to its row by an
atomic addition in the type of the vectors, so every addition rounds. NumPy's `add.at` does the same in the order of the
edges. The engines of `cpms.engines` sum in float32 or float64, and so cannot reproduce that. `add.at` is slow, as it
adds one edge at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base import work_clock
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.experiment.config import Cell
from cpms.graph.graph import Graph
from cpms.precision.controllers import Level
from cpms.solvers.power import status_after
from cpms.sparse.transition_values import edge_values

_TYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
_ALL = Level(1, 1)


class NativeSums:
    """A cell's queries, solved by power iteration in the type of its storage alone.

    Parameters
    ----------
    graph : Graph
    cell : dict
        ``storage``, ``damping``, ``dangling`` (which must be ``uniform``), ``tol``, ``norm`` and ``max_iterations``.
    initial : ndarray of float64, shape (nodes,)
        The initial guess of each solve.

    Raises
    ------
    UnsupportedError
        If the storage is no native float, or dangling mass follows the teleport distribution.

    Examples
    --------
    >>> cell = {"storage": "fp16", "damping": 0.85, "dangling": "uniform", "tol": 1e-3, "norm": "l1"}
    >>> solver = NativeSums(Graph.from_edges([0, 1], [1, 0]), {**cell, "max_iterations": 50}, np.full(2, 0.5))
    >>> solver.set_teleport(Query(np.array([0]), np.ones(1)))
    >>> solver.solve()[0].round(2).tolist()
    [0.54, 0.46]
    """

    def __init__(self, graph: Graph, cell: Cell, initial: Floats) -> None:
        if cell["storage"] not in _TYPES:
            raise UnsupportedError(f"sums in the storage's type are of {', '.join(_TYPES)}, not {cell['storage']}")
        if cell["dangling"] != "uniform":
            raise UnsupportedError(
                "sums in the storage's type give dangling mass to all nodes; set dangling = 'uniform'"
            )
        began = work_clock.now()
        self._real: Any = _TYPES[cell["storage"]]
        self._damping: Any = self._real(cell["damping"])
        self._graph, self._initial = graph, initial
        self._stopping = Stopping(cell["tol"], cell["norm"], cell["max_iterations"])
        self._targets, self._values = graph.targets, edge_values(graph).astype(self._real)
        self._teleport = np.zeros(graph.nodes, self._real)
        self.prepare_s = work_clock.now() - began
        self.matrix_bytes = int(8 * graph.edges + self._values.nbytes)

    def set_teleport(self, query: Query) -> None:
        """Replace the teleport distribution."""
        self._teleport[:] = query.teleport(self._graph.nodes)

    def solve(self) -> tuple[Floats, Status, list[Step]]:
        """Return ranks, status and history."""
        x, bits = self._initial.astype(self._real), 8 * np.dtype(self._real).itemsize
        history: list[Step] = []
        l1: list[float] = []
        began, status = work_clock.now(), None
        while status is None:
            new = self._sweep(x)
            change = np.abs(new.astype(np.float64) - x)
            norms = {"l1": change.sum(), "l2": np.sqrt((change * change).sum()), "linf": change.max()}
            mass, spent = float(new.sum(dtype=np.float64)), work_clock.now() - began
            history.append(Step(len(history) + 1, float(norms[self._stopping.norm]), _ALL, bits, bits, mass, spent))
            l1.append(float(norms["l1"]))
            status, x = status_after(history, l1, self._stopping), new
        return x.astype(np.float64), status, history

    def _sweep(self, x: Any) -> Any:
        """Return d P x + d s / n + (1 - d) v, each operation rounded to the type."""
        sums = np.zeros(self._graph.nodes, self._real)
        np.add.at(sums, self._targets, self._values * x[self._graph.sources])
        dangling = x[self._graph.dangling_nodes].sum(dtype=self._real)
        # The type may not be able to represent the number of nodes.
        spread = self._real(float(self._damping) * float(dangling) / self._graph.nodes)
        return self._damping * sums + spread + (self._real(1) - self._damping) * self._teleport
