"""Solves of many queries together on a prepared batch, each certified by itself.

Sweeps of many iterates turn products of a sparse matrix with a vector (SpMV) into products with a few vectors (SpMM):
the matrix is read once for all of them. Answers are certified where they are; on processors one product serves many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cpms.api.request import Request
from cpms.api.result import Result
from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.certify.certificate import QueryCertifier
from cpms.contracts.batch import PreparedBatch, Query
from cpms.contracts.engine import Engine
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_power import iterate_all
from cpms.storage.device import host_float64, to_device

if TYPE_CHECKING:
    from cpms.certify.batch import BatchCertifier


def solve_batch(
    request: Request,
    batch: PreparedBatch,
    width: int | None,
    *,
    prepare_s: float,
    compiled_before_s: float,
    recomputation: Recomputation | None = None,
) -> list[Result]:
    """Solve and certify all queries of a request, ``width`` at a time; None: the number that the batch prefers.

    ``recomputation`` certifies answers in device memory; without one they are copied to main memory and certified
    there.
    """
    certifier = _certifier(request, recomputation)
    results: list[Result] = []
    for together in _split_evenly(request.queries or (), width or batch.width):
        results += _solve_together(request, batch, certifier, together, prepare_s)
    compile_s = work_clock.compiled_s() - compiled_before_s
    return [replace(result, compile_s=compile_s) for result in results]


def _certifier(request: Request, recomputation: Recomputation | None) -> BatchCertifier | QueryCertifier:
    if recomputation is not None:
        return QueryCertifier(recomputation, request.stopping)
    from cpms.certify.batch import BatchCertifier  # SciPy takes a while to import, and single solves need none.

    return BatchCertifier(request.problem, request.stopping)


def _solve_together(
    request: Request,
    batch: PreparedBatch,
    certifier: BatchCertifier | QueryCertifier,
    queries: list[Query],
    prepare_s: float,
) -> list[Result]:
    """Solve and certify queries that share each sweep."""
    stopping = request.stopping
    solved = batch.solve(queries, request.initial_guess, stopping=stopping)
    is_there = isinstance(certifier, QueryCertifier)
    answers = [to_device(ranks) if is_there else host_float64(ranks) for ranks, _, _ in solved]
    began = work_clock.now()
    certified = certifier.certify(queries, answers, [status for _, status, _ in solved])
    certify_s = (work_clock.now() - began) / len(queries)
    answers = [host_float64(ranks) for ranks in answers]
    results = []
    for query, ranks, (_, _, history), (status, residual_l1) in zip(queries, answers, solved, certified, strict=True):
        answer = resume_unverified(batch, certifier, query, Answer(ranks, status, residual_l1, history), stopping)
        results.append(
            Result(
                **request.stated,
                ranks=answer.ranks,
                status=answer.status,
                history=tuple(answer.history),
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
    batch: PreparedBatch,
    certifier: BatchCertifier | QueryCertifier,
    query: Query,
    answer: Answer,
    stopping: Stopping,
) -> Answer:
    """Solve on from an unverified answer while its residual falls in L1 and is too large in the norm of ``stopping``.

    In L1 each sweep reduces the residual by the damping, down to rounding. In L2 and Linf a sweep may enlarge it, since
    residuals of several nodes can flow to one; these norms are at most the L1 norm.
    """
    while answer.status is Status.UNVERIFIED and len(answer.history) < stopping.max_iterations:
        remaining = replace(stopping, max_iterations=stopping.max_iterations - len(answer.history))
        [(ranks, status, steps)] = batch.solve([query], answer.ranks, stopping=remaining)
        ranks = to_device(ranks) if isinstance(certifier, QueryCertifier) else host_float64(ranks)
        [(certified, residual_l1)] = certifier.certify([query], [ranks], [status])
        ranks = host_float64(ranks)
        if not residual_l1 < answer.residual_l1:
            break
        last = answer.history[-1]
        later = [
            step._replace(iteration=last.iteration + step.iteration, seconds=last.seconds + step.seconds)
            for step in steps
        ]
        answer = Answer(ranks, certified, residual_l1, [*answer.history, *later])
    return answer
