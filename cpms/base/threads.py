"""Work split over threads: compiled loops release the interpreter lock, so plain threads do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache
from threading import Barrier, Lock, local
from typing import TypeVar

from cpms.base import work_clock
from cpms.base.errors import UnavailableError

Part = TypeVar("Part")
Answer = TypeVar("Answer")


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available() -> int:
    """Return the number of threads to use: the processors of this process, or the limit set."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _limit.get() or processors


@contextmanager
def limited(count: int | None) -> Iterator[None]:
    """Use ``count`` threads within the block; None changes nothing.

    Examples
    --------
    >>> with limited(1):
    ...     available()
    1
    """
    token = _limit.set(count or _limit.get())
    try:
        yield
    finally:
        _limit.reset(token)


_here = local()


def _enter() -> None:
    _here.works = True


def _works() -> bool:
    """Return whether this is a thread of a pool: it must not wait for others of its pool, which may do the same."""
    return getattr(_here, "works", False)


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads have all been started: lanes would wait for ever for one that cannot be."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="cpms", initializer=_enter)
    meeting = Barrier(threads)
    try:
        wait([pool.submit(meeting.wait) for _ in range(threads)])
    except RuntimeError as error:
        meeting.abort()
        pool.shutdown()
        raise UnavailableError(
            f"{threads} threads cannot be started ({error}); raise the limits of processes and of memory, "
            "or let this process run on fewer processors"
        ) from None
    return pool


def each(work: Callable[[Part], Answer], parts: Sequence[Part], *, threads: int | None = None) -> list[Answer]:
    """Apply ``work`` to each part, in threads, and return the answers in the order of the parts.

    Work that calls this itself does its own parts one after the other.

    Examples
    --------
    >>> each(abs, [-1, 2])
    [1, 2]
    """
    count = min(threads or available(), len(parts))
    if count <= 1 or _works():
        return [work(part) for part in parts]
    return list(_pool(count).map(work_clock.carried(work), parts))


_together = Lock()


def _begin_anew() -> None:
    """Forget threads that only the process has from which this one was forked."""
    global _together
    _pool.cache_clear()
    _together = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def together(work: Callable[[int, int], Answer], most: int) -> list[Answer]:
    """Call ``work(lane, lanes)`` for each lane at the same time, so that lanes may wait for each other.

    There are ``most`` lanes; or one, where another call of this function is under way or it is called in
    one of our threads, since two that share threads could wait for each other for ever. What interrupts the
    caller, such as Ctrl-C, is raised when all lanes have ended: each of them is in a thread of a pool, so that it
    keeps none from coming to where the others wait for it.

    Examples
    --------
    >>> together(lambda lane, lanes: lane < lanes, 2)
    [True, True]
    """
    if most > 1 and not _works() and _together.acquire(blocking=False):
        try:
            return _all_at_once(work, most)
        finally:
            _together.release()
    return [work(0, 1)]


def _all_at_once(work: Callable[[int, int], Answer], lanes: int) -> list[Answer]:
    pool, work = _pool(lanes), work_clock.carried(work)
    futures: list[Future[Answer]] = []
    try:
        futures += [pool.submit(work, lane, lanes) for lane in range(lanes)]
        return [future.result() for future in futures]
    finally:
        wait(futures)


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do ``work`` in a thread while the block runs; what that raises is raised at the end of the block.

    Examples
    --------
    >>> done = []
    >>> with beside(lambda: done.append(1)):
    ...     pass
    >>> done
    [1]
    """
    with ThreadPoolExecutor(1, thread_name_prefix="cpms-beside") as pool:
        done = pool.submit(copy_context().run, work_clock.carried(work))
        yield
    done.result()


def stretches(length: int, *, at_least: int, parts: int | None = None) -> list[tuple[int, int]]:
    """Cut ``range(length)`` into stretches of ``at_least`` (but for the last), or longer ones, to be at most ``parts``.

    Examples
    --------
    >>> stretches(10, at_least=4), stretches(10, at_least=4, parts=2)
    ([(0, 4), (4, 8), (8, 10)], [(0, 5), (5, 10)])
    """
    step = at_least if parts is None else max(at_least, -(-length // parts))
    return [(low, min(low + step, length)) for low in range(0, length, step)]
