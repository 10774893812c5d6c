"""Markers and legends: a square is a colour's number of bits, a mark an engine, a layout or a contestant.

A legend stands above the panels or below them, in as few lines as its entries have room for.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.text.escape import abbreviate
from cpms.experiment.report.page.room import CHARACTER_IN
from cpms.experiment.report.palette import MARKERS, NEUTRAL, colour

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALL_MARKERS = "osD^vP*X<>hp"
"""Of engines and layouts, and of histories."""
_ENTRY_IN = 0.3
"""Width of the mark of a legend's entry, and of the space after it."""


def marker(name: str, others: Sequence[str] = ()) -> str:
    """Return the marker of an engine or layout; of another name, one by its place among such names.

    Examples
    --------
    >>> marker("csr"), marker("mine", ["yours", "mine"])
    ('s', '>')
    """
    return MARKERS.get(name) or "<>hpd*"[list(others).index(name) % 6 if name in others else 0]


def kinds(found: pd.DataFrame) -> list[str]:
    """Return the engine of each line, or its layout where all have one engine."""
    column = "engine" if len(set(found.engine)) > 1 else "layout"
    return [str(each) for each in found[column]]


def markers(found: pd.DataFrame) -> list[str]:
    """Return the marker of each line: that of its engine or layout in all figures, or one that no other has here."""
    found_kinds = kinds(found)
    free, by_kind = list(ALL_MARKERS), dict[str, str]()
    for kind in sorted(set(found_kinds), key=lambda kind: (kind not in MARKERS, kind)):
        wanted = MARKERS.get(kind, "")
        by_kind[kind] = wanted if wanted in free else free[0] if free else ALL_MARKERS[0]
        free = [each for each in free if each != by_kind[kind]]
    return [by_kind[kind] for kind in found_kinds]


def key(
    bits: Iterable[float] = (), marks: dict[str, str] | None = None, lines: dict[str, dict[str, Any]] | None = None
) -> list[Artist]:
    """Return the entries of a legend: squares in the colours of bits, marks by name, and lines by name and style.

    Numbers of bits that share a colour share an entry.
    """
    from matplotlib.lines import Line2D

    alike: dict[str, list[float]] = {}
    for each in sorted(set(bits), reverse=True):
        alike.setdefault(colour(each), []).append(each)
    squares = [
        Line2D([], [], color=shade, marker="s", linestyle="", label=f"{_listed(numbers)} bits")
        for shade, numbers in alike.items()
    ]
    named = [
        Line2D([], [], color=NEUTRAL, marker=each, linestyle="", markersize=5, label=name)
        for name, each in (marks or {}).items()
    ]
    styled = [Line2D([], [], label=name, **style) for name, style in (lines or {}).items()]
    return [*squares, *named, *styled]


def _listed(falling: Sequence[float]) -> str:
    return f"{falling[-1]:g} to {falling[0]:g}" if len(falling) > 3 else ", ".join(f"{each:g}" for each in falling)


def legend(figure: Figure, entries: Sequence[Any], *, most: int = 40, below: bool = False) -> int:
    """Explain marks above the panels or below them, in as few lines as there is room for, and return their number.

    An entry of more characters than ``most`` has two lines, and is abbreviated if it has more than these.
    """
    for entry in entries:
        parts = textwrap.wrap(str(entry.get_label()), most) or [""]
        entry.set_label("\n".join([*parts[:1], *([abbreviate(" ".join(parts[1:]), most)] if parts[1:] else [])]))
    lengths = [max(map(len, str(entry.get_label()).split("\n"))) for entry in entries]
    columns = next(
        (count for count in range(len(lengths), 1, -1) if _legend_inches(lengths, count) <= figure.get_figwidth()), 1
    )
    lines = -(-len(lengths) // columns)
    columns = -(-len(lengths) // lines)  # Columns are as even as that many lines allow: entries are read downwards.
    figure.legend(
        handles=list(entries), loc="outside lower center" if below else "outside upper center", ncols=columns,
        handletextpad=0.3, columnspacing=0.9, borderaxespad=0.1, handlelength=1.2,
    )  # fmt: skip
    columns_of = [part.tolist() for part in np.array_split([str(entry.get_label()) for entry in entries], columns)]
    return max((sum(label.count("\n") + 1 for label in column) for column in columns_of), default=0)


def legend_above(axes: Axes, title: str) -> None:
    """Explain the curves of a panel above it, an entry a line, below its title: there they hide no data."""
    entries = axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), handletextpad=0.4, borderaxespad=0.1, borderpad=0.1
    ).get_texts()
    axes.set_title(title, pad=3.0 + sum(1.55 * float(text.get_fontsize()) for text in entries))


def _legend_inches(lengths: Sequence[int], columns: int) -> float:
    """Return the width of a legend, whose entries fill column by column."""
    parts = np.array_split(np.asarray(lengths), columns)
    return sum(CHARACTER_IN * int(part.max()) + _ENTRY_IN for part in parts if part.size)
