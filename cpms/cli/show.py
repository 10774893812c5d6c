"""``cpms show``: turn recorded rows into tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.package_data import folder, show_programs
from cpms.base.text.terminal import say
from cpms.cli import ROWS_FOLDER

if TYPE_CHECKING:
    from cpms.experiment.rows.standing import Recorded


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "show",
        help="draw tables and figures from rows",
        description="Draw the table or figure NAME (or all), or what a program of your own draws, from the rows in "
        "DIR, and from nothing else. An experiment without a program, given by its name or its configuration, has "
        "figures of time by precision, speed-up, residuals, time to a tolerance, bytes, share of the roofline and "
        "errors, as far as its rows allow.",
        epilog="example: cpms show table2 --output figures; names: " + ", ".join(show_programs()),
    )
    parser.add_argument(
        "name",
        metavar="NAME|all|PROGRAM.py",
        help="name of a figure or table, all of them, or a program; also CONFIG.toml or a plug-in",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help=f"folder of the rows ({ROWS_FOLDER} if it holds some of NAME, else the recorded ones)",
    )
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR", help="folder to draw into (out)")
    parser.add_argument(
        "--width",
        choices=("single", "double"),
        default="single",
        help="columns of a journal that figures fill (single)",
    )
    parser.add_argument("--baseline", metavar="NAME", help="contestant that speed-ups are over (the first with fp64)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.experiment.report.show import show

    results = arguments.results or _rows_of(arguments.name)
    options = {"width": arguments.width, "baseline": arguments.baseline}
    say(*show(arguments.name, results=results, output=arguments.output, echo=say, **options))
    return 0


def _rows_of(name: str) -> Path | Recorded:
    """Return the rows of the folder that ``run`` writes if some can be shown, else the folder of the recorded ones."""
    from cpms.experiment.report.show import has_rows, needs_of
    from cpms.experiment.rows.standing import Recorded

    if has_rows(name, found := Recorded(ROWS_FOLDER)):
        recorded = name == "all" or any(
            (_shipped() / f"{each}.jsonl").is_file() for each in needs_of(name, ROWS_FOLDER)
        )
        others = f"; those that come with cpms: --results {_shipped()}" if recorded else ""
        say(f"Rows of folder {ROWS_FOLDER} are shown{others}")
        return found
    say(f"Folder {ROWS_FOLDER} holds no rows to show here; those that come with cpms are shown, of {_shipped()}")
    return _shipped()


def _shipped() -> Path:
    return folder("experiments") / "results"
