"""A panel for each graph, with a mark for each contestant.

Marks of the baseline are filled; all others are hollow and drawn above it, and those near each other differ in size, so
that none hides another (`cpms.experiment.report.page.nested`). A series of contestants
(`cpms.experiment.report.page.series`) has one marker, and a line joins its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.generic.flaws import is_unconverged, is_wrong
from cpms.experiment.report.generic.parts import each_line, explain, fewest, marks_of
from cpms.experiment.report.generic.words import bits_in_words
from cpms.experiment.report.page import nested
from cpms.experiment.report.page.case_labels import case_labels
from cpms.experiment.report.page.legends import in_lines
from cpms.experiment.report.page.series import series_of
from cpms.experiment.report.palette import NEUTRAL, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EDGE_IN = 0.05
"""Least distance of a number from the right edge of the page, in inches."""
_COLUMNS = (2, 4)
"""Most panels side by side, in one column of a journal and in two."""
_ROW_IN = {1: 2.2, 2: 1.6}
"""Height of a row of panels with its titles and ticks, by the number of rows, in inches."""
_TITLE = 12
"""Characters of a line of a title in an inch of the distance of panels."""
_JOINED: dict[str, Any] = {"color": "#b8b8b8", "linewidth": 0.6, "zorder": 1}
"""The line that joins the members of a series."""
STRUCK: dict[str, Any] = {
    "color": "#222222", "marker": (2, 2, -45), "markersize": 9.0, "markeredgewidth": 0.8, "linestyle": "",
}  # fmt: skip
"""The stroke through the mark of a result that did not converge, which is longer than the mark."""
_STRUCK_Z = 7.0
_LEAST_ENDS, _MARGIN, _MANY_DECADES = 1.5, 0.1, 4.0
"""Least ratio of the ends of a logarithmic axis, the part of an axis before its first mark and after its last, and the
decades from which an end moves to the next power of ten, if this is within another such part."""


class Quantities(NamedTuple):
    """The columns of a figure's axes and their labels, and whether colours mean bits and lines join a series."""

    across: str
    up: str
    xlabel: str
    ylabel: str
    coloured: bool = True


