"""The conditions under which cells are measured: the processors that the process may use, and the order of the cells.

Pinning keeps the operating system from moving threads, which costs caches and, between sockets, bandwidth. A shuffled
order keeps a drift of the machine's clock from falling on the last cells alone (Fisher, The Design of Experiments,
1935, section 20). Neither costs anything while cells are measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from cpms.base.errors import UnavailableError
from cpms.experiment.rows.machine import ranges

Part = TypeVar("Part")
_TASKS = Path("/proc/self/task")


@contextmanager
def pinned(processors: Sequence[int] | None) -> Iterator[None]:
    """Let this process, its threads and the processes that they start use some processors alone, within the block.

    Parameters
    ----------
    processors : sequence of int, optional
        Numbers as ``taskset`` counts them; None changes nothing.

    Raises
    ------
    UnavailableError
        If the system cannot pin, or the process may not use one of the processors.
    """
    if processors is None:
        yield
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UnavailableError("affinity needs Linux; remove that key of the configuration")
    present = os.sched_getaffinity(0)
    if lacking := set(processors) - present:
        raise UnavailableError(
            f"affinity names processors {ranges(lacking)}, which this process may not use; it can be of "
            f"{ranges(present)}"
        )
    before = {task: os.sched_getaffinity(task) for task in _tasks()}
    _set({task: set(processors) for task in before})
    try:
        yield
    finally:
        _set({task: before.get(task, present) for task in _tasks()})


def _tasks() -> list[int]:
    """Return the threads of this process; where that cannot be read, 0, the calling one."""
    with suppress(OSError):
        return [int(path.name) for path in _TASKS.iterdir()]
    return [0]


def _set(processors: dict[int, set[int]]) -> None:
    for task, allowed in processors.items():
        with suppress(ProcessLookupError):  # A thread that has ended.
            os.sched_setaffinity(task, allowed)


def ordered(parts: Sequence[Part], seed: int | None) -> list[Part]:
    """Return parts in an order that a seed determines; without one, in their own.

    Examples
    --------
    >>> ordered("abc", None), sorted(ordered("abc", 7)), ordered("abcdef", 7) == ordered("abcdef", 7)
    (['a', 'b', 'c'], ['a', 'b', 'c'], True)
    """
    places = range(len(parts)) if seed is None else np.random.default_rng(seed).permutation(len(parts))
    return [parts[place] for place in places]
