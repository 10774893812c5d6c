"""Time against bytes, and error against bits: points that are named, each by its graph and by its contestant.

Points of a graph are joined by lines, with a label beside one of them (`cpms.experiment.report.page.labels`): the
graph's name, or a number that the legend explains. The legend names the contestants by their marks. Of more graphs and
contestants than a column has room for some are shown, evenly chosen, and the caption states how many.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cpms.base.text.escape import abbreviate
from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.parts import FEWEST, Made, baseline_of, explain, panel, range_of
from cpms.experiment.report.page import labels, room
from cpms.experiment.report.page.legends import ALL_MARKERS
from cpms.experiment.report.palette import NEUTRAL, colour, nearest

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_MOST = {False: (6, 6, 18), True: (9, 8, 32)}
"""Graphs, contestants and points that are drawn, in one column of a journal and in two."""
_NAME = {False: 20, True: 30}
"""Characters of a line of a graph's name beside a point, in one column of a journal and in two."""
_MARK_PT, _SHARE_OF_PANEL, _HEIGHT_PT = 4.0, 0.75, 120.0
"""Of a mark its width in points, of a panel its share of a figure's width and about its height in points."""
_LEAST_SPREAD = 1.1
"""Of the most bytes over the least: figures of nearly equal bytes would show differences that mean nothing."""
_TOGETHER = 2
"""Points of several graphs that may coincide."""
_JOINED = "; lines: points of one graph"
_BYTES = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1.0}
_SECONDS = {"s": 1.0, "ms": 1e-3, "\u00b5s": 1e-6}


