"""A process's first call on a small graph loads only the compiled loops that nothing else can replace.

Loading a loop takes time even from a cache, and far more without one. NumPy, or the interpreter, does the work of one
call on a small graph in less, to the same bits. A process that calls once never loads those loops; later calls load all
that they use. The decision is taken once a call, where it begins, and holds until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_ENTRIES = 1 << 17
"""Entries of the largest graph of which loops do not repay their loading in one call."""
_spares: ContextVar[bool] = ContextVar("spares", default=False)
_is_over = False


@contextmanager
def begun(entries: int, *, ends: bool = True) -> Iterator[None]:
    """Decide whether the block, a call on a graph of some entries, spares loops; code outside of calls loads all.

    Parameters
    ----------
    entries : int
        Entries that the call handles: those of its graph for each query.
    ends : bool
        Whether the first call is over after the block, or another block continues it.

    Examples
    --------
    >>> with begun(MOST_ENTRIES + 1):
    ...     spares_loops()
    False
    """
    token = _spares.set(not _is_over and entries <= MOST_ENTRIES)
    try:
        yield
    finally:
        _spares.reset(token)
        if ends:
            end()


def spares_loops() -> bool:
    """Return whether the present call leaves out compiled loops that NumPy or the interpreter can replace."""
    return _spares.get()


def end() -> None:
    """Let all calls that begin from now on load their loops, such as those to be measured."""
    global _is_over
    _is_over = True
