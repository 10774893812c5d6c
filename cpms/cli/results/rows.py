"""``cpms rows``: recorded rows as a table with one line a result, as text, CSV or Parquet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.text.counted import counted
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table
from cpms.cli.results.sources import rows_named

if TYPE_CHECKING:
    import pandas as pd


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "rows",
        help="write rows as a table: CSV or Parquet",
        description="Write the rows of SOURCE as a table with one line a result. Without a file, list the columns "
        "that hold something, with their types and units, and how many rows have code that no commit has.",
        epilog="example: cpms rows out --csv rows.csv; columns are described in docs/rows.md",
    )
    parser.add_argument("source", metavar="SOURCE", help="file or folder of rows, or the name of an experiment")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a CSV file")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write a Parquet file")
    parser.add_argument(
        "--prune",
        action="store_true",
        help="remove rows of bad input and of cells that the configuration no longer has; the old file stays as .bak",
    )


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.base.errors import InputError
    from cpms.cli.results.pruning import prune
    from cpms.experiment.rows.flat import files_of_rows, read_rows, read_table, write_table
    from cpms.experiment.rows.standing import unexplained

    asked = {".csv": arguments.csv, ".parquet": arguments.parquet}
    for ending, path in asked.items():
        if path is not None and path.suffix != ending:
            raise InputError(f"{path}: a file of --{ending[1:]} ends in {ending}; give such a path")
    source = rows_named(arguments.source)
    if arguments.prune:
        say(*(pruned.sentence() for pruned in map(prune, files_of_rows(source))))
        if not any(asked.values()):
            return 0
    table = read_table(source)
    written = [path for path in asked.values() if path is not None]
    for path in written:
        write_table(table, path)
    say(*written or [*_listed(table), unexplained(read_rows(source))])
    return 0


def _listed(table: pd.DataFrame) -> list[str]:
    from cpms.experiment.rows.schema import columns, unit_of

    lines = []
    for name in table.columns:
        known, held = columns().get(name), int(table[name].notna().sum())
        if held:
            lines.append([name, known.type if known else "", unit_of(name), str(held), known.meaning if known else ""])
    return [counted(len(table), "result"), *text_table(["column", "type", "unit", "values", "meaning"], lines)]
