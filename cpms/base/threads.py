"""Work split over a pool of threads, by independent parts or by lanes that wait for each other.

Numba's loops and NumPy's release the interpreter lock, so threads of Python suffice, and memory is shared without
copies. A pool of each size is started once a process. Seconds of compilers are counted for the caller; see
`cpms.base.work_clock`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from itertools import chain, islice
from threading import Barrier, Lock, local
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cpms.base import work_clock
from cpms.base.errors import UnavailableError
from cpms.base.host_memory import processors

Part = TypeVar("Part")
Answer = TypeVar("Answer")


_PARTS_AHEAD = 2
"""Parts that `in_order` has in work, for each thread."""
_VALUES = 1 << 15
"""Least number of values in a task: they stay in a core's cache."""
_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available() -> int:
    """Return the number of threads to use: the processors of this process, or the limit set."""
    return _limit.get() or processors()


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


_thread = local()


def _enter() -> None:
    _thread.in_pool = True


def _in_pool() -> bool:
    """Return whether this is a thread of a pool: it must not wait for others of its pool, which may do the same."""
    return getattr(_thread, "in_pool", False)


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads have all been started: lanes would wait for ever for one that cannot start."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="cpms", initializer=_enter)
    barrier = Barrier(threads)
    try:
        wait([pool.submit(barrier.wait) for _ in range(threads)])
    except RuntimeError as error:
        barrier.abort()
        pool.shutdown()
        raise UnavailableError(
            f"{threads} threads cannot be started ({error}); raise the limits of processes and of memory, "
            "or let this process run on fewer processors"
        ) from None
    return pool


def each(work: Callable[[Part], Answer], parts: Sequence[Part], *, threads: int | None = None) -> list[Answer]:
    """Apply ``work`` to each part, in threads, and return the answers in the order of the parts.

    A call from within a thread of a pool works on its parts one after the other.

    Examples
    --------
    >>> each(abs, [-1, 2])
    [1, 2]
    """
    count = len(parts) if len(parts) <= 1 else min(threads or available(), len(parts))
    if count <= 1 or _in_pool():
        return [work(part) for part in parts]
    return _in_turn(work_clock.counted_for_caller(work), parts, count)


def each_beside_caller(work: Callable[[Part], object], parts: Sequence[Part], *, helpers: int) -> None:
    """Apply ``work`` to each part, in the calling thread and in at most ``helpers`` others.

    The caller begins at once, and a helper that wakes when no part is left is not waited for. So parts may take less
    time than a thread needs to wake.

    Examples
    --------
    >>> done = []
    >>> each_beside_caller(done.append, [1, 2, 3], helpers=1)
    >>> sorted(done)
    [1, 2, 3]
    """
    waiting = deque(parts)

    def take() -> None:
        for part in _taken(waiting):
            work(part)

    count = 0 if _in_pool() else min(helpers, available() - 1, len(parts) - 1)
    taken = work_clock.counted_for_caller(take)
    futures = [_pool(available()).submit(taken) for _ in range(count)]
    try:
        take()
    finally:
        begun = [future for future in futures if not future.cancel()]
        wait(begun)
    for future in begun:
        future.result()


@contextmanager
def _on_own_processor(thread: int, of: int) -> Iterator[None]:
    """Keep this thread on a processor of its own within the block, if there are as many as threads.

    Threads that have just been woken may share a processor for milliseconds before the system spreads them, and lanes
    that yield to each other at barriers much longer.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if len(allowed) != of:
        yield
        return
    with suppress(OSError):
        os.sched_setaffinity(0, {sorted(allowed)[thread]})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def _in_turn(work: Callable[[Part], Answer], parts: Sequence[Part], count: int) -> list[Answer]:
    """Let each of ``count`` threads take the next part until none is there: a part costs no task of the pool."""
    answers: dict[int, Answer] = {}
    places = deque(range(len(parts)))

    def take(thread: int) -> None:
        with _on_own_processor(thread, count):
            for place in _taken(places):
                answers[place] = work(parts[place])

    futures = [_pool(count).submit(take, thread) for thread in range(count)]
    try:
        for future in futures:
            future.result()
    finally:
        wait(futures)
    return [answers[place] for place in range(len(parts))]


def _taken(waiting: deque[Part]) -> Iterator[Part]:
    """Yield what no other thread has taken yet, until nothing is left; each part goes to one thread."""
    while waiting:
        try:
            part = waiting.popleft()
        except IndexError:  # Another thread took the last one.
            return
        yield part


def concatenated(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return one-dimensional arrays end to end in new memory, copied by threads.

    Examples
    --------
    >>> concatenated([np.array([1], np.int32), np.array([2, 3])]).tolist()
    [1, 2, 3]
    """
    ends = np.cumsum([len(array) for array in arrays])
    made = np.empty(int(ends[-1]), np.result_type(*arrays))

    def copy(part: int) -> None:
        made[ends[part] - len(arrays[part]) : ends[part]] = arrays[part]

    each(copy, range(len(arrays)))
    return made


