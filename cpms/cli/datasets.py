"""``cpms datasets``: list the known graphs, or fetch some."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table

if TYPE_CHECKING:
    from cpms.sources.dataset_records import Dataset


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "datasets",
        help="list or fetch graphs",
        description="List the graphs known by name. With PART, list those whose name has PART in it, or whose kind is "
        "PART. With a full NAME, print where the graph is, and download it first if it is neither in the folder that "
        "CPMS_DATA names nor in the cache.",
        epilog="example: cpms datasets wiki-Vote",
    )
    parser.add_argument("names", nargs="*", metavar="NAME|PART", help="such as wiki-Vote, web or road (default: all)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.sources import datasets

    listed = [] if arguments.names else list(datasets.catalogue())
    for name in arguments.names:
        if name in datasets.DATASETS or datasets.locate(name):
            say(datasets.locate(name) or datasets.fetch(name))
        else:
            listed += _with_part(name)
    if listed:
        rows = [
            [known.name, known.kind, known.nodes, known.edges, datasets.locate(known.name) or "not here yet"]
            for known in listed
        ]
        say(*text_table(["name", "kind", "nodes", "edges", "where"], rows))
    return 0


def _with_part(part: str) -> list[Dataset]:
    from cpms.sources import datasets

    plain = part.lower()
    found = [known for known in datasets.catalogue() if plain in known.name.lower() or plain == known.kind]
    if not found or not plain:
        raise InputError(unknown("graph", part, datasets.DATASETS, ", or a part of one"))
    return found
