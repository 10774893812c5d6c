"""Progress bars (tqdm) whose names are escaped and abbreviated; no other module draws them.

They are drawn on a terminal's standard error alone. A bar has the time that is left; a solve's follows from the digits
of the residual that are still missing. Work whose end is not known, such as a compilation, has its name and the time
since it began.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

from cpms.base import work_clock
from cpms.base.text import escape

_LONGEST_NAME = 40
"""Characters of a name in a bar."""
_EVERY_S = 0.5
"""Seconds between two looks at a command that shows no bar of its own."""


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


class ResidualBar:
    """A bar that fills as the exponent of the residual approaches that of the tolerance."""

    def __init__(self, tol: float) -> None:
        self._digits = max(1.0, -math.log10(tol)) if tol > 0 else 1.0
        self._bar = Bar(
            total=round(self._digits, 1),
            disable=not sys.stderr.isatty(),
            leave=False,
            desc="residual",
            bar_format="{desc} |{bar}| {elapsed}, {remaining} left",
        )

    def __enter__(self) -> ResidualBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def step(self, step: Any) -> None:
        """Show one iteration, which has ``iteration``, ``bits`` and ``residual``."""
        if step.residual > 0:
            self._bar.n = round(min(self._digits, max(0.0, -math.log10(step.residual))), 1)
        self._bar.set_description(f"iteration {step.iteration}, {step.bits} bits, residual {step.residual:.1e}")


class _Compilations:
    """A line with the name of what is compiled; of nested compilations it is the outermost."""

    def __init__(self) -> None:
        self._depth, self._count = 0, 0
        self._bar: Bar | None = None

    def __call__(self, name: str | None) -> None:
        self._depth = max(0, self._depth + (1 if name is not None else -1))
        if name is not None and self._depth == 1:
            self._count += 1
            self._bar = Bar(bar_format="{desc}{elapsed}", leave=False)
            self._bar.set_description(f"compiling {name}, {self._count} so far; later runs reuse it")
        elif self._depth == 0:
            self.close()

    def close(self) -> None:
        """Remove the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


@contextmanager
def compilations() -> Iterator[None]:
    """Show each compilation of the block by its name, on a terminal's standard error."""
    if not sys.stderr.isatty():
        yield
        return
    shown = _Compilations()
    try:
        with work_clock.watched(shown):
            yield
    finally:
        shown.close()


@contextmanager
def working(name: str, *, after_s: float = 2.0) -> Iterator[None]:
    """Show a name and the time since the block began on a terminal, while no bar is shown that knows what is left.

    Parameters
    ----------
    name : str
    after_s : float
        Seconds until it is shown.
    """
    if not sys.stderr.isatty():
        yield
        return
    done, began = Event(), time.time()

    def show() -> None:
        line: Bar | None = None
        pause = after_s
        while not done.wait(pause):
            pause = _EVERY_S
            if len(Bar._instances) > (line is not None):  # type: ignore[attr-defined]
                if line is not None:
                    line.close()
                line = None
                continue
            if line is None:
                line = Bar(bar_format="{desc}, {elapsed}", leave=False, desc=name, delay=1e-9)
                line.start_t = began
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


def _name(text: str) -> str:
    return escape.terminal(" ".join(escape.abbreviate(word, _LONGEST_NAME) for word in text.split(" ")))
