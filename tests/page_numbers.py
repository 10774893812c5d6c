"""Which numbers of a page are measurements, by a rule, and which of them no row has.

A measurement is a number with one of `UNITS` behind it ("60.0 ms"; in "1.5 to 2 times" both are), a decimal number, or
any number in the cells of a table below the heads `FIGURES`. Code and addresses are no text. What `CONSTANTS` lists is
not measured. A number with a unit has to be among the known ones with that unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

UNITS = {
    **{
        unit: unit
        for unit in ("ms", "s", "µs", "times", "%", "GB/s", "TB/s", "sweeps", "iterations", "minutes", "hours")
    },
    "us": "µs",
    "second": "s",
    "seconds": "s",
    "per cent": "%",
    "minute": "minutes",
    "hour": "hours",
}
"""Units as pages write them, by those of numbers."""
FIGURES = {"figure", "interval", "median", "now"}
CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "*": ("Python 3.11", "Python 3.14", "NetworkX 3.5", "95 %"),
    "README.md": ("take 10 minutes",),
    "docs/measured.md": ("over 80 sweeps", "at most 15 % more bytes", "at most 15 % more time"),
    "docs/papers.md": ("3.3 in wide",),
    "docs/solve.md": ("0.8; else", "to 0.5 or more"),
    "docs/reports.md": ("means of 29.85 iterations", "damps by 0.2"),
    "docs/tutorials/own_solver.md": ("algorithm 12.1",),
}
"""Constants of definition, printed values of others, and the time of the tests, by page; a star is every page."""
_NUMBER = r"(?<![\w.^])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
_NO_TEXT = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+")
_UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
_WITH_UNIT = re.compile(rf"({_NUMBER}(?:(?:\s*,|\s+to|\s+and|\s+or)\s+{_NUMBER})*)\s*({_UNIT})(?![\w/])")


def measurements(page: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each measurement of a page with its unit, which may be empty, and the line that has it."""
    heads: list[str] = []
    for line in _NO_TEXT.sub("", text).splitlines():
        if line.startswith("    ") or re.fullmatch(r"\|[-|: ]+\|", line):
            continue
        plain = _CODE.sub(" ", line)
        for constant in (*CONSTANTS["*"], *CONSTANTS.get(page, ())):
            plain = plain.replace(constant, " ")
        heads = [] if not plain.startswith("|") else heads or [cell.strip().lower() for cell in plain.split("|")]
        cells = [cell for head, cell in zip(heads, plain.split("|"), strict=False) if head in FIGURES]
        found = [(number, UNITS[unit]) for group, unit in _WITH_UNIT.findall(plain) for number in numbers_in(group)]
        bare = [number for cell in cells for number in numbers_in(cell)] + re.findall(_NUMBER, plain)
        seen = {number for number, _ in found}
        in_cells = {number for cell in cells for number in numbers_in(cell)}
        found += [(number, "") for number in bare if number not in seen and ("." in number or number in in_cells)]
        yield from ((number, unit, line) for number, unit in dict.fromkeys(found))


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text, without those that are part of words such as 16-bit, 60M or H100."""
    return re.findall(rf"{_NUMBER}(?![\w-])", text)


def unmeasured(page: str, text: str, known: set[tuple[str, str]]) -> list[str]:
    """Return the measurements of a page that are not among the known pairs of number and unit, each with its line."""
    texts = {number for number, _ in known}
    return [
        f"{page}: {number} {unit} in {line!r}"
        for number, unit, line in measurements(page, text)
        if ((number, unit) not in known if unit else number not in texts)
    ]
