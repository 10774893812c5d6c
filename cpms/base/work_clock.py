"""A clock for work: it stands still while a compiler is at work for it, so that compiling never counts as solving."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _Compilers:
    """How long compilers were at work for a thread and for those that work for it; what overlaps counts once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work, self._since, self._spent = 0, 0.0, 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._at_work:
                self._since = time.perf_counter()
            self._at_work += 1

    def end(self) -> None:
        with self._lock:
            if not self._at_work:  # What began before anybody listened.
                return
            self._at_work -= 1
            if not self._at_work:
                self._spent += time.perf_counter() - self._since

    def seconds(self, until: float) -> float:
        """Return how long, up to that moment."""
        with self._lock:
            return self._spent + (max(0.0, until - self._since) if self._at_work else 0.0)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.compilers = _Compilers()


_here = _OfThread()


def now() -> float:
    """Return seconds since some moment, without those in which compilers were at work for this thread.

    Examples
    --------
    >>> began = now()
    >>> began <= now()
    True
    """
    moment = time.perf_counter()
    return moment - _here.compilers.seconds(moment)


def compiled_s() -> float:
    """Return the seconds in which compilers have been at work for this thread so far.

    Examples
    --------
    >>> before = compiled_s()
    >>> with compiling():
    ...     pass
    >>> compiled_s() > before
    True
    """
    return _here.compilers.seconds(time.perf_counter())


def compiler_starts() -> None:
    """Note that a compiler is at work for this thread from now on; calls may nest."""
    _here.compilers.begin()


def compiler_ends() -> None:
    """Note that the compiler that started last is done."""
    _here.compilers.end()


@contextmanager
def compiling() -> Iterator[None]:
    """Say that the block compiles, or loads what has been compiled before."""
    compilers = _here.compilers
    compilers.begin()
    try:
        yield
    finally:
        compilers.end()


def carried(work: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return ``work`` for another thread: what is compiled there is compiled for the thread that calls this.

    Examples
    --------
    >>> def work():
    ...     with compiling():
    ...         pass
    >>> before, other = compiled_s(), threading.Thread(target=carried(work))
    >>> other.start(), other.join()
    (None, None)
    >>> compiled_s() > before
    True
    """
    compilers = _here.compilers

    def for_another(*given: Any) -> Answer:
        own, _here.compilers = _here.compilers, compilers
        try:
            return work(*given)
        finally:
            _here.compilers = own

    return for_another