def traffic(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw time against bytes, coloured by bits."""
    found = found[(found.seconds > 0) & (found.traffic > 0)]
    if not _relates(found.traffic) or found.traffic.max() < _LEAST_SPREAD * found.traffic.min():
        return None
    found, same = _of_own_bytes(found)
    found, some = _chosen(found, ("traffic", "seconds"), width, baseline)
    size, unit = _unit(found.traffic, _BYTES), _unit(found.seconds, _SECONDS)
    names = captions.in_words(found.traffic_name)
    figure, axes = panel(width, 2.6)
    axes.set(
        xlabel=names if size == "bytes" else f"{names}, in {size}",
        ylabel=f"time in {unit}",
    )
    panels.logarithmic(axes, most=5)
    panels.logarithmic(axes, "y", most=5)
    _points(axes, found.assign(x=found.traffic / _BYTES[size], y=found.seconds / _SECONDS[unit]), width)
    return (
        figure,
        f"time against {names}{FEWEST}{_JOINED}{same}{some}",
        range_of(found, "seconds", "Points of the time", "s"),
    )


def error_by_bits(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the error against the mean number of bits read."""
    from matplotlib.ticker import MultipleLocator

    found = found[(found.error > 0) & (found.bits > 0)]
    if not _relates(found.bits):
        return None
    found, some = _chosen(found, ("bits", "error"), width, baseline)
    if not _relates(found.bits):
        return None
    names = captions.in_words(found.error_name)
    figure, axes = panel(width, 2.6)
    span = found.bits.max() - found.bits.min()
    axes.xaxis.set_major_locator(MultipleLocator(8.0 if span > 24 else 4.0 if span > 10 else 2.0))
    several = bool((found.bits != found.fewest_bits).any())
    axes.set(xlabel="bits read, mean over iterations" if several else "bits read", ylabel=names)
    panels.logarithmic(axes, "y")
    found, apart = _apart(found.assign(y=found.error), width)
    _points(axes, found, width)
    text = f"{names}, against {'the mean of ' if several else ''}the bits read{FEWEST}{_JOINED}{apart}{some}"
    return figure, text, range_of(found, "error", "Points of the error", "")


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


def _unit(values: pd.Series[float], units: dict[str, float]) -> str:
    """Return the largest unit that the median is not below; the smallest if there is none."""
    return next((name for name, size in units.items() if values.median() >= size), [*units][-1])


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
    mark = _MARK_PT * np.ptp(across) / (_SHARE_OF_PANEL * 72 * width)
    near = _MARK_PT * np.ptp(up) / _HEIGHT_PT
    heads = list[int]()
    for place in range(len(across)):
        same = (head for head in heads if abs(across[head] - across[place]) < mark)
        heads.append(next((head for head in same if abs(up[head] - up[place]) <= near), place))
    return np.array(heads)


def _points(axes: Axes, found: pd.DataFrame, width: float) -> None:
    """Draw points at ``x`` and ``y``, joined by graph, and name them all."""
    parts = [part for _, part in found.groupby("case", sort=False)]
    marks = _marks(found)
    for name, part in found.groupby("called", sort=False):
        axes.scatter(
            part.x, part.y, s=16, c=[colour(bits) for bits in part.fewest_bits], marker=marks[str(name)],
            linewidths=0.3, edgecolors="white", zorder=2, clip_on=False, label=str(name),
        )  # fmt: skip
    axes.autoscale_view()
    for part in parts if len(parts) > 1 else ():
        places = part[["x", "y"]].to_numpy(float)
        for pair in labels.joined(axes.transData.transform(places)):
            axes.plot(*places[pair].T, color="#c8c8c8", linewidth=0.6, zorder=1)
    panels.legend(axes.figure, panels.key(found.fewest_bits))  # type: ignore[arg-type]
    _name(axes, parts, _contestants(found, marks), width)


def _apart(found: pd.DataFrame, width: float) -> tuple[pd.DataFrame, str]:
    """Return points of which those that would coincide are set apart sideways, and a text."""
    bits = found.bits.to_numpy(float)
    mark = _MARK_PT * np.ptp(bits) / (_SHARE_OF_PANEL * 72 * width)
    heads = _heads(bits, np.log10(found.y.to_numpy(float)), width)
    moved = bits.copy()
    for head in set(heads):
        together = np.flatnonzero(heads == head)
        ranks = np.arange(len(together)) - (len(together) - 1) / 2
        moved[together] += ranks * min(mark, 2 * mark / max(1, len(together) - 1))
    text = "; points that would coincide are set apart sideways, by at most a mark's width"
    return found.assign(x=moved), text if (moved != bits).any() else ""


def _marks(found: pd.DataFrame) -> dict[str, str]:
    """Return the marker of each contestant: that of its engine or layout, or one that no other has in its colours."""
    wanted = dict(zip(found.called, panels.markers(found), strict=True))
    shades = {name: {*map(nearest, part.fewest_bits)} for name, part in found.groupby("called")}
    chosen = dict[str, str]()
    for name, marker in wanted.items():
        taken = {chosen[other] for other in chosen if shades[other] & shades[name]}
        chosen[name] = next((each for each in [marker, *ALL_MARKERS] if each not in taken), marker)
    return chosen


def _contestants(found: pd.DataFrame, marks: dict[str, str]) -> list[Artist]:
    """Return the entries of a legend for contestants, in their colour if they have one."""
    lines = {}
    for name, part in found.groupby("called", sort=False):
        shades = {colour(bits) for bits in part.fewest_bits}
        shade = shades.pop() if len(shades) == 1 else NEUTRAL
        lines[str(name)] = {"color": shade, "marker": marks[str(name)], "linestyle": "", "markersize": 4}
    return panels.key(lines=lines) if len(lines) > 1 else []


def _name(axes: Axes, parts: Sequence[pd.DataFrame], entries: list[Artist], width: float) -> None:
    """Write the names of graphs beside their points, or numbers that the legend explains, and the legend."""
    figure: Any = axes.figure
    given = [(*str(part.graph.iloc[0]).partition(", ")[::2], part.problem.iloc[0]) for part in parts]
    graphs = captions.case_labels([(graph, "") for graph, *_ in given])
    lines = [[*_in_lines(graph, _NAME[width > 5]), *more] for graph, (_, *more) in zip(graphs, given, strict=True)]
    names = ["\n".join(filter(None, each)) for each in lines]
    points = [part[["x", "y"]].to_numpy(float) for part in parts]
    height = figure.get_figheight()
    if entries:
        explain(figure, entries)
    if len(parts) == 1:
        axes.set_title(names[0].replace("\n", ", "))
        return
    if labels.place(axes, names, points):
        return
    numbers = [str(place) for place in range(1, 1 + len(names))]
    numbered = {
        f"{number} {' '.join(filter(None, each))}": {"linestyle": ""}
        for number, each in zip(numbers, lines, strict=True)
    }
    for more in (0.0, 0.6, 1.2, 1.8):
        figure.legends[1:] = []
        figure.set_figheight(height + more)
        explain(figure, [*entries, *panels.key(lines=numbered)])
        if labels.place(axes, numbers, points):
            return


def _in_lines(name: str, most: int) -> list[str]:
    """Return a name in one line or two of so many characters; what is longer is abbreviated."""
    first, *others = textwrap.wrap(name, most) or [""]
    return [abbreviate(first, most), *([abbreviate(" ".join(others), most)] if others else [])]
