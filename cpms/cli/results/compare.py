"""``cpms compare``: say whether one run is slower than another, with an exit code for continuous integration."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table

if TYPE_CHECKING:
    from cpms.experiment.report.compare import Comparison
    from cpms.experiment.report.observations import Names
    from cpms.experiment.rows.rows import Row
    from cpms.experiment.rows.series import Series

_DRIFT = 0.5
"""Processes by which load averages of two runs, or of a run and its threads, differ before a warning is printed."""
_WORST = 40
"""The most series that are listed as text."""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "compare",
        help="compare the times and iterations of two runs",
        description="Compare the measurements that two files or folders of rows have in common: the ratio of times "
        "AFTER / BEFORE with its interval, a rank test, and a conclusion. Solves whose status or iterations differ are "
        "listed. Machines of the runs that differ are named, and so are their loads.",
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
    from cpms.experiment.report.compare import compare, courses, mean_ratio, significantly_slower
    from cpms.experiment.report.observations import Names

    runs = [_rows(path, arguments.experiment) for path in (arguments.before, arguments.after)]
    paths = arguments.before, arguments.after
    before, after = (_series(path, rows, arguments.quantity) for path, rows in zip(paths, runs, strict=True))
    (machine, other), loads = map(_machines, runs), [_median(rows, "load_average_before") for rows in runs]
    found = compare(before, after, alpha=arguments.alpha, margin=arguments.margin)
    slower = significantly_slower(found, alpha=arguments.alpha)
    first, second = map(courses, runs)
    common = [key for key in first if key in second]
    changed = {key: (first[key], second[key]) for key in common if first[key] != second[key]}
    if arguments.json:
        report = {
            "machines": [machine, other],
            "loads": loads,
            "comparisons": [_as_json(each) for each in found],
            "courses": [
                dict(zip(("experiment", "graph", "contestant"), key, strict=True))
                | {"before": one._asdict(), "after": two._asdict()}
                for key, (one, two) in changed.items()
            ],
        }
        say(*json.dumps(report, indent=2).splitlines())
        return int(bool(slower))
    if machine != other:
        say(f"The rows are of different machines: {machine}; {other}")
    say(*_on_loads(loads, [_median(rows, "threads") for rows in runs]))
    worst = sorted(found, key=lambda each: -abs(math.log(each.ratio)))[:_WORST]
    heads = ["experiment", "graph", "contestant", "quantity", "ratio", "interval", "p", "conclusion"]
    names = Names([*runs[0], *runs[1]])
    say(*text_table(heads, [_line(each, names) for each in worst]))
    if len(found) > len(worst):
        say(f"{len(found) - len(worst)} more lie nearer to 1; --json lists all")
    mean, low, high = mean_ratio(found)
    counts = Counter(each.conclusion for each in found)
    say(
        f"{len(found)} series: " + ", ".join(f"{count} {name}" for name, count in counts.items()),
        f"geometric mean of the ratios {mean:.3f}, 95 % bootstrap interval {low:.3f} to {high:.3f}",
        f"slower after Holm's correction: {len(slower)}",
    )
    if common:
        say(f"solves with another status, or other iterations: {len(changed)} of {len(common)}")
    for (experiment, *key), (one, two) in changed.items():
        say(f"  {experiment} {' '.join(names.of(experiment, *key))}: {one}; now {two}")
    return int(bool(slower))


def _rows(path: Path, experiment: str | None) -> list[Row]:
    """Return the rows of a source, the last one of each cell, of an experiment or of all."""
    from cpms.experiment.rows.flat import read_rows

    found = read_rows(path)
    chosen = [row for row in found if experiment in (None, row["experiment"])]
    if not chosen:
        named = ", ".join(dict.fromkeys(row["experiment"] for row in found))
        raise InputError(f"{path}: holds no rows of experiment {experiment!r}; it has {named}; give --experiment")
    return chosen


def _series(path: Path, found: list[Row], quantity: str) -> list[Series]:
    """Return the series of rows of a quantity, or of all."""
    from cpms.experiment.rows.series import series_of

    held = list(series_of(found))
    made = [each for each in held if quantity in ("all", each.quantity)]
    if not held:
        raise InputError(f"{path}: holds no measured times; give rows of 'cpms run' that have some")
    if not made:
        named = ", ".join(dict.fromkeys(each.quantity for each in held))
        raise InputError(f"{path}: holds no measurement of {quantity!r}; it has {named}; give --quantity")
    return made


def _machines(found: list[Row]) -> str:
    return ", ".join(dict.fromkeys(str(row.get("gpu") or row.get("cpu", "unknown")) for row in found))


def _median(found: list[Row], column: str) -> float | None:
    """Return the median of a column of rows; None if they hold none of it."""
    held = [row[column] for row in found if isinstance(row.get(column), int | float)]
    return median(held) if held else None


def _on_loads(loads: list[float | None], threads: list[float | None]) -> list[str]:
    """Return the load averages of both runs as a line, and warnings if they differ or are above a run's own threads."""
    if None in loads:
        return []
    before, after = (float(each or 0.0) for each in loads)
    lines = [f"load average before a cell, median: {before:.2f} in BEFORE, {after:.2f} in AFTER"]
    if abs(after - before) > _DRIFT:
        busier = "AFTER" if after > before else "BEFORE"
        lines.append(
            f"warning: {busier} ran on a busier machine, so differences may be of the machine and not of the code; "
            "measure both again, in turns"
        )
    named = zip(("BEFORE", "AFTER"), (before, after), threads, strict=True)
    shared = [name for name, load, own in named if own is not None and load > own + _DRIFT]
    if shared:
        lines.append(
            f"warning: beside {' and '.join(shared)} other processes ran, as the load average is above the threads of "
            "the run: code that did not change may seem slower or faster"
        )
    return lines


def _line(each: Comparison, names: Names) -> list[str]:
    experiment, *key, quantity = each.before.key
    graph, contestant = names.of(experiment, *key)
    tested = not math.isnan(each.p_value)
    interval = f"{each.low:.3f} to {each.high:.3f}" if tested else ""
    p_value = f"{each.p_value:.1e}" if tested else ""
    return [experiment, graph, contestant, quantity, f"{each.ratio:.3f}", interval, p_value, each.sentence]


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
