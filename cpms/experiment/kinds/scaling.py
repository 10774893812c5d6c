"""Strong scaling over MPI ranks of one machine, compared with the serial program.

Each number of ranks is a launch of ``mpiexec``. Launches alternate, and solves are timed within the ranks.
"""

from __future__ import annotations

import statistics
from typing import Annotated, Any

from pydantic import Field

from cpms.api import pagerank
from cpms.backends.mpi.shares.reading import OF_WHOLE
from cpms.experiment.config import Cell, Repeated
from cpms.experiment.config_types import LocalEngine
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, as_arguments, read_options
from cpms.graph.graph import Graph
from cpms.mpi import launch
from cpms.sources.dataset_records import DATASETS

Count = Annotated[int, Field(ge=1)]


class Config(Repeated):
    """The fields of such an experiment.

    In each of ``rounds`` every contestant is started anew and solves ``solves`` times. Ranks have
    ``threads_a_rank`` threads and multiply by each of the engines ``local``.
    """

    graphs: list[GraphSource] = Field(min_length=1)
    ranks: list[Count] = Field(min_length=1)
    local: list[LocalEngine] = ["serial", "cpu"]
    threads_a_rank: Count = 1
    rounds: Count = 3
    solves: Count = 3
    tol: float = Field(default=1e-10, gt=0)
    timeout_s: float = Field(default=600, gt=0)

    def cells(self) -> list[Cell]:
        """Return one cell for each graph; its contestants alternate."""
        fixed = self.model_dump(exclude={"graphs", *Repeated.model_fields})
        return self.cells_by_graph(self.graphs, **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time the serial program and each number of ranks."""
        launch.mpiexec()
        graph = self.graph_of(cell)
        contestants: list[_Contestant] = [_Serial(graph, cell)]
        contestants += [_Ranks(cell, local, ranks) for local in cell["local"] for ranks in cell["ranks"]]
        for _ in range(cell["rounds"]):
            for contestant in contestants:
                contestant.run()
        return {
            **graph_columns(graph),
            **launch.versions(),
            "results": [contestant.columns() for contestant in contestants],
        }


class _Contestant:
    """The columns and times of one contestant."""

    def __init__(self, **head: Any) -> None:
        self.head = head
        self.samples: list[float] = []

    def run(self) -> None:
        """Add samples of solve times."""
        raise NotImplementedError

    def columns(self) -> dict[str, Any]:
        """Return the columns of a row."""
        return {**self.head, "solve_s": statistics.median(self.samples), "solve_samples_s": self.samples}


class _Serial(_Contestant):
    def __init__(self, graph: Graph, cell: Cell) -> None:
        super().__init__(engine="serial", ranks=1)
        self._graph, self._cell = graph, cell
        pagerank.pagerank(graph, engine="serial", iterations=2)

    def run(self) -> None:
        for _ in range(self._cell["solves"]):
            result = pagerank.pagerank(self._graph, engine="serial", tol=self._cell["tol"])
            self.samples.append(result.solve_s)
        self.head |= {
            "iterations": result.iterations,
            "converged": result.converged,
            "residual_l1": result.residual_l1,
            "matrix_bytes_by_rank": [result.matrix_bytes],
        }


class _Ranks(_Contestant):
    def __init__(self, cell: Cell, local: str, ranks: int) -> None:
        super().__init__(engine="mpi", local=local, ranks=ranks)
        self._cell = cell
        self._waited: list[float] = []

    def run(self) -> None:
        # The first solve compiles and is not counted.
        options = {
            "--local": self.head["local"],
            "--threads": self._cell["threads_a_rank"],
            "--repeat": self._cell["solves"] + 1,
            "--tol": self._cell["tol"],
            "--top": 0,
        }
        texts = [str(text) for pair in options.items() for text in pair] + as_arguments(read_options(self._cell))
        whole = not set(OF_WHOLE).isdisjoint(read_options(self._cell))
        if whole or self._cell["graph"] in DATASETS:  # Ranks cannot read parts of archives.
            texts.append("--whole")
        found = launch.report(self.head["ranks"], self._cell["graph"], texts, timeout_s=self._cell["timeout_s"])
        self.samples += found["solve_samples_s"][1:]
        self._waited += found["waited_samples_s"][1:]
        recorded = ("iterations", "converged", "residual_l1", "edges_by_rank", "matrix_bytes_by_rank", "load_s")
        self.head |= {key: found[key] for key in recorded} | {"waited_s": statistics.median(self._waited)}
