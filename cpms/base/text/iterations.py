"""Phases of work and iterations of a solve on a terminal; elsewhere nothing is loaded for them: starts stay short."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def iterations_shown(tol: float) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function that shows an iteration on standard error, for ``on_step``; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from cpms.base.text.progress import ResidualBar

    with ResidualBar(tol) as bar:
        yield bar.step


@contextmanager
def work_shown(name: str) -> Iterator[None]:
    """Show the phases of the block on standard error, and its name where it has none, if that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from cpms.base.text.progress import compilations, working

    with compilations(), working(name):
        yield
