"""Times of the stages of engine ``opencl``, by work-group size, number of cores and size of graph.

These are the experiments of Jiang's report: sums by edges with atomic additions against sums by rows, and the cost of
each part of a sweep. Other engines alternate with it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.backends.opencl import chosen, device
from cpms.backends.opencl.choice import Choice
from cpms.base import work_clock
from cpms.base.errors import UnavailableError, UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.operator import Operator
from cpms.engines.opencl import OpenclOperator, prepared
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import EngineName
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named
from cpms.formats.formats import FP64, format_named
from cpms.graph.graph import Graph
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem

_FULL = Level(1, 1)
Count = Annotated[int, Field(ge=1)]


class Run(Strict):
    """One graph, or the sub-graphs of its first nodes, and its contestants.

    Work-group size 0 means the driver's choice, and 0 cores means all. ``adds`` are functions of ``atomic_add.cl``; all
    but the first give wrong ranks, and measure the cost of atomic additions. ``devices``, as named by
    `cpms.backends.opencl.choice.Choice`, replace the experiment's one device, and alternate.
    """

    purpose: str
    graph: GraphSource
    nodes: list[Count] | None = None
    iterations: int = Field(default=10, ge=1)
    stages: list[Literal["coo", "coo_exchange", "pattern", "csr"]] = ["coo", "coo_exchange", "pattern"]
    storages: list[Literal["fp32", "fp64"]] = ["fp32"]
    work_groups: list[Annotated[int, Field(ge=0)]] = [64]
    cores: list[Annotated[int, Field(ge=0)]] = []
    adds: list[Literal["add_atomically", "add_plainly", "add_nothing"]] = ["add_atomically"]
    others: list[EngineName] = []
    devices: list[str] = []

    def parameters(self) -> dict[str, Any]:
        """Return the keys of a cell; a later one, ``devices``, is left out if empty, so that older cells keep names."""
        return {**named(self.graph), **self.model_dump(exclude={"graph", *(() if self.devices else ("devices",))})}


class Config(Repeated):
    """The fields of such an experiment."""

    runs: list[Run] = Field(min_length=1)
    samples: int = Field(default=7, ge=1)
    device: str | None = None

    def cells(self) -> list[Cell]:
        """Return one cell for each graph or sub-graph; its contestants alternate."""
        cells = []
        for given in self.runs:
            sizes: list[Cell] = [{"nodes": nodes} for nodes in given.nodes or ()] or [{"nodes": None}]
            cells += self.in_rounds([given.parameters()], sizes, samples=self.samples, device=self.device)
        return cells

    def resolved(self, cell: Cell) -> Cell:
        """Return a cell with its devices, an empty list if it names none."""
        return {"devices": [], **cell}


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time the iterations of all contestants in turn, then the parts of each alone."""
        graph = self.graph_of(cell)
        graph = first_nodes(graph, cell["nodes"]) if cell["nodes"] else graph
        problem = Problem(graph)
        contestants, refused = _contestants(problem, cell)
        right = _after(problem, cell["iterations"])
        for _ in range(cell["samples"]):
            for contestant in contestants:
                contestant.sample(cell["iterations"])
        root = _last_device(_devices(cell))
        return {
            **graph_columns(graph),
            "dangling": len(graph.dangling_nodes),
            "opencl_device": root.name,
            "opencl_platform": root.platform.version.strip(),
            "opencl_cores": root.max_compute_units,
            "version_pyopencl": metadata.version("pyopencl"),
            "results": [contestant.columns(right) for contestant in contestants],
            "refused": refused,
        }


def first_nodes(graph: Graph, nodes: int) -> Graph:
    """Return the sub-graph of the first nodes, as in the report.

    Examples
    --------
    >>> first_nodes(Graph.from_edges([0, 1, 2], [1, 2, 0]), 2).edges
    1
    """
    targets = graph.targets
    inside = (graph.sources < nodes) & (targets < nodes)
    return Graph.from_edges(graph.sources[inside], targets[inside], nodes=nodes, name=f"{graph.name}[:{nodes}]")


