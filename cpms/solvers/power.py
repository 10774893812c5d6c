"""PageRank by power iteration (Brin and Page, 1998) at the precision levels that a controller chooses.

This is Algorithm 1 of Gruetzmacher et al. (the CPMS paper), and "Line" in a comment is its line. It needs the contract
`Operator` alone. An iteration costs one sweep, which reads the leading segments of each value that its level names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cpms.base import plugins, work_clock
from cpms.base.errors import InputError
from cpms.base.text.counted import counted
from cpms.base.types import Floats
from cpms.contracts.operator import Operator, Sweep, Sweeps
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import STALLED_ITERATIONS, Stopping
from cpms.formats.formats import Format
from cpms.precision.controllers import FLOAT64, Controller, Level, first_level, next_level

_SURE, _FALL = 0.9, 0.5
"""Safety factor of a predicted change, and the predicted ratio of the second change to the first."""


def _read(operator: Operator[Any], x: Any, segments: int) -> Floats:
    return operator.read(x, segments)


def power(
    operator: Operator[Any],
    first: Floats,
    controller: Controller,
    stopping: Stopping,
    on_step: Callable[[Step], None] | None = None,
    *,
    confirmed: Callable[[Floats], bool] | None = None,
    answer: Callable[[Operator[Any], Any, int], Floats] = _read,
) -> tuple[Floats, Status, list[Step]]:
    """Iterate x = G(x) from ``first``, at the levels the controller chooses.

    A change below the tolerance ends the solve if ``confirmed`` is true of the answer, since truncated values may stop
    changing early. If not, iterations continue while the level rises or the change falls in L1. ``answer`` makes an
    answer of the operator's vector and the segments written.
    """
    storage: Format = operator.storage
    level, state = first_level(controller, storage)
    x, out = operator.load(first), operator.empty()
    written = storage.segments
    if level == FLOAT64:
        operator, x, out = operator.to_float64(x, out)
        written = 0
    history: list[Step] = []
    measured: Level | None = None
    read = wrote = 64
    l1: list[float] = []
    ahead: Callable[[], Sweep] | None = None
    began = work_clock.now()
    _check_level(level, written, controller, storage)
    while True:  # Line 4.
        queued = ahead or operator.queue(x, out, level, len(history), stopping.norm)
        if queued:
            continues = _continues(history, controller, state, level, stopping)
            ahead = operator.queue(out, x, level, len(history) + 1, stopping.norm) if continues else None
            found, ends_s = [queued()], [0.0]
        else:
            found, ends_s = _sweeps(operator, x, out, level, controller, len(history), stopping)  # Lines 5 to 7.
        # Sweeps are timed by a clock of their own, which leaves out their launch.
        began_s = work_clock.now() - began - ends_s[-1]
        if len(found) % 2:
            x, out = out, x
        written = level.write
        if level is not measured:
            measured, (read, wrote) = level, _bits(level, storage)
        if history and history[-1].bits != read:
            l1.clear()
        for sweep, end_s in zip(found, ends_s, strict=True):
            change = sweep.of(stopping.norm)
            history.append(Step(len(history) + 1, change, level, read, wrote, sweep.mass, began_s + end_s))
            if on_step:
                on_step(history[-1])
            l1.append(sweep.l1)
        status = status_after(history, l1, stopping)  # Line 9.
        if status is Status.STAGNATED and controller.rises_later(state):
            status = None
        if status not in (None, Status.CONVERGED):
            return answer(operator, x, written), status, history
        following, state = next_level(controller, state, change)
        if status is Status.CONVERGED:
            ranks = answer(operator, x, written)
            may_improve = following != level or controller.rises_later(state) or _falls(l1)
            if confirmed is None or confirmed(ranks) or not may_improve or len(history) >= stopping.max_iterations:
                return ranks, status, history
        _check_level(following, written, controller, storage)
        if following is level or following == level:
            continue
        ahead = None
        converts = following == FLOAT64
        if converts:
            operator, x, out = operator.to_float64(x, out)
            written = 0
        if converts or following.read > level.read:
            operator.scale(x, 1.0 / found[-1].mass, written)
        level = following


def _sweeps(
    operator: Operator[Any], x: Any, out: Any, level: Level, controller: Controller, done: int, stopping: Stopping
) -> Sweeps:
    """Sweep as often as the operator does in one call, but once where the next level depends on this sweep."""
    most = (stopping.iterations or stopping.max_iterations) - done if controller.constant else 1
    tol = 0.0 if stopping.iterations else stopping.tol
    return operator.sweeps(x, out, level, done, norm=stopping.norm, tol=tol, most=most)


def _falls(l1: list[float]) -> bool:
    """Return whether the last change is smaller than the one before it, and not 0."""
    return l1[-1] > 0.0 and (len(l1) < 2 or l1[-1] < l1[-2])


def _continues(history: list[Step], controller: Controller, state: Any, level: Level, stopping: Stopping) -> bool:
    """Return whether the queued sweep is probably not the last at its level, by the rate of recent changes.

    The next sweep may then be queued before the norms of this one are known; it overwrites no result that is needed.
    """
    if len(history) + 1 >= (stopping.iterations or stopping.max_iterations):
        return False
    # Before two changes are known, a large one is assumed.
    last = history[-1].residual if history else 1.0
    falls = last / history[-2].residual if len(history) > 1 and history[-2].residual > 0.0 else _FALL
    expected = _SURE * last * min(1.0, falls)
    ends = not stopping.iterations and expected < stopping.tol
    if ends or controller.constant:
        return not ends
    following, _ = next_level(controller, state, expected)
    return following is level or following == level


def _bits(level: Level, storage: Format) -> tuple[int, int]:
    """Return the bits of a value that a sweep reads and writes."""
    if level == FLOAT64:
        return 64, 64
    return storage.bits(level.read), storage.bits(level.write)


def _check_level(level: Level, written: int, controller: Controller, storage: Format) -> None:
    """Refuse a level beyond the segments of the format, or one that reads segments that no sweep has written."""
    if level == FLOAT64:
        return
    most = storage.segments
    is_level_of_format = 1 <= level.read <= most and 1 <= level.write <= most
    if is_level_of_format and level.read <= written:
        return
    who = plugins.described_plugin(controller, "the controller")
    if not written:
        raise InputError(
            f"{who} asks for {level} after float64; what was converted stays float64: return Level(0, 0) from then on"
        )
    if not is_level_of_format:
        raise InputError(
            f"{who} asks for {level}, but {storage.name} has {counted(most, 'segment')}; "
            f"let it return levels from Level(1, 1) to Level({most}, {most}) or Level(0, 0) for plain float64, "
            "or give a storage of more segments, such as cpms4"
        )
    raise InputError(
        f"{who} reads {level.read} segments where only {written} were written; "
        f"let it return {Level(written, level.read)} one sweep earlier"
    )


def status_after(history: list[Step], l1: list[float], stopping: Stopping) -> Status | None:
    """Return the status of a solve that ends, else None; ``l1`` are the changes in L1 at the present number of bits.

    In L1 each sweep reduces the change by the damping, down to rounding. In L2 and Linf changes of several nodes can
    flow to one node, so these norms may grow for a while without stagnation.
    """
    done, change = len(history), history[-1].residual
    if not (math.isfinite(change) and math.isfinite(history[-1].mass) and history[-1].mass > 0):
        return Status.NON_FINITE
    if stopping.iterations is not None:
        return Status.FIXED if done == stopping.iterations else None
    if done >= 2 and change < stopping.tol:
        return Status.CONVERGED
    if done >= stopping.max_iterations:
        return Status.MAX_ITERATIONS
    recent, earlier = l1[-STALLED_ITERATIONS:], l1[:-STALLED_ITERATIONS]
    return Status.STAGNATED if earlier and min(recent) >= min(earlier) else None
