"""Power iteration in float64 in a persistent kernel: many sweeps a launch, see ``pagerank/persistent_power.cu``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.persistent import persistent_power
from cpms.backends.cuda.kernels.structs import POWER_REQUEST
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.persistent.device_graph import PersistentGraph
from cpms.backends.cuda.persistent.refinement import MAX_SWEEPS, NORMS, report_buffer, sweep_records
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.device_clock import seconds_since
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.base.types import Floats, Norm
from cpms.contracts.operator import Operator, Sweep, Sweeps
from cpms.formats.formats import FP64, Format
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem


@dataclass(frozen=True, eq=False)
class FusedOperator(Operator[Any]):
    """The 0/1 structure in device memory; vectors are contributions (x / out-degree) in float64."""

    problem: Problem
    graph: PersistentGraph
    report: Any
    storage: Format = FP64

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of edges and degrees."""
        return self.graph.nbytes

    def load(self, values: Floats) -> Any:
        """Upload the values as contributions."""
        return self.graph.contributions(values)

    def empty(self) -> Any:
        """Return a vector of zeros."""
        return current().arrays.zeros(vector_length(self.problem.graph.nodes), np.float64)

    def sweep(self, x: Any, out: Any, level: Level, step: int) -> Sweep:
        """Launch one sweep."""
        return self.sweeps(x, out, level, step, norm="l1", tol=0.0, most=1).found[0]

    def sweeps(self, x: Any, out: Any, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:  # noqa: ARG002
        """Launch many sweeps at once."""
        request = pack(POWER_REQUEST, tolerance=tol, norm=NORMS.index(norm), max_sweeps=min(most, MAX_SWEEPS))
        self.launch(request, x, out)
        launched_ns, (l1, squares, mass, _, linf, ended_ns) = sweep_records(current().fetch_async(self.report)())
        found = list(map(Sweep, l1, np.sqrt(squares).tolist(), linf, mass))
        return Sweeps(found, seconds_since(launched_ns, ended_ns))

    def launch(self, request: Struct, x: Any, out: Any, *more: Any) -> None:
        """Launch the kernel on two vectors."""
        self.graph.launch(self.kernel, (*self._given, request, x, out, *self.graph.barrier, self.report, *more))

    @cached_property
    def kernel(self) -> Variant:
        """The kernel that sweeps."""
        graph = self.graph
        return persistent_power(graph.edges.shape, personal=graph.personal, strategy=graph.strategy_data.strategy)

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        return self.graph.arguments(self.graph.strategy_data.strategy)

    def scale(self, x: Any, factor: float, segments: int) -> None:  # noqa: ARG002
        """Multiply the vector by a factor."""
        x *= factor

    def read(self, x: Any, segments: int) -> Floats:
        """Return the vector in main memory."""
        return current().to_host(self.read_device(x, segments))

    def read_device(self, x: Any, segments: int) -> Any:  # noqa: ARG002
        """Return the vector on the device."""
        return self.graph.values(x)


def operator(problem: Problem, graph: PersistentGraph) -> FusedOperator:
    """Return the operator of a problem whose graph is on the device, however that is arranged."""
    return FusedOperator(problem, graph, report_buffer())
