"""Progress bars (tqdm) whose names are escaped and abbreviated; no other module draws them.

They are drawn on a terminal's standard error alone. A bar shows the time that is left. For a solve, this is estimated
from the rate at which the residual has fallen (`time_left_s`); for an experiment, from its finished cells and the done
part of the present one; for other work, from the done part of its phase (`cpms.base.text.phases`). A phase whose size
is not known, such as a compilation, is shown with its name and the time since it began.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

from cpms.base import work_clock
from cpms.base.text import escape, phases

_LONGEST_NAME = 40
"""Characters of a name in a bar."""
_AFTER_S, _EVERY_S = 2.0, 0.5
"""Seconds until work is shown, and between two looks at its phase."""
_LEAST_DECADES = 0.5
"""Decades by which a residual must have fallen before the time that is left is estimated."""


class Bar(tqdm):  # type: ignore[type-arg]
    """A progress bar; the names in it are escaped and abbreviated."""

    def __init__(self, *given: Any, desc: str | None = None, **options: Any) -> None:
        options["desc"] = None if desc is None else _name(desc)
        super().__init__(*given, **options)

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        """Show text in front of the bar."""
        super().set_description(None if desc is None else _name(desc), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Show text behind the bar."""
        super().set_postfix_str(_name(s), refresh)

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm formats; the present phase of the work is named behind the bar."""
        given, phase = dict(super().format_dict), phases.current()
        if phase is not None:
            given["postfix"] = ", ".join(filter(None, [given["postfix"], _name(phase.name)]))
        return given


class CellBar(Bar):
    """A bar of items, of which the present one counts with its done part (`part_done`)."""

    def __init__(self, items: Collection[Any], **options: Any) -> None:
        self._part = 0.0
        super().__init__(items, **options)

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm formats: finished items, and the time that is left, estimated from these and the done part."""
        given = super().format_dict
        done, elapsed, total = given["n"] + self._part, given["elapsed"], given["total"]
        left = elapsed * (total - done) / done if done and total else None
        given["bar_format"] = f"{{l_bar}}{{bar}}| {{n_fmt}}/{{total_fmt}} [{{elapsed}}<{_interval(left)}{{postfix}}]"
        return given

    def __iter__(self) -> Iterator[Any]:
        global _shown
        before, _shown = _shown, self
        try:
            for item in super().__iter__():
                yield item
                self._part = 0.0
        finally:
            _shown = before

    def show_part(self, part: float) -> None:
        """Show that a part of the present item is done, from 0 to 1."""
        self._part = part
        if not self.disable and time.time() - self.last_print_t >= self.mininterval:
            self.last_print_t = time.time()
            self.refresh()


_shown: CellBar | None = None
"""The bar of the items that are being worked on."""


def part_done(done: int, total: int) -> None:
    """Show how much of the present item of a bar is done; nothing happens without a bar.

    Measurements call it between what they time.
    """
    if _shown is not None:
        _shown.show_part(done / total)


def time_left_s(first: tuple[float, float], last: tuple[float, float], tol: float) -> float | None:
    """Return the estimated seconds until a residual meets its tolerance: those of a decade so far, times decades left.

    This assumes linear convergence, in which the residual falls by the same factor in each iteration. None is returned
    before it has fallen by `_LEAST_DECADES`, and for numbers that have no logarithm.

    Parameters
    ----------
    first, last : (float, float)
        Seconds since the solve began and residual, of the first iteration and of the one with the least residual so
        far; the seconds of ``last`` are those of now.
    tol : float

    Examples
    --------
    >>> time_left_s((0.0, 1.0), (6.0, 1e-3), 1e-10)
    14.0
    >>> time_left_s((0.0, 1.0), (6.0, 0.9), 1e-10) is None
    True
    """
    (began_s, highest), (now_s, residual) = first, last
    if not (0 < residual <= highest < math.inf and tol > 0):
        return None
    fallen = math.log10(highest / residual)
    if fallen < _LEAST_DECADES:
        return None
    return (now_s - began_s) / fallen * max(0.0, math.log10(residual / tol))


