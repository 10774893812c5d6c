"""The current backend: that of CuPy's current device, or the host emulation within `using`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from cpms.backends.cuda.runtime.backend import Backend

_stack: list[Backend] = []


def chosen() -> bool:
    """Return whether a backend is set by `using`."""
    return bool(_stack)


def current() -> Backend:
    """Return the current backend: CuPy's current GPU, or the one set by `using`.

    Raises
    ------
    UnavailableError
        If there is no GPU, or CuPy is not installed.
    """
    return _stack[-1] if _stack else _of_device()()


@cache
def _of_device() -> Callable[[], Backend]:
    """Return the function of the current device's backend, imported once: every launch asks for it."""
    from cpms.backends.cuda.runtime.compile import of_device

    return of_device


@contextmanager
def using(backend: Backend) -> Iterator[Backend]:
    """Launch on another backend within the context."""
    _stack.append(backend)
    try:
        yield backend
    finally:
        _stack.remove(backend)
