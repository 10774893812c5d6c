"""Time against bytes, and error against bits, as points with the names of their graphs and contestants.

The name of a graph, or a number that the title explains, stands beside each group of its points, or beside one of them
if lines join them (`cpms.experiment.report.page.labels`). The legend gives the marks of contestants. If there are more
graphs and contestants than fit, a sample is drawn, and the caption states how many.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.bandwidth import TRIMMED
from cpms.experiment.report.generic.parts import (
    SECONDS,
    Made,
    baseline_of,
    explain,
    fewest,
    key_of_contestants,
    marks_of,
    range_of,
    unit,
)
from cpms.experiment.report.generic.words import bits_in_words, cases_in_words
from cpms.experiment.report.page import labels, room
from cpms.experiment.report.page.apart import apart
from cpms.experiment.report.page.legends import in_lines
from cpms.experiment.report.palette import NEUTRAL, colour

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_MOST = {False: (6, 6, 18), True: (9, 8, 32)}
"""Most graphs, contestants and points, in one column of a journal and in two."""
_NAME = {False: 20, True: 30}
"""Most characters of a line of a graph's name beside a point, in one column of a journal and in two."""
_CHARACTER_PT, _TITLE_SHARE, _BETWEEN = 4.2, 0.775, " \u00b7 "
"""Width of a character of a title in points, its most width over that of the figure, and the text between its names."""
_MARK_PT, _SHARE_OF_PANEL, _HEIGHT_PT = 4.0, 0.75, 120.0
"""Width of a mark in points; width of a panel over that of its figure, and about its height in points."""
_PANEL_IN = 2.5
"""Height of a figure before its legend has more than a line, in inches."""
_LEAST_SPREAD = 1.1
"""Least ratio of the most bytes to the fewest for a figure; smaller differences of bytes are not significant."""
_TOGETHER = 2
"""Points of several graphs that may coincide."""
_MOST_JOINED = 3
"""Most graphs whose points are joined by lines; the lines of more graphs would cross."""
_GROUP, _MOST_NAMES = 2.2, 6
"""Distance in widths of a mark below which points of a graph share a name, and most names that are not numbers."""
_DECADE = 10.0
"""Ratio of residuals below which their differences mean nothing, as a solve ends with the first below its tolerance."""
_WRONG = 1.0
"""Relative error at which a result is wrong."""
_BYTES = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1.0}


