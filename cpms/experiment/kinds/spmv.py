"""Times of one sparse matrix-vector product on a GPU at each read level, as in the paper's Figure 4.

Engines, formats and levels alternate within a cell, together with the product of cuSPARSE in CSR. The copy bandwidth is
measured, too. With ``stages``, each kernel of a composed sweep is timed alone, and so is the whole sweep.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.backends.cuda.spmv.coo_operator import CooOperator
from cpms.base.errors import UnavailableError, UnsupportedError
from cpms.contracts.operator import Operator
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import EngineName, LayoutName, StorageName
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named
from cpms.experiment.memory_footprint import least_bytes_of_stage
from cpms.experiment.timers import Timer, Work, ceilings, in_turn, with_rate
from cpms.formats.formats import format_named
from cpms.problems.pagerank import Problem


class Contestant(Strict):
    """An engine with its storage format and layout."""

    engine: EngineName
    storage: StorageName
    layout: LayoutName


class Config(Repeated):
    """The fields of such an experiment.

    Contestants of ``also`` are part of every cell. Of ``stages``, engines whose sweep is not composed of kernels have
    the product alone.
    """

    graphs: list[GraphSource] = Field(min_length=1)
    layouts: list[LayoutName] = ["csr"]
    engines: list[EngineName] = ["cuda"]
    storages: list[StorageName] = ["fp64", "cpms2", "cpms4"]
    also: list[Contestant] = []
    samples: int = Field(default=11, ge=1)
    stages: list[Literal["product", "dangling", "update", "distance", "sweep"]] = []
    later: ClassVar[set[str]] = {"stages"}

    def cells(self) -> list[Cell]:
        """Return one cell for each graph and layout; its contestants alternate."""
        also = {"also": [contestant.model_dump() for contestant in self.also]} if self.also else {}
        fixed = self.model_dump(include={"engines", "storages", "samples"}) | also | self.given_later()
        return self.in_rounds(map(named, self.graphs), [{"layout": layout} for layout in self.layouts], **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells, and the rates of the device, measured once a run."""

    @cached_property
    def _ceilings(self) -> dict[str, float]:
        return ceilings()

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time every engine, format and read level of a cell in turn, with cuSPARSE in CSR."""
        engines.get("cusparse")
        rates = self._ceilings  # Measured before a graph takes memory.
        graph = self.graph_of(cell)
        contestants, timers, refused = _contestants(Problem(graph), cell)
        in_turn(timers, cell["samples"])
        return {
            **graph_columns(graph),
            "contestants": [
                with_rate({**contestant, **timer.columns()})
                for contestant, timer in zip(contestants, timers, strict=True)
            ],
            "refused": refused,
            **rates,
        }


def _contestants(problem: Problem, cell: Cell) -> tuple[list[dict[str, Any]], list[Timer], dict[str, str]]:
    found: list[dict[str, Any]] = []
    timers: list[Timer] = []
    refused: dict[str, str] = {}
    stages = cell.get("stages", [])
    products = [("cusparse", "fp64", "csr")]
    products += [(given["engine"], given["storage"], given["layout"]) for given in cell.get("also", [])]
    products += [(engine, storage, cell["layout"]) for engine in cell["engines"] for storage in cell["storages"]]
    for engine, name, layout in products:
        storage = format_named(name)
        try:
            operator = engines.get(engine).prepare(problem, storage, layout)
        except (UnsupportedError, UnavailableError) as error:
            refused[f"{engine} {name}"] = str(error)
            continue
        x, out = operator.load(np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)), operator.empty()
        for read in range(1, storage.segments + 1):
            for stage, work in _works(operator, x, out, read, stages).items():
                timers.append(Timer(work, same=True))
                found.append(
                    {
                        "engine": engine,
                        "storage": name,
                        "layout": layout,
                        **({"stage": stage} if stages else {}),
                        "read": read,
                        "bits": storage.bits(read),
                        "least_bytes": least_bytes_of_stage(problem.graph, storage, layout, read, stage),
                        **_algorithm(operator),
                    }
                )
    return found, timers, refused


def _works(operator: Operator[Any], x: Any, out: Any, read: int, stages: list[str]) -> dict[str, Work]:
    """Return the launches to be timed: the product, or the chosen stages of a sweep of several kernels.

    These stages find in memory what a sweep has left there.
    """
    if not stages or not isinstance(operator, CooOperator):
        return {"product": _product(operator, x, out, read)}
    operator.launch(x, out)
    return {stage: work for stage, work in operator.stages(x, out).items() if stage in stages}


def _product(operator: Operator[Any], x: Any, out: Any, read: int) -> Work:
    if hasattr(operator, "product"):
        return lambda: operator.product.multiply(x.dense, out.dense)
    return lambda: operator.multiply(x, out, read=read, write=read, step=0)  # type: ignore[attr-defined]


def _algorithm(operator: Operator[Any]) -> dict[str, str]:
    """Return the algorithm that a library chose."""
    plan = operator.product.plan if hasattr(operator, "product") else None
    return {} if plan is None else {"algorithm": plan.name}
