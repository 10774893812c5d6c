"""Whole solves, contestants in turn round by round, certified once."""

from __future__ import annotations

import itertools
import statistics
from importlib import import_module
from operator import methodcaller
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from cpms import engines, ranking
from cpms.engine import Operator, Problem, Refinement
from cpms.errors import UnavailableError, UnsupportedError
from cpms.experiment.config import Cell, Experiment
from cpms.experiment.last_graph import LastGraph
from cpms.format import FP64, Format, format_named
from cpms.power import power
from cpms.precision import WriteAhead, default_controller
from cpms.refine import default_policy, refine
from cpms.result import Step
from cpms.stopping import Stopping


class Contestant(BaseModel):
    """An engine, a storage format and a method; ``write_ahead`` writes so many segments more than are read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    engine: str
    storage: str = "fp64"
    layout: str | None = None
    write_ahead: int = Field(default=0, ge=0)
    method: Literal["power", "refine"] = "power"

    def parameters(self) -> dict[str, Any]:
        """Return what a cell holds; the first method goes without saying, so that older cells keep their names."""
        return self.model_dump(exclude={"method"} if self.method == "power" else None)


class Config(Experiment):
    """What such an experiment may set."""

    graphs: list[str] = Field(min_length=1)
    layouts: list[str] = ["csr"]
    contestants: list[Contestant] = Field(min_length=2)
    tolerances: list[Annotated[float, Field(gt=0)]] = [1e-10]
    rounds: int = Field(default=5, ge=1)
    certify: bool = True

    def cells(self) -> list[Cell]:
        """Return one cell a graph, layout and tolerance."""
        return [
            {
                "graph": graph,
                "layout": layout,
                "tol": tol,
                "rounds": self.rounds,
                "certify": self.certify,
                "contestants": [contestant.parameters() for contestant in self.contestants],
                "repetition": repetition,
            }
            for graph in self.graphs
            for repetition in range(self.repetitions)
            for layout, tol in itertools.product(self.layouts, self.tolerances)
        ]


class Context:
    """Holds the graph of the cells at hand."""

    def __init__(self, config: Config) -> None:
        del config
        self._graph = LastGraph()

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve round by round; the first round warms up and certifies."""
        graph = self._graph.load(cell["graph"])
        solver = _Solver(Problem(graph), cell)
        columns = [_first_round(solver, given, cell) for given in cell["contestants"]]
        for _ in range(cell["rounds"]):
            for given, column in zip(cell["contestants"], columns, strict=True):
                if column["status"] == "ok":
                    _, _, history, solve_s = solver.solve(given, leave=True)
                    column["solve_samples_s"].append(solve_s)
                    column["step_samples_s"].append([step.seconds for step in history])
        for column in columns:
            if column["status"] == "ok":
                column["solve_s"] = statistics.median(column["solve_samples_s"])
                column["step_s"] = np.median(column.pop("step_samples_s"), axis=0).tolist()
        return {
            "graph_name": graph.name,
            "stand_in_for": graph.stand_in_for,
            "nodes": graph.nodes,
            "edges": graph.edges,
            "results": columns,
        }


class _Solver:
    """Solves a cell's problem; operators in float64, which a solve leaves as they were, are prepared once."""

    def __init__(self, problem: Problem, cell: Cell) -> None:
        self.problem = problem
        self._cell = cell
        self._kept: dict[tuple[str, str], Operator[Any]] = {}
        self._refinements: dict[str, Refinement] = {}
        self._firsts: dict[bool, Any] = {False: np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)}

    def solve(self, given: dict[str, Any], *, leave: bool = False) -> tuple[Any, Any, list[Step], float]:
        """Return ranks, status, history and the seconds of the solve alone; ranks may be left on their device."""
        if given.get("method") == "refine":
            return self._refined(given, leave=leave)
        storage = format_named(given["storage"])
        controller = default_controller(storage)
        if given["write_ahead"]:
            controller = WriteAhead(controller, given["write_ahead"])
        operator, stopping = self._operator(given, storage), Stopping(self._cell["tol"])
        options: dict[str, Any] = {"answer": _left_where_it_is} if leave else {}
        ranks, status, history = power(operator, self._first(given), controller, stopping, **options)
        # The history's times leave out bringing vectors to and from a device, which a caller may not need.
        return ranks, status, history, history[-1].seconds

    def _refined(self, given: dict[str, Any], *, leave: bool) -> tuple[Any, Any, list[Step], float]:
        if given["engine"] not in self._refinements:
            self._refinements[given["engine"]] = engines.get(given["engine"]).refinement(self.problem)
        policy, stopping = default_policy(format_named(given["storage"])), Stopping(self._cell["tol"])
        answer = methodcaller("read_device" if leave else "read")
        ranks, status, history = refine(
            self._refinements[given["engine"]], self._first(given), policy, stopping, answer=answer
        )
        return ranks, status, history, history[-1].seconds

    def _first(self, given: dict[str, Any]) -> Any:
        there = engines.get(given["engine"]).takes_device_arrays
        if there not in self._firsts:
            self._firsts[there] = import_module("cupy").asarray(self._firsts[False])
        return self._firsts[there]

    def _operator(self, given: dict[str, Any], storage: Format) -> Operator[Any]:
        key = given["engine"], given["layout"] or self._cell["layout"]
        if storage == FP64 and key in self._kept:
            return self._kept[key]
        operator = engines.get(key[0]).prepare(self.problem, storage, key[1])
        if storage == FP64:
            self._kept[key] = operator
        return operator


def _left_where_it_is(operator: Operator[Any], x: Any, segments: int) -> Any:
    """Return an answer that nobody reads."""
    return operator.read_device(x, segments)


def _first_round(solver: _Solver, given: dict[str, Any], cell: Cell) -> dict[str, Any]:
    try:
        ranks, status, history, _ = solver.solve(given)
    except (UnsupportedError, UnavailableError, MemoryError) as error:
        return {**given, "status": "unsupported", "reason": str(error) or "out of memory"}
    residual_l1 = ranking.residual(solver.problem, ranks / ranks.sum()) if cell["certify"] else None
    return {
        **given,
        "status": "ok",
        "solver_status": status.name.lower(),
        "iterations": len(history),
        "bits": [step.bits for step in history],
        "residual_l1": residual_l1,
        "solve_samples_s": [],
        "step_samples_s": [],
    }
