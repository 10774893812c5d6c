"""``cpms check``: try the laws of number formats on a format, one's own included."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cpms.base.text.terminal import say


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "check",
        help="try the laws of formats on a format",
        description="Try the laws of number formats on bit patterns of float64, and show the simplest value that "
        "breaks each law, field by field. FORMAT is a name, module:attribute or file.py:attribute.",
        epilog="example: cpms check posit16 --patterns 100000; exit code 1 if a law does not hold",
    )
    parser.add_argument("format", metavar="FORMAT", help="such as posit16 or file.py:attribute")
    parser.add_argument("--patterns", type=int, default=1_000_000, metavar="N", help="float64 values to try (1000000)")
    parser.add_argument("--law", action="append", metavar="NAME", help="try this law alone; may be given again")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.base.text.progress import Bar
    from cpms.check.format_report import check_format
    from cpms.formats.formats import format_of

    storage = format_of(arguments.format)
    total = arguments.patterns
    with Bar(range(1), total=total, unit="pattern", disable=not sys.stderr.isatty()) as bar:

        def progress(done: int) -> None:
            bar.update(min(done, total) - bar.n)  # All codes of 16 bits come on top.

        report = check_format(storage, patterns=total, laws=arguments.law, progress=progress)
    say(*([json.dumps(report.as_dict())] if arguments.json else report.lines()))
    return 0 if report.holds else 1