def traffic(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw time against bytes, coloured by bits."""
    found = found[(found.seconds > 0) & (found.traffic > 0)]
    trimmed = found.trims & ~(found.moved > 0) & bool((found.moved > 0).any())
    found, left = found[~trimmed], f"; left out: {counted(int(trimmed.sum()), 'result')} {TRIMMED}"
    if not _relates(found.traffic) or found.traffic.max() < _LEAST_SPREAD * found.traffic.min():
        return None
    found, same = _of_own_bytes(found)
    found, some = _chosen(found, ("traffic", "seconds"), width, baseline)
    if (found.groupby("case").traffic.agg(np.ptp) <= (_LEAST_SPREAD - 1) * found.groupby("case").traffic.min()).all():
        return None  # Bytes differ by graph alone.
    size, time = unit(found.traffic.median(), _BYTES), unit(found.seconds.max(), SECONDS)
    names = captions.in_words(found.traffic_name)
    figure, (axes,) = panels.grid(width, 1, _PANEL_IN)
    axes.set(
        xlabel=names if size == "bytes" else f"{names}, in {size}",
        ylabel=f"time in {time}",
    )
    panels.logarithmic(axes, most=5)
    panels.logarithmic(axes, "y", most=5)
    found = found.assign(x=found.traffic / _BYTES[size], y=found.seconds / SECONDS[time])
    more = _draw(axes, found, width, join=True)
    some += left if trimmed.any() else ""
    return figure, f"time against {names}{more}{same}{some}", range_of(found, "seconds", "Points of the time", "s")


def error_by_bits(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the error, or in its place the iterations (`counts_iterations`), against the mean number of bits read."""
    exact, counts = _exact(found), counts_iterations(found)
    up = "iterations" if counts else "error"
    found = found[(found.error > 0) & (found.bits > 0) & (found[up] > 0)]
    if not _relates(found.bits) or (_is_of_tolerances(found) and not counts):
        return None
    wrong = _wrong(found)
    found, some = _chosen(found, ("bits", up), width, baseline)
    if not _relates(found.bits):
        return None
    names = "iterations" if counts else captions.in_words(found.error_name)
    names = "largest relative error" if set(found.kind) == {"product"} else names
    figure, (axes,) = panels.grid(width, 1, _PANEL_IN)
    several = bool((found.bits != found.fewest_bits).any())
    axes.set(xlabel=f"bits {bits_in_words(found)}{', mean over iterations' if several else ''}", ylabel=names)
    panels.logarithmic(axes, "y")
    shades = found.bits if counts else found.fewest_bits  # Rows of vectors' bits hold their mean alone.
    more = _draw(axes, found.assign(x=found.bits, y=found[up], fewest_bits=shades), width)
    against = f"{'the mean of ' if several else ''}the bits {bits_in_words(found)}"
    text = f"{names}, against {against}{more}{exact}{wrong}{some}"
    return figure, text, range_of(found, up, f"Points of the {up}", "")


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


def _exact(found: pd.DataFrame) -> str:
    """Return a text about products without an error, which a logarithmic axis cannot show.

    In other results, an error of zero is one that was not measured.
    """
    exact = found[(found.kind == "product") & ~(found.error > 0)]
    names = [f"{name} ({len(part)})" for name, part in exact.groupby("called", sort=False)]
    return f"; error 0, on so many {cases_in_words(found)}: {captions.some(names)}" if names else ""


def _is_wrong(found: pd.DataFrame) -> pd.Series[bool]:
    return (found.error > _WRONG) & ~found.error_name.str.startswith("residual")


def _wrong(found: pd.DataFrame) -> str:
    """Return a text about the results that are wrong."""
    wrong = found[_is_wrong(found)]
    names = captions.some(dict.fromkeys(wrong.called))
    return f"; wrong, ringed where drawn: error above 1, {len(wrong)} of {len(found)} ({names})" if names else ""


def _of_own_bytes(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return graphs and problems with bytes that no single other one has, and a text about those that are left out.

    The points of the others would lie on and between its points.
    """
    bytes_of = {
        str(case): {*part.traffic.map(lambda size: f"{size:.2g}")} for case, part in found.groupby("case", sort=False)
    }
    kept = list[str]()
    for case in sorted(bytes_of, key=lambda case: -len(bytes_of[case])):
        if not any(bytes_of[case] <= bytes_of[other] for other in kept):
            kept.append(case)
    left, chosen = len(bytes_of) - len(kept), found[found.case.isin(kept)]
    if left == 0 or not _relates(chosen.traffic):
        return found, ""
    return chosen, f"; without {left} that have the bytes of one drawn"


def _relates(across: pd.Series[float]) -> bool:
    """Return whether points are enough to show how something depends on a quantity: three, not all in one place."""
    return len(across) >= 3 and bool(across.min() < across.max())


def _chosen(
    found: pd.DataFrame, columns: tuple[str, str], width: float, baseline: str | None
) -> tuple[pd.DataFrame, str]:
    """Return the points that a panel has room for, not all in one place across, and a text about the others.

    They are of fewer graphs, but of two at least, while more of several graphs than `_TOGETHER` would coincide.
    """
    graphs, contestants, points = _MOST[width > 5]
    kept = min(contestants, found.called.nunique())
    most = max(3, min(graphs, points // kept))
    base = baseline_of(found, baseline)
    full = _relates(room.sample(found, base, most, kept)[0][columns[0]])
    chosen = room.sample(found, base, most, kept, full=full)
    for fewer in range(most - 1, 1, -1):
        if _together(chosen[0], columns, width) <= _TOGETHER:
            break
        other = room.sample(found, base, fewer, kept, full=full)
        chosen = other if _relates(other[0][columns[0]]) else chosen
    return chosen


def _together(found: pd.DataFrame, columns: tuple[str, str], width: float) -> int:
    """Return how many points of several graphs coincide in the fullest place."""
    across, up = (found[column].to_numpy(float) for column in columns)
    across = across if columns[0] == "bits" else np.log10(across)
    groups = _heads(across, np.log10(up), width)
    return max(
        (int((groups == head).sum()) for head in set(groups) if len(set(found.case[groups == head])) > 1), default=0
    )


def _heads(across: Any, up: Any, width: float) -> Any:
    """Return of each point the place of the first one that it coincides with."""
    mark = _mark(across, up, width)
    heads = list[int]()
    for place in range(len(across)):
        same = (head for head in heads if abs(across[head] - across[place]) < mark[0])
        heads.append(next((head for head in same if abs(up[head] - up[place]) <= mark[1]), place))
    return np.array(heads)


def _mark(across: Any, up: Any, width: float) -> tuple[float, float]:
    """Return width and height of a mark in the units of the points, whose ends are about those of the panel."""
    return _MARK_PT * np.ptp(across) / (_SHARE_OF_PANEL * 72 * width), _MARK_PT * np.ptp(up) / _HEIGHT_PT


def _draw(axes: Axes, found: pd.DataFrame, width: float, *, join: bool = False) -> str:
    """Draw points at ``x`` and ``y``, name them all, and return a text about colours, lines, names and legend.

    ``x`` is logarithmic with ``join``, where points of one graph are joined if lines can be followed, and bits without.
    """
    found, apart_ = _apart(found, width, logarithmic=join)
    parts = [part for _, part in found.groupby("case", sort=False)]
    marks = marks_of(found)
    for name, part in found.groupby("called", sort=False):
        axes.scatter(
            part.x, part.y, s=16, c=[colour(bits) for bits in part.fewest_bits], marker=marks[str(name)],
            linewidths=0.3, edgecolors="white", zorder=2, clip_on=False, label=str(name),
        )  # fmt: skip
    axes.autoscale_view()
    if not join:
        _bits_of(axes, found, width)
        wrong = found[_is_wrong(found)]
        if len(wrong):
            axes.plot(wrong.x, wrong.y, "o", markersize=8, markerfacecolor="none", color=NEUTRAL, clip_on=False)
    points = [part[["x", "y"]].to_numpy(float) for part in parts]
    lines = _joins(points, axes.transData) if join else []
    for ends in lines:
        axes.plot(*ends.T, color="#c8c8c8", linewidth=0.6, zorder=1)
    shades = {colour(bits) for bits in found.fewest_bits}
    if len(shades) > 1 and (join or (found.bits != found.fewest_bits).any()):
        panels.legend(axes.figure, panels.key(found.fewest_bits))  # type: ignore[arg-type]
    coloured = (
        fewest(found) if len(shades) > 1 else f"; all have {found.fewest_bits.min():g} bits {bits_in_words(found)}"
    )
    entries, several = key_of_contestants(found, marks)
    numbered = _name(axes, parts, lines, entries, width)
    joined = "; lines: points of one graph" if lines else "; named: each group of a graph's points"
    joined += ", by its number above the panel" if numbered else ""
    return "".join(
        [
            coloured,
            joined if len(parts) > 1 else "",
            "; open marks of the legend have several colours" if several else "",
            apart_,
        ]
    )


def _bits_of(axes: Axes, found: pd.DataFrame, width: float) -> None:
    """Let an axis of bits end at the most that are read, and set its ticks."""
    from matplotlib.ticker import MultipleLocator

    most, span = float(found.bits.max()), float(np.ptp(found.bits))
    mark = _mark(found.bits, found.y, width)[0]
    axes.set_xlim(float(found.x.min()) - 1.5 * mark, most + 1.5 * mark)
    axes.xaxis.set_major_locator(MultipleLocator(8.0 if span > 24 else 4.0 if span > 10 else 2.0))


def _apart(found: pd.DataFrame, width: float, *, logarithmic: bool) -> tuple[pd.DataFrame, str]:
    """Return points of which those that would cover each other are set apart, and a text."""
    across = found.x.to_numpy(float)
    places = np.column_stack([np.log10(across) if logarithmic else across, np.log10(found.y.to_numpy(float))])
    mark = np.array([each or 1.0 for each in _mark(places[:, 0], places[:, 1], width)])
    moved = apart(places / mark) * mark
    changed = bool((moved != places).any())
    if not changed:
        return found, ""
    found = found.assign(x=10 ** moved[:, 0] if logarithmic else moved[:, 0], y=10 ** moved[:, 1])
    return found, "; points that would coincide are set apart by at most a mark's width"


def _joins(points: Sequence[Any], transform: Any) -> list[Any]:
    """Return the ends of the lines that join points of each graph from left to right.

    There are none where they could not be followed: of many graphs, of paths that both rise and fall, and where lines
    of two graphs cross.
    """
    if not 1 < len(points) <= _MOST_JOINED:
        return []
    paths = [part[np.lexsort(part.T[::-1])] for part in points]
    rises = [np.diff(path[:, 1]) for path in paths]
    pairs = [[*itertools.pairwise(path)] for path in paths]
    drawn = [[transform.transform(np.array(pair)) for pair in each] for each in pairs]
    crossed = any(
        _cross(line, other)
        for one, two in itertools.combinations(drawn, 2)
        for line, other in itertools.product(one, two)
    )
    if crossed or any((rise < 0).any() and (rise > 0).any() for rise in rises):
        return []
    return [np.array(pair) for each in pairs for pair in each]


def _cross(one: Any, other: Any) -> bool:
    """Return whether two straight lines between points cross."""

    def sides(line: Any, ends: Any) -> Any:
        along, off = line[1] - line[0], ends - line[0]
        return np.sign(along[0] * off[:, 1] - along[1] * off[:, 0])

    return bool(np.prod(sides(one, other)) <= 0 and np.prod(sides(other, one)) <= 0)


def _name(axes: Axes, parts: Sequence[pd.DataFrame], lines: list[Any], entries: list[Artist], width: float) -> bool:
    """Write names of graphs beside their points, or numbers that the title explains, and the legend.

    Return whether there are numbers.
    """
    figure: Any = axes.figure
    given = [(*str(part.graph.iloc[0]).partition(", ")[::2], part.problem.iloc[0]) for part in parts]
    graphs = captions.case_labels([(graph, "") for graph, *_ in given])
    each_lines = [[*in_lines(graph, _NAME[width > 5]), *more] for graph, (_, *more) in zip(graphs, given, strict=True)]
    names = ["\n".join(filter(None, each)) for each in each_lines]
    if entries:
        explain(figure, entries)
    if len(parts) == 1:
        axes.set_title(names[0].replace("\n", ", "))
        return False
    points = [part[["x", "y"]].to_numpy(float) for part in parts]
    of_graphs = [[each] for each in points] if lines else _groups(points, axes, width)
    groups = [(place, group) for place, each in enumerate(of_graphs) for group in each]
    held = [group for _, group in groups]
    repeated = len(groups) > len(parts) and (len(groups) > _MOST_NAMES or any("\n" in name for name in names))
    if not repeated and labels.place(axes, [names[place] for place, _ in groups], held, lines=lines):
        return False
    numbers = [str(place + 1) for place, _ in groups]
    numbered = _in_rows([f"{place} {' '.join(filter(None, each))}" for place, each in enumerate(each_lines, 1)], width)
    axes.set_title(numbered, fontsize=7)
    figure.set_figheight(figure.get_figheight() + 0.14 * (1 + numbered.count("\n")))
    height = figure.get_figheight()
    for more in (0.0, 0.3, 0.6, 1.2):
        figure.set_figheight(height + more)
        if labels.place(axes, numbers, held, lines=lines):
            return True
    labels.place(axes, numbers, held, lines=lines, all_or_none=False)
    return True


def _in_rows(names: Sequence[str], width: float) -> str:
    """Return names side by side, in as few lines as are no wider than a panel."""
    most, rows = int(72 * _TITLE_SHARE * width / _CHARACTER_PT), [""]
    for name in names:
        fits = len(rows[-1]) + len(name) + len(_BETWEEN) <= most
        rows[-1:] = [f"{rows[-1]}{_BETWEEN}{name}"] if rows[-1] and fits else [*filter(None, rows[-1:]), name]
    return "\n".join(rows)


def _groups(points: Sequence[Any], axes: Axes, width: float) -> list[list[Any]]:
    """Return for each graph the groups of its points that are near each other."""
    from scipy.sparse.csgraph import connected_components

    scale = np.log10 if axes.get_xscale() == "log" else np.asarray
    scaled = [np.column_stack([scale(each[:, 0]), np.log10(each[:, 1])]) for each in points]
    across, up = np.concatenate(scaled).T
    mark = np.array([each or 1.0 for each in _mark(across, up, width)])
    found = []
    for each, places in zip(points, scaled, strict=True):
        near = np.hypot(*np.moveaxis((places[:, None] - places) / mark, 2, 0)) < _GROUP
        count, group = connected_components(near, directed=False)
        found.append([each[group == number] for number in range(count)])
    return found
