"""Laws of formats, engines, answers and products, to be run on one's own plug-ins.

Each law returns None if it holds, and otherwise raises `LawError`, whose sentence names the value that violates it. Two
properties are *not* laws: a NaN whose payload lies in bits that are not read becomes an infinity, and the bound of the
relative error does not hold for subnormal numbers.

Examples
--------
>>> import cpms
>>> mine = cpms.SegmentFormat("mine", (16, 32, 16), block=100)
>>> values = [0.1, -3e-300, float("inf")]
>>> for law in FORMAT_LAWS:
...     law(mine, values)
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from cpms import engines
from cpms.api.result import Result
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.types import Floats
from cpms.base.validation import at_least, described
from cpms.certify.roundoff import ROW_BLOCK, UNIT
from cpms.check.format_laws import (
    FORMAT_LAWS,
    LawError,
    codecs_agree,
    inplace_equals_out_of_place,
    order_is_kept,
    partial_read_is_mask,
    reading_more_never_moves_away,
    relative_error,
    round_trip,
    specials_are_kept,
    truncation_is_idempotent,
)
from cpms.check.format_report import check_format
from cpms.check.products import (
    PRODUCT_LAWS,
    products_agree,
    products_are_linear,
    products_are_within_their_bound,
    products_improve_with_levels,
    transposed_products_are_adjoint,
    vector_operations_agree,
)
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator, Sweep
from cpms.contracts.own_codecs import has_own_codec
from cpms.contracts.status import Status
from cpms.engines.reference import ENGINE as REFERENCE
from cpms.engines.reference import ReferenceOperator
from cpms.formats.formats import DOUBLE_BITS, FP64, FloatFormat, Format, format_of
from cpms.formats.quantization import residual_format
from cpms.precision.controllers import FLOAT64, Level
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import dangling_rule, teleport_distribution

__all__ = [
    "FORMAT_LAWS",
    "PRODUCT_LAWS",
    "LawError",
    "answer_is_certified",
    "check_format",
    "codecs_agree",
    "inplace_equals_out_of_place",
    "order_is_kept",
    "partial_read_is_mask",
    "products_agree",
    "products_are_linear",
    "products_are_within_their_bound",
    "products_improve_with_levels",
    "queued_sweeps_agree",
    "reading_more_never_moves_away",
    "refinement_is_sound",
    "relative_error",
    "round_trip",
    "specials_are_kept",
    "sweeps_agree",
    "transposed_products_are_adjoint",
    "truncation_is_idempotent",
    "vector_operations_agree",
]

_SUM_ERROR = 1e-12
"""Allowed relative difference between float64 sums in different orders."""
_MASS_ERROR = 1e-14
"""Allowed difference of a vector's sum from 1 after it was scaled, besides the rounding of rows."""


def sweeps_agree(engine: Engine | str, problem: Problem, storage: Format | str, layout: str, level: Level) -> None:
    """Check an engine's sweeps at one level against those of the reference engine.

    The engine does three sweeps from the uniform distribution, and three from a random one. Each is compared with a
    reference sweep of the same input. A value may differ by one unit in the last place written, since a sum in another
    order can cross a rounding boundary. Where an engine declares that it sums rows in less than float64 (its
    ``sum_roundoff``), a value may also differ by the error of these sums. The norms and the mass must be those of the
    vectors that the engine itself reads back.

    Raises
    ------
    LawError
        If they differ; the sentence names the node.
    UnsupportedError
        If one of the engines cannot do the combination.

    Examples
    --------
    >>> import cpms
    >>> from cpms import engines
    >>> from cpms.problems.pagerank import Problem
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> cpms.check.sweeps_agree(engines.get("cpu"), problem, cpms.CPMS4, "csr", cpms.Level(2, 3))
    """
    engine, storage = _checked(engine, problem, storage, level)
    for candidate in (engine, REFERENCE):
        candidate.require_supported(problem, storage, layout)
    random = np.random.default_rng(problem.graph.nodes).random(problem.graph.nodes)
    for start in (np.full(len(random), 1.0 / len(random)), random / random.sum()):
        operator, x, out = _prepared(engine, problem, storage, layout, level, start)
        reference: Any = _prepared(REFERENCE, problem, storage, layout, level, start)[0]
        for step in range(3):
            seen = operator.read(x, level.read)
            found = operator.sweep(x, out, level, step)
            got = operator.read(out, level.write)
            _same_vector(engine, reference, seen, got, level)
            _same_norms(engine.name, found, seen, got)
            x, out = out, x


