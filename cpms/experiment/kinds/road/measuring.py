"""The whole road: the time from edges, or from a graph, to certified float64 ranks, by every way of calling cpms.

Before the clock starts, edges are int32 in pageable main memory, permuted by ``default_rng(0)``. Allocation, staging
and copies are timed, with memory pools that the warm-up filled. The ways of all solvers alternate, so that a drift of
the machine affects all alike. Ways through device memory are timed only if the engine computes there. Their certificate
copies its residual to the host, so that the clock stops after the work. Compilation is not timed; see
`cpms.base.work_clock`.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cpms.api import pagerank
from cpms.api.prepared import PageRank
from cpms.api.result import Result
from cpms.base import work_clock
from cpms.base.errors import UnsupportedError
from cpms.certify import residual
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import EngineName
from cpms.experiment.graph_cache import OnGraphs
from cpms.experiment.graph_files import GraphSource
from cpms.experiment.rows.outcome import FAILURES, failure
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem
from cpms.storage.device import device_graphs, to_device

_STAGES = ("prepare", "solve", "certify")
_OLD = "old_road"
Way = Callable[[], Result]
Ends = npt.NDArray[np.int32]


class Solver(Strict):
    """A method and the engine that runs it."""

    method: pagerank.Method
    engine: EngineName


class Config(Repeated):
    """The fields of such an experiment.

    A way is a call that returns ranks: from edges or from a graph, in main or device memory, prepared before or not.
    ``warmup`` unmeasured rounds are followed by ``rounds`` measured ones, in each of which all solvers take all ways
    once. Two further times are measured in the first ``old_rounds`` alone, after one unmeasured round: the old road,
    which builds the graph and certifies on processors, and the building of the graph on processors. ``solves`` is the
    argument of `cpms.PageRank` for prepared solves. With ``changed``, an update exchanges that share of the edges for
    others, and the next round exchanges them back.
    """

    graphs: list[GraphSource] = Field(min_length=1)
    solvers: list[Solver] = Field(min_length=1)
    tol: float = Field(default=1e-10, gt=0)
    rounds: int = Field(default=7, ge=1)
    old_rounds: int = Field(default=3, ge=1)
    warmup: int = Field(default=2, ge=1)
    solves: int = Field(default=1000, ge=1)
    changed: float | None = Field(default=None, gt=0, le=0.5)

    def cells(self) -> list[Cell]:
        """Return one cell a graph; its solvers take turns."""
        fixed = self.model_dump(
            include={"tol", "rounds", "old_rounds", "warmup", "solves", "changed"}, exclude_none=True
        )
        return self.cells_by_graph(self.graphs, solvers=[given.model_dump() for given in self.solvers], **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time all ways of all solvers, and compare their answers with the processors'."""
        graph = self.graph_of(cell)
        edges = permuted_edges(graph)
        built, built_s = _timed_builds(edges, cell["old_rounds"])
        solvers = [_Ways(edges, built, given, cell) for given in cell["solvers"]]
        for turn in range(-cell["warmup"], cell["rounds"]):
            for solver in solvers:
                solver.take(turn)
        there = pagerank.pagerank(built, method="refine", engine="cpu", tol=cell["tol"])
        return {
            "graph_name": graph.name,
            "stand_in_for": graph.stand_in_for,
            "nodes": built.nodes,
            "edges": built.edges,
            "dangling": len(built.dangling_nodes),
            "built_samples_s": built_s,
            "built_s": statistics.median(built_s),
            "results": [solver.columns(there) for solver in solvers],
        }


def permuted_edges(graph: Graph) -> tuple[Ends, Ends]:
    """Return sources and targets of a graph's edges in random order, in pageable main memory; shape (edges,) each.

    Raises
    ------
    UnsupportedError
        If the graph has weights, which a pair of arrays does not hold.

    Examples
    --------
    >>> sources, targets = permuted_edges(Graph.from_edges([0, 1, 2], [1, 2, 0]))
    >>> sorted(zip(sources.tolist(), targets.tolist())), sources.dtype
    ([(0, 1), (1, 2), (2, 0)], dtype('int32'))
    """
    if graph.weights is not None:
        raise UnsupportedError(f"{graph.name} has weights, which a pair of arrays of ends lacks; give another graph")
    order = np.random.default_rng(0).permutation(graph.edges)
    sources, targets = (np.asarray(ends, np.int32)[order] for ends in (graph.sources, graph.targets))
    return sources, targets


def _timed_builds(edges: tuple[Any, Any], rounds: int) -> tuple[Graph, list[float]]:
    """Return the graph as processors build it, and the seconds of each building after the first."""
    samples = []
    for _ in range(1 + rounds):
        began = work_clock.now()
        built = Graph.from_edges(*edges)
        samples.append(work_clock.now() - began)
    return built, samples[1:]


