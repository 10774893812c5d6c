"""Phases of long work: the name of what is being done, and the part of it that is done, for those who show it.

Work states its phases whether or not anybody shows them: it costs microseconds a part, and nothing within compiled
loops. `cpms.base.text.iterations.work_shown` shows the innermost one on a terminal. The time that is left is estimated
from the time of the parts so far, without that of compilers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from cpms.base import work_clock

Answer = TypeVar("Answer")


class Phase:
    """A phase of work, whose size is ``total`` in any unit, or None where it cannot be known."""

    def __init__(self, name: str, total: float | None = None) -> None:
        self.name, self.total, self._done = name, total, 0.0
        self.began_s = time.time()
        self._began = self._advanced = work_clock.now()
        self._lock = Lock()

    def advance(self, count: float = 1.0) -> None:
        """Note that so much more is done; any thread may call it."""
        with self._lock:
            self._done += count
            self._advanced = work_clock.now()

    def counting(self, work: Callable[..., Answer], count: float = 1.0) -> Callable[..., Answer]:
        """Return ``work`` such that each call advances this phase.

        Examples
        --------
        >>> halves = Phase("halving", 2)
        >>> [halves.counting(lambda number: number / 2)(number) for number in (4, 6)], halves.part
        ([2.0, 3.0], 1.0)
        """

        def counted(*given: Any) -> Answer:
            found = work(*given)
            self.advance(count)
            return found

        return counted

    @property
    def part(self) -> float | None:
        """The part that is done, from 0 to 1; None where the size is not known."""
        return min(max(self._done / self.total, 0.0), 1.0) if self.total else None

    def left_s(self, now: float) -> float | None:
        """Return the seconds that are left at a time of `work_clock.now`; None before a part is done."""
        part = self.part
        if not part:
            return None
        return max(0.0, (self._advanced - self._began) * (1.0 - part) / part - (now - self._advanced))


_open: list[Phase] = []
"""Phases that have begun and not ended, the innermost last."""


def current() -> Phase | None:
    """Return the innermost phase."""
    innermost = _open[-1:]  # Another thread may end it meanwhile.
    return innermost[0] if innermost else None


@contextmanager
def phase(name: str, total: float | None = None) -> Iterator[Phase]:
    """Name what is done in the block, whose size is ``total`` in any unit; None: it cannot be known.

    Examples
    --------
    >>> with phase("adding", 10) as adding:
    ...     adding.advance(4)
    ...     current().name, current().part
    ('adding', 0.4)
    >>> current() is None
    True
    """
    begun = Phase(name, total)
    _open.append(begun)
    try:
        yield begun
    finally:
        _open.remove(begun)
