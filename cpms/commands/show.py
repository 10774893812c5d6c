"""``cpms show``: turn recorded rows into tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cpms.shipped import show_programs


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "show",
        help="draw tables and figures from rows",
        description="Draw the table or figure NAME (or all), or what a program of your own draws, from the rows in "
        "DIR, and from nothing else.",
        epilog="example: cpms show table2 --output figures; names: " + ", ".join(show_programs()),
    )
    parser.add_argument("name", metavar="NAME|all|PROGRAM.py")
    parser.add_argument("--results", type=Path, metavar="DIR", help="folder of the rows (the recorded ones)")
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR", help="folder to draw into (out)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.experiment.present import show

    for path in show(arguments.name, results=arguments.results, output=arguments.output, echo=print):
        print(path)
    return 0
