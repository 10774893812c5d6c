"""Pages whose numbers come from rows: templates with names of numbers, filled with the numbers of recorded rows.

A template is Markdown. ``{{key}}`` stands for a number with its unit, ``{{key|value}}`` for its value alone,
``{{key|interval}}`` for its interval, ``{{key|within}}`` for its interval and the number of cases in brackets,
``{{key|machine}}`` for the machines of its rows, and ``{{table PATTERN ...}}`` for a table of all numbers whose keys
match, each with its interval, its median if it is a mean, rows, commit and machine. ``{{unexplained}}`` and
``{{changed}}`` count rows that no commit explains, and rows of another configuration. The commit is the one that the
digest of a row's code proves, see `cpms.experiment.rows.standing.commit_of`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cpms.base.errors import InputError
from cpms.base.package_data import experiments, folder
from cpms.base.text import escape
from cpms.experiment.pages.numbers import Number, machines, plain, within
from cpms.experiment.rows import configured
from cpms.experiment.rows.provenance import repository
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.standing import Recorded, commit_of, committed

HEAD = ["| what | figure | interval | median | rows | commit | machine |", "|---|---|---|---|---|---|---|"]
_PLACE = re.compile(r"\{\{([^}]+)\}\}")
_QUOTED = "| quoted | | |"
_ROWS = "../experiments/results"
"""The folder of the rows, from that of the pages that have tables."""


def filled(template: str, numbers: Mapping[str, Number], recorded: Recorded) -> str:
    """Return a template with its places filled.

    Raises
    ------
    InputError
        If a place names no number.
    """

    def of(place: re.Match[str]) -> str:
        words = place[1].split()
        if words[0] == "table":
            return "\n".join([*HEAD, *map(line, chosen(numbers, words[1:]))])
        if words[0] == "unexplained":
            return "\n".join(unexplained_lines(recorded))
        if words[0] == "changed":
            return "\n".join(changed_lines(recorded))
        key, _, part = place[1].partition("|")
        if key not in numbers:
            raise InputError(f"a page names number {key!r}, which experiments/numbers does not yield")
        number = numbers[key]
        parts = {
            "value": plain(number.value),
            "interval": number.interval.removesuffix(", range"),
            "machine": machines(number.rows),
            "within": within(number),
        }
        return parts.get(part, number.text)

    return _PLACE.sub(of, template)


def keys(template: str) -> list[str]:
    """Return the keys of the numbers that a template names one by one.

    Examples
    --------
    >>> keys("{{a.b}}, {{c|value}} and {{table d.*}}")
    ['a.b', 'c']
    """
    found = [place.partition("|")[0] for place in _PLACE.findall(template)]
    return [key for key in dict.fromkeys(found) if key.split()[0] not in ("table", "unexplained", "changed")]


def chosen(numbers: Mapping[str, Number], patterns: Sequence[str]) -> list[Number]:
    """Return the numbers whose keys match, in the order of the patterns, each once; ``!`` before a pattern excludes.

    Raises
    ------
    InputError
        If a pattern matches nothing.
    """
    found: dict[str, Number] = {}
    for pattern in (each for each in patterns if not each.startswith("!")):
        matching = {key: number for key, number in numbers.items() if fnmatchcase(key, pattern)}
        if not matching:
            raise InputError(f"a page asks for numbers {pattern!r}, which experiments/numbers does not yield")
        found = {**found, **{key: number for key, number in matching.items() if key not in found}}
    excluded = [each[1:] for each in patterns if each.startswith("!")]
    return [number for key, number in found.items() if not any(fnmatchcase(key, each) for each in excluded)]


def line(number: Number) -> str:
    """Return the line of a number in a table."""
    middle = "" if math.isnan(number.median) else plain(number.median)
    head = f"| {number.what} | {number.text} | {number.interval} | {middle} "
    return f"{head}{_source(number.rows)}" if number.rows else f"{head}{_QUOTED}"


def with_machine(number: Number) -> str:
    """Return a number with its unit and the machines of its rows."""
    of = machines(number.rows)
    return f"{number.text} ({of})" if of else number.text


def _source(rows: Sequence[Row]) -> str:
    names = ", ".join(f"[`{name}`]({_ROWS}/{name}.jsonl)" for name in dict.fromkeys(row["experiment"] for row in rows))
    cells = dict.fromkeys(row["cell"][:6] for row in rows)
    of = ", ".join(cells) if len(cells) <= 2 else f"{len(cells)} rows"
    commits = ", ".join(dict.fromkeys(_commit(row) for row in rows))
    return f"| {names} {of} | {commits} | {machines(rows)} |"


def _commit(row: Row) -> str:
    if "source" in row:
        return "quoted"
    found = commit_of(row)
    return escape.markdown(found[:7] if found else f"{str(row.get('git_commit'))[:7]}+")


def unexplained_lines(recorded: Recorded) -> list[str]:
    """Return the number of rows whose code no commit has, and their experiments."""
    of = [row for row in recorded.rows if not committed(row)]
    return _counted(f"Rows no commit explains: {len(of)} of {len(recorded.rows)}.", of, recorded)


def changed_lines(recorded: Recorded) -> list[str]:
    """Return the number of rows that were measured with another configuration, and their experiments."""
    present = experiments()
    held = [row for row in recorded.rows if row["experiment"] in present]
    of = [row for row in held if not configured.is_same(row, present[row["experiment"]], repository())]
    return _counted(f"Rows of another configuration: {len(of)} of {len(held)}.", of, recorded)


def _counted(head: str, of: Iterable[Row], recorded: Recorded) -> list[str]:
    """Return a line, and a table of the experiments of rows with their number."""
    counts = Counter(row["experiment"] for row in of)
    lines = [
        f"| `{_file(recorded, name)}` | {count} of {len(recorded.of([name]))} |"
        for name, count in sorted(counts.items())
    ]
    return [head, "", "| experiment | rows |", "|---|---|", *lines] if lines else [head]


def _file(recorded: Recorded, experiment: str) -> str:
    """Return the path of an experiment's rows, from the folder of the project."""
    path, root = (recorded.source / f"{experiment}.jsonl").resolve(), folder("experiments").parent.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def with_section(page: str, first: str, after: str, text: str) -> str:
    r"""Return a page whose part from heading ``first`` to heading ``after`` is replaced.

    Examples
    --------
    >>> with_section("# A\n## B\nold\n## C\n", "## B", "## C", "## B\nnew\n")
    '# A\n## B\nnew\n## C\n'
    """
    begin, end = page.index(f"{first}\n"), page.index(f"{after}\n")
    return page[:begin] + text + page[end:]


def write(path: Path, text: str) -> bool:
    """Write a page if it differs, and return whether it did."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
