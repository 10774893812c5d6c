"""Plain-text tables for the command line."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under their headers, in columns as wide as their widest entry.

    Examples
    --------
    >>> print(text_table(["name", "bits"], [["fp64", 64]]))
    name  bits
    fp64    64
    """
    body = [[str(cell) for cell in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[k], int | float) for row in rows) for k in range(len(headers))]
    widths = [max(len(line[k]) for line in [list(headers), *body]) for k in range(len(headers))]
    lines = []
    for line in [list(headers), *body]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