def draw(found: pd.DataFrame, axes: Quantities, width: float, base: str | None) -> tuple[Figure, str]:
    """Draw points at ``x`` and ``y``, and return the figure with a text about its colours, marks and lines."""
    found = found.assign(series=found.called.map(series_of(found)))
    cases = list(dict.fromkeys(found.case))
    columns = min(_COLUMNS[width > 5], len(cases))
    rows = -(-len(cases) // columns)
    figure, grid = panels.grid(width, len(cases), _ROW_IN[rows], columns=_COLUMNS)
    heads = _titles(found, cases, width / columns)
    marks = marks_of(found.assign(called=found.series))
    filled = next((str(each) for each in found[found.called == base].series), "")
    for panel, case in zip(grid, cases, strict=True):
        _points(panel, found[found.case == case], marks, filled, axes)
        panel.set_title(heads[case], fontsize=7)
        _ends(panel, found if axes.across == "bits" else found[found.case == case], found[found.case == case], axes)
    lines = {
        str(name): _entry(part, marks[str(name)], name == filled, axes)
        for name, part in found.groupby("series", sort=False)
    }
    lines = lines if len({*found.called}) > 1 else {}
    shades = {colour(bits) for bits in found.fewest_bits} if axes.coloured else set[str]()
    swatches = found.fewest_bits if len(shades) > 1 else ()
    below = figure.get_figheight() + 0.12 * rows * max(head.count("\n") for head in heads.values())
    figure.set_figheight(below)
    explain(figure, panels.key(swatches, lines=lines | key_of_struck(found)), below=len(cases) == 1)
    layout: Any = figure.get_layout_engine()
    if layout is not None:  # The last number of an axis may be wider than its margin.
        layout.set(rect=(0, 0, 0.98, 1))
    if len(cases) == 1:
        grid[0].set_xlabel(axes.xlabel)
    else:
        figure.supxlabel(axes.xlabel, fontsize=8)
    if rows == 1:
        grid[0].set_ylabel(axes.ylabel)
    else:  # The legend is above the panels, which are lower than the middle.
        figure.supylabel(axes.ylabel, fontsize=8, y=0.5 * below / figure.get_figheight())
    return figure, "".join(_of_looks(found, filled, shades, axes))


def _titles(found: pd.DataFrame, cases: Sequence[str], pitch_in: float) -> dict[str, str]:
    """Return the titles of panels whose distance is given in inches, each in one line or two."""
    first, most = found.drop_duplicates("case").set_index("case"), int(_TITLE * pitch_in)
    heads = case_labels([(first.label[case], first.problem[case]) for case in cases], 2 * most)
    return {case: "\n".join(in_lines(head, most)) for case, head in zip(cases, heads, strict=True)}


def _of_looks(found: pd.DataFrame, filled: str, shades: set[str], axes: Quantities) -> Iterator[str]:
    """Yield texts about the colours, marks and lines of a figure."""
    if len(shades) > 1:
        yield fewest(found)
    elif shades:
        yield f"; all have {found.fewest_bits.min():g} bits {bits_in_words(found)}"
    if filled and len({*found.series}) > 1:
        yield f"; filled: {filled}"
    by_series = found.groupby("series").fewest_bits
    if len(shades) > 1 and by_series.agg(lambda bits: len({*map(colour, bits)}) > 1).any():
        yield "; grey in the legend: several colours"
    if axes.coloured and found.groupby(["case", "series"]).size().max() > 1:
        yield "; lines join formats or levels"


def _points(panel: Axes, found: pd.DataFrame, marks: dict[str, str], filled: str, axes: Quantities) -> None:
    """Draw the marks of a panel, the lines that join them, and rings around wrong results."""
    for _, part in found.groupby("series", sort=False):
        ordered = part.sort_values(["x", "y"])
        if axes.coloured and len(ordered) > 1:
            panel.plot(ordered.x, ordered.y, **_JOINED)
    for name, part in found.groupby("series", sort=False):
        for line in each_line(part):
            shade = colour(line.fewest_bits) if axes.coloured else NEUTRAL
            nested.mark(panel, (line.x, line.y), marks[str(name)], shade, filled=name == filled, label=str(name))
    wrong = found[is_wrong(found)] if axes.up == "error" else found[:0]
    for line in each_line(wrong):
        nested.ring(panel, (line.x, line.y), NEUTRAL)
    for line in each_line(found[is_unconverged(found)]):
        strike(panel, (line.x, line.y))


def strike(panel: Axes, at: tuple[float, float]) -> None:
    """Draw a stroke through the mark of a result that did not converge."""
    panel.plot(*at, **STRUCK, zorder=_STRUCK_Z, clip_on=False)


def key_of_struck(found: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the entry of a legend for results that did not converge, if there are any."""
    return {"not converged": STRUCK} if is_unconverged(found).any() else {}


def _entry(found: pd.DataFrame, marker: str, filled: bool, axes: Quantities) -> dict[str, Any]:
    """Return the look of a series in a legend: grey if it has several colours."""
    shades = {colour(bits) for bits in found.fewest_bits} if axes.coloured else {NEUTRAL}
    shade = shades.pop() if len(shades) == 1 else NEUTRAL
    return {
        "color": shade, "marker": marker, "linestyle": "", "markersize": nested.size_of(marker) ** 0.5,
        "markeredgewidth": nested.EDGE_PT, "markerfacecolor": shade if filled else "none",
    }  # fmt: skip


def _ends(panel: Axes, across: pd.DataFrame, found: pd.DataFrame, axes: Quantities) -> None:
    """Set the ends and ticks of a panel's axes: ``across`` holds the points of all panels with this horizontal axis."""
    if axes.across == "bits":
        bits_axis(panel, across)
    else:
        panels.logarithmic(panel, most=4)
        panel.set_xlim(*logarithmic_ends(across.x))
    panels.logarithmic(panel, "y", most=5)
    panel.set_ylim(*logarithmic_ends(found.y))


def bits_axis(panel: Axes, found: pd.DataFrame, step: float | None = None) -> None:
    """Set the ends of a horizontal axis of bits, and its ticks, whose distance may be given."""
    from matplotlib.ticker import MultipleLocator

    low, high = float(found.x.min()), float(found.x.max())
    panel.set_xlim(low - _MARGIN * (high - low), high + _MARGIN * (high - low))
    panel.xaxis.set_major_locator(MultipleLocator(step or _step_of_bits(*panel.get_xlim())))


def _step_of_bits(low: float, high: float) -> float:
    """Return the largest distance of ticks of which an axis has three, but 4 bits at least.

    Examples
    --------
    >>> _step_of_bits(15.0, 65.0), _step_of_bits(35.0, 65.0), _step_of_bits(30.0, 34.0)
    (16.0, 8.0, 4.0)
    """
    return next((step for step in (16.0, 8.0) if high // step + -low // step >= 2), 4.0)


def logarithmic_ends(values: pd.Series[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis, which are some way beyond its values, and at a near power of ten.

    Ticks of an axis of many decades stand at powers of ten alone. Between other ends there may be fewer than three.

    Examples
    --------
    >>> [f"{end:.2g}" for end in logarithmic_ends(pd.Series([4e-15, 4e-10]))], logarithmic_ends(pd.Series([10.0, 1e3]))
    (['1e-15', '1.3e-09'], (6.309573444801933, 1584.893192461114))
    """
    low, high = np.log10(values.min()), np.log10(values.max())
    more = max(0.0, np.log10(_LEAST_ENDS) - (high - low)) / 2
    low, high = low - more, high + more
    margin = _MARGIN * (high - low)
    low, high = low - margin, high + margin
    if high - low > _MANY_DECADES:
        low, high = (
            round_to if abs(round_to - end) <= margin else end
            for end, round_to in ((low, np.floor(low)), (high, np.ceil(high)))
        )
    return float(10**low), float(10**high)


def keep_on_page(figure: Figure) -> None:
    """Narrow the panels of a figure whose last numbers are too near its right edge."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    nested.lay_out(figure)
    ends = [
        label.get_window_extent().x1
        for axes in figure.axes
        for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if axes.get_xlim()[0] <= place <= axes.get_xlim()[1]  # Others are not drawn.
    ]
    beyond, layout = max(ends) / figure.dpi - (figure.get_figwidth() - _EDGE_IN), figure.get_layout_engine()
    if beyond > 0 and isinstance(layout, ConstrainedLayoutEngine):
        layout.set(rect=(0, 0, 0.98 - beyond / figure.get_figwidth(), 1))
        figure.stale = True
