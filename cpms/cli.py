"""The command line: parse, call one command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

import cpms
from cpms.commands.inspect import values_last
from cpms.errors import CpmsError
from cpms.terminal import complain, error_line

COMMANDS = ("rank", "run", "show", "convert", "inspect", "datasets", "formats", "engines", "doctor")
INTERRUPTED, NOBODY_READS = 130, 141


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are escaped: they name arguments, such as files that a shell found."""

    def error(self, message: str) -> NoReturn:
        super().error(error_line(message))


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = _Parser(
        prog="cpms",
        description="Customized precision for iterative solvers: mantissa segmentation, adaptive precision, "
        "certified PageRank.",
        epilog="exit codes: 0 converged or done, 1 not converged, 2 bad usage or input, 3 engine not available, "
        "130 interrupted",
    )
    top.add_argument("--version", action="version", version=f"cpms {cpms.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"cpms.commands.{name}").add(commands)
    return top


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
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that a terminal's encoding lacks
    try:
        chosen = parser().parse_args(values_last(sys.argv[1:] if arguments is None else arguments))
        code: int = import_module(f"cpms.commands.{chosen.command}").call(chosen)
        if sys.stdout is not None:
            sys.stdout.flush()
    except CpmsError as error:
        complain(str(error))
        return error.exit_code
    except MemoryError as error:
        complain(f"out of memory: {error}")
        return 2
    except BrokenPipeError:
        _drop_what_cannot_be_printed()
        return NOBODY_READS
    except OSError as error:
        complain(str(error))
        _drop_what_cannot_be_printed()
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _drop_what_cannot_be_printed() -> None:
    """Let it go nowhere, or it would fail again when the interpreter ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
