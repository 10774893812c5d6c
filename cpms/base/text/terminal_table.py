"""Plain-text tables for the command line, aligned by display width."""

from __future__ import annotations

from collections.abc import Sequence

from cpms.base.text import escape


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    r"""Return the lines of a table with headers, in columns as wide as their widest entry.

    Examples
    --------
    >>> print(*text_table(["name", "bits"], [["fp64", 64], ["a\nb", 8]]), sep="\n")
    name  bits
    fp64    64
    a\nb     8
    """
    body = [[escape.terminal(str(cell)) for cell in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[k], int | float) for row in rows) for k in range(len(headers))]
    widths = [max(escape.width(line[k]) for line in [list(headers), *body]) for k in range(len(headers))]
    lines = []
    for line in [list(headers), *body]:
        cells = [padded(cell, width, right=right) for cell, width, right in zip(line, widths, numeric, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def padded(text: str, width: int, *, right: bool) -> str:
    """Return text padded with spaces to a width in columns of a terminal.

    Examples
    --------
    >>> padded("グ", 4, right=False) + "|"
    'グ  |'
    """
    spaces = " " * (width - escape.width(text))
    return spaces + text if right else text + spaces
