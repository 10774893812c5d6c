"""``cpms compare``: say whether one run is slower than another, with an exit code for continuous integration."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.text_table import text_table

if TYPE_CHECKING:
    from cpms.experiment.report.compare import Comparison
    from cpms.experiment.rows.series import Series

_WORST = 40
"""The most series that are listed as text."""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "compare",
        help="compare the times of two runs",
        description="Compare the measurements that two files or folders of rows have in common: the ratio of times "
        "AFTER / BEFORE with its interval, a rank test, and a conclusion. Of runs on different machines it says so.",
        epilog="exit codes: 0 nothing is slower, 1 something is slower after correction for the number of tests, "
        "2 bad input. example: cpms compare before.jsonl after.jsonl",
    )
    parser.add_argument("before", type=Path, metavar="BEFORE", help="file or folder of rows")
    parser.add_argument("after", type=Path, metavar="AFTER", help="file or folder of rows")
    parser.add_argument("--alpha", type=float, default=0.02, metavar="A", help="level of the tests (0.02)")
    parser.add_argument(
        "--margin", type=float, default=0.001, metavar="M", help="relative difference that does not count (0.001)"
    )
    parser.add_argument("--experiment", metavar="NAME", help="the rows of one experiment alone")
    parser.add_argument("--quantity", default="solve", metavar="NAME|all", help="the quantity to compare (solve)")
    parser.add_argument("--json", action="store_true", help="print every comparison as JSON")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.experiment.report.compare import compare, mean_ratio, significant

    (before, machine), (after, other) = (_read(path, arguments) for path in (arguments.before, arguments.after))
    found = compare(before, after, alpha=arguments.alpha, margin=arguments.margin)
    slower = significant(found, "slower", alpha=arguments.alpha)
    if arguments.json:
        report = {"machines": [machine, other], "comparisons": [_as_json(each) for each in found]}
        say(*json.dumps(report, indent=2).splitlines())
        return int(bool(slower))
    if machine != other:
        say(f"The rows are of different machines: {machine}; {other}")
    worst = sorted(found, key=lambda each: -abs(math.log(each.ratio)))[:_WORST]
    heads = ["experiment", "graph", "contestant", "quantity", "ratio", "interval", "p", "conclusion"]
    say(*text_table(heads, [_line(each) for each in worst]))
    if len(found) > len(worst):
        say(f"{len(found) - len(worst)} more lie nearer to 1; --json lists all")
    mean, low, high = mean_ratio(found)
    counts = Counter(each.conclusion for each in found)
    say(
        f"{len(found)} series: " + ", ".join(f"{count} {name}" for name, count in counts.items()),
        f"geometric mean of the ratios {mean:.3f}, 95 % bootstrap interval {low:.3f} to {high:.3f}",
        f"slower after Holm's correction: {len(slower)}",
    )
    return int(bool(slower))


def _read(path: Path, arguments: argparse.Namespace) -> tuple[list[Series], str]:
    """Return the series of a file or folder that are asked for, and the machines that they are of."""
    from cpms.experiment.rows import rows
    from cpms.experiment.rows.series import series_of

    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder; give a file of rows, or the folder of a run")
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found = list({(row["experiment"], row["cell"]): row for file in files for row in rows.read(file)}.values())
    found = [row for row in found if arguments.experiment in (None, row["experiment"])]
    made = [each for each in series_of(found) if arguments.quantity in ("all", each.quantity)]
    if not made:
        held = ", ".join(dict.fromkeys(each.quantity for each in series_of(found))) or "none"
        raise InputError(f"{path}: holds no measurement of {arguments.quantity!r}; it has {held}; give --quantity")
    machines = dict.fromkeys(str(row.get("gpu") or row.get("cpu", "unknown")) for row in found)
    return made, ", ".join(machines)


def _line(each: Comparison) -> list[str]:
    experiment, graph, contestant, quantity = each.before.key
    tested = not math.isnan(each.p_value)
    interval = f"{each.low:.3f} to {each.high:.3f}" if tested else ""
    p_value = f"{each.p_value:.1e}" if tested else ""
    return [experiment, graph, contestant, quantity, f"{each.ratio:.3f}", interval, p_value, each.conclusion]


def _as_json(each: Comparison) -> dict[str, Any]:
    experiment, graph, contestant, quantity = each.before.key
    numbers = {name: getattr(each, name) for name in ("ratio", "low", "high", "p_value")}
    return {
        "experiment": experiment,
        "graph": graph,
        "contestant": contestant,
        "quantity": quantity,
        **{name: None if math.isnan(value) else value for name, value in numbers.items()},
        "conclusion": each.conclusion,
        "outliers": each.outliers,
    }