class _Exchange:
    """Edges to add and to remove: a share of all edges, and equally many with random ends of those of all edges."""

    def __init__(self, edges: tuple[Ends, Ends], share: float) -> None:
        count = max(1, round(share * len(edges[0]))) if len(edges[0]) else 0
        random = np.random.default_rng(1)
        drawn = [ends[random.integers(0, len(ends), count)] for ends in edges] if count else list(edges)
        stored = [ends[:count] for ends in edges]
        self.forth, self.back = (drawn, stored), (stored, drawn)


class _Ways:
    """The ways of one solver, and their samples in seconds; ``_failed`` is its outcome if one of them failed."""

    def __init__(self, edges: tuple[Any, Any], built: Graph, given: dict[str, Any], cell: Cell) -> None:
        self._given, self._edges, self._graph, self._cell = given, edges, built, cell
        self._solving = {**given, "tol": cell["tol"]}
        self._samples: dict[str, list[float]] = defaultdict(list)
        self._failed: dict[str, str] = {}
        self._last: Result | None = None
        self._updated: Result | None = None
        self._ways: dict[str, Way] = {}
        self._prepared: list[PageRank] = []
        try:
            self._ways = self._possible()
        except FAILURES as error:
            self._failed = failure(error)

    def take(self, turn: int) -> None:
        """Take every way once; turns before 0 are not recorded."""
        for name, way in self._ways.items():
            if self._failed or (name == _OLD and not -1 <= turn < self._cell["old_rounds"]):
                continue
            try:
                began = work_clock.now()
                found = way()
                taken_s = work_clock.now() - began
            except FAILURES as error:
                self._failed = failure(error)
                return
            if turn >= 0:
                self._record(name, taken_s, found)

    def columns(self, there: Result) -> dict[str, Any]:
        """Return the columns of a result; ``there`` is the answer of the processors."""
        if self._failed or self._last is None:
            return {**self._given, **self._failed}
        for prepared in self._prepared:
            prepared.close()
        last = self._last
        return {
            **self._given,
            "status": "ok",
            "storage": last.storage,
            "solver_status": last.status.name.lower(),
            "iterations_by_bits": {str(bits): count for bits, count in last.iterations_by_bits.items()},
            **({"update_iterations": self._updated.iterations} if self._updated else {}),
            "residual_l1": last.residual_l1,
            "residual_on_processors_l1": residual.residual(Problem(self._graph), last.ranks),
            "difference_from_processors_l1": float(np.abs(last.ranks - there.ranks).sum()),
            "difference_bound": last.error_bound + there.error_bound,
            **{f"{name}_samples_s": samples for name, samples in self._samples.items()},
            **{f"{name}_s": statistics.median(samples) for name, samples in self._samples.items()},
        }

    def _record(self, name: str, taken_s: float, found: Result) -> None:
        self._samples[name].append(taken_s)
        for stage in _STAGES:
            self._samples[f"{name}_{stage}"].append(getattr(found, f"{stage}_s"))
        if name == "road":
            self._last = found
        elif name == "update":
            self._updated = found

    def _possible(self) -> dict[str, Way]:
        """Return the ways by name; those through device memory only if the engine computes there."""
        first = self._call()
        prepared, share = self._prepare(self._graph), self._cell.get("changed")
        exchange = None if share is None else _Exchange(self._edges, share)
        ways = {
            "road": lambda: _home(pagerank.pagerank(self._edges, **self._solving)),
            _OLD: lambda: _home(pagerank.pagerank(Graph.from_edges(*self._edges), certify="host", **self._solving)),
            "call": self._call,
            "prepared": lambda: _home(prepared.solve(tol=self._cell["tol"])),
        }
        if exchange is not None:
            ways["update"] = self._updates(self._graph, exchange, _home)
        if first.device_ranks is None:
            return ways
        there = tuple(map(to_device, self._edges))
        graph = device_graphs().DeviceGraph.from_edges(*there)
        prepared_there = self._prepare(graph)
        ways["device_road"] = lambda: pagerank.pagerank(there, **self._solving)
        ways["device_prepared"] = lambda: prepared_there.solve(tol=self._cell["tol"])
        if exchange is not None:
            ways["device_update"] = self._updates(graph, exchange, lambda result: result)
        return ways

    def _updates(self, graph: Graph, exchange: _Exchange, finish: Callable[[Result], Result]) -> Way:
        """Return the way that exchanges edges of a graph which was solved once, and solves again."""
        prepared = self._kept(PageRank(graph, **self._given))
        prepared.solve(tol=self._cell["tol"])
        turns = itertools.cycle((exchange.forth, exchange.back))
        return lambda: finish(prepared.update(*next(turns), tol=self._cell["tol"]))

    def _prepare(self, graph: Graph) -> PageRank:
        return self._kept(PageRank(graph, solves=self._cell["solves"], **self._given))

    def _kept(self, prepared: PageRank) -> PageRank:
        self._prepared.append(prepared)
        return prepared

    def _call(self) -> Result:
        return _home(pagerank.pagerank(self._graph, **self._solving))


def _home(result: Result) -> Result:
    """Copy the ranks of a result to main memory, which their first use does, and return the result."""
    result.ranks  # noqa: B018
    return result
