"""Personalised PageRank of single queries, one solve after another on one prepared matrix.

This is the baseline of batches. Where an engine allows it, a new teleport distribution is written into the prepared
matrix, so that a query costs no preparation.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from cpms import engines
from cpms.backends.cuda.runtime.current import current
from cpms.base import work_clock
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.batch import Query
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.experiment.config import Cell
from cpms.formats.formats import format_named
from cpms.graph.graph import Graph
from cpms.precision.controllers import Fixed, default_controller
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration


class OneQuery:
    """A cell's engine, prepared once; its teleport distribution is replaced in place where the engine allows it.

    Parameters
    ----------
    graph : Graph
    cell : dict
        ``engine``, ``storage``, ``layout``, ``method``, ``damping``, ``dangling``, ``tol``, ``norm`` and
        ``max_iterations``.
    initial : ndarray of float64, shape (nodes,)
        The initial guess of each solve.
    """

    def __init__(self, graph: Graph, cell: Cell, initial: Floats) -> None:
        self._engine = engines.get(cell["engine"])
        self._cell, self._graph = cell, graph
        self._storage = format_named(cell["storage"])
        self._stopping = Stopping(cell["tol"], cell["norm"], cell["max_iterations"])
        began = work_clock.now()
        self._prepared: Any = self._prepare(self._problem(Query(np.zeros(1, np.int64), np.ones(1))))
        self._initial: Any = initial
        if self._engine.takes_device_arrays:
            self._initial = current().arrays.asarray(initial)
        self.prepare_s = work_clock.now() - began
        self.matrix_bytes = int(self._prepared.nbytes)

    def set_teleport(self, query: Query) -> None:
        """Replace the teleport distribution."""
        teleport = self._device_teleport()
        if teleport is not None:
            values, order = teleport
            nodes, weights = current().arrays.asarray(query.nodes), current().arrays.asarray(query.weights)
            values.fill(0.0)
            values[nodes] = weights
            if order is not None:
                values[:] = values[order]
        elif is_dataclass(self._prepared) and {field.name for field in fields(self._prepared)} >= {"problem"}:
            self._prepared = replace(self._prepared, problem=self._problem(query))  # type: ignore[type-var]
        elif not (
            isinstance(self._prepared, Refinement) and self._prepared.set_teleport(query.teleport(self._graph.nodes))
        ):
            self._prepared = self._prepare(self._problem(query))

    def solve(self) -> tuple[Any, Status, list[Step]]:
        """Return ranks, in the engine's memory, status and history."""
        if self._cell["method"] == "refine":
            policy = default_policy(self._storage)
            return outer_iteration(self._prepared, self._initial, policy, self._stopping, answer=_x_of)
        # A packed float is not widened, since the experiment measures what it loses.
        rule = default_controller(self._storage) if self._storage.exact else Fixed()
        return power(self._prepared, self._initial, rule, self._stopping, answer=_read)

    def _problem(self, query: Query) -> Problem:
        return Problem(self._graph, self._cell["damping"], query.teleport(self._graph.nodes), self._cell["dangling"])

    def _prepare(self, problem: Problem) -> Any:
        if self._cell["method"] not in self._engine.methods:
            raise UnsupportedError(f"engine {self._engine.name} has no method {self._cell['method']!r}")
        if self._cell["method"] == "refine":
            return self._engine.refinement(problem)
        self._engine.require_supported(problem, self._storage, self._cell["layout"])
        return self._engine.prepare(problem, self._storage, self._cell["layout"])

    def _device_teleport(self) -> tuple[Any, Any | None] | None:
        """Return the teleport distribution in device memory, and the node at each position where nodes are reordered.

        There may be no such vector: the result is then None.
        """
        if self._cell["dangling"] != "uniform" or not self._engine.takes_device_arrays:
            return None
        holder = self._prepared
        for part in ("work", "graph"):
            holder = getattr(holder, part, holder)
        teleport = getattr(holder, "teleport", None)
        return None if teleport is None else (teleport, getattr(holder, "order", None))


def _read(operator: Operator[Any], x: Any, segments: int) -> Any:
    there = operator.read_device(x, segments)
    return operator.read(x, segments) if there is None else there


def _x_of(refinement: Any) -> Any:
    there = refinement.read_device()
    return refinement.read() if there is None else there
