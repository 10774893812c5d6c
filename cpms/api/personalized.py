"""Personalised PageRank of many queries that share every read of the matrix; each is certified by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cpms import engines
from cpms.api.pagerank import Method, pagerank, storage_asked_for
from cpms.api.result import Result
from cpms.base import work_clock
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.types import DanglingRule, Floats, Norm
from cpms.base.validation import described, is_iterable, whole
from cpms.certify.batch import BatchCertifier
from cpms.contracts.batch import Query
from cpms.contracts.engine import Engine
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP64, Format
from cpms.graph.graph import Graph, require_graph
from cpms.precision.refinement_policy import RefinementPolicy, default_policy, planned_storage
from cpms.problems.initial_guess import initial_guess
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import teleport_distribution
from cpms.solvers.batch_power import PowerRun, RefineRun
from cpms.storage.device import to_host

Personalization = int | str | Sequence[int | str] | Mapping[int | str, float]


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
    policy: RefinementPolicy | None = None,
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
        Power iteration in float64, or sweeps on the residual that read few bits; see `cpms.solvers.refine`.
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
    policy : RefinementPolicy, optional
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
    first = initial_guess(graph, to_host(start))
    problem = Problem(graph, damping, None, dangling)
    executor = engines.chosen(engine, problem, "batch")
    chosen = planned_storage(policy, given, executor.default_residual_format) if method == "refine" else FP64
    began = work_clock.now()
    run = prepared(executor, problem, method, chosen, policy)
    prepare_s = work_clock.now() - began
    referee = BatchCertifier(problem, stopping)
    results: list[Result] = []
    for here in _shared_out(named, most or run.batch.width):
        solved = run.solve(here, first, stopping)
        answers = [to_host(ranks) for ranks, _, _ in solved]
        came = work_clock.now()
        verdicts = referee.certify(here, answers, [status for _, status, _ in solved])
        certify_s = (work_clock.now() - came) / len(here)
        for query, ranks, (_, _, history), verdict in zip(here, answers, solved, verdicts, strict=True):
            found = resume_unverified(run, referee, query, Answer(ranks, *verdict, history), stopping)
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


def _storage(method: str, storage: str | Format, policy: RefinementPolicy | None) -> Format | None:
    """Return the format asked for; None: what method and engine choose."""
    chosen = storage_asked_for(storage, method)
    if policy is not None and method == "power":
        raise InputError("this policy plans rounds of method 'refine'; leave it out, or give method='refine'")
    if not isinstance(policy, RefinementPolicy | None):
        raise InputError(f"policy is {described(policy)}; give one such as cpms.AdaptiveReduction((cpms.FP16,))")
    if method == "power" and chosen not in (None, FP64):
        raise UnsupportedError(f"batches iterate in fp64, not {chosen.name}; use method refine, or one at a time")
    return chosen


def prepared(
    executor: Engine, problem: Problem, method: str, storage: Format, policy: RefinementPolicy | None = None
) -> PowerRun | RefineRun:
    """Return an engine's batches of a method; the storage is that of ``refine``."""
    if method == "power":
        return PowerRun(executor.batch(problem))
    return RefineRun(executor.refinement_batch(problem), policy or default_policy(storage))


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


class Answer(NamedTuple):
    """Of a query: its ranks in main memory, and what they are worth; residual_l1 as in `cpms.Result`."""

    ranks: Floats
    status: Status
    residual_l1: float
    history: list[Step]


def resume_unverified(
    run: PowerRun | RefineRun, referee: BatchCertifier, query: Query, found: Answer, stopping: Stopping
) -> Answer:
    """Go on while the referee finds less in L1, but too much in the norm asked for.

    In L2 and Linf a sweep may enlarge what the last one found, and so may a solve; in L1 each sweep shrinks it by the
    damping, down to rounding, and the other norms are at most that.
    """
    while found.status is Status.UNVERIFIED and len(found.history) < stopping.max_iterations:
        left = replace(stopping, max_iterations=stopping.max_iterations - len(found.history))
        [(ranks, status, steps)] = run.solve([query], found.ranks, left)
        ranks = to_host(ranks)
        [(checked, residual_l1)] = referee.certify([query], [ranks], [status])
        if not residual_l1 < found.residual_l1:
            break
        last = found.history[-1]
        later = [
            step._replace(iteration=last.iteration + step.iteration, seconds=last.seconds + step.seconds)
            for step in steps
        ]
        found = Answer(ranks, checked, residual_l1, [*found.history, *later])
    return found
