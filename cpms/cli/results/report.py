"""``cpms report``: rows as one HTML page, with figures, tables and provenance."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cpms.base.text.terminal import say
from cpms.cli.results.sources import rows_named


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "report",
        help="write rows as one HTML page",
        description="Write the rows of DIR as one HTML page that needs no network: figures, tables that sort and "
        "filter, and the provenance of each number.",
        epilog="example: cpms report out --output results.html",
    )
    parser.add_argument("source", metavar="DIR", help="file or folder of rows, or the name of an experiment")
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE", help="(report.html)")
    parser.add_argument("--title", default="Results", metavar="TEXT", help="title of the page (Results)")
    parser.add_argument("--baseline", metavar="NAME", help="contestant that speed-ups are over (the first with fp64)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.base.atomic_files import refuse_replacing, replacing
    from cpms.experiment.report.html.html_report import html_report
    from cpms.experiment.rows.standing import present_rows

    source = rows_named(arguments.source)
    refuse_replacing(arguments.output, "--output", [source])
    rows, caveats = present_rows(source)
    say(*caveats)
    page = html_report(rows, title=arguments.title, baseline=arguments.baseline)
    with replacing(arguments.output) as temporary:
        temporary.write_text(page, encoding="utf-8")
    say(arguments.output)
    return 0
