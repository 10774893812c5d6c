"""The command line: parse, call one command, turn errors into one line and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

import cpms
from cpms.base.address_space import require_address_space
from cpms.base.errors import CpmsError, UnavailableError
from cpms.base.text.suggestions import unknown
from cpms.base.text.terminal import complain

if TYPE_CHECKING:
    import argparse

COMMANDS = ("rank", "run", "show", "convert", "inspect", "datasets", "formats", "engines", "doctor")
INTERRUPTED, NOBODY_READS = 130, 141
_NUMPY_MIB = 100, 41
"""Address space that NumPy takes, and for each further thread; with less OpenBLAS ends the process."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    return _parsers()[0]


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of all commands, and that of each."""
    from cpms.cli.argument_parser import Parser

    top = Parser(
        prog="cpms",
        description="Customized precision for iterative solvers: mantissa segmentation, adaptive precision, "
        "certified PageRank.",
        epilog="exit codes: 0 converged or done, 1 not converged, 2 bad usage or input, 3 engine not available, "
        "130 interrupted",
    )
    top.add_argument("--version", action="version", version=f"cpms {cpms.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"cpms.cli.{name}").add(commands)
    return top, dict(commands.choices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Examples
    --------
    >>> main(["inspect", "0.1", "--storage", "cpms2"])
    0.1 = 0 01111111011 1001100110011001100110011001100110011001100110011010 (sign, exponent, mantissa)
    <BLANKLINE>
    read  bits  segment   value so far         relative error
       1    32  3fb99999  0.09999996423721313  3.58e-07
       2    64  9999999a  0.1                  0.00e+00
    0
    """
    interrupts: list[int] = []
    try:
        with _noting(interrupts):
            return _call(sys.argv[1:] if arguments is None else arguments)
    except SystemExit:
        raise
    except BaseException as error:
        code = INTERRUPTED if interrupts else _failed(error)
        if code is None:
            raise
        return code


@contextmanager
def _noting(interrupts: list[int]) -> Iterator[None]:
    """Note what interrupts the block: libraries that are interrupted while they load raise errors of other kinds."""

    def note(number: int, _: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    ours = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _call(arguments: Sequence[str]) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that a terminal's encoding lacks
    if sys.stderr is None:  # It was closed: no file that is opened from now on may take its place.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    require_address_space(*_NUMPY_MIB, "NumPy")
    from cpms.cli.inspect import values_last

    chosen = _parsed(values_last(arguments))
    code: int = import_module(f"cpms.cli.{chosen.command}").call(chosen)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; of a command or an option that does not exist, name the nearest one."""
    top, commands = _parsers()
    name = arguments[0] if arguments else ""
    if name in commands:
        known = ["--help", *re.findall(r"--[a-z-]+", commands[name].format_usage())]
        for given in takewhile(lambda argument: argument != "--", arguments[1:]):
            option = given.partition("=")[0]
            if option.startswith("--") and not any(each.startswith(option) for each in known):
                commands[name].error(unknown("option", option, known))
    elif name and not name.startswith("-"):
        top.error(unknown("command", name, COMMANDS))
    return top.parse_args(arguments)


def _failed(error: BaseException) -> int | None:
    """Report an error in one line and return the exit code; None for an error that nobody expects."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _drop_what_cannot_be_printed()
        return NOBODY_READS
    code, text = 2, str(error)
    if isinstance(error, CpmsError):
        code = error.exit_code
    elif isinstance(error, MemoryError):
        text = f"out of memory: {text or 'use a machine with more, or raise the limit of this process'}"
    elif isinstance(error, ImportError) and not (error.name or "").startswith("cpms"):
        code, text = UnavailableError.exit_code, _not_loaded(error)
    elif not isinstance(error, OSError):
        return None
    with suppress(OSError):
        complain(text)
    _drop_what_cannot_be_printed()
    return code


def _not_loaded(error: BaseException) -> str:
    """Return what keeps a library from loading: the error below all others, since NumPy's fills a page."""
    while below := error.__cause__ or error.__context__:
        error = below
    return f"a library cannot be loaded ({error}); install cpms anew, or raise the limit of memory if there is one"


def _drop_what_cannot_be_printed() -> None:
    """Let it go nowhere, or it would fail again when the interpreter ends, with an exit code of its own."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
