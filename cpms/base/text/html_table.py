"""Graphs, results and stored arrays as notebooks show them: small tables of HTML, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from cpms.base.validation import finite, shortened, shown
from cpms.formats.formats import SegmentFormat

if TYPE_CHECKING:
    from cpms.api.result import Result
    from cpms.graph.graph import Graph
    from cpms.storage.array import SegmentedArray

_TOP = 5
"""Of the highest ranks, so many are shown."""


def graph_html(graph: Graph) -> str:
    """Return a graph's name and sizes.

    Examples
    --------
    >>> from cpms.graph.graph import Graph
    >>> "&lt;b&gt;" in graph_html(Graph.from_edges([0], [1], name="<b>"))
    True
    """
    rows: list[tuple[str, Any]] = [
        ("graph", shortened(graph.name)),
        *([("stand-in for", shortened(graph.stand_in_for))] if graph.stand_in_for else []),
        ("nodes", f"{graph.nodes:,}"),
        ("edges", f"{graph.edges:,}"),
        ("weights", "none" if graph.weights is None else "float64"),
    ]
    return _table(rows)


def result_html(result: Result) -> str:
    """Return how a solve ended, what it found, and the highest ranks."""
    by_bits = ", ".join(f"{count} of {bits} bits" for bits, count in result.iterations_by_bits.items())
    rows: list[tuple[str, Any]] = [
        ("graph", shortened(result.graph.name)),
        ("status", result.status.value),
        ("method", f"{result.method} in {shortened(result.storage)} on {result.engine}"),
        ("iterations", f"{result.iterations} ({by_bits})"),
        ("residual", shown(finite(result.residual_l1))),
        ("error bound", shown(finite(result.error_bound))),
    ]
    return _table(rows) + _table([(node, shown(finite(rank), 6)) for node, rank in result.top(_TOP)], "node", "rank")


def array_html(array: SegmentedArray) -> str:
    """Return how an array is stored.

    Examples
    --------
    >>> from cpms.storage.array import encode
    >>> "16, 16, 16, 16" in array_html(encode([1.0], "cpms4"))
    True
    """
    storage = array.format
    segments = ", ".join(map(str, storage.widths)) if isinstance(storage, SegmentFormat) else str(storage.width)
    rows: list[tuple[str, Any]] = [
        ("format", shortened(storage.name)),
        ("bits of a value", segments),
        ("values", f"{array.length:,}"),
        ("bytes", f"{array.nbytes:,}"),
    ]
    return _table(rows)


def _table(rows: Iterable[tuple[Any, Any]], *head: str) -> str:
    lines = [f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in head)}</tr>"] if head else []
    for name, value in rows:
        lines.append(f"<tr><td>{escape(shortened(str(name)))}</td><td>{escape(str(value))}</td></tr>")
    return f"<table>{''.join(lines)}</table>"
