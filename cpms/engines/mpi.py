"""Sweeps over the ranks of an MPI program; one rank, where the program was not started by ``mpiexec``.

Every rank calls the same functions with the same graph; of graphs that are too large for that, each
rank reads its own share with ``python -m cpms.mpi``.
"""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.shares import rows
from cpms.backends.mpi.sweeps import operator
from cpms.base.errors import UnsupportedError
from cpms.contracts.engine import Engine
from cpms.formats.formats import Format
from cpms.problems.pagerank import Problem


class MpiEngine(Engine):
    """Message passing between ranks, each of which multiplies by another engine.

    Parameters
    ----------
    local : str
        That engine, one of `cpms.backends.mpi.sweeps.local_product.LOCAL`.
    """

    name: ClassVar[str] = "mpi"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "pattern")
    repeatable: ClassVar[bool] = True

    def __init__(self, local: str = "cpu") -> None:
        self.local = local

    def missing(self) -> str | None:
        """Return whether mpi4py or an MPI library is missing."""
        return world.missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: only float64 can be stored."""
        if storage.segments > 1 or not storage.exact:
            return f"engine mpi stores float64 alone, not {storage.name}; use cpu"
        return super().unsupported(problem, storage, layout)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> operator.MpiOperator:
        """Keep this rank's rows."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
        communicator = world.world()
        share = rows.of_graph(problem.graph, communicator.rank, communicator.size)
        return operator.prepare(problem, share, layout, self.local, communicator)


ENGINE = MpiEngine()
