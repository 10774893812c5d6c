"""A bar of the iterations of a solve on a terminal; elsewhere nothing is loaded for it, which keeps starts short."""

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
