"""Tables of two columns in HTML for notebooks, with every text escaped.

Notebooks call ``_repr_html_`` of results; a table of a few rows costs microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cpms.base.text.escape import html
from cpms.base.validation import shortened


def html_table(rows: Iterable[tuple[Any, Any]], *head: str) -> str:
    """Return rows of a name and a value as an HTML table.

    Examples
    --------
    >>> html_table([("graph", "<b>")])
    '<table><tr><td>graph</td><td>&lt;b&gt;</td></tr></table>'
    """
    lines = [f"<tr>{''.join(f'<th>{html(title)}</th>' for title in head)}</tr>"] if head else []
    for name, value in rows:
        lines.append(f"<tr><td>{html(shortened(str(name)))}</td><td>{html(str(value))}</td></tr>")
    return f"<table>{''.join(lines)}</table>"
