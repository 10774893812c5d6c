"""The command line: parse, call one command, turn errors into one line and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

import cpms
from cpms.base.host_memory import require_address_space
from cpms.base.program import INTERRUPTED as INTERRUPTED
from cpms.base.program import OUTPUT_CLOSED as OUTPUT_CLOSED
from cpms.base.program import report, run_program

if TYPE_CHECKING:
    import argparse

COMMANDS = (
    *("rank", "solve", "run", "show", "compare", "rows", "report", "artifact", "convert"),
    *("inspect", "check", "datasets", "formats", "engines", "plugins", "doctor", "completion"),
)
_OF_RESULTS = ("compare", "rows", "report", "artifact")
_MORE_OBJECTS = 100_000
"""Allocations between two runs of the garbage collector, which Python's own number starts many times during imports."""
_NUMPY_MIB = 100, 41
"""Address space that NumPy takes, and for each further thread; with less OpenBLAS ends the process."""


def program() -> NoReturn:
    """Run the command line as a process of its own, and end it.

    The operating system frees at once what Python would destroy object by object. With MPI the process ends in the
    ordinary way, since MPI must be finalized.
    """
    gc.set_threshold(_MORE_OBJECTS)
    code = main()
    if "mpi4py.MPI" in sys.modules:
        sys.exit(code)
    atexit._run_exitfuncs()
    report(code, None)
    os._exit(code)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    return _parsers(COMMANDS)[0]


def _parsers(names: Iterable[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of some commands, and that of each."""
    from cpms.cli.argument_parser import Parser

    top = Parser(
        prog="cpms",
        description="Mixed and customized precision: number formats, certified PageRank and linear systems, "
        "experiments and figures.",
        epilog="exit codes: 0 converged or done, 1 not converged, 2 bad usage or input, 3 engine not available, "
        "130 interrupted",
    )
    top.add_argument("--version", action="version", version=f"cpms {cpms.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        _command(name).add(commands)
        commands.choices[name].add_argument(
            "--no-plugins", action="store_true", help="refuse plug-ins: run no code but that of cpms"
        )
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
    return run_program(lambda: _call(sys.argv[1:] if arguments is None else arguments), report)


def _call(arguments: Sequence[str]) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # A terminal's encoding may lack some names.
    if sys.stderr is None:  # It was closed: no file that is opened from now on may take its place.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    require_address_space(*_NUMPY_MIB, "NumPy")
    from cpms.cli.inspect import values_last

    chosen = _parsed(values_last(arguments))
    from cpms.base import plugins
    from cpms.base.text.iterations import work_shown
    from cpms.base.text.terminal import note

    with plugins.allowed(not chosen.no_plugins, announce=note), work_shown(f"cpms {chosen.command}"):
        code: int = _command(chosen.command).call(chosen)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _command(name: str) -> ModuleType:
    return import_module(f"cpms.cli.results.{name}" if name in _OF_RESULTS else f"cpms.cli.{name}")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; of a command or an option that does not exist, name the nearest one."""
    from cpms.base.text.suggestions import unknown

    name = arguments[0] if arguments else ""
    top, commands = _parsers([name] if name in COMMANDS else COMMANDS)
    if name in commands:
        known = ["--help", *re.findall(r"--[a-z-]+", commands[name].format_usage())]
        for given in takewhile(lambda argument: argument != "--", arguments[1:]):
            option = given.partition("=")[0]
            if option.startswith("--") and not any(each.startswith(option) for each in known):
                commands[name].error(unknown("option", option, known))
    elif name and not name.startswith("-"):
        top.error(unknown("command", name, COMMANDS))
    return top.parse_args(arguments)
