"""Personalised PageRank of many queries that share every read of the matrix; each is certified by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cpms import engines, work_clock
from cpms.certify_batch import BatchReferee
from cpms.engine import DanglingRule, Engine, Floats, Norm, Problem, Sweep
from cpms.errors import InputError, UnsupportedError
from cpms.format import FP64, Format
from cpms.gone_on import Answer, gone_on
from cpms.graph import Graph, require_graph
from cpms.main_memory import in_main_memory
from cpms.power import status_after
from cpms.precision import FLOAT64
from cpms.refine import Refining, default_policy, storage_planned
from cpms.result import Result, Status, Step
from cpms.scalars import described, is_iterable, whole
from cpms.solve import Method, pagerank, storage_asked_for
from cpms.start import first_iterate
from cpms.stopping import Stopping
from cpms.teleport import teleport_distribution

if TYPE_CHECKING:
    from cpms.batch_refine import RefiningBatch

Personalization = int | str | Sequence[int | str] | Mapping[int | str, float]


@dataclass(frozen=True, eq=False)
class Query:
    """A teleport distribution as its nodes and their weights, of sum 1."""

    nodes: npt.NDArray[np.int64]
    weights: Floats

    def teleport(self, count: int) -> Floats:
        """Return the distribution over so many nodes."""
        values = np.zeros(count)
        values[self.nodes] = self.weights
        return values


class Batch(ABC):
    """A problem prepared for queries that are swept together; it holds their iterates."""

    nbytes: int
    width: int
    """Queries that it pays to sweep together, and that there is room for."""

    @abstractmethod
    def start(self, queries: list[Query], first: Floats) -> None:
        """Begin all queries at the same ``first`` iterate, shape (nodes,)."""

    @abstractmethod
    def sweep(self) -> list[Sweep]:
        """Sweep all queries once; return what was found of each."""

    @abstractmethod
    def take(self, places: list[int]) -> list[Any]:
        """Return the ranks of the queries at these places; the others close up in their order.

        They are arrays of float64, shape (nodes,), of the memory in which the engine works.
        """


def personalized_pagerank(
    graph: Graph,
    queries: Sequence[Personalization],
    *,
    method: Method = "power",
    storage: str | Format = "auto",
    damping: float = 0.85,
    tol: float = 1e-10,
    norm: Norm = "l1",
    max_iterations: int = 1000,
    dangling: DanglingRule = "teleport",
    start: Floats | None = None,
    engine: str = "auto",
    width: int | None = None,
    policy: Refining | None = None,
) -> list[Result]:
    """Compute one personalised PageRank a query, ``width`` of them at a time.

    Queries of a batch share every read of the matrix; by ``refine`` on engine ``cpu``, whose caches have room for
    one iterate, they go one after the other and share what preparing the matrix takes.

    Parameters
    ----------
    graph : Graph
        Without weights.
    queries : sequence
        Each a node id, a list of node ids, or a mapping of node id to weight: where its teleport goes.
    method : {"power", "refine"}
        Power iteration in float64, or sweeps on the residual that read few bits; see `cpms.refine`.
    storage : str or Format
        Of ``refine``: format of the residual; ``auto`` is that of `cpms.pagerank`. Power iteration is in fp64.
    damping, tol, norm, max_iterations, dangling
        As in `cpms.pagerank`.
    start : ndarray of float64, shape (nodes,), optional
        First iterate of every query, of sum 1; uniform by default. See `penalised_start`. Queries that ``refine``
        answers by passes over the graph need none.
    engine : str
        An engine that takes batches, or ``auto``: what `cpms.pagerank` takes for a query alone.
    width : int, optional
        Queries that share a sweep; more save reads of the matrix, and need 16 to 36 bytes a node each.
        By default what pays on the engine and fits.
    policy : Refining, optional
        Precision policy of ``refine``, the same for each query by itself.

    Returns
    -------
    list of Result
        In the order of the queries; ``solve_s`` is the time from the start of a query's batch to its end, or of
        its own where queries go one after the other, without bringing ranks to main memory.

    Raises
    ------
    InputError
        If a query names a node twice or one that does not exist; its place is said.
    UnsupportedError
        If the engine takes no batches, or none of this method, or the graph has weights.

    Examples
    --------
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> [result.top(1)[0][0] for result in personalized_pagerank(graph, [0, [1, 2], {3: 1.0}])]
    [0, 2, 0]
    """
    compiled_before_s = work_clock.compiled_s()
    require_graph(graph)
    stopping = Stopping(tol, norm, max_iterations)
    most = None if width is None else whole("width", width)
    if most is not None and most < 1:
        raise InputError(f"width is {most}; it must be 1 or more")
    if isinstance(queries, str | Mapping) or not is_iterable(queries):
        raise InputError(f"queries is a {type(queries).__name__}; give a list of queries, one alone as [query]")
    if graph.weights is not None:
        raise UnsupportedError(
            f"batches store no values, but {graph.name} has weights; use cpms.pagerank, or ignore them"
        )
    given = _storage(method, storage, policy)
    named = [_query(graph, query, place) for place, query in enumerate(queries)]
    if isinstance(engine, str) and engine == "auto" and len(named) == 1:  # It has nothing to share a batch with.
        return [
            pagerank(
                graph,
                method=method,
                storage=storage,
                damping=damping,
                tol=tol,
                norm=norm,
                max_iterations=max_iterations,
                personalization=named[0].teleport(graph.nodes),
                dangling=dangling,
                start=start,
                controller=policy,
            )
        ]
    first = first_iterate(graph, in_main_memory(start))
    problem = Problem(graph, damping, None, dangling)
    executor = engines.chosen(engine, problem, "batch")
    chosen = storage_planned(policy, given, executor.refines_in) if method == "refine" else FP64
    began = work_clock.now()
    run = prepared(executor, problem, method, chosen, policy)
    prepare_s = work_clock.now() - began
    referee = BatchReferee(problem, stopping)
    results: list[Result] = []
    for here in _shared_out(named, most or run.batch.width):
        solved = run.solve(here, first, stopping)
        answers = [in_main_memory(ranks) for ranks, _, _ in solved]
        came = work_clock.now()
        verdicts = referee.verdicts(here, answers, [status for _, status, _ in solved])
        certify_s = (work_clock.now() - came) / len(here)
        for query, ranks, (_, _, history), verdict in zip(here, answers, solved, verdicts, strict=True):
            found = gone_on(run, referee, query, Answer(ranks, *verdict, history), stopping)
            results.append(
                Result(
                    graph=graph,
                    ranks=found.ranks,
                    status=found.status,
                    history=tuple(found.history),
                    method=method,
                    storage=chosen.name,
                    layout="pattern",
                    engine=executor.name,
                    damping=problem.damping,
                    tol=stopping.tol,
                    norm=norm,
                    residual_l1=found.residual_l1,
                    residual_roundoff=referee.roundoff,
                    mass=float(found.ranks.sum()),
                    prepare_s=prepare_s,
                    solve_s=found.history[-1].seconds,
                    certify_s=certify_s,
                    matrix_bytes=run.batch.nbytes,
                )
            )
    compile_s = work_clock.compiled_s() - compiled_before_s
    return [replace(result, compile_s=compile_s) for result in results]


Solved = list[tuple[Any, Status, list[Step]]]


@dataclass(frozen=True, eq=False)
class PowerRun:
    """Batches of power iteration on a prepared problem."""

    batch: Batch

    def solve(self, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
        """Answer queries together; ranks stay where the engine has them."""
        return solve(self.batch, queries, first, stopping)


@dataclass(frozen=True, eq=False)
class RefineRun:
    """Batches of method ``refine`` on a prepared problem."""

    batch: RefiningBatch
    policy: Refining

    def solve(self, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
        """Answer queries; ranks stay where the engine has them."""
        return self.batch.solve(queries, first, self.policy, stopping)


def _storage(method: str, storage: str | Format, policy: Refining | None) -> Format | None:
    """Return the format asked for; None: what method and engine choose."""
    chosen = storage_asked_for(storage, method)
    if policy is not None and method == "power":
        raise InputError("this policy plans rounds of method 'refine'; leave it out, or give method='refine'")
    if not isinstance(policy, Refining | None):
        raise InputError(f"policy is {described(policy)}; give one such as cpms.refine.AdaptiveGain((cpms.FP16,))")
    if method == "power" and chosen not in (None, FP64):
        raise UnsupportedError(f"batches iterate in fp64, not {chosen.name}; use method refine, or one at a time")
    return chosen


def prepared(
    executor: Engine, problem: Problem, method: str, storage: Format, policy: Refining | None = None
) -> PowerRun | RefineRun:
    """Return an engine's batches of a method; the storage is that of ``refine``."""
    if method == "power":
        return PowerRun(executor.batch(problem))
    return RefineRun(executor.refining_batch(problem), policy or default_policy(storage))


