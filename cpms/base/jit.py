"""Loops compiled by Numba: kept on disk wherever a folder takes them, and in memory where none does.

Nothing else imports Numba, so that what its import needs is looked at before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from cpms.base import work_clock
from cpms.base.address_space import require_address_space
from cpms.base.caches import takes_files, temporary
from cpms.base.errors import InputError

_THREADS = "NUMBA_NUM_THREADS"
_LIBRARIES_MIB = 520, 80
"""Address space of all libraries of a solve, and for each further thread; with less Numba's import fails or hangs."""


def _check_threads() -> None:
    """Refuse a count of threads with which Numba's import fails or prints a traceback."""
    given = os.environ.get(_THREADS, "1")
    try:
        possible = int(given) >= 1
    except ValueError:
        possible = False
    if not possible:
        raise InputError(f"{_THREADS} is {given!r}; set it to a number of threads, 1 or more, or unset it")


_check_threads()
require_address_space(*_LIBRARIES_MIB, "Numba beside SciPy")
import numba as numba  # noqa: E402
from numba.core import event  # noqa: E402


class _CompilerListener(event.Listener):  # type: ignore[misc, unused-ignore]
    """Stops `work_clock` while a thread holds Numba's compiler lock, or waits for it.

    The lock is held while a function is compiled, and while its machine code is read from the cache or written to it.
    """

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        work_clock.compiler_starts()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        work_clock.compiler_ends()


event.register("numba:compiler_lock", _CompilerListener())  # type: ignore[no-untyped-call, unused-ignore]

_log = logging.getLogger("cpms")
_config_is_ours = Lock()
_reported: set[str] = set()


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function for any number of threads at once, and keeps it on disk.

    Parameters
    ----------
    **options
        Of `numba.njit`.

    Examples
    --------
    >>> @compiled(error_model="numpy")
    ... def halved(x):
    ...     return x / 2
    >>> halved(3.0)
    1.5
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kept = _kept(function, options)
        _save_or_not(kept)
        return kept

    return decorate


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile with the cache where Numba finds a folder for it, else in our temporary one, else without one."""
    source = Path(function.__code__.co_filename)
    # Numba takes an unknown home folder or an empty name for one within the current folder.
    home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~"))  # noqa: PTH111
    if Path(home).is_absolute() or takes_files(source.parent):
        with suppress(RuntimeError):  # No folder takes files.
            return numba.njit(cache=True, nogil=True, **options)(function)
    if source.is_file() and (folder := temporary()):
        with suppress(RuntimeError), _cache_in(folder / "numba"):
            return numba.njit(cache=True, nogil=True, **options)(function)
    return numba.njit(nogil=True, **options)(function)


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Let Numba keep what the block declares in a folder; what others declare is kept where it was."""
    config: Any = numba.config
    with _config_is_ours:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = before


def _save_or_not(function: Any) -> None:
    """Let a full disk cost compiling again, not the work."""
    cache: Any = getattr(function, "_cache", None)
    save = getattr(cache, "save_overload", None)
    if save is None:
        return

    def save_or_report(*what: Any) -> None:
        try:
            save(*what)
        except OSError as error:
            reason = str(error.strerror)
            if reason not in _reported:
                _log.warning("cpms: warning: what was compiled cannot be kept (%s: %s)", reason, cache.cache_path)
            _reported.add(reason)

    cache.save_overload = save_or_report
