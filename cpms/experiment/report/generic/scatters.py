"""Time against bytes, and error or iterations against bits: a panel for each graph, with its own ends of axes.

Each mark is at the values of its row. Marks of the baseline are filled; all others are hollow and drawn above it, and
those near each other differ in size, so that none hides another (`cpms.experiment.report.page.nested`). A series of
contestants (`cpms.experiment.report.page.series`) has one marker, and a line joins its members. If there are more
graphs and contestants than fit, a few graphs and whole series are drawn, and the caption states how many. The cost is
that of the panels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.bandwidth import TRIMMED, of_one_quantity
from cpms.experiment.report.generic.conditions import at_one_tolerance
from cpms.experiment.report.generic.contestants import drawn_once
from cpms.experiment.report.generic.flaws import exact, flawed_in_words, is_wrong, wrong_in_words
from cpms.experiment.report.generic.parts import (
    SECONDS,
    Made,
    baseline_of,
    each_line,
    explain,
    fewest,
    marks_of,
    range_of,
)
from cpms.experiment.report.generic.words import (
    all_of,
    all_or_count,
    bits_in_words,
    case_words,
    cases_in_words,
    error_in_words,
)
from cpms.experiment.report.page import nested, room
from cpms.experiment.report.page.case_labels import case_labels
from cpms.experiment.report.page.legends import in_lines
from cpms.experiment.report.page.series import chosen_series, series_of
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.formats.formats import DOUBLE_BITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZES = {False: ((4, 9), (2, 9), (2, 6)), True: ((4, 12), (4, 9))}
"""Most graphs and contestants, in one column of a journal and in two, from the preferred ones."""
_EDGE_IN = 0.05
"""Least distance of a number from the right edge of the page, in inches."""
_COLUMNS = (2, 4)
"""Most panels side by side, in one column of a journal and in two."""
_ROW_IN = {1: 2.2, 2: 1.6}
"""Height of a row of panels with its titles and ticks, by the number of rows, in inches."""
_HIGHEST_IN = 4.45
"""Most height of a figure, in inches."""
_TITLE = 12
"""Characters of a line of a title in an inch of the distance of panels."""
_JOINED: dict[str, Any] = {"color": "#b8b8b8", "linewidth": 0.6, "zorder": 1}
"""The line that joins the members of a series."""
_LEAST_SPREAD = 1.1
"""Least ratio of the most bytes to the fewest for a panel; smaller differences of bytes are not significant."""
_LEAST_ENDS, _MARGIN = 1.5, 0.1
"""Least ratio of the ends of a logarithmic axis, and the part of an axis before its first mark and after its last."""
_DECADE = 10.0
"""Ratio of residuals below which their differences mean nothing, as a solve ends with the first below its tolerance."""
_BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1.0}


class _Axes(NamedTuple):
    """The columns of a figure's axes and their labels, and whether colours mean bits and lines join a series."""

    across: str
    up: str
    xlabel: str
    ylabel: str
    coloured: bool = True


