"""``cpms artifact``: a folder from which a stranger rebuilds the figures and numbers of rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cpms.base.text.terminal import say
from cpms.cli.results.sources import rows_named


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "artifact",
        help="pack rows, figures and texts of a paper",
        description="Write a folder with the rows of DIR, their plug-ins and data files, figures, a copy of cpms, a "
        "manifest, numbers for LaTeX, the text of an artifact appendix, an environment lock, a container file and "
        "RO-Crate metadata.",
        epilog="example: cpms artifact out --output artifact; python artifact/rebuild.py",
    )
    parser.add_argument("source", metavar="DIR", help="file or folder of rows, or the name of an experiment")
    parser.add_argument("--output", type=Path, default=Path("artifact"), metavar="FOLDER", help="(artifact)")
    parser.add_argument(
        "--program",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="a program of your own that draws figures, as 'cpms show' takes it; may be repeated",
    )
    parser.add_argument(
        "--paper",
        type=Path,
        metavar="FILE.tex",
        help="a paper that takes its figures and numbers from the folder; it is compiled there",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace an artifact; files that its manifest does not list stay"
    )
    parser.add_argument("--width", choices=("single", "double"), default="single", help="columns of figures (single)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.experiment.artifact.pack import artifact

    options = {"width": arguments.width, "programs": arguments.program, "paper": arguments.paper}
    options["force"] = arguments.force
    files = artifact(rows_named(arguments.source), arguments.output, echo=say, **options)
    say(f"{len(files)} files in {arguments.output}; 'python {arguments.output / 'rebuild.py'}' draws the figures again")
    return 0
