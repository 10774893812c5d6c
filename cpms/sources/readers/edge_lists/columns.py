"""Which columns of an edge list are source, target and weight; lists whose columns leave that open are refused."""

from __future__ import annotations

import re
from itertools import pairwise

from cpms.base.errors import InputError
from cpms.sources.readers.edge_lists.header import role_of
from cpms.sources.readers.edge_lists.lines import is_decimal
from cpms.sources.readers.entries import quoted
from cpms.sources.readers.options import ReadOptions

Rows = list[list[str]]
_ARROWS = {"->", "-->", "=>", "==>", "--", "<-", "<--", "<->", "<-->", "→", "⟶", "⇒", "←", "↔", "|", ":"}
_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")
_NO_WEIGHTS = re.compile(
    r"(unix)?(time|timestamp|date|datetime|year|month|day|epoch|ts)|.*(timestamp|date)|relation(id|type)?|rel|"
    r"predicate|(edge)?(type|label|kind|class|id|index)"
)
_WEIGHTS = re.compile(r"w|.*(weight|value|count|amount|strength|frequency|cost|length|distance|size|bytes).*")
_TIMES = ((1e8, 5e9), (1e11, 5e12), (1e14, 5e15), (1e17, 5e18))
"""Since 1970 in seconds, milliseconds, microseconds and nanoseconds: of the years 1973 to 2128."""
_CHOICES = (
    "columns='1,2' (--columns 1,2) or weights='ignore' (--weights ignore) leaves it out, columns='1,2,3' takes it as "
    "weights"
)
_NUMBERS_OF_LINES = re.compile(r"(row|line|edge|link|record)?(id|index|idx|nr|no|num|number|key)|row|#|№")
_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_YEAR = re.compile(r"(19|20)\d\d")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_FEWEST_RUNNING = 8
"""Lines from which on third fields that count them are taken for numbers of edges rather than for weights."""


def given_columns(
    options: ReadOptions, titles: list[str], where: str, holder: str = "the first line holds"
) -> tuple[int, ...]:
    """Return the columns that ``options`` name, from 0; ``holder`` precedes the titles in errors.

    Raises
    ------
    InputError
        If a title is not among those of the first line, or is there twice.
    """
    places = []
    for column in options.columns or ():
        if isinstance(column, str):
            if titles.count(column) != 1:
                found = "two columns are" if column in titles else "no column is"
                held = ", ".join(map(quoted, titles[:20]))
                raise InputError(f"{where}: {found} called {quoted(column)}; {holder} {held}")
            column = titles.index(column) + 1
        places.append(column - 1)
    return tuple(places)


def refuse_shapes(rows: Rows, where: str) -> None:
    """Raise `InputError` if something other than the two ends of an edge stands in the first two columns."""
    if all(row[0].startswith(_OPENING) and row[-1].rstrip(",;").endswith(_CLOSING) for row in rows):
        raise InputError(
            f"{where}: there are brackets around {quoted(' '.join(rows[0]))}; write source and target alone, "
            "one edge a line"
        )
    threes = [row for row in rows if len(row) == 3]
    if not threes or len(threes) < len(rows):
        return
    if all(row[1] in _ARROWS for row in rows):
        raise InputError(
            f"{where}: {quoted(rows[0][1])} stands between source and target; "
            "columns='1,3' (--columns 1,3) passes over it"
        )
    if all(is_decimal(row[0]) and is_decimal(row[2]) and not is_decimal(row[1]) for row in rows):
        raise InputError(
            f"{where}: {quoted(rows[0][1])} may be the target or a label between source and target; "
            "columns='1,3' (--columns 1,3) or columns='1,2,3' settles it"
        )
    constant = len(rows) > 1 and len({row[0] for row in rows}) == 1
    if constant and not is_decimal(rows[0][0]) and all(is_decimal(row[1]) and is_decimal(row[2]) for row in rows):
        raise InputError(
            f"{where}: every line begins with {quoted(rows[0][0])}, perhaps no node; "
            "columns='2,3' (--columns 2,3) passes over it, columns='1,2,3' or '1,2' takes it as source"
        )


def refuse_header(titles: list[str], fields: int, where: str) -> None:
    """Raise `InputError` if titles say that source and target lie elsewhere than in the first two columns."""
    if len(titles) > fields:
        return  # It is a sentence, which header='yes' passes over.
    if len(titles) < fields:
        raise InputError(
            f"{where}: {len(titles)} titles above lines of {fields} fields; name the columns by number "
            "(columns=…, --columns 2,3) with header='yes' (--header yes)"
        )
    roles = [role_of(title) for title in titles]
    source = roles.index("source") if "source" in roles else None
    target = roles.index("target") if "target" in roles else None
    if source not in (None, 0) or target not in (None, 1) or not titles[0]:
        named = [titles[place] for place in (source, target) if place is not None]
        example = ",".join(named) if len(named) == 2 else "2,3"
        raise InputError(
            f"{where}: its header has the columns {', '.join(map(ascii, titles))}; source and target must come "
            f"first, or be named (columns=…, --columns {ascii(example)[1:-1]})"
        )


def refuse_third(rows: Rows, titles: list[str] | None, where: str) -> None:
    """Raise `InputError` if a third column may hold times or numbers of relations, not weights."""
    titles = titles if titles and len(titles) > 2 else None
    if commas := [row[2] for row in rows if len(row) > 2 and _DECIMAL_COMMA.fullmatch(row[2])]:
        raise InputError(
            f"{where} or below: {quoted(commas[0])} in column 3 has a decimal comma; write weights with decimal "
            "points, or leave them out (columns='1,2', --columns 1,2)"
        )
    if titles and _NUMBERS_OF_LINES.fullmatch(re.sub("[ _.-]", "", titles[0].lower())):
        raise InputError(
            f"{where}: column 1 is called {quoted(titles[0])}, so it may be no source; columns='2,3' (--columns 2,3) "
            "passes over it, columns='1,2,3' takes column 3 as weights"
        )
    if titles and _NO_WEIGHTS.fullmatch(re.sub("[ _.-]", "", titles[2].lower())):
        raise InputError(f"{where}: column 3 is called {quoted(titles[2])}, so it may be no weights; {_CHOICES}")
    if titles and _WEIGHTS.fullmatch(titles[2].lower()):
        return
    numbers = [float(row[2]) for row in rows if len(row) > 2 and is_decimal(row[2])]
    if not numbers or len(numbers) < len(rows):
        return
    ranges = (all(low <= number <= high for number in numbers) for low, high in _TIMES)
    dates = (all(date.fullmatch(row[2]) for row in rows) for date in (_DAY, _YEAR))
    if any(ranges) or any(dates):
        raise InputError(
            f"{where}: column 3 holds numbers such as {quoted(rows[0][2])}, which may be times; {_CHOICES}"
        )
    if len(rows) >= _FEWEST_RUNNING and all(after == before + 1 for before, after in pairwise(numbers)):
        raise InputError(f"{where}: column 3 counts the lines, so it may be no weights; {_CHOICES}")


def refuse_labels(rows: Rows, titles: list[str] | None, where: str) -> None:
    """Raise `InputError` if weights are ignored and the third of three names may be the target."""
    named = titles and role_of(titles[0]) == "source" and role_of(titles[1]) == "target"
    if not named and any(len(row) == 3 and row[2] and not is_decimal(row[2]) for row in rows):
        raise InputError(
            f"{where}: {quoted(rows[0][1])} or {quoted(rows[0][2])} may be the target; "
            "columns='1,2' (--columns 1,2) or columns='1,3' settles it"
        )
