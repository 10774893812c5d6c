"""``cpms engines``: lists the engines and whether this machine can run them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from cpms import engines
from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.text_table import text_table


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "engines",
        help="list the engines",
        description="List the engines, or those given, with their methods and layouts, and what this machine lacks to "
        "run them.",
        epilog="example: cpms engines cuda",
    )
    parser.add_argument("names", nargs="*", metavar="NAME")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for name in arguments.names:
        engines.check_name(name)
    say(*table(arguments.names or engines.names()))
    return 0


def table(names: Sequence[str]) -> list[str]:
    """Return the lines of a table of engines: name, methods, layouts and whether they run here."""
    lines = []
    for name in names:
        try:
            engine = engines.get_any(name)
        except InputError as error:  # Of a plug-in; it hides no other engine.
            lines.append([name, "", "", str(error)])
            continue
        lines.append([name, ", ".join(engine.methods), ", ".join(engine.layouts), engine.missing() or "yes"])
    return text_table(["engine", "methods", "layouts", "here"], lines)
