"""``cpms engines``: what can execute sweeps here."""

from __future__ import annotations

import argparse
from typing import Any

from cpms import engines
from cpms.errors import UnavailableError
from cpms.text_table import text_table


def add(parsers: Any) -> None:
    """Describe the command."""
    parsers.add_parser(
        "engines",
        help="list the engines",
        description="List the engines, their layouts, and what this machine lacks for those that cannot run.",
        epilog="example: cpms engines",
    )


def call(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run the command."""
    print(text_table(["engine", "layouts", "here"], [describe(name) for name in engines.names()]))
    return 0


def describe(name: str) -> list[str]:
    """Return name, layouts and availability of an engine."""
    try:
        return [name, ", ".join(engines.get(name).layouts), "yes"]
    except UnavailableError as error:
        return [name, "", str(error)]
