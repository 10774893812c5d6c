"""Panels of figures for one column of a journal and for two: grids, axes of names, and marks with intervals.

A column of 3.3 inches is wide enough for one panel with names beside it, or for two without names. Panels are stacked
in one column, and side by side in two. Marks have the colour of their bits, and an interval is a line through its mark.
Programs also import ticks and legends from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cpms.experiment.report.page.described import name_places as name_places
from cpms.experiment.report.page.legends import ALL_MARKERS as ALL_MARKERS
from cpms.experiment.report.page.legends import SWATCH as SWATCH
from cpms.experiment.report.page.legends import key as key
from cpms.experiment.report.page.legends import kinds as kinds
from cpms.experiment.report.page.legends import legend as legend
from cpms.experiment.report.page.legends import legend_above as legend_above
from cpms.experiment.report.page.legends import marker as marker
from cpms.experiment.report.page.legends import markers as markers
from cpms.experiment.report.page.room import CHARACTER_IN, whole_words
from cpms.experiment.report.page.ticks import logarithmic as logarithmic
from cpms.experiment.report.page.ticks import number as number
from cpms.experiment.report.palette import CUT
from cpms.experiment.report.palette import NEUTRAL as NEUTRAL
from cpms.experiment.report.palette import colour as colour
from cpms.experiment.report.style import WIDTHS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLED: dict[str, Any] = {"color": NEUTRAL, "marker": "o", "linestyle": "", "markersize": 4}
"""The entry of filled marks in a legend."""
HOLLOW: dict[str, Any] = {**FILLED, "markerfacecolor": "white"}
"""The entry of hollow marks in a legend."""
DOT: dict[str, Any] = {"color": NEUTRAL, "marker": "o", "linestyle": "", "markersize": 2.6, "alpha": 0.9, "mew": 0.5}
"""The entry of a legend for dots of the ratios of a mean."""
BAND = "#f3f3f3"
"""Colour of every second row of a panel with many marks a row."""
_MOST_CUT = 3
"""Most intervals beyond the end of an axis whose ends are written as numbers."""
_LEAST_APART = 0.5
"""Least distance of two such numbers, in rows."""
_CHARACTER_8_IN, _LINE_8_IN, _BESIDE_IN = 1.15 * CHARACTER_IN, 0.14, 0.4
"""Width of a character of 8 points, height of a line, and width of the margins of a label, in inches."""
_LEAST_IN = 0.7
"""Least height of a panel with names, in inches, beside its labels."""


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
    from matplotlib.figure import Figure

    most = columns[width > WIDTHS["single"]]
    lines = -(-count // most)
    figure = Figure(figsize=(width, height * lines))
    axes = figure.subplots(lines, min(most, count), squeeze=False, sharex=sharex, sharey=sharey)
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def entry_of(bits: float) -> dict[str, Any]:
    """Return the legend's entry for marks of a number of bits, hollow below 64, as grey print has no colours."""
    return {**FILLED, "color": colour(bits), "markerfacecolor": colour(bits) if bits >= 64 else "white"}


def named_rows(axes: Axes, names: Sequence[str]) -> None:
    """Give a panel names along its vertical axis, from the top, each with a line across."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y")


def bands(axes: Axes, rows: int) -> None:
    """Shade every second row of a panel with names, where a row has many marks."""
    for place in range(0, rows, 2):
        axes.axhspan(place - 0.5, place + 0.5, color=BAND, linewidth=0, zorder=-1)


def label_below(axes: Axes, text: str, width: float, names: Sequence[str]) -> None:
    """Label a horizontal axis: below its middle, or at its right end if the text is wider than the panel.

    A text that is wider than the figure has several lines.

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
    panel_in = width - CHARACTER_IN * longest - 0.3
    rows = whole_words(text, int((width - _BESIDE_IN) / _CHARACTER_8_IN))
    is_wide = _CHARACTER_8_IN * max(map(len, rows), default=0) > panel_in
    axes.set_xlabel("\n".join(rows), loc="right" if is_wide else "center", multialignment="center")
    figure: Any = axes.figure
    figure.set_figheight(figure.get_figheight() + _LINE_8_IN * max(0, len(rows) - 1))


def state_small(
    axes: Axes, ends: Sequence[float], places: Sequence[float], *, share: float = 0.015, digits: int = 2
) -> None:
    """Write the length of each bar that is too short to be seen, below a share of the longest, beside it."""
    longest = max(ends, default=0.0)
    for end, place in zip(ends, places, strict=True):
        if 0 < end < share * longest:
            axes.annotate(
                number(float(f"{end:.{digits}g}")),
                (end, place),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )


