"""What engines on one GPU share: graphs held on the device, certificates computed there, preparation for few solves."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import ClassVar, Self

from cpms.backends.cuda.certificate.recomputation import DeviceRecomputation
from cpms.backends.cuda.graphs.device_graph import DeviceGraph
from cpms.backends.cuda.runtime.compile import missing
from cpms.contracts.engine import MANY_SOLVES, Engine
from cpms.contracts.recomputation import Recomputation
from cpms.problems.pagerank import Problem


class DeviceEngine(Engine):
    """An engine that computes on CuPy's current device and leaves answers there."""

    takes_device_arrays: ClassVar[bool] = True
    solves: int = MANY_SOLVES
    """Number of solves that preparation is for."""

    def missing(self) -> str | None:
        """Return which requirement is missing: CuPy or a device."""
        return missing()

    def for_solves(self, solves: int) -> Self:
        """Return the engine that prepares for so many solves."""
        made = copy(self)
        made.solves = solves
        return made

    def held(self, problem: Problem) -> Problem:
        """Return the problem with its graph on the device; weighted graphs stay in main memory."""
        return problem if problem.graph.weights is not None else replace(problem, graph=DeviceGraph.of(problem.graph))

    def recomputation(self, problem: Problem) -> Recomputation | None:
        """Return what recomputes residuals on the device, for graphs that are held there."""
        graph = problem.graph
        return DeviceRecomputation(problem, *graph.device_arrays) if isinstance(graph, DeviceGraph) else None
