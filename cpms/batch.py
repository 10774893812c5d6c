"""Personalised PageRank of many queries that share every read of the matrix; each is certified by itself."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpms import engines
from cpms.certify import Referee
from cpms.engine import DanglingRule, Floats, Norm, Problem, Sweep
from cpms.errors import InputError, UnsupportedError
from cpms.graph import Graph
from cpms.main_memory import in_main_memory
from cpms.precision import FLOAT64
from cpms.result import Result, Status, Step
from cpms.start import first_iterate
from cpms.stopping import Stopping
from cpms.teleport import teleport_distribution

Personalization = int | str | Sequence[int | str] | Mapping[int | str, float]


@dataclass(frozen=True, eq=False)
class Query:
    """A teleport distribution as its nodes and their weights, of sum 1."""

    nodes: npt.NDArray[np.int64]
    weights: Floats


class Batch(ABC):
    """A problem prepared for queries that are swept together; it holds their iterates."""

    nbytes: int

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same ``first`` iterate, shape (nodes,)."""

    @abstractmethod
    def sweep(self) -> list[Sweep]:
        """Sweep all queries once; return what was found of each."""

    @abstractmethod
    def take(self, places: list[int]) -> list[Floats]:
        """Return the ranks of the queries at these places; the others close up in their order."""


def personalized_pagerank(
    graph: Graph,
    queries: Sequence[Personalization],
    *,
    damping: float = 0.85,
    tol: float = 1e-10,
    norm: Norm = "l1",
    max_iterations: int = 1000,
    dangling: DanglingRule = "teleport",
    start: Floats | None = None,
    engine: str = "auto",
    width: int = 16,
) -> list[Result]:
    """Compute one personalised PageRank a query, ``width`` of them at a time.

    Parameters
    ----------
    graph : Graph
        Without weights.
    queries : sequence
        Each a node id, a list of node ids, or a mapping of node id to weight: where its teleport goes.
    damping, tol, norm, max_iterations, dangling
        As in `cpms.pagerank`.
    start : ndarray of float64, shape (nodes,), optional
        First iterate of every query, of sum 1; uniform by default. See `penalised_start`.
    engine : str
        An engine that takes batches, or ``auto``.
    width : int
        Queries that share a sweep. More save reads of the matrix, and need 16 bytes a node each.

    Returns
    -------
    list of Result
        In the order of the queries; ``solve_s`` is the time from the start of a query's batch to its end.

    Raises
    ------
    InputError
        If a query names a node twice or one that does not exist; its place is said.
    UnsupportedError
        If the engine takes no batches, or the graph has weights.

    Examples
    --------
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> [result.top(1)[0][0] for result in personalized_pagerank(graph, [0, [1, 2], {3: 1.0}])]
    [0, 2, 0]
    """
    stopping = Stopping(tol, norm, max_iterations)
    if width < 1:
        raise InputError(f"width is {width}; it must be 1 or more")
    if graph.weights is not None:
        raise UnsupportedError(
            f"batches store no values, but {graph.name} has weights; use cpms.pagerank, or ignore them"
        )
    distributions = [_distribution(graph, query, place) for place, query in enumerate(queries)]
    first = first_iterate(graph, in_main_memory(start))
    executor = engines.get("cpu" if engine == "auto" else engine)
    began = time.perf_counter()
    batch = executor.batch(Problem(graph, damping, None, dangling))
    prepare_s = time.perf_counter() - began
    results: list[Result] = []
    for begin in range(0, len(distributions), width):
        chosen = distributions[begin : begin + width]
        solved = solve(batch, [Query(*_sparse(values)) for values in chosen], first, stopping)
        for values, (ranks, status, history) in zip(chosen, solved, strict=True):
            referee = Referee(Problem(graph, damping, values, dangling), stopping)
            checked, residual_l1 = referee.verdict(ranks, status)
            results.append(
                Result(
                    graph=graph,
                    ranks=ranks,
                    status=checked,
                    history=tuple(history),
                    method="power",
                    storage="fp64",
                    layout="pattern",
                    engine=executor.name,
                    damping=damping,
                    tol=tol,
                    norm=norm,
                    residual_l1=residual_l1,
                    mass=float(ranks.sum()),
                    prepare_s=prepare_s,
                    solve_s=history[-1].seconds,
                    matrix_bytes=batch.nbytes,
                )
            )
    return results


def solve(
    batch: Batch, queries: list[Query], first: Floats, stopping: Stopping
) -> list[tuple[Floats, Status, list[Step]]]:
    """Iterate all queries from ``first``, each until its own change is small; a query that is done leaves."""
    batch.start(queries, first)
    began = time.perf_counter()
    histories: list[list[Step]] = [[] for _ in queries]
    answers: dict[int, tuple[Floats, Status]] = {}
    active = list(range(len(queries)))
    while active:
        found = batch.sweep()
        seconds = time.perf_counter() - began
        ended: list[tuple[int, Status]] = []
        for place, (query, sweep) in enumerate(zip(active, found, strict=True)):
            history = histories[query]
            history.append(Step(len(history) + 1, sweep.of(stopping.norm), FLOAT64, 64, 64, sweep.mass, seconds))
            if len(history) >= 2 and history[-1].residual < stopping.tol:
                ended.append((place, Status.CONVERGED))
            elif len(history) >= stopping.max_iterations:
                ended.append((place, Status.MAX_ITERATIONS))
        taken = batch.take([place for place, _ in ended]) if ended else []
        for (place, status), ranks in zip(ended, taken, strict=True):
            answers[active[place]] = ranks, status
        gone = {place for place, _ in ended}
        active = [query for place, query in enumerate(active) if place not in gone]
    return [(*answers[query], histories[query]) for query in range(len(queries))]


def penalised_start(graph: Graph, penalty: float = 0.1) -> Floats:
    """Return a first iterate that gives nodes without in-edges a smaller share of the mass.

    They weigh ``penalty``, all others 1 - ``penalty``; equation 3 of Belotti and Izzo,
    "Personalized Page Rank GPU acceleration", who take 0.1.

    Raises
    ------
    InputError
        If the penalty does not lie strictly between 0 and 1.

    Examples
    --------
    >>> penalised_start(Graph.from_edges([0], [1]), 0.25).tolist()
    [0.25, 0.75]
    """
    if not 0.0 < penalty < 1.0:
        raise InputError(f"penalty is {penalty}; it must lie strictly between 0 and 1")
    weights = np.where(graph.in_degree > 0, 1.0 - penalty, penalty)
    first: Floats = weights / weights.sum()
    return first


def _distribution(graph: Graph, query: Personalization, place: int) -> Floats:
    try:
        return teleport_distribution(graph, [query] if isinstance(query, int | str | np.integer) else query)
    except InputError as error:
        raise InputError(f"query {place}: {error}") from None


def _sparse(values: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    nodes = np.flatnonzero(values)
    return nodes, values[nodes]
