"""Engine ``cuda_fused``: float64 power iteration in a persistent cooperative kernel, many sweeps a launch.

It is the float64 baseline that methods with fewer bits are compared with. A sweep is one read of the matrix and of the
iterate, and a grid barrier; the host is involved once a launch.
"""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.cuda.device_engine import DeviceEngine
from cpms.backends.cuda.kernels.template import CONTRIBUTIONS
from cpms.backends.cuda.persistent.device_graph import PersistentGraph, arrangement_for
from cpms.backends.cuda.persistent.power import FusedOperator, operator
from cpms.backends.cuda.persistent.refinement import needed_bytes, too_large
from cpms.backends.cuda.reduction.reduced_refinement import prepared
from cpms.backends.cuda.runtime.current import current
from cpms.contracts.engine import Engine
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FP64, Format
from cpms.problems.pagerank import Problem


class FusedEngine(DeviceEngine):
    """Persistent kernels, in the pattern layout."""

    name = "cuda_fused"
    layouts: ClassVar[tuple[str, ...]] = ("pattern",)
    stores: tuple[str, ...] = ("fp64",)
    methods: tuple[str, ...] = ("power", "refine")
    repeatable = True

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: power iteration is in float64 here, and memory is that of a device."""
        if storage != FP64:
            return f"engine {self.name} iterates in fp64, not {storage.name}; use engine cuda, or method refine"
        return super().unsupported(problem, storage, layout) or too_large(problem, self.name)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> FusedOperator:
        """Arrange the graph on the device."""
        self.require_supported(problem, storage, layout)
        with current().memory_for(problem.graph.name, needed_bytes(problem)):
            arrangement = arrangement_for(problem.graph.edges, self.solves)
            graph = PersistentGraph.of(problem, arrangement, value_bytes=8)
        prepared_operator = operator(problem, graph)
        current().compile([prepared_operator.kernel, *CONTRIBUTIONS])
        return prepared_operator

    def refinement(self, problem: Problem) -> Refinement:
        """Arrange the graph on the device."""
        return prepared(problem, self.name, self.solves)


ENGINE: Engine = FusedEngine()
