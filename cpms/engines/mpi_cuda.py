"""Engine ``mpi_cuda``: sweeps over the ranks of an MPI program, one GPU a rank; kernels or NCCL exchange vectors.

Every rank calls the same functions with the same graph, or with its own rows of it; of graphs that are too large for
one rank, each reads its own rows with ``python -m cpms.mpi GRAPH --local cuda``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from cpms.backends.cuda.runtime import compile as cuda
from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.exchange.transport import Transport, between
from cpms.backends.mpi.shares.rows import GraphRows, of_graph
from cpms.backends.mpi.sweeps import device_choice
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FP64, Format
from cpms.problems.pagerank import Problem


class MpiCudaEngine(Engine):
    """Message passing between GPUs."""

    name = "mpi_cuda"
    layouts: ClassVar[tuple[str, ...]] = ("pattern",)
    stores: tuple[str, ...] = ("fp64",)
    methods: tuple[str, ...] = ("power", "refine")
    repeatable = True

    def missing(self) -> str | None:
        """Return which requirement is missing: mpi4py, an MPI library, CuPy or a device."""
        return world.missing() or cuda.missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: power iteration is in float64 here."""
        if storage != FP64:
            return f"engine {self.name} iterates in fp64, not {storage.name}; use engine cuda, or method refine"
        return super().unsupported(problem, storage, layout)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> Operator[Any]:
        """Keep this rank's rows on its device."""
        self.require_supported(problem, storage, layout)
        return device_choice.power_operator(*_of_rank(problem))[0]

    def refinement(self, problem: Problem) -> Refinement:
        """Keep this rank's rows on its device."""
        return device_choice.refinement(*_of_rank(problem))[0]


def _of_rank(problem: Problem) -> tuple[Problem, GraphRows, Transport]:
    communicator, graph = world.world(), problem.graph
    rows = graph if isinstance(graph, GraphRows) else of_graph(graph, communicator.rank, communicator.size)
    return problem, rows, between(communicator)


ENGINE: Engine = MpiCudaEngine()
