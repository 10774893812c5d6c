"""``cpms datasets``: list the known graphs, or fetch some."""

from __future__ import annotations

import argparse
from typing import Any

from cpms.terminal import say
from cpms.text_table import text_table


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "datasets",
        help="list or fetch graphs",
        description="List the graphs known by name, or make sure that those named are on this machine. "
        "The folder in CPMS_DATA is looked at before anything is downloaded.",
        epilog="example: cpms datasets wiki-Vote",
    )
    parser.add_argument("names", nargs="*", metavar="NAME")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms import datasets

    for name in arguments.names:
        say(datasets.locate(name) or datasets.fetch(name))
    if not arguments.names:
        rows = [
            [known.name, known.kind, known.nodes, known.edges, datasets.locate(known.name) or "not here yet"]
            for known in datasets.catalogue()
        ]
        say(*text_table(["name", "kind", "nodes", "edges", "where"], rows))
    return 0