def note(axes: Axes, place: float, text: str, behind: str = "white") -> None:
    """Write a text at the right end of a row, on a colour so that no line crosses it."""
    written = axes.text(
        0.99, place, text, fontsize=7, color=NEUTRAL, transform=axes.get_yaxis_transform(), ha="right",
        va="center_baseline", bbox={"facecolor": behind, "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip
    written.set_in_layout(False)  # With long names, the layout would leave the axes no width.


def cut(axes: Axes, limit: float, places: Sequence[float], ends: Sequence[float]) -> list[float]:
    """End a horizontal axis before the longest intervals, and return the ends of these.

    If there are few of them and on different rows, their ends are written at the right. Otherwise they have an arrow
    alone, and a caption may state the longest.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    limit : float
        The end of the axis.
    places, ends : sequence of float
        The row of each interval, and its end.
    """
    beyond = [(place, end) for place, end in zip(places, ends, strict=True) if end > limit]
    axes.set_xlim(right=limit)
    apart = np.diff(sorted(place for place, _ in beyond))
    written_out = len(beyond) <= _MOST_CUT and bool((apart >= _LEAST_APART).all())
    for place, end in beyond:
        if not written_out:
            axes.plot(limit, place, ">", color=NEUTRAL, markersize=2.5, markeredgewidth=0, alpha=1.0, gid=CUT)
            continue
        written = axes.text(
            1.0, place, f"{end:.2g}\u2192", fontsize=7, transform=axes.get_yaxis_transform(), ha="right",
            va="center_baseline", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.2},
        )  # fmt: skip
        written.set_in_layout(False)
    return [end for _, end in beyond]


def rows_height(names: Sequence[str], each: float, more: float = 0.75) -> float:
    """Return the height of a figure of one panel with names, in inches; ``more`` is for the parts above and below."""
    return more + max(each * len(names), _LEAST_IN)


def point(
    axes: Axes, x: float, y: float, bits: float | None, marker: str = "o", *, ends: tuple[float, float] | None = None,
    across: bool = True, filled: bool = True, size: float = 4.0, light: bool = False, capped: bool = False,
) -> None:  # fmt: skip
    """Draw a mark in the colour of its bits, and an interval through it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    x, y : float
    bits : float, optional
        None for a value of several numbers of bits, whose mark is grey.
    marker : str
    ends : tuple of two float, optional
        Ends of the interval, which are moved to the mark if it lies outside.
    across : bool
        Whether the interval is horizontal.
    filled : bool
        Whether the mark is filled; a hollow one without an interval is transparent.
    size : float
        Size of the mark, in points.
    light : bool
        Whether the line is thin and pale, for wide intervals from the least sample to the largest.
    capped : bool
        Whether the line has caps.
    """
    from matplotlib.colors import to_rgba

    at, shade = x if across else y, NEUTRAL if bits is None else colour(bits)
    error: list[list[float]] | None = None
    if ends is not None and all(np.isfinite(ends)):
        error = [[max(at - ends[0], 0.0)], [max(ends[1] - at, 0.0)]]
    axes.errorbar(
        x,
        y,
        xerr=error if across else None,
        yerr=None if across else error,
        color=shade,
        marker=marker,
        markersize=size,
        markerfacecolor=None if filled else "none" if ends is None else "white",
        markeredgewidth=0.7,
        ecolor=to_rgba(shade, 0.5 if light else 1.0),
        elinewidth=0.6 if light else 0.8,
        capsize=1.8 if capped else 0.0,
        capthick=0.8,
        linestyle="",
    )


def beside(place: int, count: int, room: float = 0.7) -> float:
    """Return the offset of one of several marks from the middle of their row, in rows.

    Examples
    --------
    >>> beside(0, 2, 0.5), beside(1, 3), beside(0, 1)
    (-0.125, 0.0, 0.0)
    """
    return room * (place - (count - 1) / 2) / count


def abreast(values: pd.Series[float] | npt.NDArray[np.float64], place: int, count: int, factor: float) -> Any:
    """Return shifted places on a logarithmic axis for the marks of one of several curves, so that none hides another.

    The marks of neighbouring curves lie apart by a factor.

    Examples
    --------
    >>> abreast(np.array([4.0, 8.0]), 1, 2, 4.0).tolist()
    [8.0, 16.0]
    """
    return values * factor ** (place - (count - 1) / 2)


def unity(axes: Axes, *, across: bool = False) -> None:
    """Draw the line at 1: neither faster nor slower."""
    (axes.axhline if across else axes.axvline)(1.0, color=NEUTRAL, linewidth=0.7, zorder=0)


def headroom(axes: Axes, share: float) -> None:
    """Raise the upper end of a vertical axis by a share of its length, for a legend within the panel."""
    low, high = axes.get_ylim()
    logarithm = axes.get_yscale() == "log"
    axes.set_ylim(top=high * (high / low) ** share if logarithm else high + share * (high - low))
