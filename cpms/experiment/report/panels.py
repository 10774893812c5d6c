"""Panels of figures for one column and for two: grids, axes of names, intervals, ticks and legends.

A column of 3.3 inches has room for one panel with names beside it, or for two without; panels are stacked there, and
side by side in two columns. Marks have the colour of their bits, and an interval is a line through its mark. Ticks of
logarithmic axes are numbers, or powers with raised digits of the font itself, so no text is smaller than the ticks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.text.escape import abbreviate
from cpms.experiment.report.palette import MARKERS, NEUTRAL, colour
from cpms.experiment.report.style import WIDTHS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLED: dict[str, Any] = {"color": NEUTRAL, "marker": "o", "linestyle": "", "markersize": 4}
"""The entry of filled marks in a legend."""
ALL_MARKERS = "osD^vP*X<>hp"
"""Of engines and layouts, and of histories."""
HOLLOW: dict[str, Any] = {**FILLED, "markerfacecolor": "white"}
"""The entry of hollow marks in a legend."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_LINES = 40
"""The most bars or points in a column of names."""
_PAGE_IN = 7.6
"""Height of a page's column of names, below which axis, legend and caption have room."""
_CHARACTER_IN = 0.054
"""Width of a character of 7 points."""
_LEAST_CASES = 4
"""Graphs in a column of names that has no room for all."""
_LEAST_IN = 0.7
"""Height of a panel of few names, below which labels leave it no room."""
_FINE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
"""First digits of ticks of an axis that spans less than a decade, and no two of those of other axes."""
_ENTRY_IN = 0.3
"""Width of the mark of a legend's entry, and of the space after it."""


def grid(
    width: float, count: int, height: float, *, columns: tuple[int, int] = (1, 4), sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Return a figure with a grid of panels, row by row.

    Parameters
    ----------
    width, height : float
        Of the figure, and of a row of panels, in inches.
    count : int
        Number of panels.
    columns : tuple of two int
        The most panels in a row, in one column of a journal and in two.
    sharex, sharey : bool
        Whether the panels have one axis.
    """
    import matplotlib.pyplot as plt

    most = columns[width > WIDTHS["single"]]
    lines = -(-count // most)
    figure, axes = plt.subplots(
        lines, min(most, count), figsize=(width, height * lines), squeeze=False, sharex=sharex, sharey=sharey
    )
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def named_rows(axes: Axes, names: Sequence[str]) -> None:
    """Give a panel names along its vertical axis, from the top, each with a line across."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y")


def wrapped(names: Sequence[str], most: int, room: int) -> list[str]:
    r"""Return names in as few lines of about so many characters as tell them apart.

    Names are in up to three lines where a page has room for that; many are abbreviated to one line if they differ then.

    Examples
    --------
    >>> wrapped(["cuda power csr", "cuda refine csr"], 8, 40)
    ['cuda power\ncsr', 'cuda refine\ncsr']
    >>> wrapped(["fused refine sweeps"] * 90, 8, 40)[0]
    'fused…ps'
    """
    lines = ["\n".join(textwrap.wrap(abbreviate(name, 3 * most), most + 4)) for name in names]
    needed = max((each.count("\n") + 1 for each in lines), default=1)
    short = [abbreviate(name, most) for name in names]
    fits = min(len(names), room) * (0.03 + 0.12 * needed) <= _PAGE_IN
    return short if not fits and len(set(short)) == len(set(names)) else lines


def line_height(labels: Sequence[str]) -> float:
    """Return the height of a name in a column of names, in inches."""
    return 0.03 + 0.12 * max(label.count("\n") + 1 for label in labels)


def fitting(found: pd.DataFrame, names: Sequence[str], width: float) -> tuple[pd.DataFrame, list[str], str]:
    """Return the lines of a table that a page has room for, evenly chosen, their names, and a text about the others.

    Parameters
    ----------
    found : pandas.DataFrame
    names : sequence of str
        Of its lines.
    width : float
        Of the figure, in inches.
    """
    labels = wrapped(names, name_length(width), MOST_LINES)
    room = min(MOST_LINES, int(_PAGE_IN / line_height(labels)))
    if len(found) <= room:
        return found.reset_index(drop=True), labels, ""
    kept = evenly(range(len(found)), room)
    text = f"; {room} of {len(found)} contestants, evenly chosen"
    return found.iloc[kept].reset_index(drop=True), [labels[place] for place in kept], text


