"""How programs end: interrupts while libraries load, and the exit code and one line of an error.

The command line and the ranks of ``python -m cpms.mpi`` share it. Both import it before any large library, so that it
needs nothing but Python and this room.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread

from cpms.base.errors import CpmsError, UnavailableError
from cpms.base.text.terminal import complain

INTERRUPTED, OUTPUT_CLOSED = 130, 141
"""Exit codes after an interrupt, and where the reader of the output has ended: 128 and the number of the signal."""


def run_program(call: Callable[[], int], end: Callable[[int, str | None], int]) -> int:
    """Return the exit code of a program.

    Parameters
    ----------
    call : callable
        Loads the program, runs it and returns its exit code.
    end : callable
        Takes the exit code of an error and its line, if it has one, and returns the exit code.
    """
    interrupts: list[int] = []
    try:
        with _noted(interrupts):
            return call()
    except SystemExit:
        raise
    except BaseException as error:
        outcome = outcome_of(KeyboardInterrupt() if interrupts else error)
        if outcome is None:
            raise
        return end(*outcome)


@contextmanager
def _noted(interrupts: list[int]) -> Iterator[None]:
    """Note the interrupts of the block: libraries that are interrupted while they load raise errors of other kinds."""

    def note(number: int, _: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    replaced = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replaced:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def outcome_of(error: BaseException) -> tuple[int, str | None] | None:
    """Return the exit code after an error and its line, if it has one; None for an error of the program itself.

    Examples
    --------
    >>> outcome_of(KeyboardInterrupt()), outcome_of(FileNotFoundError("no such file"))
    ((130, None), (2, 'no such file'))
    >>> outcome_of(ZeroDivisionError())
    """
    text = str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, None
    if isinstance(error, BrokenPipeError):
        return OUTPUT_CLOSED, None
    if isinstance(error, CpmsError):
        return error.exit_code, text if error.page is None else f"{text} (see {error.page})"
    if isinstance(error, MemoryError):
        return 2, f"out of memory: {text or 'use a machine with more, or raise the limit of this process'}"
    if isinstance(error, ImportError) and not (error.name or "").startswith("cpms"):
        return UnavailableError.exit_code, _not_loaded(error)
    return (2, text) if isinstance(error, OSError) else None


def report(code: int, text: str | None) -> int:
    """Print the line of an error, if it has one and the stream takes it, and return the exit code.

    Buffered output that cannot be written is discarded: it would fail again at the end of the interpreter, with an exit
    code of its own.
    """
    if text is not None:
        with suppress(OSError):
            complain(text)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _not_loaded(error: BaseException) -> str:
    """Return why a library cannot be loaded: the error below all others, since NumPy's fills a page."""
    while below := error.__cause__ or error.__context__:
        error = below
    return f"a library cannot be loaded ({error}); install cpms anew, or raise the limit of memory if there is one"
