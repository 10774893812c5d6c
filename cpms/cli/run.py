"""``cpms run``: execute an experiment configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cpms.base.package_data import experiments
from cpms.base.text.terminal import say
from cpms.cli import ROWS_FOLDER


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "run",
        help="run an experiment",
        description="Run the cells of an experiment and append one row, a JSON line, for each to DIR. A cell is one "
        "combination of graph, method, format and so on. A cell that has a row in DIR is not run again, unless the "
        "file of its graph or of a plug-in, or what the configuration asks of it, has changed since. Paths of graphs "
        "are relative to the current folder.",
        epilog="example: cpms run quickstart --output out; names: " + ", ".join(experiments()),
    )
    parser.add_argument("config", metavar="CONFIG.toml", help="a file, or the name of one that comes with cpms")
    parser.add_argument(
        "--output", type=Path, default=ROWS_FOLDER, metavar="DIR", help=f"folder of the rows ({ROWS_FOLDER})"
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="run only cells of which one parameter, such as graph, storage or engine, is NAME; or run the cell "
        "of that name again",
    )
    parser.add_argument("--show", action="store_true", help="draw the rows afterwards, into the same folder")
    parser.add_argument("--dry-run", action="store_true", help="list the cells with their names and stop")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.experiment.runner import run

    found, options = _found(arguments.config), {"only": arguments.only, "dry_run": arguments.dry_run}
    rows = run(found, output=arguments.output, **options, echo=say)
    say(rows)
    if arguments.show and not arguments.dry_run:
        from cpms.experiment.report.show import show

        say(*show(str(found), results=arguments.output, output=arguments.output, echo=say))
    return 0


def _found(config: str) -> Path:
    """Return the file of that path, or of an experiment of that name."""
    from cpms.base.errors import InputError
    from cpms.base.text.suggestions import unknown

    shipped, path = experiments(), Path(config)
    if config in shipped:
        return shipped[config]
    if path.suffix or path.name != config or path.exists():
        return path
    raise InputError(unknown("experiment", config, shipped, ", or a path to a .toml file"))