def comparable(found: pd.DataFrame, width: float, base: str | None) -> tuple[pd.DataFrame, dict[str, str], str]:
    """Return the lines of as many cases as a page has room for, the labels of names, and a text about the others.

    Each case has the same contestants, so that its bars can be compared. At least four cases are kept, from the fastest
    to the slowest, and of contestants the baseline and those that this leaves room for, evenly chosen by their relative
    time.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``case``, ``called``, ``problem`` and ``seconds``.
    width : float
        Of the figure, in inches.
    base : str or None
        The contestant that speed-ups are over.
    """
    relative = found.seconds / found.groupby("case").seconds.transform("min")
    names = list(relative.groupby(found.called).median().sort_values().index)
    cases = list(found.groupby("case").seconds.median().sort_values().index)
    labels = dict(zip(names, wrapped(names, name_length(width), MOST_LINES), strict=True))
    room = min(MOST_LINES, int(_PAGE_IN / line_height(list(labels.values()))))
    of_case = int(found.groupby("case").size().max()) + 1
    shown = evenly(cases, max(min(_LEAST_CASES, len(cases)), room // of_case))
    kept = names if len(shown) * of_case <= room else evenly(names, max(2, room // len(shown) - 1))
    if base in names and base not in kept:
        nearest = min(range(len(kept)), key=lambda place: abs(names.index(kept[place]) - names.index(base)))
        kept[nearest] = base
    texts = [
        f"; {len(shown)} of {len(cases)} {'graphs' if not any(found.problem) else 'graphs and problems'}"
        if len(shown) < len(cases) else "",
        f"; {len(kept)} of {len(names)} contestants, evenly chosen" if len(kept) < len(names) else "",
    ]  # fmt: skip
    found = found[found.case.isin(shown) & found.called.isin(kept)]
    found = found.assign(place=found.case.map({case: place for place, case in enumerate(shown)}))
    return found.sort_values(["place", "seconds"]).reset_index(drop=True), labels, "".join(texts)


def evenly(held: Sequence[Any], most: int) -> list[Any]:
    """Return the elements of a sequence, or as many as are allowed, evenly chosen, with the first and the last.

    Examples
    --------
    >>> evenly("abcdefg", 3), evenly("ab", 3)
    (['a', 'd', 'g'], ['a', 'b'])
    """
    if len(held) <= most:
        return list(held)
    return [held[int(place)] for place in np.linspace(0, len(held) - 1, most).round()]


def name_length(width: float) -> int:
    """Return the number of characters that a figure of so many inches has for a name at its left."""
    return 26 if width < 5 else 40


def label_below(axes: Axes, text: str, width: float, names: Sequence[str]) -> None:
    """Label a horizontal axis: below its middle, or at its right end if the text is wider than the panel.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    text : str
    width : float
        Of the figure, in inches.
    names : sequence of str
        Those along the vertical axis, beside which the panel begins.
    """
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    panel_in = width - _CHARACTER_IN * longest - 0.3
    axes.set_xlabel(text, loc="right" if 1.15 * _CHARACTER_IN * len(text) > panel_in else "center")


def state_small(axes: Axes, ends: Sequence[float], places: Sequence[float]) -> None:
    """Write the lengths of bars that are too short to be seen beside them."""
    longest = max(ends, default=0.0)
    for end, place in zip(ends, places, strict=True):
        if 0 < end < 0.015 * longest:
            axes.annotate(
                number(float(f"{end:.2g}")), (end, place), (3, 0), textcoords="offset points", va="center", fontsize=7
            )


def rows_height(names: Sequence[str], each: float, more: float = 0.75) -> float:
    """Return the height of a panel with names, and of what is above and below it, in inches."""
    return more + max(each * len(names), _LEAST_IN)


def point(
    axes: Axes, x: float, y: float, bits: float, marker: str = "o", *, ends: tuple[float, float] | None = None,
    across: bool = True, filled: bool = True, size: float = 4.0, light: bool = False,
) -> None:  # fmt: skip
    """Draw a mark in the colour of its bits, and an interval through it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    x, y : float
    bits : float
    marker : str
    ends : tuple of two float, optional
        Of the interval; its ends are moved to the mark where they lie beyond it.
    across : bool
        Whether the interval is horizontal.
    filled : bool
        A hollow mark without an interval hides no mark below it.
    size : float
        Of the mark, in points.
    light : bool
        Whether the interval is from the least sample to the most, which is wide: its line is thin and pale.
    """
    from matplotlib.colors import to_rgba

    at = x if across else y
    error: list[list[float]] | None = None
    if ends is not None and all(np.isfinite(ends)):
        error = [[max(at - ends[0], 0.0)], [max(ends[1] - at, 0.0)]]
    axes.errorbar(
        x,
        y,
        xerr=error if across else None,
        yerr=None if across else error,
        color=colour(bits),
        marker=marker,
        markersize=size,
        markerfacecolor=None if filled else "none" if ends is None else "white",
        markeredgewidth=0.7,
        ecolor=to_rgba(colour(bits), 0.5 if light else 1.0),
        elinewidth=0.6 if light else 0.8,
        linestyle="",
    )


def beside(place: int, count: int, room: float = 0.7) -> float:
    """Return the distance of one of several marks on a row from its middle, in rows.

    Examples
    --------
    >>> beside(0, 2, 0.5), beside(1, 3), beside(0, 1)
    (-0.125, 0.0, 0.0)
    """
    return room * (place - (count - 1) / 2) / count


def unity(axes: Axes, *, across: bool = False) -> None:
    """Draw the line at 1: neither faster nor slower."""
    (axes.axhline if across else axes.axvline)(1.0, color=NEUTRAL, linewidth=0.7, zorder=0)


def headroom(axes: Axes, share: float) -> None:
    """Raise the upper end of a vertical axis by a share of its length, to have room for a legend within."""
    low, high = axes.get_ylim()
    logarithm = axes.get_yscale() == "log"
    axes.set_ylim(top=high * (high / low) ** share if logarithm else high + share * (high - low))


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
    """Return the entries of a legend: squares in the colours of bits, marks by name, and lines by name and style."""
    from matplotlib.lines import Line2D

    squares = [
        Line2D([], [], color=colour(each), marker="s", linestyle="", label=f"{each:g} bits")
        for each in sorted(set(bits), reverse=True)
    ]
    named = [
        Line2D([], [], color=NEUTRAL, marker=each, linestyle="", markersize=5, label=name)
        for name, each in (marks or {}).items()
    ]
    styled = [Line2D([], [], label=name, **style) for name, style in (lines or {}).items()]
    return [*squares, *named, *styled]


def legend(figure: Figure, entries: Sequence[Any], *, most: int = 40, below: bool = False) -> int:
    """Explain marks above the panels or below them, in as few lines as there is room for, and return their number."""
    for entry in entries:
        entry.set_label(abbreviate(str(entry.get_label()), most))
    lengths = [len(str(entry.get_label())) for entry in entries]
    columns = next(
        (count for count in range(len(lengths), 1, -1) if _legend_inches(lengths, count) <= figure.get_figwidth()), 1
    )
    lines = -(-len(lengths) // columns)
    columns = -(-len(lengths) // lines)  # Columns are as even as that many lines allow: entries are read downwards.
    figure.legend(
        handles=list(entries), loc="outside lower center" if below else "outside upper center", ncols=columns,
        handletextpad=0.3, columnspacing=0.9, borderaxespad=0.1, handlelength=1.2,
    )  # fmt: skip
    return lines


def _legend_inches(lengths: Sequence[int], columns: int) -> float:
    """Return the width of a legend, whose entries fill column by column."""
    parts = np.array_split(np.asarray(lengths), columns)
    return sum(_CHARACTER_IN * int(part.max()) + _ENTRY_IN for part in parts if part.size)


def logarithmic(axes: Axes, which: str = "x", *, digits: Sequence[float] = (1.0, 2.0, 5.0), most: int = 6) -> None:
    """Make an axis logarithmic, with plain numbers at few ticks.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    which : str
        ``x`` or ``y``.
    digits : sequence of float
        First digits of ticks, where the axis spans few decades.
    most : int
        Number of ticks.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if high > low > 0 else 1.0
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_locator(LogLocator(subs=[2, 3, 4, 5, 6, 7, 8, 9], numticks=100) if decades < 4.5 else NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_locator(LogLocator(subs=digits if decades < 2.2 else (1.0,), numticks=most))
    if decades < 1 and len(_within(low, high, digits)) < 2:  # There LogLocator takes ticks as of a linear axis.
        inside = _within(low, high, _FINE)
        axis.set_major_locator(FixedLocator(inside[:: -(-len(inside) // most) or 1]))


def _within(low: float, high: float, digits: Sequence[float]) -> list[float]:
    """Return the numbers of these first digits between two positive numbers less than a decade apart."""
    power = 10.0 ** np.floor(np.log10(low))
    return [scale * power * digit for scale in (1, 10) for digit in digits if low <= scale * power * digit <= high]


def number(value: float) -> str:
    """Return a number as a tick: plain up to four digits, else as a power of ten with raised digits.

    Examples
    --------
    >>> number(0.5), number(1e-10), number(2000), number(2e6)
    ('0.5', '10⁻¹⁰', '2000', '2×10⁶')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    power = int(np.floor(np.log10(abs(value)) + 1e-9))
    first = f"{value / 10.0**power:.3g}"
    return ("" if first == "1" else f"{first}\u00d7") + f"10{str(power).translate(_RAISED)}"