def traffic(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw time against bytes, coloured by bits."""
    found = of_one_quantity(found[found.seconds > 0])
    lacking = ~(found.traffic > 0)
    trimmed = lacking & found.trims
    unknown = found[~trimmed].groupby("called", sort=False).traffic.max().isna()
    found, left = found[~lacking], f"; left out: {counted(int(trimmed.sum()), 'result')} {TRIMMED}"
    if found.empty:
        return None
    found, tolerance = at_one_tolerance(found)
    sizes = found.groupby("case").traffic
    spread = found.case.map(sizes.max() >= _LEAST_SPREAD * sizes.min())
    if not _relates(found[spread].traffic):
        return None
    names, shown = captions.in_words(found.traffic_name), found.assign(x=found.traffic, y=found.seconds)
    axes = _Axes("bytes", "time", names, "time")
    figure, shown, more = _fitting(shown, spread, width, baseline_of(found, baseline), axes)
    lacking_names = all_or_count(map(str, unknown.index[unknown])) if unknown.any() else ""
    without = f"; not drawn: {lacking_names}, of which rows do not hold these bytes" if lacking_names else ""
    text = f"median time against {names}{more}{tolerance}{left if trimmed.any() else ''}{without}"
    return figure, text, range_of(shown, "seconds", "Points of the time", "s")


def error_by_bits(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the error, or in its place the iterations (`counts_iterations`), against the mean number of bits read."""
    without_error, counts = exact(found), counts_iterations(found)
    up = "iterations" if counts else "error"
    found = found[(found.error > 0) & (found.bits > 0) & (found[up] > 0)]
    if found.empty or (_is_of_tolerances(found) and not counts):
        return None
    found, others = _of_one_error(found) if not counts else (found, "")
    wrong, base = wrong_in_words(found), baseline_of(found, baseline)
    found, alike = drawn_once(found, up, base)
    several = found.case.map(found.groupby("case").bits.agg(np.ptp) > 0)
    if not _relates(found[several].bits):
        return None
    names = "iterations" if counts else error_in_words(found)
    mean = bool((found.bits != found.fewest_bits).any())
    across = f"bits {bits_in_words(found)}{', mean over iterations' if mean else ''}"
    axes = _Axes("bits", up, across, names, coloured=not counts)
    shown = found.assign(x=found.bits, y=found[up])
    figure, shown, more = _fitting(shown, several, width, base, axes)
    against = f"{'the mean of ' if mean else ''}the bits {bits_in_words(found)}"
    text = f"{names}, against {against}{more}{alike}{without_error}{wrong}{others}{_twice(found)}"
    text += flawed_in_words("drawn all the same", shown, shown.flaw != "")
    return figure, text, range_of(shown, up, f"Points of the {up}", "")


def _twice(found: pd.DataFrame) -> str:
    """Return a text about solves that read more bits of a value than a value has."""
    again = (found.kind == "vector_bits") & (found.bits > DOUBLE_BITS)
    return "; above 64 bits: a second pass of Gram-Schmidt reads the basis again" if again.any() else ""


def _of_one_error(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the results whose error is of the kind that most have, since no axis can have two, and a text."""
    most = found.error_name.mode()[0]
    others = found[found.error_name != most]
    text = f"; not drawn: {counted(len(others), 'result')} with {captions.in_words(others.error_name)} alone"
    return found[found.error_name == most], text if len(others) else ""


def counts_iterations(found: pd.DataFrame) -> bool:
    """Return whether results are compared by their iterations: those without times whose residuals show nothing."""
    known = found[(found.error > 0) & (found.iterations > 0)]
    return len(known) > 0 and not (found.seconds > 0).any() and _is_of_tolerances(known)


def _is_of_tolerances(found: pd.DataFrame) -> bool:
    """Return whether errors are residuals that only show the tolerance.

    They do if solves are to several tolerances, or if on each graph all residuals are within a decade.
    """
    errors = found.groupby("case").error
    alike = len(set(found.tol.dropna())) > 1 or (errors.max() < _DECADE * errors.min()).all()
    return bool(found.error_name.str.startswith("residual").all() and alike)


def _relates(across: pd.Series[float]) -> bool:
    """Return whether points are enough to show how something depends on a quantity: three, not all in one place."""
    return len(across) >= 3 and bool(across.min() < across.max())


def _fitting(
    found: pd.DataFrame, drawable: pd.Series[bool], width: float, base: str | None, axes: _Axes
) -> tuple[Figure, pd.DataFrame, str]:
    """Return a figure that is not too high, the results in it, and a text about it."""
    for graphs, contestants in _SIZES[width > 5]:
        shown, some = _chosen(found, drawable, base, graphs, contestants)
        figure, more = _draw(*_in_units(shown, axes), width, base)
        if figure.get_figheight() <= _HIGHEST_IN:
            break
    series, left = series_of(shown), list[str]()
    staying = {series[name] for name in series if name == base or name in room.own_names(found)}
    while crowd := nested.crowded(figure, staying):
        left += crowd
        shown = shown[~shown.called.map(series).isin(crowd)].reset_index(drop=True)
        figure, more = _draw(*_in_units(shown, axes), width, base)
    _keep_on_page(figure)
    sizes = "; nested marks: the centre of each is its value" if nested.nest(figure) else ""
    crowds = f"; left out, as over {nested.MOST} marks would lie on one another: {all_or_count(left)}" if left else ""
    return figure, shown, more + sizes + some + crowds


def _keep_on_page(figure: Figure) -> None:
    """Narrow the panels of a figure whose last numbers are too near its right edge."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure.draw_without_rendering()
    ends = [
        label.get_window_extent().x1
        for axes in figure.axes
        for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if axes.get_xlim()[0] <= place <= axes.get_xlim()[1]  # Others are not drawn.
    ]
    beyond, layout = max(ends) / figure.dpi - (figure.get_figwidth() - _EDGE_IN), figure.get_layout_engine()
    if beyond > 0 and isinstance(layout, ConstrainedLayoutEngine):
        layout.set(rect=(0, 0, 0.98 - beyond / figure.get_figwidth(), 1))


def _in_units(found: pd.DataFrame, axes: _Axes) -> tuple[pd.DataFrame, _Axes]:
    """Return results and axes in the units of bytes and time with the shortest numbers."""
    if axes.across != "bytes":
        return found, axes
    size, time = _shortest(found, "x", _BYTES), _shortest(found, "y", SECONDS)
    xlabel = axes.xlabel if size == "bytes" else f"{axes.xlabel}, in {size}"
    scaled = found.assign(x=found.x / _BYTES[size], y=found.y / SECONDS[time])
    return scaled, axes._replace(xlabel=xlabel, ylabel=f"{axes.ylabel} in {time}")


def _shortest(found: pd.DataFrame, column: str, units: dict[str, float]) -> str:
    """Return the unit in which the longest number at an end of a panel is the shortest; the largest such unit."""
    ends = found.groupby("case")[column].agg(["min", "max"]).to_numpy(float).ravel()
    longest = {
        name: max(len(np.format_float_positional(value / size, 2, fractional=False, trim="-")) for value in ends)
        for name, size in units.items()
    }
    return min(longest, key=lambda name: longest[name])


def _chosen(
    found: pd.DataFrame, drawable: pd.Series[bool], base: str | None, most_cases: int, most_names: int
) -> tuple[pd.DataFrame, str]:
    """Return the results of a few graphs by size and of whole series, and a text about the others.

    Drawn are graphs with all of these contestants, if there are enough, and each graph with one problem if there are
    more than fit.
    """
    shown = _spread(found[drawable], chosen_series(found[drawable], {base, *room.own_names(found)}, most_names))
    if shown.empty:  # The contestants left out alone differ in their bytes or bits.
        fullest = found[drawable & (found.case == found[drawable].case.mode()[0])].sort_values("x")
        shown = _spread(found[drawable], room.evenly(list(fullest.called), most_names))
    counts = shown.groupby("case").size()
    complete = counts.index[counts == counts.max()]
    fullest = complete if len(complete) >= most_cases else counts.index[2 * counts >= counts.max()]
    lines = shown[shown.case.isin(fullest)].drop_duplicates("case")
    lines = lines.assign(lacking=-lines.case.map(counts)).sort_values(["size", "lacking", "case"], kind="stable")
    lines = lines.drop_duplicates("graph") if lines.graph.nunique() >= most_cases else lines
    cases, order = (
        [str(case) for case in lines.case],
        f", evenly chosen{' by size' if len({*lines['size']}) > 1 else ''}",
    )
    if most_cases < len(cases) // 2:
        cases, order = cases[len(cases) // 2 :], f"{order} among the larger half"
    kept = room.evenly(cases, most_cases)
    if len(kept) == len(cases):  # All on which contestants differ across.
        order = ", on which contestants differ"
    shown = shown[shown.case.isin(kept)]
    kept = _loosest_first(shown, kept)
    shown = shown.assign(place=shown.case.map(kept.index)).sort_values("place", kind="stable")
    return shown.reset_index(drop=True), "".join(_left_out(found, shown, order))


def _loosest_first(found: pd.DataFrame, cases: Sequence[str]) -> list[str]:
    """Return cases in their order, but with those of one graph together, from the loosest tolerance on."""
    first = found.drop_duplicates("case").set_index("case")
    of_graph = first.graph.astype(str)  # Rows of an own kind may have none.
    graphs = list(dict.fromkeys(of_graph[case] for case in cases))
    return sorted(cases, key=lambda case: (graphs.index(of_graph[case]), -np.nan_to_num(first.tol[case])))


def _spread(found: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the results of some contestants on the graphs on which these are not all in one place across."""
    shown = found[found.called.isin(names)]
    across = shown.groupby("case").x
    return shown[across.transform("max") > across.transform("min")]


def _left_out(found: pd.DataFrame, shown: pd.DataFrame, order: str) -> Iterator[str]:
    """Yield texts about the panels, and about the graphs and contestants that are not drawn."""
    cases, of_cases = shown.case.nunique(), found.case.nunique()
    names, of_names = shown.called.nunique(), found.called.nunique()
    if cases > 1:
        yield f"; a panel for each {' and '.join(case_words(shown))}, with axes of its own"
    if cases < of_cases:
        yield f"; {cases} of {of_cases} {cases_in_words(found)}{order}"
    if names < of_names:
        left = [name for name in dict.fromkeys(found.called) if name not in {*shown.called}]
        named = all_of(left)
        yield f"; {names} of {of_names} contestants, in whole series{f'; left out: {named}' if named else ''}"
    if len(shown) < cases * names:
        yield "; no mark: no such result"


def _draw(found: pd.DataFrame, axes: _Axes, width: float, base: str | None) -> tuple[Figure, str]:
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
    shades = {colour(bits) for bits in found.fewest_bits} if axes.coloured else set[str]()
    swatches = found.fewest_bits if len(shades) > 1 else ()
    below = figure.get_figheight() + 0.12 * rows * max(head.count("\n") for head in heads.values())
    figure.set_figheight(below)
    explain(figure, panels.key(swatches, lines=lines if len({*found.called}) > 1 else {}), below=len(cases) == 1)
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


def _of_looks(found: pd.DataFrame, filled: str, shades: set[str], axes: _Axes) -> Iterator[str]:
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


def _points(panel: Axes, found: pd.DataFrame, marks: dict[str, str], filled: str, axes: _Axes) -> None:
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


def _entry(found: pd.DataFrame, marker: str, filled: bool, axes: _Axes) -> dict[str, Any]:
    """Return the look of a series in a legend: grey if it has several colours."""
    shades = {colour(bits) for bits in found.fewest_bits} if axes.coloured else {NEUTRAL}
    shade = shades.pop() if len(shades) == 1 else NEUTRAL
    return {
        "color": shade, "marker": marker, "linestyle": "", "markersize": nested.size_of(marker) ** 0.5,
        "markeredgewidth": nested.EDGE_PT, "markerfacecolor": shade if filled else "none",
    }  # fmt: skip


def _ends(panel: Axes, across: pd.DataFrame, found: pd.DataFrame, axes: _Axes) -> None:
    """Set the ends and ticks of a panel's axes: ``across`` holds the points of all panels with this horizontal axis."""
    from matplotlib.ticker import MultipleLocator

    if axes.across == "bits":
        low, high = float(across.x.min()), float(across.x.max())
        panel.set_xlim(low - _MARGIN * (high - low), high + _MARGIN * (high - low))
        panel.xaxis.set_major_locator(MultipleLocator(16.0 if high - low > 24 else 8.0 if high - low > 10 else 4.0))
    else:
        panels.logarithmic(panel, most=4)
        panel.set_xlim(*_logarithmic_ends(across.x))
    panels.logarithmic(panel, "y", most=5)
    panel.set_ylim(*_logarithmic_ends(found.y))


def _logarithmic_ends(values: pd.Series[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis, which are some way beyond its values."""
    low, high = np.log10(values.min()), np.log10(values.max())
    more = max(0.0, np.log10(_LEAST_ENDS) - (high - low)) / 2
    low, high = low - more, high + more
    return float(10 ** (low - _MARGIN * (high - low))), float(10 ** (high + _MARGIN * (high - low)))
