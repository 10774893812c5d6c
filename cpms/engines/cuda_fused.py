"""Engine ``cuda_fused``: float64 power iteration in a persistent cooperative kernel, many sweeps a launch.

It is the float64 baseline that methods with fewer bits are compared with. A sweep is one read of the matrix and of the
iterate, and a grid barrier; the host is involved once a launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.device_engine import DeviceEngine
from cpms.backends.cuda.kernels.persistent import persistent_power
from cpms.backends.cuda.kernels.structs import POWER_REQUEST
from cpms.backends.cuda.kernels.template import CONTRIBUTIONS, Variant
from cpms.backends.cuda.persistent.device_graph import PersistentGraph, arrangement_for
from cpms.backends.cuda.persistent.refinement import NORMS, needed_bytes, too_large
from cpms.backends.cuda.reduction.reduced_refinement import prepared
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.device_clock import seconds_since
from cpms.backends.cuda.runtime.structs import pack
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats, Norm
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep, Sweeps
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem

_EACH = 5
_MOST = 512
"""Sweeps in a launch."""


@dataclass(frozen=True, eq=False)
class FusedOperator(Operator[Any]):
    """The 0/1 structure in device memory; vectors are float64 shares."""

    problem: Problem
    graph: PersistentGraph
    report: Any
    storage: Format = FP64

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of edges and degrees."""
        return self.graph.nbytes

    def load(self, values: Floats) -> Any:
        """Upload the values as shares."""
        return self.graph.contributions(values)

    def empty(self) -> Any:
        """Return a vector of zeros."""
        return current().arrays.zeros(vector_length(self.problem.graph.nodes), np.float64)

    def sweep(self, x: Any, out: Any, level: Level, step: int) -> Sweep:
        """Launch one sweep."""
        return self.sweeps(x, out, level, step, norm="l1", tol=0.0, most=1).found[0]

    def sweeps(self, x: Any, out: Any, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:  # noqa: ARG002
        """Launch many sweeps at once."""
        request = pack(POWER_REQUEST, tolerance=tol, norm=NORMS.index(norm), max_sweeps=min(most, _MOST))
        self.graph.launch(self._kernel, (*self._given, request, x, out, *self.graph.barrier, self.report))
        numbers = current().fetch_async(self.report)()
        count, launched_ns = numbers[:2].tolist()
        rows = numbers[2:][: _EACH * int(count)].reshape(-1, _EACH)
        l1, squares, mass, linf, ended_ns = rows.T.tolist()
        found = list(map(Sweep, l1, np.sqrt(squares).tolist(), linf, mass))
        return Sweeps(found, seconds_since(launched_ns, ended_ns))

    @cached_property
    def _kernel(self) -> Variant:
        return _variant(self.graph)

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        return self.graph.arguments(self.graph.strategy_data.strategy)

    def scale(self, x: Any, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply the vector by a factor."""
        x *= factor

    def to_float64(self, x: Any, out: Any) -> tuple[FusedOperator, Any, Any]:
        """Return everything as it is."""
        return self, x, out

    def read(self, x: Any, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments))

    def read_device(self, x: Any, segments: int) -> Any:  # noqa: ARG002
        """Return the vector on the device."""
        return self.graph.values(x)


class FusedEngine(DeviceEngine):
    """Resident CUDA kernels, in the pattern layout."""

    name = "cuda_fused"
    layouts: ClassVar[tuple[str, ...]] = ("pattern",)
    methods: tuple[str, ...] = ("power", "refine")
    repeatable = True

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: power iteration is in float64 here, and memory is that of a device."""
        if storage != FP64:
            return f"engine {self.name} iterates in fp64, not {storage.name}; use engine cuda, or method refine"
        return super().unsupported(problem, storage, layout) or too_large(problem, self.name)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> FusedOperator:
        """Arrange the graph on the device."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
        with current().memory_for(problem.graph.name, needed_bytes(problem)):
            arrangement = arrangement_for(problem.graph.edges, self.solves)
            graph = PersistentGraph.of(problem, arrangement, value_bytes=8)
        current().compile([_variant(graph), *CONTRIBUTIONS])
        return operator(problem, graph)

    def refinement(self, problem: Problem) -> Refinement:
        """Arrange the graph on the device."""
        return prepared(problem, self.name, self.solves)


ENGINE: Engine = FusedEngine()


def _variant(graph: PersistentGraph) -> Variant:
    return persistent_power(graph.edges.shape, personal=graph.personal, strategy=graph.strategy_data.strategy)


def operator(problem: Problem, graph: PersistentGraph) -> FusedOperator:
    """Return the operator of a problem whose graph is on the device, however that is arranged."""
    return FusedOperator(problem, graph, current().arrays.zeros(2 + _EACH * _MOST))