def solve(batch: Batch, queries: list[Query], first: Floats, stopping: Stopping) -> Solved:
    """Iterate all queries from ``first``, each until its own change is small; a query that is done leaves."""
    batch.start(queries, first)
    began = work_clock.now()
    histories: list[list[Step]] = [[] for _ in queries]
    changes: list[list[float]] = [[] for _ in queries]
    answers: dict[int, tuple[Any, Status]] = {}
    active = list(range(len(queries)))
    while active:
        found = batch.sweep()
        seconds = work_clock.now() - began
        ended: list[tuple[int, Status]] = []
        for place, (query, sweep) in enumerate(zip(active, found, strict=True)):
            history, change = histories[query], sweep.of(stopping.norm)
            history.append(Step(len(history) + 1, change, FLOAT64, 64, 64, sweep.mass, seconds))
            changes[query].append(sweep.l1)
            status = status_after(history, changes[query], stopping)
            if status:
                ended.append((place, status))
        taken = batch.take([place for place, _ in ended]) if ended else []
        for (place, status), ranks in zip(ended, taken, strict=True):
            answers[active[place]] = ranks, status
        gone = {place for place, _ in ended}
        active = [query for place, query in enumerate(active) if place not in gone]
    return [(*answers[query], histories[query]) for query in range(len(queries))]


def _shared_out(queries: list[Query], most: int) -> list[list[Query]]:
    """Cut queries into as few parts as may be of at most so many, of about the same size."""
    parts = -(-len(queries) // most)
    bounds = [len(queries) * part // max(parts, 1) for part in range(parts + 1)]
    return [queries[low:high] for low, high in pairwise(bounds)]


def _query(graph: Graph, query: Personalization, place: int) -> Query:
    try:
        values = teleport_distribution(graph, [query] if isinstance(query, int | str | np.integer) else query)
    except InputError as error:
        raise InputError(f"query {place}: {error}") from None
    nodes = np.flatnonzero(values)
    return Query(nodes, values[nodes])
