"""Personalised PageRank of many queries that share every read of the matrix, each certified by itself.

Sweeps of many iterates turn products of a sparse matrix with a vector (SpMV) into products with a few vectors (SpMM):
the matrix is read once for all of them. The certificate of a batch costs about one sweep more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from cpms.api.pagerank import solve_request
from cpms.api.request import Dangling, Method, Personalization, Request, resolve
from cpms.api.result import Result
from cpms.base import work_clock
from cpms.base.errors import InputError
from cpms.base.types import Floats, Norm
from cpms.base.validation import is_iterable, whole
from cpms.certify.batch import BatchCertifier
from cpms.contracts.batch import PreparedBatch, Query
from cpms.contracts.engine import Engine
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import Format
from cpms.graph.graph import Graph, require_graph
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_power import iterate_all
from cpms.storage.device import host_float64


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
    dangling: Dangling = "teleport",
    start: Floats | None = None,
    engine: str = "auto",
    width: int | None = None,
    policy: RefinementPolicy | None = None,
) -> list[Result]:
    """Compute one personalised PageRank a query, ``width`` of them at a time.

    Queries of a batch share every read of the matrix. By ``refine`` on engine ``cpu``, whose caches hold one iterate,
    they are solved one after the other and share only the cost of preparing the matrix, but for graphs with weights.

    Parameters
    ----------
    graph : Graph
    queries : sequence
        Each a node id, a list of node ids, or a mapping of node id to weight: its teleport distribution.
    method : {"power", "refine"}
        Power iteration in float64, or mixed-precision iterative refinement; see `cpms.solvers.refine`.
    storage : str or Format
        Of ``refine``: format of the residual; ``auto`` is that of `cpms.pagerank`. Power iteration is in fp64.
    damping, tol, norm, max_iterations, dangling
        As in `cpms.pagerank`.
    start : ndarray of float64, shape (nodes,), optional
        First iterate of every query, of sum 1; uniform by default. See `penalised_start`. Method ``refine``
        ignores it on graphs that a reduced problem solves.
    engine : str
        An engine with batches, or ``auto``; one query with ``auto`` is solved by `cpms.pagerank`.
    width : int, optional
        Number of queries that share a sweep; more of them save reads of the matrix, and each needs 16 to 36 bytes a
        node. By default the fastest number that fits into memory.
    policy : RefinementPolicy, optional
        Precision policy of ``refine``, the same for each query by itself.

    Returns
    -------
    list of Result
        In the order of the queries; ``solve_s`` is the time from the start of the batch (of the query, if queries are
        solved one after the other) to the end of the query, without the copy of ranks to main memory.

    Raises
    ------
    InputError
        If a query names a node twice or one that does not exist; the error names the index of the query.
    UnsupportedError
        If the engine takes no batches, or none of this method, or none of graphs with weights.

    Examples
    --------
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> [result.top(1)[0][0] for result in personalized_pagerank(graph, [0, [1, 2], {3: 1.0}])]
    [0, 2, 0]
    """
    compiled_before_s = work_clock.compiled_s()
    require_graph(graph)
    most = None if width is None else whole("width", width)
    if most is not None and most < 1:
        raise InputError(f"width is {most}; it must be 1 or more")
    if isinstance(queries, str | Mapping) or not is_iterable(queries):
        raise InputError(f"queries is a {type(queries).__name__}; give a list of queries, one alone as [query]")
    request = resolve(
        graph,
        method=method,
        storage=storage,
        engine=engine,
        damping=damping,
        tol=tol,
        norm=norm,
        max_iterations=max_iterations,
        dangling=dangling,
        start=start,
        precision=policy,
        queries=queries,
    )
    if request.queries is None:
        return [solve_request(request, compiled_before_s=compiled_before_s)]
    began = work_clock.now()
    batch = prepare_batch(request.engine, request.problem, request.policy if request.method == "refine" else None)
    prepare_s = work_clock.now() - began
    certifier = BatchCertifier(request.problem, request.stopping)
    results: list[Result] = []
    for together in _split_evenly(request.queries, most or batch.width):
        results += _solve_together(request, batch, certifier, together, prepare_s)
    compile_s = work_clock.compiled_s() - compiled_before_s
    return [replace(result, compile_s=compile_s) for result in results]


def _solve_together(
    request: Request, batch: PreparedBatch, certifier: BatchCertifier, queries: list[Query], prepare_s: float
) -> list[Result]:
    """Solve and certify queries that share each sweep."""
    problem, stopping = request.problem, request.stopping
    solved = batch.solve(queries, request.initial_guess, stopping=stopping)
    answers = [host_float64(ranks) for ranks, _, _ in solved]
    began = work_clock.now()
    certified = certifier.certify(queries, answers, [status for _, status, _ in solved])
    certify_s = (work_clock.now() - began) / len(queries)
    results = []
    for query, ranks, (_, _, history), (status, residual_l1) in zip(queries, answers, solved, certified, strict=True):
        answer = resume_unverified(batch, certifier, query, Answer(ranks, status, residual_l1, history), stopping)
        results.append(
            Result(
                graph=problem.graph,
                ranks=answer.ranks,
                status=answer.status,
                history=tuple(answer.history),
                method=request.method,
                storage=request.storage.name,
                layout=request.layout,
                engine=request.engine.name,
                damping=problem.damping,
                tol=stopping.tol,
                norm=stopping.norm,
                residual_l1=answer.residual_l1,
                residual_roundoff=certifier.roundoff,
                mass=float(answer.ranks.sum()),
                prepare_s=prepare_s,
                solve_s=answer.history[-1].seconds,
                certify_s=certify_s,
                matrix_bytes=batch.nbytes,
            )
        )
    return results


def prepare_batch(engine: Engine, problem: Problem, policy: RefinementPolicy | None) -> PreparedBatch:
    """Prepare a problem for batches: by method ``refine`` with its policy, else by power iteration in float64."""
    if policy is None:
        power = engine.batch(problem)
        return PreparedBatch(power.nbytes, power.width, partial(iterate_all, power))
    refinement = engine.refinement_batch(problem)
    return PreparedBatch(refinement.nbytes, refinement.width, partial(refinement.solve, policy=policy))


def _split_evenly(queries: Sequence[Query], most: int) -> list[list[Query]]:
    """Split queries into the fewest parts of at most ``most`` each, of about the same size."""
    parts = -(-len(queries) // most)
    bounds = [len(queries) * part // max(parts, 1) for part in range(parts + 1)]
    return [list(queries[low:high]) for low, high in pairwise(bounds)]


class Answer(NamedTuple):
    """The answer of a query: its ranks on the host and their certificate; residual_l1 as in `cpms.Result`."""

    ranks: Floats
    status: Status
    residual_l1: float
    history: list[Step]


def resume_unverified(
    batch: PreparedBatch, certifier: BatchCertifier, query: Query, answer: Answer, stopping: Stopping
) -> Answer:
    """Solve on from an unverified answer while its residual falls in L1 and is too large in the norm of ``stopping``.

    In L1 each sweep reduces the residual by the damping, down to rounding. In L2 and Linf a sweep may enlarge it, since
    residuals of several nodes can flow to one; these norms are at most the L1 norm.
    """
    while answer.status is Status.UNVERIFIED and len(answer.history) < stopping.max_iterations:
        remaining = replace(stopping, max_iterations=stopping.max_iterations - len(answer.history))
        [(ranks, status, steps)] = batch.solve([query], answer.ranks, stopping=remaining)
        ranks = host_float64(ranks)
        [(certified, residual_l1)] = certifier.certify([query], [ranks], [status])
        if not residual_l1 < answer.residual_l1:
            break
        last = answer.history[-1]
        later = [
            step._replace(iteration=last.iteration + step.iteration, seconds=last.seconds + step.seconds)
            for step in steps
        ]
        answer = Answer(ranks, certified, residual_l1, [*answer.history, *later])
    return answer