class _Contestant:
    """An operator that iterates from the uniform distribution."""

    def __init__(self, head: dict[str, Any], operator: Operator[Any], nodes: int) -> None:
        self.head, self.operator = head, operator
        self.samples: list[float] = []
        self.busy: list[float] = []
        self.first = self.ranks = np.full(nodes, 1.0 / nodes)

    def run(self, iterations: int) -> tuple[float, float, Floats]:
        """Return the seconds of the iterations alone, those of all cores together, and the ranks."""
        x, out = self.operator.load(self.first), self.operator.empty()
        began, busy = work_clock.now(), time.process_time()
        for step in range(iterations):
            self.operator.sweep(x, out, _FULL, step)
            x, out = out, x
        seconds, busy = work_clock.now() - began, time.process_time() - busy
        return seconds, busy, self.operator.read(x, 1)

    def sample(self, iterations: int) -> None:
        """Run once; the first run follows a warm-up."""
        if not self.samples:
            self.run(2)
        seconds, busy, self.ranks = self.run(iterations)
        self.samples.append(seconds)
        self.busy.append(busy / seconds)

    def columns(self, right: Floats) -> dict[str, Any]:
        """Return the columns of a row: times, number of busy cores, and distance from the ranks of engine scipy."""
        return {
            **self.head,
            "run_s": statistics.median(self.samples),
            "run_samples_s": self.samples,
            "busy_cores": statistics.median(self.busy),
            "error_l1": float(np.abs(self.ranks - right).sum()),
            **(self._parts() if isinstance(self.operator, OpenclOperator) else {}),
        }

    def _parts(self) -> dict[str, float]:
        """Return the seconds of each part of a sweep, and of copies of a vector."""
        operator: OpenclOperator = self.operator  # type: ignore[assignment]
        x, out = operator.load(self.first), operator.empty()
        host = operator.read(x, 1).astype(operator.program.types.real_dtype)
        other = host.copy()

        def through_host() -> None:
            operator.program.copy(x.values, host)
            operator.program.copy(host, out.values)

        parts: dict[str, Callable[[], object]] = {
            "begin": lambda: operator.begin(x, out),
            "add": lambda: operator.add(x, out),
            "norms": lambda: operator.measure(x, out),
            "copy_on_device": lambda: operator.program.copy(x.values, out.values),
            "copy_through_host": through_host,
            "copy_in_memory": lambda: np.copyto(other, host),
        }
        spent: dict[str, list[float]] = {name: [] for name in parts}
        for _ in range(11):
            for name, work in parts.items():
                began = work_clock.now()
                work()
                operator.program.queue.finish()
                spent[name].append(work_clock.now() - began)
        return {f"{name}_s": statistics.median(taken) for name, taken in spent.items()}


def _after(problem: Problem, iterations: int) -> Floats:
    """Return the ranks of engine scipy after the same number of iterations."""
    return _Contestant({}, engines.get("scipy").prepare(problem, FP64, "csr"), problem.graph.nodes).run(iterations)[2]


def _devices(cell: Cell) -> list[str | None]:
    return cell.get("devices") or [cell["device"]]


def _last_device(names: list[str | None]) -> Any:
    """Return the last of the named devices that this machine has; raise as for that device if it has none."""
    here = [name for name in names if device.missing(Choice(name)) is None]
    return device.device(Choice((here or names)[-1]))


def _contestants(problem: Problem, cell: Cell) -> tuple[list[_Contestant], dict[str, str]]:
    found: list[_Contestant] = []
    refused: dict[str, str] = {}
    for stage, storage, size, name, cores, add in itertools.product(
        cell["stages"], cell["storages"], cell["work_groups"], _devices(cell), cell["cores"] or [0], cell["adds"]
    ):
        if add != "add_atomically" and not stage.startswith("coo"):
            continue
        head: dict[str, Any] = {
            "engine": "opencl",
            "layout": stage,
            "storage": storage,
            "work_group": size,
            "cores": cores,
            "add": add,
        }
        choice = Choice(name, size or None, cores or None)
        try:
            with chosen(choice):
                engines.get("opencl").require_supported(problem, format_named(storage), stage)
                made = prepared(problem, format_named(storage), stage, device.device(choice), choice.work_group, add)
        except (UnavailableError, UnsupportedError) as error:
            refused[str({"device": name, **head})] = str(error)
            continue
        head |= {"cores": made.program.device.max_compute_units, "device": made.program.device.name.strip()}
        found.append(_Contestant(head, made, problem.graph.nodes))
    for name in cell["others"]:
        try:
            engine = engines.get(name)
            layout = "pattern" if "pattern" in engine.layouts else "csr"
            operator = engine.prepare(problem, FP64, layout)
        except (UnavailableError, UnsupportedError) as error:
            refused[name] = str(error)
            continue
        head = {"engine": name, "layout": layout, "storage": "fp64"}
        found.append(_Contestant(head, operator, problem.graph.nodes))
    return found, refused
