"""Tables in CSV and Markdown, with every text escaped; no other module writes such tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.text import escape
from cpms.base.text.text_table import padded

if TYPE_CHECKING:
    import pandas as pd

LONGEST_WORD = 60
"""Characters of a word in a table for people; longer words are complete in CSV alone."""


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


def markdown(table: pd.DataFrame) -> str:
    r"""Return a table in Markdown, numbers aligned right.

    Examples
    --------
    >>> import pandas as pd
    >>> print(markdown(pd.DataFrame({"graph": ["a|b"], "nodes": [3]})))
    | graph | nodes |
    |:------|------:|
    | a\|b  |     3 |
    """
    cells = [[escape.markdown(text) for text in line] for line in texts(table)]
    heads = [escape.markdown(escape.abbreviate_words(str(column), LONGEST_WORD)) for column in table.columns]
    widths = [max([3, *(escape.width(line[k]) for line in [heads, *cells])]) for k in range(len(heads))]
    right = numeric(table)
    rule = [("-" * (w + 1) + ":") if r else (":" + "-" * (w + 1)) for w, r in zip(widths, right, strict=True)]
    lines = [_line(heads, widths, right), "|" + "|".join(rule) + "|", *(_line(c, widths, right) for c in cells)]
    return "\n".join(lines)


def texts(table: pd.DataFrame) -> list[list[str]]:
    """Return the cells as text, not escaped: numbers with four digits, missing values empty, long words abbreviated."""
    return [[_text(value) for value in line] for line in table.itertuples(index=False)]


def numeric(table: pd.DataFrame) -> list[bool]:
    """Return whether each column is numeric."""
    return [dtype.kind in "biufc" for dtype in table.dtypes]


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    aligned = [padded(c, w, right=r) for c, w, r in zip(cells, widths, right, strict=True)]
    return "| " + " | ".join(aligned) + " |"


def _text(value: object) -> str:
    import pandas as pd

    if value is None or value is pd.NA:
        return ""
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return escape.abbreviate_words(str(value), LONGEST_WORD)


def _csv_cell(value: Any) -> Any:
    return escape.csv(value) if isinstance(value, str) else value
