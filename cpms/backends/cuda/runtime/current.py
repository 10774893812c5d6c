"""The backend in use: the one of the current device, or of a host emulation in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cpms.backends.cuda.runtime.backend import Backend

_stack: list[Backend] = []


def chosen() -> bool:
    """Return whether `using` says where launches go."""
    return bool(_stack)


def current() -> Backend:
    """Return the backend that launches go to: CuPy's current GPU, unless `using` says otherwise.

    Raises
    ------
    UnavailableError
        If there is no GPU, or CuPy is not installed.
    """
    if _stack:
        return _stack[-1]
    from cpms.backends.cuda.runtime.compile import of_device

    return of_device()


@contextmanager
def using(backend: Backend) -> Iterator[Backend]:
    """Send launches to another backend for a while."""
    _stack.append(backend)
    try:
        yield backend
    finally:
        _stack.remove(backend)
