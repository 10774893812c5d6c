"""``cpms plugins``: the plug-ins that installed packages declare, and whether they load."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "plugins",
        help="list the plug-ins of installed packages",
        description="List the plug-ins that installed packages declare by entry points, by group. Code of your own "
        "needs no entry point: file.py:attribute and module:attribute are names of plug-ins, too.",
        epilog="example: cpms plugins --load; exit code 1 if one of them does not load",
    )
    parser.add_argument("--load", action="store_true", help="load each, which runs its code, and print what is wrong")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    lines, faults = [], 0
    for group in plugins.GROUPS:
        for name, point in sorted(plugins.declared(group).items()):
            package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
            state = _state(group, name) if arguments.load else ""
            faults += arguments.load and state != "loads"
            lines.append([f"cpms.{group}", name, package, point.value, state])
    if not lines:
        groups = ", ".join(f"cpms.{group}" for group in plugins.GROUPS)
        say(f"no installed package declares plug-ins; the groups of entry points are {groups}")
        return 0
    heads = ["group", "name", "package", "object", *(["state"] if arguments.load else [])]
    say(*text_table(heads, [line[: len(heads)] for line in lines]))
    return 1 if faults else 0


def _state(group: str, name: str) -> str:
    try:
        _loader(group)(name)
    except InputError as error:
        return str(error)
    return "loads"


def _loader(group: str) -> Callable[[str], object]:
    """Return what finds a plug-in of a group by its name, wherever it is used."""
    from cpms import engines
    from cpms.api.linear.choice import own_method
    from cpms.experiment.config import kind_of
    from cpms.experiment.report.show import program_named
    from cpms.formats.formats import format_named
    from cpms.precision.controller_specs import controller_of
    from cpms.sources import generators, matrices
    from cpms.sparse.arrangement import layout_of

    loaders: dict[str, Callable[[str], object]] = {
        "formats": format_named,
        "controllers": controller_of,
        "engines": engines.get_any,
        "layouts": layout_of,
        "generators": generators.plugin,
        "matrices": matrices.plugin,
        "solvers": own_method,
        "show_programs": program_named,
        "experiment_kinds": kind_of,
    }
    return loaders[group]
