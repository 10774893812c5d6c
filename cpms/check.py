"""Laws of formats, engines and answers, to be run on one's own plug-ins.

Each law returns None where it holds and raises `LawError`, whose sentence names the value that
breaks it. What is *not* a law: a NaN whose payload lies in bits that are not read becomes an
infinity, and the bound on the relative error does not hold for subnormal numbers.

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
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.engine import DanglingRule, Engine, Floats, Operator, Problem, Sweep
from cpms.engines.reference import ENGINE as REFERENCE
from cpms.engines.reference import ReferenceOperator
from cpms.errors import CpmsError, UnsupportedError
from cpms.format import DOUBLE_BITS, FP64, FloatFormat, Format, SegmentFormat
from cpms.precision import FLOAT64, Level
from cpms.result import Result, Status
from cpms.roundoff import UNIT
from cpms.segmented import convert_inplace, encode
from cpms.teleport import teleport_distribution

_SUM_ERROR = 1e-12
"""Relative difference that the order of a float64 sum may make."""
_MASS_ERROR = 1e-14
_GUARD = 16


class LawError(CpmsError, AssertionError):
    """A law does not hold; the text names the law and the value that breaks it."""


def round_trip(format: Format, values: npt.ArrayLike) -> None:
    """Check that a full read returns the bits that were written.

    Of a packed float, which cannot keep every float64, check instead that what it returns is stored
    unchanged when it is written again.

    Examples
    --------
    >>> from cpms import CPMS4
    >>> round_trip(CPMS4, [0.1, float("nan")])
    """
    given = _doubles(values)
    stored = encode(given, format)
    if isinstance(format, FloatFormat):
        # Into the same array: a scaled format keeps its exponent.
        given = stored.decode()
        stored.write(given)
    _same_bits("a full read returns what was written", format, given, stored.decode(), given)


def partial_read_is_mask(format: Format, values: npt.ArrayLike) -> None:
    """Check that reading the first k segments gives the float64 with its other bits cleared, for each k.

    Packed floats have no partial read; for them there is nothing to check.

    Examples
    --------
    >>> from cpms import CPMS8
    >>> partial_read_is_mask(CPMS8, [0.1, float("nan")])
    """
    if isinstance(format, FloatFormat):
        return
    given = _doubles(values)
    stored = encode(given, format)
    for read in range(1, format.segments + 1):
        law = f"a read of {read} segments keeps the first {format.bits(read)} bits"
        _same_bits(law, format, given, stored.decode(read), _masked(given, format.bits(read)))


def reading_more_never_moves_away(format: Format, values: npt.ArrayLike) -> None:
    """Check that a read of k + 1 segments is no farther from the value than one of k, for each k.

    NaN has no distance and is left out; an infinity is as far from every number as from any other.

    Examples
    --------
    >>> from cpms import CPMS8
    >>> reading_more_never_moves_away(CPMS8, [0.1, -1e-310])
    """
    given = _doubles(values)
    stored = encode(given, format)
    nearest = np.full(len(given), np.inf)
    for read in range(1, format.segments + 1):
        distance = _distance(stored.decode(read), given)
        law = f"a read of {read} segments is no farther from the value than one of {read - 1}"
        _hold(law, format, given, stored.decode(read), distance <= nearest)
        nearest = distance


def truncation_is_idempotent(format: Format, values: npt.ArrayLike) -> None:
    """Check that what a write of the first k segments stored is stored unchanged by a second such write.

    Examples
    --------
    >>> from cpms import format_named
    >>> truncation_is_idempotent(format_named("cpms4-nearest"), [0.1, 1 / 3])
    """
    given = _doubles(values)
    for segments in range(1, format.segments + 1):
        stored = encode(given, format, segments=segments)
        once = stored.decode(segments)
        stored.write(once, segments=segments)
        law = f"a second write of {segments} segments changes nothing"
        _same_bits(law, format, given, stored.decode(segments), once)


def relative_error(format: Format, values: npt.ArrayLike) -> None:
    """Check the bounds on the relative error of each normal number, for k written and for k read segments.

    With m mantissa bits in k segments, a read of k is within 2^-m of a value that was written
    whole; a write of k is within ``format.unit_roundoff(k)``, half of that where it rounds to the
    nearest. Neither is claimed for subnormal numbers, of float64 or of the packed format, nor for
    numbers that round to infinity.

    Examples
    --------
    >>> from cpms import FP16, CPMS4
    >>> relative_error(CPMS4, [0.1, 1 / 3])
    >>> relative_error(FP16, [0.1, 1 / 3])
    """
    given = _doubles(values)
    whole = encode(given, format)
    for count in range(1, format.segments + 1):
        written = encode(given, format, segments=count).decode(count)
        _within(f"{count} written segments", format, given, written, whole.exponent, format.unit_roundoff(count))
        if isinstance(format, SegmentFormat):
            cut = 2.0 ** -format.mantissa_kept(count)
            _within(f"a read of {count} segments", format, given, whole.decode(count), 0, cut)


def inplace_equals_out_of_place(format: SegmentFormat, values: npt.ArrayLike) -> None:
    """Check that conversion in place gives the bytes of `cpms.encode`, touches no other, and can be undone.

    Examples
    --------
    >>> from cpms import CPMS4
    >>> inplace_equals_out_of_place(CPMS4, [0.1, 1 / 3])
    """
    given = _doubles(values)
    guarded = np.concatenate([np.full(_GUARD, -np.pi), given, np.full(_GUARD, -np.pi)])
    inside = guarded[_GUARD : _GUARD + len(given)]
    stored = convert_inplace(inside, format)
    differs = np.flatnonzero(stored.memory != encode(given, format).memory)
    if len(differs):
        raise LawError(f"{format.name}: in place, byte {differs[0]} of {len(given)} values is not that of encode")
    _same_bits("conversion back gives the values", format, given, stored.restore_inplace(), given)
    outside = np.concatenate([guarded[:_GUARD], guarded[_GUARD + len(given) :]])
    if (outside != -np.pi).any():
        raise LawError(f"{format.name}: conversion in place of {len(given)} values wrote outside the array")


FORMAT_LAWS = (
    round_trip,
    partial_read_is_mask,
    reading_more_never_moves_away,
    truncation_is_idempotent,
    relative_error,
)
"""Laws of every format that rounds the same way each time; each takes a format and float64 values."""


def sweeps_agree(engine: Engine, problem: Problem, storage: Format, layout: str, level: Level) -> None:
    """Check an engine's sweeps at one level against those of the reference engine.

    Three sweeps each from the uniform distribution and from a random one; each is compared with a
    reference sweep of what the engine reads. A value may differ by one unit in the last place
    written, since sums in another order can cross a rounding boundary; in an engine that sums rows more
    roughly than in float64, and says so, by what these sums lose. The norms and the mass must be those
    of the vectors that the engine itself reads back.

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
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> sweeps_agree(engines.get("cpu"), problem, cpms.CPMS4, "csr", Level(2, 3))
    """
    for candidate in (engine, REFERENCE):
        reason = candidate.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
    random = np.random.default_rng(problem.graph.nodes).random(problem.graph.nodes)
    for start in (np.full(len(random), 1.0 / len(random)), random / random.sum()):
        operator, x, out = _prepared(engine, problem, storage, layout, level, start)
        twin: Any = _prepared(REFERENCE, problem, storage, layout, level, start)[0]
        for step in range(3):
            seen = operator.read(x, level.read)
            found = operator.sweep(x, out, level, step)
            got = operator.read(out, level.write)
            _same_vector(engine, twin, seen, got, level)
            _same_norms(engine.name, found, seen, got)
            x, out = out, x


def queued_sweeps_agree(engine: Engine, problem: Problem, storage: Format, layout: str, level: Level) -> None:
    """Check that a sweep begun before the last one's change is known does what it does after.

    Four sweeps, each begun while the one before is under way, against four that wait: the same changes and masses,
    and the same vector in the end; in an engine that does not promise the same bits every time, to
    what its sums lose. Engines whose sweeps always wait have nothing to keep.

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
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> queued_sweeps_agree(engines.get("cpu"), problem, cpms.CPMS4, "csr", Level(2, 2))
    """
    reason = engine.unsupported(problem, storage, layout)
    if reason:
        raise UnsupportedError(reason)
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


def refinement_is_sound(engine: Engine, problem: Problem, storage: FloatFormat, *, low: int = 12) -> None:
    """Check what method ``refine`` rests on, of an engine's rounds with a format Q.

    Two rounds of a full sweep and ``low`` low ones, from a random distribution, and a third full sweep. The norms of
    each full sweep are those of the vector that the engine reads back, by the reference; the mass is 1 after every
    correction, as the engine says and as it reads back; and each low sweep multiplies the sum of r by the damping,
    whatever Q loses: to 1e-14 and the rounding of the longest row's sum.

    Raises
    ------
    LawError
        If one of them does not hold; the sentence gives the numbers.

    Examples
    --------
    >>> import cpms
    >>> from cpms import engines
    >>> problem = Problem(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    >>> refinement_is_sound(engines.get("cpu"), problem, cpms.E5M2)
    """
    rounds = engine.refinement(problem)
    allowed = _MASS_ERROR + UNIT * int(problem.graph.in_degree.max())
    start = np.random.default_rng(problem.graph.nodes).random(problem.graph.nodes)
    rounds.start(start / start.sum())
    seen: Floats | None = start / start.sum()
    for low_sweeps in (low, 0, low, 0, 0):
        found = rounds.round(storage if low_sweeps else None, gain=1e-300, tol=1e-300, norm="l1", most_low=low_sweeps)
        if seen is not None:
            _same_residual(engine.name, problem, found.found, seen / seen.sum(), allowed)
        if abs(found.found.mass - 1.0) > allowed:
            raise LawError(f"engine {engine.name} corrects to mass {found.found.mass!r}, not 1")
        sizes = [found.found.l1, *found.low]
        for place, (before, after) in enumerate(itertools.pairwise(found.sums)):
            if not abs(after - problem.damping * before) <= allowed * sizes[place]:
                raise LawError(
                    f"engine {engine.name}, {storage.name}: low sweep {place + 1} takes the sum of r from {before!r} "
                    f"to {after!r}, not to {problem.damping} times that"
                )
        # After low sweeps the engine holds a correction that only the next round adds.
        seen = None if low_sweeps else np.array(rounds.read())
        if seen is not None and abs(math.fsum(seen) - 1.0) > allowed:
            raise LawError(f"engine {engine.name} reads back a vector of mass {math.fsum(seen)!r}, not 1")


def answer_is_certified(result: Result, *, personalization: Any = None, dangling: DanglingRule = "teleport") -> None:
    """Check what a result claims of its own answer, by a sweep of the reference engine.

    The ranks are a distribution; the residual is the change that one more sweep makes; and the
    status says converged only if that change, in the norm asked for, is below the tolerance.

    Parameters
    ----------
    result : Result
    personalization, dangling
        As they were given to `cpms.pagerank`.

    Examples
    --------
    >>> import cpms
    >>> answer_is_certified(cpms.pagerank(cpms.Graph.from_edges([0, 0, 1], [1, 2, 2])))
    """
    graph, ranks = result.graph, result.ranks
    if result.status is Status.NON_FINITE:
        return
    if ranks.shape != (graph.nodes,) or not (np.isfinite(ranks).all() and (ranks >= 0).all()):
        raise LawError(f"the ranks of {graph.name} are not {graph.nodes} finite numbers of at least 0")
    if abs(ranks.sum() - 1.0) > _SUM_ERROR or abs(result.mass - 1.0) > _SUM_ERROR:
        raise LawError(f"the ranks of {graph.name} sum to {float(ranks.sum())}, the result says {result.mass!r}, not 1")
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    problem = Problem(graph, result.damping, teleport, dangling)
    operator = REFERENCE.prepare(problem, FP64, "csr")
    out = operator.empty()
    change = operator.sweep(operator.load(ranks), out, Level(1, 1), 0)
    # The reference adds up rows one edge after the other, which loses up to a roundoff at each.
    allowed = _SUM_ERROR + UNIT * float((graph.in_degree + 3) @ operator.read(out, 1))
    if abs(change.l1 - result.residual_l1) > allowed:
        raise LawError(f"the residual is {change.l1!r}, but the result says {result.residual_l1!r}")
    in_norm = {"l1": change.l1, "l2": change.l2, "linf": change.linf}[result.norm]
    if result.status is Status.CONVERGED and in_norm >= result.tol + allowed:
        raise LawError(f"the result says converged, but its residual {in_norm!r} is not below {result.tol!r}")


def _doubles(values: npt.ArrayLike) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float64)


def _same_bits(law: str, format: Format, given: Floats, got: Floats, expected: Floats) -> None:
    _hold(law, format, given, got, got.view(np.uint64) == expected.view(np.uint64))


def _hold(law: str, format: Format, given: Floats, got: Floats, holds: npt.NDArray[np.bool_]) -> None:
    """Raise unless the law holds for every value; name the first for which it does not."""
    if not holds.all():
        i = int(np.argmin(holds))
        value, bits, answer = float(given[i]), int(given.view(np.uint64)[i]), float(got[i])
        raise LawError(f"{format.name}: {law}, but value {i}, {value} (bits {bits:#018x}), gives {answer}")


def _masked(values: Floats, bits: int) -> Floats:
    kept: npt.NDArray[np.uint64] = values.view(np.uint64) & np.uint64(2**DOUBLE_BITS - 2 ** (DOUBLE_BITS - bits))
    return kept.view(np.float64)


def _distance(got: Floats, given: Floats) -> Floats:
    """Return |got - given|, rounded, which keeps order; 0 for NaN and for equal infinities."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isnan(given) | (got == given), 0.0, np.abs(got - given)))


def _within(what: str, format: Format, given: Floats, got: Floats, exponent: int, bound: float) -> None:
    """Hold normal numbers that stay finite to a relative error, in exact arithmetic."""
    least, largest = float(np.finfo(np.float64).smallest_normal), float(np.finfo(np.float64).max)
    if isinstance(format, FloatFormat):
        with np.errstate(over="ignore"):
            scaled = np.ldexp([format.min_normal, format.max_finite], -exponent)
        least, largest = max(least, float(scaled[0])), min(largest, float(scaled[1]))
    size = np.abs(given)
    holds = np.ones(len(given), dtype=np.bool_)
    for i in np.flatnonzero((size >= least) & (size <= largest) & np.isfinite(got)):
        exact = Fraction(float(given[i]))
        holds[i] = abs(Fraction(float(got[i])) - exact) <= Fraction(bound) * abs(exact)
    _hold(f"{what} are within {bound} of a normal number", format, given, got, holds)


def _prepared(
    engine: Engine, problem: Problem, storage: Format, layout: str, level: Level, start: Floats
) -> tuple[Operator[Any], Any, Any]:
    operator = engine.prepare(problem, storage, layout)
    x, out = operator.load(start), operator.empty()
    return operator.to_float64(x, out) if level == FLOAT64 else (operator, x, out)


def _same_vector(engine: Engine, twin: ReferenceOperator, seen: Floats, got: Floats, level: Level) -> None:
    """Compare what an engine wrote with a reference sweep of what it read."""
    x, out = twin.load(seen), twin.empty()
    twin.sweep(x, out, level, 0)
    right = twin.read(out, level.write)
    allowed = _step(twin, level, np.maximum(np.abs(right), np.abs(got))) + _SUM_ERROR * np.abs(right)
    # A sum of k terms, none of them negative, loses at most a roundoff of its value at each addition; three
    # more belong to the product, damping and teleport.
    additions = twin.problem.graph.in_degree + 3
    allowed += max(engine.sum_roundoff(twin.storage), UNIT) * additions * np.abs(right)
    allowed += engine.mass_roundoff * seen.sum() * twin.problem.sink_or_scalar
    wrong = ~(np.abs(got - right) <= allowed)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise LawError(
            f"engine {engine.name} at {level} of {twin.storage.name} gives node {node} the value {float(got[node])}; "
            f"the reference gives {float(right[node])}"
        )


def _step(operator: ReferenceOperator, level: Level, size: Floats) -> Floats:
    """Return how far apart neighbouring stored values of ``size`` are; 0 for float64."""
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
    """Compare the norms that a full sweep found with those of a reference sweep of the same vector."""
    operator = REFERENCE.prepare(problem, FP64, "csr")
    right = operator.sweep(operator.load(x), operator.empty(), Level(1, 1), 0)
    for norm, given, recomputed in zip(Sweep._fields, found, right, strict=True):
        if not abs(given - recomputed) <= _SUM_ERROR + allowed:
            raise LawError(
                f"engine {name} says {norm} of a full sweep is {given!r}; by the reference it is {recomputed!r}"
            )
