"""Whole solves on processors, of cpms and of other libraries, at the same verified error.

Stopping rules of libraries differ, so each contestant gets the loosest tolerance with which its ranks are within the
error of a float64 solution. Contestants then alternate. The clock starts at each contestant's own matrix, or at edges,
which are int32 in random order in main memory. From edges, each sample builds the contestant's matrix and solves; cpms
also certifies.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cpms.api import pagerank
from cpms.base import work_clock
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import StorageOrAuto, one_of
from cpms.experiment.external_solvers import PEERS, Variant
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource
from cpms.experiment.kinds.road.measuring import permuted_edges
from cpms.experiment.rows.outcome import FAILURES, failure
from cpms.graph.graph import Graph

_TOLERANCES = tuple(float(f"{digit}e{exponent}") for exponent in range(-9, -14, -1) for digit in (3, 1))
Edges = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Sources and targets."""
_OUT_OF_REACH = "does not reach an error of {} in L1"


class Ours(Strict):
    """A method and a storage format on engine ``cpu``."""

    method: pagerank.Method
    storage: StorageOrAuto = "auto"


class Config(Repeated):
    """The fields of such an experiment.

    ``error`` bounds the L1 distance from a solution at ``reference_tol``; each contestant gets the loosest tolerance
    within that bound. The clock starts at the contestant's own ``matrix``, or at ``edges``.
    """

    graphs: list[GraphSource] = Field(min_length=1)
    ours: list[Ours] = Field(min_length=1)
    peers: list[Annotated[str, one_of("peer", lambda: PEERS)]] = Field(default=list(PEERS))
    rounds: int = Field(default=5, ge=1)
    error: float = Field(default=1e-9, gt=0)
    reference_tol: float = Field(default=1e-14, gt=0)
    clock: Literal["matrix", "edges"] = "matrix"
    later: ClassVar[set[str]] = {"clock"}

    def cells(self) -> list[Cell]:
        """Return one cell for each graph; its contestants alternate."""
        fixed = self.model_dump(include={"peers", "rounds", "error", "reference_tol"}) | self.given_later()
        return self.cells_by_graph(self.graphs, ours=[given.model_dump() for given in self.ours], **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Tune every contestant, then time all of them in turn."""
        graph = self.graph_of(cell)
        exact = self.graph.exact(cell["reference_tol"])
        edges = permuted_edges(graph) if cell.get("clock") == "edges" else None
        contestants: list[_Contestant] = [_Ours(graph, edges, given, exact, cell["error"]) for given in cell["ours"]]
        contestants += [_Peer(graph, edges, name, exact, cell) for name in cell["peers"]]
        for _ in range(cell["rounds"]):
            for contestant in contestants:
                contestant.run(exact)
        return {
            **graph_columns(graph),
            "dangling": len(graph.dangling_nodes),
            "results": [contestant.columns() for contestant in contestants],
        }


class _Contestant:
    """The columns of one contestant; ``failed`` is its status and reason if it cannot take part.

    Its clock starts at ``edges``, or at its own matrix if these are None.
    """

    def __init__(self, name: str, edges: Edges | None) -> None:
        self.head: dict[str, Any] = {"name": name}
        self.edges = edges
        self.failed: dict[str, str] = {}
        self.samples: list[float] = []
        self.error = 0.0

    def solve(self) -> tuple[Floats, float]:
        """Return ranks and seconds."""
        raise NotImplementedError

    def from_edges(self, edges: Edges) -> Floats:
        """Build from edges, solve, and return ranks."""
        raise NotImplementedError

    def run(self, exact: Floats) -> None:
        """Solve once and record time and error."""
        if not self.failed:
            ranks, seconds = self.solve() if self.edges is None else self._timed_from(self.edges)
            self.samples.append(seconds)
            self.error = max(self.error, _distance(ranks, exact))

    def columns(self) -> dict[str, Any]:
        """Return the columns of a row."""
        if self.failed:
            return {**self.head, **self.failed}
        timed = "solve" if self.edges is None else "road"
        samples = {f"{timed}_s": statistics.median(self.samples), f"{timed}_samples_s": self.samples}
        return {**self.head, "status": "ok", **samples, "error_l1": self.error}

    def _timed_from(self, edges: Edges) -> tuple[Floats, float]:
        began = work_clock.now()
        ranks = self.from_edges(edges)
        return ranks, work_clock.now() - began


class _Ours(_Contestant):
    def __init__(self, graph: Graph, edges: Edges | None, given: dict[str, Any], exact: Floats, error: float) -> None:
        super().__init__(f"cpms {given['method']} {given['storage']}", edges)
        self._graph, self._given = graph, given
        try:
            found = _loosest(self._solve_to, _TOLERANCES, exact, error)
        except FAILURES as unable:
            self.failed = failure(unable)
            return
        if found is None:
            self.failed = failure(UnsupportedError(_OUT_OF_REACH.format(error)))
        else:
            self._tol, _ = found

    def solve(self) -> tuple[Floats, float]:
        return self._solve_to(self._tol)

    def from_edges(self, edges: Edges) -> Floats:
        graph = Graph.from_edges(*edges, nodes=self._graph.nodes)
        return pagerank.pagerank(graph, engine="cpu", tol=self._tol, **self._given).ranks

    def _solve_to(self, tol: float) -> tuple[Floats, float]:
        result = pagerank.pagerank(self._graph, engine="cpu", tol=tol, **self._given)
        self.head.update(
            build_s=result.prepare_s,
            tol=tol,
            iterations_by_bits={str(bits): count for bits, count in result.iterations_by_bits.items()},
            solver_status=result.status.name.lower(),
        )
        return result.ranks, result.solve_s


class _Peer(_Contestant):
    def __init__(self, graph: Graph, edges: Edges | None, name: str, exact: Floats, cell: Cell) -> None:
        super().__init__(name, edges)
        self._peer, self._nodes = PEERS[name], graph.nodes
        try:
            began = work_clock.now()
            self._built = self._peer.build(graph) if edges is None else self._peer.build_from_edges(*edges, graph.nodes)
            self.head["build_s"] = work_clock.now() - began
        except FAILURES as error:
            self.failed = failure(error)
            return
        if self._peer.version_of:
            self.head["version"] = metadata.version(self._peer.version_of)
        tuned = [found for variant in self._peer.variants if (found := self._tuned(variant, exact, cell["error"]))]
        if not tuned:
            self.failed = failure(UnsupportedError(_OUT_OF_REACH.format(cell["error"])))
            return
        _, self._variant, self._tol = min(tuned, key=lambda found: found[0])
        self.head.update(variant=self._variant, tol=self._tol)

    def _tuned(self, variant: Variant, exact: Floats, error: float) -> tuple[float, Variant, float] | None:
        """Return time, variant and tolerance of the loosest setting within the error."""

        def solve_to(tol: float) -> tuple[Floats, float]:
            return self._peer.solve(self._built, variant, tol)

        found = _loosest(solve_to, _TOLERANCES if self._peer.takes_tolerance else (0.0,), exact, error)
        if found is None:
            return None
        tol, seconds = found
        # The second solve excludes compilation and first touches of memory.
        return min(seconds, solve_to(tol)[1]), variant, tol

    def solve(self) -> tuple[Floats, float]:
        return self._peer.solve(self._built, self._variant, self._tol)

    def from_edges(self, edges: Edges) -> Floats:
        built = self._peer.build_from_edges(*edges, self._nodes)
        return self._peer.solve(built, self._variant, self._tol)[0]


def _loosest(
    solve_to: Callable[[float], tuple[Floats, float]], tolerances: tuple[float, ...], exact: Floats, error: float
) -> tuple[float, float] | None:
    """Return the first tolerance whose solution is within the error, and the seconds of the solve."""
    for tol in tolerances:
        ranks, seconds = solve_to(tol)
        if _distance(ranks, exact) <= error:
            return tol, seconds
    return None


def _distance(a: Floats, b: Floats) -> float:
    return float(np.abs(a - b).sum())
