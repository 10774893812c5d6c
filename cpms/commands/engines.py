"""``cpms engines``: what can execute sweeps here."""

from __future__ import annotations

import argparse
from typing import Any

from cpms import engines
from cpms.terminal import say
from cpms.text_table import text_table


def add(parsers: Any) -> None:
    """Describe the command."""
    parsers.add_parser(
        "engines",
        help="list the engines",
        description="List the engines, their methods and layouts, and what this machine lacks to run them.",
        epilog="example: cpms engines",
    )


def call(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run the command."""
    say(*table())
    return 0


def table() -> list[str]:
    """Return the lines of a table of all engines: name, methods, layouts and whether they run here."""
    lines = []
    for name in engines.names():
        engine = engines.get_any(name)
        lines.append([name, ", ".join(engine.methods), ", ".join(engine.layouts), engine.missing() or "yes"])
    return text_table(["engine", "methods", "layouts", "here"], lines)