def queued_sweeps_agree(
    engine: Engine | str, problem: Problem, storage: Format | str, layout: str, level: Level
) -> None:
    """Check that a sweep enqueued before the last change is known equals one enqueued after.

    Four sweeps are enqueued, each before the result of the one before is fetched, and compared with four that wait.
    Changes, masses and the last vector must be equal; in an engine that is not ``repeatable``, up to the error of its
    sums. There is nothing to check for an engine without a queue.

    Raises
    ------
    LawError
        If they differ; the sentence gives the numbers.
    UnsupportedError
        If the engine cannot do the combination.

    Examples
    --------
    >>> import cpms
    >>> from cpms import engines
    >>> from cpms.problems.pagerank import Problem
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> cpms.check.queued_sweeps_agree(engines.get("cpu"), problem, cpms.CPMS4, "csr", cpms.Level(2, 2))
    """
    engine, storage = _checked(engine, problem, storage, level)
    engine.require_supported(problem, storage, layout)
    start = np.random.default_rng(problem.graph.nodes).random(problem.graph.nodes)
    start /= start.sum()
    waiting, x, out = _prepared(engine, problem, storage, layout, level, start)
    operator, y, other = _prepared(engine, problem, storage, layout, level, start)
    under_way = operator.queue(y, other, level, 0, "l1")
    additions = max(problem.graph.nodes, int(problem.graph.in_degree.max()))
    loss = 0.0 if engine.repeatable else _SUM_ERROR + 4.0 * engine.sum_roundoff(storage) * additions
    for step in range(4):
        if under_way is None:
            return
        following = operator.queue(other, y, level, step + 1, "l1") if step < 3 else None
        found, expected = under_way(), waiting.sweep(x, out, level, step)
        for seen, it in ((found.l1, expected.l1), (found.mass, expected.mass)):
            if not abs(seen - it) <= loss * expected.mass:
                raise LawError(
                    f"engine {engine.name}: sweep {step + 1} of several under way finds {seen!r}, not {it!r}"
                )
        x, out, y, other, under_way = out, x, other, y, following
    mine, its = operator.read(y, level.write), waiting.read(x, level.write)
    wrong = np.flatnonzero(~(np.abs(mine - its) <= loss * np.abs(its)))
    if len(wrong):
        node = int(wrong[0])
        raise LawError(f"engine {engine.name}: sweeps under way leave node {node} at {mine[node]!r}, not {its[node]!r}")


