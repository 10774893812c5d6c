"""Engine ``mpi``: sweeps over the ranks of an MPI program; a program without ``mpiexec`` has one rank.

Every rank calls the same functions with the same graph; of graphs that are too large for that, each rank reads its own
rows with ``python -m cpms.mpi``.
"""

from __future__ import annotations

from typing import ClassVar

from cpms import engines
from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.shares import rows
from cpms.backends.mpi.sweeps import operator
from cpms.base.errors import InputError
from cpms.contracts.engine import Engine
from cpms.formats.formats import Format
from cpms.problems.pagerank import Problem

_NOT_LOCAL = ("mpi", "mpi_cuda", "cusparse_omega")
"""Engines that cannot multiply a rank's rows: engines of ranks, and one whose sweep has no separate product."""
LOCAL = tuple(name for name in engines.names() if name not in _NOT_LOCAL)
"""Engines by which ranks can multiply; ``cuda`` keeps vectors on devices and is prepared by `mpi_cuda`."""


def local_engine(name: str) -> Engine:
    """Return the engine by which ranks multiply.

    Raises
    ------
    InputError
        If the engine is not one of `LOCAL`.
    UnavailableError
        If this machine cannot run the engine.
    """
    if name not in LOCAL:
        raise InputError(f"ranks cannot multiply by engine {name!r}; they can by {', '.join(LOCAL)}")
    return engines.get(name)


class MpiEngine(Engine):
    """Message passing between ranks, each of which multiplies by another engine.

    Parameters
    ----------
    local : str
        That engine, one of `LOCAL`.
    """

    name = "mpi"
    layouts: ClassVar[tuple[str, ...]] = ("csr", "pattern")
    stores: tuple[str, ...] = ("fp64",)
    repeatable = True

    def __init__(self, local: str = "cpu") -> None:
        self.local = local

    def missing(self) -> str | None:
        """Return whether mpi4py or an MPI library is missing."""
        return world.missing()

    def prepare(self, problem: Problem, storage: Format, layout: str) -> operator.MpiOperator:
        """Keep this rank's rows."""
        self.require_supported(problem, storage, layout)
        communicator = world.world()
        share = rows.of_graph(problem.graph, communicator.rank, communicator.size)
        return operator.prepare(problem, share, layout, local_engine(self.local), communicator)


ENGINE = MpiEngine()
