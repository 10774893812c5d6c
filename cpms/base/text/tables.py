"""Tables in CSV and Markdown, with every text escaped; no other module writes such tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError
from cpms.base.text import escape
from cpms.base.text.terminal_table import padded

if TYPE_CHECKING:
    import pandas as pd

Best = Mapping[str, str]
"""Rules of the best cells, see `is_best`."""
_RULE = re.compile(r"(row )?(least|most)(?: by (.+))?")
_NUMBER = re.compile(r"([+-]?\d+)((?:\.\d+)?(?:e[+-]\d+)?%?)", re.ASCII)
LONGEST_WORD = 60
"""Characters of a word in a table for people; longer words are complete in CSV alone."""


def shortened_caption(text: str) -> str:
    """Return a caption with long words abbreviated, of at most 2400 characters; it holds names that others chose."""
    return escape.abbreviate_words(text, LONGEST_WORD, words=40)


def write_csv(table: pd.DataFrame, path: Path | None = None, *, float_format: str | None = None) -> str | None:
    r"""Write a table as CSV, or return it where no path is given; texts are escaped by `cpms.base.text.escape.csv`.

    Examples
    --------
    >>> import pandas as pd
    >>> write_csv(pd.DataFrame({"node": ["=1+1", "b"], "rank": [-0.5, 0.25]}))
    "node,rank\n'=1+1,-0.5\nb,0.25\n"
    """
    escaped = table.copy(deep=False)
    escaped.columns = [escape.csv(str(column)) for column in table.columns]
    for column, dtype in enumerate(table.dtypes):
        if dtype.kind not in "biufc":
            escaped.isetitem(column, [_csv_cell(value) for value in table.iloc[:, column]])
    return escaped.to_csv(path, index=False, float_format=float_format)


def markdown(table: pd.DataFrame, best: Best | None = None, among: Sequence[bool] | None = None) -> str:
    r"""Return a table in Markdown, numbers aligned at the decimal point, and the best ones of some lines bold.

    Examples
    --------
    >>> import pandas as pd
    >>> print(markdown(pd.DataFrame({"graph": ["a|b"], "nodes": [3]})))
    | graph | nodes |
    |:------|------:|
    | a\|b  |     3 |
    """
    right, bold = numeric(table), is_best(table, best, among)
    columns = [
        _aligned(column, bold[k]) if right[k] else list(map(escape.markdown, column))
        for k, column in enumerate(zip(*texts(table), strict=True))
    ]
    cells = list(zip(*columns, strict=True))
    heads = [escape.markdown(escape.abbreviate_words(str(column), LONGEST_WORD)) for column in table.columns]
    widths = [max([3, *(escape.width(line[k]) for line in [heads, *cells])]) for k in range(len(heads))]
    rule = [("-" * (w + 1) + ":") if r else (":" + "-" * (w + 1)) for w, r in zip(widths, right, strict=True)]
    lines = [_line(heads, widths, right), "|" + "|".join(rule) + "|", *(_line(c, widths, right) for c in cells)]
    return "\n".join(lines)


def texts(table: pd.DataFrame) -> list[list[str]]:
    """Return the cells as text, not escaped: numbers with four digits, truth as yes or no, long words abbreviated.

    Missing values are empty. Numbers that are given as texts keep their digits.
    """
    return [[_text(value) for value in line] for line in table.itertuples(index=False)]


def numeric(table: pd.DataFrame) -> list[bool]:
    """Return whether each column is one of numbers, given as numbers or as texts.

    Examples
    --------
    >>> import pandas as pd
    >>> numeric(pd.DataFrame({"ms": [1.5], "printed": ["19662.20"], "met": [True], "graph": ["a1"]}))
    [True, True, False, False]
    """
    return [
        dtype.kind in "iufc" or (dtype.kind not in "biufc" and _are_numbers(table.iloc[:, place]))
        for place, dtype in enumerate(table.dtypes)
    ]


def is_best(table: pd.DataFrame, best: Best | None, among: Sequence[bool] | None = None) -> list[list[bool]]:
    """Return whether each cell is among the best, column by column.

    Parameters
    ----------
    table : DataFrame
    best : dict, optional
        For a column ``least`` or ``most``, the best of the column; ``least by graph,tol``, the best of the lines that
        have those columns in common; or ``row least``, the best of the columns with that rule in a row. Columns that
        the table lacks count for nothing.
    among : sequence of bool, optional
        Whether each line may have the best, by default all: a wrong answer is none, however fast.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> import pandas as pd
    >>> is_best(pd.DataFrame({"a": [1.0, 4.0], "b": [2.0, 3.0]}), {"a": "row least", "b": "row least"})
    [[True, False], [False, True]]
    >>> is_best(pd.DataFrame({"graph": ["g", "g", "h"], "ms": [1.0, 2.0, 3.0]}), {"ms": "least by graph"})[1]
    [True, False, True]
    >>> is_best(pd.DataFrame({"ms": [1.0, 2.0, 3.0]}), {"ms": "least"}, among=[False, True, True])
    [[False, True, False]]
    """
    chosen = {column: rule for column, rule in (best or {}).items() if column in table}
    found = {}
    for column, rule in chosen.items():
        matched = _RULE.fullmatch(rule)
        if matched is None:
            raise InputError(
                f"{rule!r} is no rule for the best cells; it can be least, most, row least or least by NAME"
            )
        across, by = bool(matched[1]), matched[3]
        end: Any = "min" if matched[2] == "least" else "max"
        values = table[column].astype(float)
        values.iloc[[place for place, may_be in enumerate(() if among is None else among) if not may_be]] = float("nan")
        limit: Any
        if across:
            limit = table[[other for other, same in chosen.items() if same == rule]].astype(float).agg(end, axis=1)
        elif by:
            limit = values.groupby([table[name].astype(str) for name in by.split(",")]).transform(end)
        else:
            limit = values.agg(end)
        found[column] = (values == limit).tolist()
    return [found.get(column, [False] * len(table)) for column in table.columns]


def best_in_words(table: pd.DataFrame, best: Best | None, among: Sequence[bool] | None = None, lines: str = "") -> str:
    """Return what bold numbers are, as a sentence of a caption without its full stop; empty if none is bold.

    ``lines`` has a name for those ``among`` which the best are.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"graph": ["g", "g"], "tol": [1e-6, 1e-6], "ms": [1.0, 2.0]})
    >>> best_in_words(table, {"ms": "least by graph,tol"}), best_in_words(table, {"ms": "least"}, [True, False], "fp64")
    ("Bold: the least 'ms' of each graph and tol", "Bold: the least 'ms', among fp64")
    >>> best_in_words(table, {"tol": "row least", "ms": "row least"}), best_in_words(table, {"s": "least"})
    ('Bold: the least of each row', '')
    """
    rules: dict[str, list[str]] = {}
    for column, rule in (best or {}).items():
        if column in table:
            rules.setdefault(rule, []).append(column)
    if not any(map(any, is_best(table, best, among))):
        return ""
    parts = []
    for rule, columns in rules.items():
        across, end, by = _RULE.fullmatch(rule).groups()  # type: ignore[union-attr]
        alone = len(columns) == 1 and not across
        *first, last = str(by or ("row" if across else "" if alone else "column")).split(",")
        each = " and ".join(filter(None, [", ".join(first), last]))
        parts.append(f"the {end}{f' {columns[0]!r}' if alone else ''}{f' of each {each}' if each else ''}")
    return f"Bold: {'; '.join(parts)}{f', among {lines}' if lines else ''}"


def apart(text: str) -> tuple[str, str]:
    """Return the part of a number before its decimal point or exponent, and the rest.

    Examples
    --------
    >>> apart("-12.5"), apart("5e-10"), apart("7"), apart("True")
    (('-12', '.5'), ('5', 'e-10'), ('7', ''), ('True', ''))
    """
    found = _NUMBER.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def _aligned(column: Sequence[str], bold: list[bool]) -> list[str]:
    """Return numbers with as many spaces behind them as align their points, the best ones bold."""
    tails = [len(apart(text)[1]) for text in column]
    return [
        (f"**{text}**" if best and text else text) + " " * (max(tails) - tail)
        for text, tail, best in zip(column, tails, bold, strict=True)
    ]


def _line(cells: Sequence[str], widths: list[int], right: list[bool]) -> str:
    aligned = [padded(c, w, right=r) for c, w, r in zip(cells, widths, right, strict=True)]
    return "| " + " | ".join(aligned) + " |"


def _are_numbers(column: Iterable[object]) -> bool:
    filled = [text for text in map(_text, column) if text]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled))


def _text(value: object) -> str:
    import numpy as np
    import pandas as pd

    if value is None or value is pd.NA:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return escape.abbreviate_words(str(value), LONGEST_WORD)


def _csv_cell(value: Any) -> Any:
    return escape.csv(value) if isinstance(value, str) else value
