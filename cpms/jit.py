"""Loops compiled by Numba: kept on disk wherever a folder takes them, and in memory where none does.

Nothing else imports Numba, so that what its import needs is looked at before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from cpms.address_space import require_address_space
from cpms.caches import takes_files, temporary
from cpms.errors import InputError

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
    """Compile with the cache where Numba finds a folder for it, else with our temporary one, if there is one."""
    known_home = os.path.isabs(os.path.expanduser("~"))  # noqa: PTH111, PTH117
    if known_home or takes_files(Path(function.__code__.co_filename).parent):
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # No folder takes files.
            pass
    folder = temporary()
    if folder is None:
        return numba.njit(nogil=True, **options)(function)
    config: Any = numba.config
    with _config_is_ours:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder / "numba")
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
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
