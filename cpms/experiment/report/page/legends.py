"""Markers and legends.

An entry with a short bar gives the number of bits of a colour, and one with a mark an engine, a layout or a contestant.
A legend stands above the panels or below them, in as few lines as its entries need. Colours and marks have columns of
their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cpms.base.text.escape import abbreviate
from cpms.experiment.report.page.room import text_inches, whole_words
from cpms.experiment.report.palette import MARKERS, NEUTRAL, colour

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SWATCH: dict[str, Any] = {"linestyle": "-", "linewidth": 4.0, "solid_capstyle": "butt"}
"""The entry of a colour in a legend: a short bar, unlike any marker."""
ALL_MARKERS = "osD^vP<>X*hp"
"""Markers of engines and layouts, and of histories."""
_OF_KINDS = "osD^vPpX*hdH"
"""Markers of engines and layouts: on a horizontal interval, those that point along it would look like arrows."""
_ENTRY_IN, _IN_PIXELS = 0.24, 1.06
"""Width in inches of the mark of a legend's entry and of the space after it; most width of text in pixels over that of
its outlines."""


def marker(name: str) -> str:
    """Return the marker of an engine or layout, or one for any other.

    Examples
    --------
    >>> marker("csr"), marker("mine")
    ('s', 'p')
    """
    return MARKERS.get(name, "p")


def kinds(found: pd.DataFrame) -> list[str]:
    """Return the engine of each line, or its layout if all have the same engine."""
    column = "engine" if len(set(found.engine)) > 1 else "layout"
    return [str(each) for each in found[column]]


def markers(found: pd.DataFrame) -> list[str]:
    """Return the marker of each line: the one that its engine or layout has in all figures, or else an unused one."""
    found_kinds = kinds(found)
    free, by_kind = list(_OF_KINDS), dict[str, str]()
    for kind in sorted(set(found_kinds), key=lambda kind: (kind not in MARKERS, kind)):
        wanted = MARKERS.get(kind, "")
        by_kind[kind] = wanted if wanted in free else free[0] if free else _OF_KINDS[0]
        free = [each for each in free if each != by_kind[kind]]
    return [by_kind[kind] for kind in found_kinds]


def key(
    bits: Iterable[float] = (), marks: dict[str, str] | None = None, lines: dict[str, dict[str, Any]] | None = None
) -> list[Artist]:
    """Return the entries of a legend: bars in the colours of bits, marks by name, and lines by name and style.

    Numbers of bits that share a colour share an entry.
    """
    from matplotlib.lines import Line2D

    alike: dict[str, list[float]] = {}
    for each in sorted(set(bits), reverse=True):
        alike.setdefault(colour(each), []).append(each)
    swatches = [
        Line2D([], [], color=shade, label=f"{_listed(numbers)} bits", **SWATCH) for shade, numbers in alike.items()
    ]
    named = [
        Line2D([], [], color=NEUTRAL, marker=each, linestyle="", markersize=5, label=name)
        for name, each in (marks or {}).items()
    ]
    styled = [Line2D([], [], label=name, **style) for name, style in (lines or {}).items()]
    return [*swatches, *named, *styled]


def _listed(falling: Sequence[float]) -> str:
    return f"{falling[-1]:g} to {falling[0]:g}" if len(falling) > 3 else ", ".join(f"{each:g}" for each in falling)


def legend(figure: Figure, entries: Sequence[Any], *, most: int = 40, below: bool = False) -> int:
    """Add a legend above the panels or below them, in as few lines as fit, and return their number.

    An entry of more than ``most`` characters, or one that is wider than the figure, has two lines, and is abbreviated
    if they are too short for it.
    """
    from matplotlib.lines import Line2D

    width = figure.get_figwidth()
    swatches = [entry for entry in entries if _is_swatch(entry)]
    beside = _legend_inches([swatches]) if 0 < len(swatches) < len(entries) else 0.0
    for entry in entries:
        in_all = width - (0.0 if _is_swatch(entry) else beside) - _ENTRY_IN
        entry.set_label("\n".join(_fitting(str(entry.get_label()), most, in_all)))
    columns = _columns(entries, width)
    lines = max(map(len, columns), default=0)
    blank = [Line2D([], [], linestyle="", label=" ")]
    figure.legend(
        handles=[entry for column in columns for entry in [*column, *blank * (lines - len(column))]],
        loc="outside lower center" if below else "outside upper center", ncols=max(1, len(columns)),
        handletextpad=0.3, columnspacing=0.9, borderaxespad=0.1, handlelength=1.2,
    )  # fmt: skip
    return max((sum(str(entry.get_label()).count("\n") + 1 for entry in column) for column in columns), default=0)


def _columns(entries: Sequence[Any], width: float) -> list[list[Any]]:
    """Return entries in columns, colours before marks, in as few lines as fit into a figure of a width in inches.

    Columns have about equal lengths, and entries are read downwards.
    """
    colours = [entry for entry in entries if _is_swatch(entry)]
    groups = [group for group in (colours, [entry for entry in entries if entry not in colours]) if group]
    found: list[list[Any]] = []
    for lines in range(1, len(entries) + 1):
        counts = [-(-len(group) // lines) for group in groups]
        ends = [
            [-(-part * len(group) // count) for part in range(count + 1)]
            for group, count in zip(groups, counts, strict=True)
        ]
        found = [
            group[start:end]
            for group, places in zip(groups, ends, strict=True)
            for start, end in itertools.pairwise(places)
        ]
        if _legend_inches(found) <= width:
            break
    return found


def _is_swatch(entry: Any) -> bool:
    """Return whether an entry of a legend is that of a colour."""
    unmarked = getattr(entry, "get_marker", lambda: None)() in ("", "None", None)
    return unmarked and bool(entry.get_linewidth() == SWATCH["linewidth"])


def in_lines(name: str, most: int) -> list[str]:
    """Return a name in one or two lines of at most ``most`` characters, abbreviated to fit."""
    first, *others = whole_words(name, most) or [""]
    return [abbreviate(first, most), *([abbreviate(" ".join(others), most)] if others else [])]


def _fitting(name: str, most: int, inches: float) -> list[str]:
    """Return a name in one or two lines of at most ``most`` characters and of a width."""
    sizes = range(min(most, len(name)), 3, -1)
    held = (in_lines(name, size) for size in sizes)
    return next((lines for lines in held if _inches(lines) <= inches), in_lines(name, most))


def legend_above(axes: Axes, title: str) -> None:
    """Add a legend of a panel's curves between its title and the panel, where it hides no data, an entry a line."""
    entries = axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), handletextpad=0.4, borderaxespad=0.1, borderpad=0.1
    ).get_texts()
    axes.set_title(title, pad=3.0 + sum(1.55 * float(text.get_fontsize()) for text in entries))


def _legend_inches(columns: Sequence[Sequence[Any]]) -> float:
    """Return the width of a legend."""
    lines = [[line for entry in column for line in str(entry.get_label()).split("\n")] for column in columns]
    return sum(_inches(column) + _ENTRY_IN for column in lines)


def _inches(lines: Sequence[str]) -> float:
    return _IN_PIXELS * max(map(text_inches, lines))
