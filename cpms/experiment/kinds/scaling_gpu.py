"""Strong and weak scaling over the GPUs of one machine, one GPU a rank, compared with the best engine on one GPU.

`cpms.mpi.scaling` measures all counts of ranks within one launch; this kind starts it and records its columns.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cpms.backends.cuda.runtime.compile import missing
from cpms.base.errors import UnavailableError
from cpms.experiment.config import Cell, Stateless, WarmedUp
from cpms.experiment.config_types import SharedGraphName, StorageName
from cpms.mpi import launch

Count = Annotated[int, Field(ge=1)]


class Config(WarmedUp):
    """The fields of such an experiment.

    Graphs of ``weak`` grow with the number of ranks, which ``RANKS`` in their names means; see
    `cpms.mpi.scaling.graph_for`. All counts of ``ranks`` for which there are enough devices are timed by the same
    processes. The first solve of each contestant is not recorded, and then contestants alternate.
    """

    strong: list[SharedGraphName] = []
    weak: list[SharedGraphName] = []
    ranks: list[Count] = Field(min_length=1)
    storage: StorageName = "fp16"
    solves: Count = 3
    tol: float = Field(default=1e-10, gt=0)
    timeout_s: float = Field(default=300, gt=0)

    def cells(self) -> list[Cell]:
        """Return one cell a graph."""
        fixed = self.model_dump(exclude={"strong", "weak", *WarmedUp.model_fields})
        graphs = [("weak", graph) for graph in self.weak] + [("strong", graph) for graph in self.strong]
        parts = [{"scaling": scaling, "graph": graph} for scaling, graph in graphs]
        return self.in_rounds([{}], parts, warmup=max(1, self.warmup), **fixed)


class Context(Stateless):
    """No state between cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time every count of ranks for which there are devices."""
        launch.mpiexec()
        count = _devices()
        ranks = sorted({ranks for ranks in cell["ranks"] if ranks <= count})
        if not ranks:
            raise UnavailableError(f"ranks {cell['ranks']} need as many devices; there are {count}")
        results = launch.answer(max(ranks), "cpms.mpi.scaling", {**cell, "ranks": ranks}, timeout_s=cell["timeout_s"])
        return {"devices": count, **launch.versions(), "nccl_version": _nccl_version(), "results": results}


def _devices() -> int:
    reason = missing()
    if reason:
        raise UnavailableError(f"GPUs of several ranks cannot be timed here: {reason}")
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def _nccl_version() -> int | None:
    from cpms.backends.mpi.exchange.transport import library

    nccl = library()
    return None if nccl is None else int(nccl.get_version())
