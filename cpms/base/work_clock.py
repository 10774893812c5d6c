"""A clock that excludes compilation: it is stopped while a compiler runs for its thread, so solves are timed alone.

Numba reports its compilations by events; other compilers are marked by `compiling`. Overlapping compilations of threads
that work for the same caller count once. Reading the clock takes a lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _Compilers:
    """Time in which compilers ran for a thread and for threads that work for it; overlaps count once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running, self._since, self._spent = 0, 0.0, 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._running:
                self._since = time.perf_counter()
            self._running += 1

    def end(self) -> None:
        with self._lock:
            if not self._running:  # It began before the listener was registered.
                return
            self._running -= 1
            if not self._running:
                self._spent += time.perf_counter() - self._since

    def seconds(self, until: float) -> float:
        """Return the time up to ``until``."""
        with self._lock:
            return self._spent + (max(0.0, until - self._since) if self._running else 0.0)


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.compilers = _Compilers()


_thread = _ThreadState()


def now() -> float:
    """Return the seconds since a fixed moment, without those in which compilers ran for this thread.

    Examples
    --------
    >>> began = now()
    >>> began <= now()
    True
    """
    moment = time.perf_counter()
    return moment - _thread.compilers.seconds(moment)


def compiled_s() -> float:
    """Return the seconds in which compilers have run for this thread so far.

    Examples
    --------
    >>> before = compiled_s()
    >>> with compiling():
    ...     pass
    >>> compiled_s() > before
    True
    """
    return _thread.compilers.seconds(time.perf_counter())


def compiler_starts() -> None:
    """Stop the clock of this thread while a compiler runs; calls may nest."""
    _thread.compilers.begin()


def compiler_ends() -> None:
    """Restart the clock of this thread after the outermost compiler."""
    _thread.compilers.end()


@contextmanager
def compiling(name: str = "") -> Iterator[None]:
    """Count the time of the block as compilation, or as loading of compiled code; report its name if it has one."""
    compilers = _thread.compilers
    compilers.begin()
    try:
        with reported(name) if name else nullcontext():
            yield
    finally:
        compilers.end()


_watchers: list[Callable[[str | None], None]] = []


@contextmanager
def watched(watcher: Callable[[str | None], None]) -> Iterator[None]:
    """Call ``watcher`` with the name of each compilation of the block as it begins, and with None as it ends.

    Examples
    --------
    >>> with watched(print), compiling("kernel"):
    ...     pass
    kernel
    None
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@contextmanager
def reported(name: str) -> Iterator[None]:
    """Report a compilation by its name to watchers."""
    report(name)
    try:
        yield
    finally:
        report(None)


def report(name: str | None) -> None:
    """Report that a compilation begins, by its name, or that one ends, by None."""
    for watcher in tuple(_watchers):
        watcher(name)


def counted_for_caller(work: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return ``work`` for another thread, whose compilations count for the calling thread.

    Examples
    --------
    >>> def work():
    ...     with compiling():
    ...         pass
    >>> before, other = compiled_s(), threading.Thread(target=counted_for_caller(work))
    >>> other.start(), other.join()
    (None, None)
    >>> compiled_s() > before
    True
    """
    compilers = _thread.compilers

    def in_other_thread(*given: Any) -> Answer:
        own, _thread.compilers = _thread.compilers, compilers
        try:
            return work(*given)
        finally:
            _thread.compilers = own

    return in_other_thread