def refinement_is_sound(engine: Engine | str, problem: Problem, storage: Format | str, *, low: int = 12) -> None:
    """Check the properties that method ``refine`` needs of an engine's outer steps with a format Q.

    From a random distribution, the engine does five outer steps, of which the first and the third have ``low`` inner
    sweeps. The norms of each residual sweep must be those that the reference computes from the vector read back. The
    mass must be 1 after every correction, as the engine reports it and in the vector read back. Each inner sweep must
    multiply the sum of r by the damping factor, whatever Q loses. These hold up to 1e-14 and the rounding of the
    longest row's sum.

    Raises
    ------
    LawError
        If one of these properties does not hold; the sentence gives the numbers.

    Examples
    --------
    >>> import cpms
    >>> from cpms import engines
    >>> from cpms.problems.pagerank import Problem
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> cpms.check.refinement_is_sound(engines.get("cpu"), problem, cpms.E5M2)
    """
    engine, given = _checked(engine, problem, storage, FLOAT64)
    storage, low = residual_format(given), at_least(0, "low", low)
    if refusal := engine.refuses_residual(storage):
        raise UnsupportedError(refusal)
    refinement = engine.codec_refinement(problem) if has_own_codec(storage) else engine.refinement(problem)
    allowed = _MASS_ERROR + UNIT * int(problem.graph.in_degree.max())
    nodes = problem.graph.nodes
    # Sums of r are added up in blocks of rows. Each addition of a chain of additions loses a roundoff.
    of_sums = allowed + UNIT * (min(nodes, ROW_BLOCK) + nodes // ROW_BLOCK)
    start = np.random.default_rng(nodes).random(nodes)
    refinement.start(start / start.sum())
    seen: Floats | None = start / start.sum()
    for low_sweeps in (low, 0, low, 0, 0):
        found = refinement.outer_step(
            refinement.readable(storage if low_sweeps else None),
            inner_reduction=1e-300,
            tol=1e-300,
            norm="l1",
            max_inner=low_sweeps,
        )
        if seen is not None:
            _same_residual(engine.name, problem, found.found, seen / seen.sum(), allowed)
        if abs(found.found.mass - 1.0) > allowed:
            raise LawError(f"engine {engine.name} corrects to mass {found.found.mass!r}, not 1")
        sizes = [found.found.l1, *found.inner_l1]
        for place, (before, after) in enumerate(itertools.pairwise(found.sums)):
            if not abs(after - problem.damping * before) <= of_sums * sizes[place]:
                raise LawError(
                    f"engine {engine.name}, {storage.name}: inner sweep {place + 1} takes the sum of r from {before!r} "
                    f"to {after!r}, not to {problem.damping} times that"
                )
        # After inner sweeps the engine holds a correction that only the next outer step adds.
        seen = None if low_sweeps else np.array(refinement.read())
        if seen is not None and abs(math.fsum(seen) - 1.0) > allowed:
            raise LawError(f"engine {engine.name} reads back a vector of mass {math.fsum(seen)!r}, not 1")


def answer_is_certified(result: Result, *, personalization: Any = None, dangling: Any = "teleport") -> None:
    """Check the certificate of a result by a sweep of the reference engine.

    The ranks must be a distribution, and the residual must be the change that one more sweep makes. The status may be
    ``CONVERGED`` only if that change, in the requested norm, is below the tolerance.

    Parameters
    ----------
    result : Result
    personalization, dangling
        As they were given to `cpms.pagerank`.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.answer_is_certified(cpms.pagerank(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2])))
    """
    if not isinstance(result, Result):
        raise InputError(f"result is {described(result)}; give what cpms.pagerank returned")
    graph, ranks = result.graph, result.ranks
    if result.status is Status.NON_FINITE:
        return
    if ranks.shape != (graph.nodes,) or not (np.isfinite(ranks).all() and (ranks >= 0).all()):
        raise LawError(f"the ranks of {graph.name} are not {graph.nodes} finite numbers of at least 0")
    if abs(ranks.sum() - 1.0) > _SUM_ERROR or abs(result.mass - 1.0) > _SUM_ERROR:
        raise LawError(f"the ranks of {graph.name} sum to {float(ranks.sum())}, the result says {result.mass!r}, not 1")
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    problem = Problem(graph, result.damping, teleport, dangling_rule(graph, dangling))
    operator = REFERENCE.prepare(problem, FP64, "csr")
    out = operator.empty()
    change = operator.sweep(operator.load(ranks), out, Level(1, 1), 0)
    # The reference adds up a row one edge after the other, and each addition loses up to a roundoff.
    allowed = _SUM_ERROR + UNIT * float((graph.in_degree + 3) @ operator.read(out, 1))
    if abs(change.l1 - result.residual_l1) > allowed:
        raise LawError(f"the residual is {change.l1!r}, but the result says {result.residual_l1!r}")
    in_norm = {"l1": change.l1, "l2": change.l2, "linf": change.linf}[result.norm]
    if result.status is Status.CONVERGED and in_norm >= result.tol + allowed:
        raise LawError(f"the result says converged, but its residual {in_norm!r} is not below {result.tol!r}")


def _checked(engine: Any, problem: Any, storage: Any, level: Any) -> tuple[Engine, Format]:
    """Return an engine and a format, given as objects or names; refuse a pair that the laws do not cover."""
    executor = engine if isinstance(engine, Engine) else engines.get(engine)
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {described(problem)}; give a cpms.problems.pagerank.Problem of a graph")
    chosen = format_of(storage)
    if not isinstance(level, Level):
        raise InputError(f"level is {described(level)}; give a cpms.Level")
    if level != FLOAT64:
        chosen.checked_read(level.read)
        chosen.checked_read(level.write)
    return executor, chosen


def _prepared(
    engine: Engine, problem: Problem, storage: Format, layout: str, level: Level, start: Floats
) -> tuple[Operator[Any], Any, Any]:
    operator = engine.prepare(problem, storage, layout)
    x, out = operator.load(start), operator.empty()
    return operator.to_float64(x, out) if level == FLOAT64 else (operator, x, out)


def _same_vector(engine: Engine, reference: ReferenceOperator, seen: Floats, got: Floats, level: Level) -> None:
    """Compare the output of an engine's sweep with a reference sweep of the same input."""
    x, out = reference.load(seen), reference.empty()
    reference.sweep(x, out, level, 0)
    right = reference.read(out, level.write)
    allowed = _step(reference, level, np.maximum(np.abs(right), np.abs(got))) + _SUM_ERROR * np.abs(right)
    # Each addition of a sum of terms that are not negative loses at most a roundoff of the sum. Product, damping and
    # teleport lose three more.
    additions = reference.problem.graph.in_degree + 3
    allowed += max(engine.sum_roundoff(reference.storage), UNIT) * additions * np.abs(right)
    allowed += engine.mass_roundoff * seen.sum() * reference.problem.sink_or_scalar
    wrong = ~(np.abs(got - right) <= allowed)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise LawError(
            f"engine {engine.name} at {level} of {reference.storage.name} gives node {node} the value "
            f"{float(got[node])}; the reference gives {float(right[node])}"
        )


def _step(operator: ReferenceOperator, level: Level, size: Floats) -> Floats:
    """Return the spacing of stored values near ``size``; 0 for float64."""
    storage = operator.storage
    if isinstance(storage, FloatFormat):
        exponent = storage.bias - 1 if storage.scaled else 0
        least: Floats = np.ldexp(storage.min_normal, -exponent) * operator.divisor
        return 2.0**-storage.mantissa_bits * np.maximum(size, least)
    bits = DOUBLE_BITS if level == FLOAT64 else storage.bits(level.write)
    return 2.0 ** -storage.mantissa_kept(level.write) * size if bits < DOUBLE_BITS else 0.0 * size


def _same_norms(name: str, found: Sweep, seen: Floats, got: Floats) -> None:
    """Compare the norms that a sweep returned with those of the vectors it read and wrote."""
    change = np.abs(got - seen)
    right = Sweep(float(change.sum()), float(np.sqrt((change**2).sum())), float(change.max()), float(got.sum()))
    allowed = _SUM_ERROR * float(np.abs(got).sum() + np.abs(seen).sum())
    for norm, given, recomputed in zip(Sweep._fields, found, right, strict=True):
        if not abs(given - recomputed) <= allowed:
            raise LawError(f"engine {name} says {norm} is {given!r}; from the vectors it is {recomputed!r}")


def _same_residual(name: str, problem: Problem, found: Sweep, x: Floats, allowed: float) -> None:
    """Compare the norms of a residual sweep with those of a reference sweep of the same vector."""
    operator = REFERENCE.prepare(problem, FP64, "csr")
    right = operator.sweep(operator.load(x), operator.empty(), Level(1, 1), 0)
    for norm, given, recomputed in zip(Sweep._fields, found, right, strict=True):
        if not abs(given - recomputed) <= _SUM_ERROR + allowed:
            raise LawError(
                f"engine {name} says {norm} of a residual sweep is {given!r}; by the reference it is {recomputed!r}"
            )


def __dir__() -> list[str]:
    return sorted(__all__)
