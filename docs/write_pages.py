"""Write the pages that are made of rows and of models: figures of README, measured, changes, columns, configurations.

``python docs/write_pages.py`` writes them; ``python docs/write_pages.py --before COMMIT ...`` first computes the
numbers of rows as they were at commits, which the page of changes compares with today's.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from cpms.experiment.pages import config_page, measured_page
from cpms.experiment.pages.numbers import Number, all_numbers
from cpms.experiment.rows import schema
from cpms.experiment.rows.standing import Recorded

ROOT = Path(__file__).parents[1]
RESULTS, NUMBERS = ROOT / "experiments" / "results", ROOT / "experiments" / "numbers"
BEFORE = NUMBERS / "before.csv"
_GIT = ["git", "-C", str(ROOT)]


def pages(numbers: dict[str, Number]) -> dict[Path, str]:
    """Return the text of each page."""
    recorded = Recorded(RESULTS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = measured_page.filled((NUMBERS / "readme.md").read_text(encoding="utf-8"), numbers, recorded)
    template = (NUMBERS / "measured.md").read_text(encoding="utf-8")
    return {
        ROOT / "README.md": measured_page.with_section(
            readme, "## What it does not buy", "## Which room for which change", tables
        ),
        ROOT / "docs" / "measured.md": measured_page.filled(template, numbers, recorded),
        ROOT / "docs" / "changes.md": changes(numbers),
        ROOT / "docs" / "rows.md": schema.page(),
        ROOT / "docs" / "configs.md": config_page.page(),
    }


def changes(numbers: dict[str, Number]) -> str:
    """Return the page of headline figures before and now."""
    with BEFORE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    rounds = [name for name in lines[0] if name not in ("key", "reason")]
    text = (NUMBERS / "changes.md").read_text(encoding="utf-8")
    table = [f"| what | {' | '.join(rounds)} | now | reason |", "|---" * (len(rounds) + 3) + "|"]
    for each in lines:
        number = numbers[each["key"]]
        before = [each[name] or "none" for name in rounds]
        table.append(
            f"| {number.what} | {' | '.join(before)} | {measured_page.with_machine(number)} | {each['reason']} |"
        )
    return text.replace("{{rounds}}", "\n".join(table))


def headlines() -> list[str]:
    """Return the keys of the numbers that README names, but for numbers of graphs and quoted times."""
    named = measured_page.keys((NUMBERS / "readme.md").read_text(encoding="utf-8"))
    return [key for key in named if not key.endswith((".graphs", ".count", ".cugraph"))]


def numbers_at(commit: str) -> dict[str, Number]:
    """Return the numbers of the rows of a commit, as far as it has them, by today's definitions."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(  # noqa: S603
            [*_GIT, "archive", commit, "experiments/results"],
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)  # noqa: S603, S607
        return all_numbers(Path(folder) / "experiments" / "results", lenient=True)


def date_of(commit: str) -> str:
    """Return the day of a commit."""
    done = subprocess.run([*_GIT, "show", "-s", "--format=%cs", commit], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def write_before(commits: list[str]) -> None:
    """Write the headlines of earlier commits; reasons that are there stay."""
    reasons: dict[str, str] = {}
    if BEFORE.is_file():
        with BEFORE.open(encoding="utf-8", newline="") as file:
            reasons = {each["key"]: each["reason"] for each in csv.DictReader(file)}
    found = {f"{date_of(commit)} {commit}": numbers_at(commit) for commit in commits}
    with BEFORE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["key", *found, "reason"])
        for key in headlines():
            values = [measured_page.with_machine(each[key]) if key in each else "" for each in found.values()]
            writer.writerow([key, *values, reasons.get(key, "")])


def main() -> int:
    """Write all pages, and name those that changed."""
    if sys.argv[1:2] == ["--before"]:
        write_before(sys.argv[2:])
    for path, text in pages(all_numbers(RESULTS)).items():
        if measured_page.write(path, text):
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