def largest_size(values: npt.NDArray[Any]) -> float:
    """Return the largest absolute value of finite ones, in one dimension; 0 of none.

    Examples
    --------
    >>> largest_size(np.array([1.0, -2.0]))
    2.0
    """

    def largest(part: tuple[int, int]) -> float:
        within = values[slice(*part)]
        return max(float(within.max()), -float(within.min()))

    return max(each(largest, ranges(len(values), at_least=_VALUES)), default=0.0)


def in_order(work: Callable[[Part], Answer], parts: Iterable[Part]) -> Iterator[Answer]:
    """Yield ``work`` of each part, in the order of the parts, computed by threads some parts ahead of the caller.

    An error, of ``work`` or of ``parts``, is raised after the answers of all parts before it.

    Examples
    --------
    >>> list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    count, source = available(), iter(parts)
    begin = list(islice(source, 1))
    if count <= 1 or _in_pool() or not begin:
        yield from map(work, chain(begin, source))
        return
    ahead: deque[Future[Answer]] = deque()
    submitted, failure, is_read = work_clock.counted_for_caller(work), None, False
    pool = None
    try:
        while True:
            while not is_read and len(ahead) < _PARTS_AHEAD * count:
                try:
                    part = begin.pop() if begin else next(source)
                    pool = pool or _pool(count)
                    ahead.append(pool.submit(submitted, part))
                except StopIteration:
                    is_read = True
                except Exception as error:  # noqa: BLE001 - it is raised in its turn.
                    failure, is_read = error, True
            if not ahead:
                break
            yield ahead.popleft().result()
        if failure is not None:
            raise failure
    finally:
        for left in ahead:
            left.cancel()
        wait(ahead)


_lanes_in_use = Lock()


def _reset_after_fork() -> None:
    """Drop the pools and the lock in a child process: threads of its parent do not exist there."""
    global _lanes_in_use
    _pool.cache_clear()
    _lanes_in_use = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def run_lanes(work: Callable[[int, int], Answer], most: int) -> list[Answer]:
    """Call ``work(lane, lanes)`` for each lane at the same time, so that lanes may wait for each other.

    There are ``most`` lanes. There is one lane while another call of this function runs, and in a call from a thread
    of a pool: two sets of lanes on the same threads could wait for each other for ever. The caller runs no lane
    itself, so an interrupt such as Ctrl-C keeps no lane from a barrier; it is raised when all lanes have ended.

    Examples
    --------
    >>> run_lanes(lambda lane, lanes: lane < lanes, 2)
    [True, True]
    """
    if most > 1 and not _in_pool() and _lanes_in_use.acquire(blocking=False):
        try:
            return _submit_lanes(work, most)
        finally:
            _lanes_in_use.release()
    return [work(0, 1)]


def _submit_lanes(work: Callable[[int, int], Answer], lanes: int) -> list[Answer]:
    pool, work = _pool(lanes), work_clock.counted_for_caller(work)
    futures: list[Future[Answer]] = []

    def on_own_processor(lane: int) -> Answer:
        with _on_own_processor(lane, lanes):
            return work(lane, lanes)

    try:
        futures += [pool.submit(on_own_processor, lane) for lane in range(lanes)]
        return [future.result() for future in futures]
    finally:
        wait(futures)


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[None]:
    """Run ``work`` in a thread while the block runs; an error of ``work`` is raised at the end of the block.

    Examples
    --------
    >>> done = []
    >>> with in_background(lambda: done.append(1)):
    ...     pass
    >>> done
    [1]
    """
    with ThreadPoolExecutor(1, thread_name_prefix="cpms-background") as pool:
        done = pool.submit(copy_context().run, work_clock.counted_for_caller(work))
        yield
    done.result()


def ranges(length: int, *, at_least: int, parts: int | None = None) -> list[tuple[int, int]]:
    """Split ``range(length)`` into consecutive ranges of equal length, the last one shorter.

    Parameters
    ----------
    length : int
    at_least : int
        Length of a range, unless there would be more than ``parts``.
    parts : int, optional
        Number of ranges at most; they are longer then.

    Examples
    --------
    >>> ranges(10, at_least=4), ranges(10, at_least=4, parts=2)
    ([(0, 4), (4, 8), (8, 10)], [(0, 5), (5, 10)])
    """
    size = at_least if parts is None else max(at_least, -(-length // parts))
    return [(low, min(low + size, length)) for low in range(0, length, size)]