class ResidualBar:
    """A bar that fills as the exponent of the residual approaches that of the tolerance, with the time that is left."""

    def __init__(self, tol: float, *, after_s: float = _AFTER_S) -> None:
        self._tol, self._digits = tol, max(1.0, -math.log10(tol)) if tol > 0 else 1.0
        self._first: tuple[float, float] | None = None
        self._least = math.inf
        self._bar: Bar | None = None
        self._begins = time.monotonic() + after_s

    def __enter__(self) -> ResidualBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, step: Any) -> None:
        """Show one iteration, which has ``iteration``, ``bits``, ``residual`` and ``seconds``, its end in the solve."""
        if step.residual > 0:
            self._first = self._first or (step.seconds, step.residual)
            self._least = min(self._least, step.residual)
        if time.monotonic() < self._begins or not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = Bar(total=round(self._digits, 1), leave=False, bar_format="{desc} |{bar}| {elapsed}{postfix}")
            self._bar.start_t -= step.seconds
        left = None
        if step.residual > 0 and self._first is not None:
            self._bar.n = round(min(self._digits, max(0.0, -math.log10(step.residual))), 1)
            left = time_left_s(self._first, (step.seconds, self._least), self._tol)
        self._bar.set_postfix_str("" if left is None else f"{_interval(left)} left", refresh=False)
        self._bar.set_description(f"iteration {step.iteration}, {step.bits} bits, residual {step.residual:.1e}")


class _Compilations:
    """Makes each compilation a phase; of nested ones the outermost."""

    def __init__(self) -> None:
        self._depth, self._count = 0, 0
        self._phase: AbstractContextManager[object] = nullcontext()

    def __call__(self, name: str | None) -> None:
        self._depth = max(0, self._depth + (1 if name is not None else -1))
        if name is not None and self._depth == 1:
            self._count += 1
            self._phase = phases.phase(f"compiling {name}, {self._count} so far; later runs reuse it")
            self._phase.__enter__()
        elif self._depth == 0:
            self.close()

    def close(self) -> None:
        """End the phase."""
        self._phase.__exit__(None, None, None)
        self._phase = nullcontext()


@contextmanager
def compilations() -> Iterator[None]:
    """Make each compilation of the block a phase with its name."""
    found = _Compilations()
    try:
        with work_clock.watched(found):
            yield
    finally:
        found.close()


class _PhaseBar(Bar):
    """The present phase of a command with the time that is left, or the time since its beginning where that is unknown.

    ``command`` stands for work outside of phases; ``now`` is the work clock of the thread that works.
    """

    def __init__(self, command: phases.Phase, now: Callable[[], float]) -> None:
        self._command, self._now = command, now
        super().__init__(leave=False, delay=1e-9)

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm formats."""
        phase = phases.current() or self._command
        given = dict(super(Bar, self).format_dict)
        given |= {"prefix": _name(phase.name), "elapsed": time.time() - phase.began_s}
        if phase.part is None:
            return given | {"bar_format": "{desc}, {elapsed}"}
        left = _interval(phase.left_s(self._now()))
        return given | {"n": phase.part, "total": 1.0, "bar_format": f"{{l_bar}}{{bar}}| {{elapsed}}<{left}"}


@contextmanager
def working(command: str, *, after_s: float = _AFTER_S) -> Iterator[None]:
    """Show the phase of the block on a terminal, while no other bar is shown, or ``command`` where it has none.

    A bar that is shown meanwhile is drawn again while a phase lasts, which it names, and once after its end.

    Parameters
    ----------
    command : str
    after_s : float
        Seconds until it is shown.
    """
    if not sys.stderr.isatty():
        yield
        return
    done, began = Event(), phases.Phase(command)
    now = work_clock.counted_for_caller(work_clock.now)

    def show() -> None:
        line: Bar | None = None
        pause, in_phase = after_s, False
        while not done.wait(pause):
            pause = _EVERY_S
            with Bar.get_lock():  # type: ignore[no-untyped-call]
                others = [bar for bar in Bar._instances if bar is not line]  # type: ignore[attr-defined]
                in_phase, was_in_phase = phases.current() is not None, in_phase
                for bar in others if in_phase or was_in_phase else ():
                    bar.refresh(nolock=True)
            if others and line is not None:
                line.close()
                line = None
            elif not others:
                line = _PhaseBar(began, now) if line is None else line
                line.refresh()
        if line is not None:
            line.close()

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _interval(seconds: float | None) -> str:
    """Return a time as a clock shows it."""
    return "?" if seconds is None else Bar.format_interval(seconds)


def _name(text: str) -> str:
    return escape.terminal(" ".join(escape.abbreviate(word, _LONGEST_NAME) for word in text.split(" ")))
