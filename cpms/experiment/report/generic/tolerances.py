"""Time to a tolerance: from solves to several tolerances, or from solves with a recorded end of each iteration.

In the latter, the time to a tolerance is that at which a float64 residual of the whole problem was first below it, at
each power of ten that the solve reached. Iterations in fewer bits, or on a part of the graph, only estimate that
residual, so that their ends do not count. A curve is a contestant, and a panel a graph; a point is the median of the
samples. The cost is one pass over the recorded iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.parts import (
    SECONDS,
    Made,
    baseline_of,
    each_line,
    explain,
    fewest,
    key_of_contestants,
    marks_of,
    range_of,
    unit,
)
from cpms.experiment.report.generic.words import case_in_words, plural, time_in_full, time_in_words
from cpms.experiment.report.intervals import FEWEST, median_ends
from cpms.experiment.report.page import room
from cpms.experiment.report.page.case_labels import case_labels
from cpms.experiment.report.page.ticks import LEAST_TICKS, numbers
from cpms.experiment.report.stand_ins import STARRED

_MOST = {False: (2, 6), True: (3, 8)}
"""Most graphs and contestants, in one column of a journal and in two."""
_COLUMNS = {False: 1, True: 3}
"""Most panels in a row, in one column of a journal and in two."""
_LABEL_IN, _BETWEEN = 0.36, "#c8c8c8"
"""Width of the label of a tolerance with the space beside it, in inches; colour of the lines between tolerances."""
_PANEL_IN = 1.75
"""Height of a row of panels, in inches."""
_LEAST_TOLERANCES = 3
"""Least number of tolerances of a curve; times at fewer are in the figure of times."""
_REACHED = (
    "time at which a residual in float64 of the whole problem was first below a tolerance: at the end of an iteration "
    "in 64 bits, or of the solve"
)
_MARK_IN, _AXIS_IN, _FULL = 0.075, 0.65, 0.9
"""Width of a mark with white beside it, and width of a panel without its axis, both in inches; most of the space of a
tolerance that marks take."""
_MARK_PT, _LEAST_MARK_PT, _WHITE_PT = 3.5, 2.2, 1.0
"""Size of a mark, the least, and the white between two with their edges, in points."""
_ABOVE_IN, _BELOW_IN = 0.3, 0.65
"""Heights of the title and the margins of a panel, and of the axis and the legend below the last row, in inches."""


def time_to_tolerance(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the time of each contestant against the tolerance, with an interval of each median."""
    points, what, up = _of_solves(found), f"{time_in_full(found)} to a tolerance", time_in_words(found)
    if points.empty:
        points, what, up = _of_iterations(found), _REACHED, "time"
    if points.empty:
        return None
    wide, left = width > 5, _without(points, found)
    points, some = room.sample(points, baseline_of(points, baseline), *_MOST[wide])
    time = unit(points.seconds.max(), SECONDS)
    marks, names = marks_of(points), list(dict.fromkeys(points.called))
    parts = [part for _, part in points.groupby("case", sort=False)]
    figure, axes = panels.grid(width, len(parts), _PANEL_IN, columns=(_COLUMNS[False], _COLUMNS[True]), sharex=True)
    titles = case_labels([(part.label.iloc[0], part.problem.iloc[0]) for part in parts])
    columns = min(_COLUMNS[wide], len(parts))
    tolerances, panel_in = points.tol.unique().tolist(), (width - _AXIS_IN) / columns
    rows = -(-len(parts) // columns)
    beside = lanes(points.assign(slot=points.tol, y=points.seconds), names, _PANEL_IN - _ABOVE_IN - _BELOW_IN / rows)
    count = max(beside.values()) + 1
    factor = factor_of(tolerances, count, panel_in)
    size = mark_size(tolerances, factor, panel_in)
    for number, (panel, part, title) in enumerate(zip(axes, parts, titles, strict=True)):
        for name in names:
            across = (beside[name], count, factor)
            _marks(panel, part[part.called == name], marks[name], across, SECONDS[time], size)
        panel.set_title(title)
        panels.logarithmic(panel, "y", most=5)
        if number % columns == 0:
            panel.set_ylabel(f"{up} in {time}")
        if number + columns >= len(parts):
            panel.set_xlabel("tolerance")
            panel.tick_params(labelbottom=True)
    axes[0].set_xscale("log")
    for panel in axes:
        slots(panel, sorted(points.tol.unique()), (width - _AXIS_IN) / columns)
    axes[0].invert_xaxis()
    entries, several, bits = *key_of_contestants(points, marks), {*points.fewest_bits}
    colours = panels.key(bits) if several or not entries or len(bits) > 1 else []
    bounds = panels.key(lines={"at most": panels.HOLLOW}) if points.is_bound.any() else []
    explain(figure, [*colours, *bounds, *entries])
    texts = [
        f"{what}, against the tolerance",
        fewest(points),
        "; open marks of the legend have several colours" if several else "",
        "; hollow: at most this time, as no residual in float64 is known earlier" if bounds else "",
        _interval(points),
        "; marks of one tolerance lie side by side, between two grey lines" if count > 1 else "",
        left,
        some,
        f"; {STARRED}" if any(map(captions.stands_in, points.graph)) else "",
    ]
    return figure, "".join(texts), range_of(points, "seconds", "Values of the time", "s"), {*points.graph}


def _marks(
    axes: Any, part: pd.DataFrame, marker: str, beside: tuple[int, int, float], scale: float, size: float
) -> None:
    """Draw the points of a contestant on a graph.

    No line joins them: marks of a tolerance lie side by side, and lines between them would cross at false tolerances.
    """
    if part.empty:
        return
    part = part.sort_values("tol")
    across = panels.abreast(part.tol.to_numpy(float), *beside)
    for x, line in zip(across, each_line(part), strict=True):
        low, high = median_ends(line.samples)
        ends = (low / scale, high / scale)
        panels.point(
            axes, x, line.seconds / scale, line.fewest_bits, marker, ends=ends, across=False,
            filled=not line.is_bound, size=size,
        )  # fmt: skip


def slots(axes: Any, tolerances: Sequence[float], panel_in: float, names: Sequence[float] = ()) -> None:
    """Label tolerances, or the names of places, as many as have space, and draw lines between neighbouring ones."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    step = int(np.ceil(_LABEL_IN * len(tolerances) / panel_in))
    labelled = tolerances[:: max(1, min(step, (len(tolerances) - 1) // (LEAST_TICKS - 1)))]
    held = dict(zip(tolerances, names or tolerances, strict=True))
    texts = dict(zip(labelled, numbers([held[each] for each in labelled]), strict=True))
    axes.xaxis.set_major_locator(FixedLocator(labelled))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: texts.get(value, "")))
    axes.xaxis.set_minor_locator(NullLocator())
    ends = np.sqrt(np.array(tolerances[1:]) * tolerances[:-1])
    for end in ends:
        axes.axvline(end, color=_BETWEEN, linewidth=0.4, zorder=0)
    half = [(tolerances[1] / tolerances[0]) ** 0.5, (tolerances[-1] / tolerances[-2]) ** 0.5]
    axes.set_xlim(tolerances[0] / half[0], tolerances[-1] * half[1])


def lanes(points: pd.DataFrame, names: Sequence[str], panel_in: float) -> dict[str, int]:
    """Return the place of each contestant among marks side by side: those whose marks never meet may share one.

    Parameters
    ----------
    points : pandas.DataFrame
        Columns ``case``, ``slot``, ``called`` and ``y``, which has a logarithmic axis.
    names : sequence of str
        The contestants from the left.
    panel_in : float
        Height of a panel, in inches.

    Examples
    --------
    >>> found = pd.DataFrame({"case": "g", "slot": 1, "called": ["a", "b", "c"], "y": [1.0, 1.1, 9.0]})
    >>> lanes(found, ["a", "b", "c"], 1.0)
    {'a': 0, 'b': 1, 'c': 0}
    """
    logarithms = np.log10(points.y)
    spans = logarithms.groupby(points.case).agg(np.ptp).clip(lower=1e-9)
    heights = points.assign(height=panel_in * (logarithms / points.case.map(spans)))
    meet = set[tuple[str, str]]()
    for _, part in heights.groupby(["case", "slot"]):
        apart = np.abs(np.subtract.outer(part.height.to_numpy(), part.height.to_numpy()))
        called = [*part.called]
        meet |= {(called[one], called[other]) for one, other in zip(*np.nonzero(apart < _MARK_IN), strict=True)}
    found = dict[str, int]()
    for name in names:
        taken = {place for other, place in found.items() if (name, other) in meet}
        found[name] = next(place for place in range(len(names)) if place not in taken)
    return found


def mark_size(places: Sequence[float], factor: float, panel_in: float) -> float:
    """Return the size of marks that lie apart by a factor of their places, in points.

    Examples
    --------
    >>> [round(mark_size([1e-2, 1e-4, 1e-6], factor, 2.0), 1) for factor in (1.6, 1.45, 1.2)]
    [3.5, 2.9, 2.2]
    """
    ordered = np.sort(np.log10(places))
    pitch = 72 * panel_in * np.log10(factor) / (float(np.ptp(ordered)) + float(np.diff(ordered).min()))
    return float(np.clip(pitch - _WHITE_PT, _LEAST_MARK_PT, _MARK_PT))


def factor_of(tolerances: Sequence[float], count: int, panel_in: float) -> float:
    """Return the ratio of the places of neighbouring marks at one tolerance, at most such that all have space there.

    Examples
    --------
    >>> round(factor_of([1e-2, 1e-4, 1e-6], 3, 2.0), 2), round(factor_of([1e-2, 1e-3, 1e-4, 1e-5], 8, 1.0), 2)
    (1.68, 1.3)
    """
    places = np.sort(np.log10(tolerances))
    nearest = float(np.diff(places).min())
    decades = _MARK_IN / panel_in * (float(np.ptp(places)) + nearest)
    return float(10 ** min(decades, _FULL * nearest / count))


def _of_solves(found: pd.DataFrame) -> pd.DataFrame:
    """Return solves of contestants that have several tolerances on a graph; a case is a graph without its tolerance."""
    found = found[(found.seconds > 0) & (found.tol > 0)]
    if found.empty:
        return found
    problem = found.besides
    case = [", ".join(filter(None, each)) for each in zip(found.graph.astype(str), problem, strict=True)]
    found = found.drop(columns="in_all", errors="ignore")
    return _several(found.assign(problem=problem, case=case, is_bound=False))


def _of_iterations(found: pd.DataFrame) -> pd.DataFrame:
    """Return a point for each power of ten below which all repetitions of a solve brought their residual.

    If the first residual in float64 is below a tolerance already, the tolerance may have been reached earlier.
    """
    lines = []
    for line in found[found.timelines.map(bool)].to_dict("records"):
        steps = [np.array(each, dtype=float) for each in line["timelines"]]
        first, last = line["history"][0][1], max(each[:, 0].min() for each in steps)
        for power in range(int(np.floor(np.log10(first))), -400, -1) if first > 0 else ():
            tolerance = 10.0**power
            if last >= tolerance:
                break
            places = [int(np.argmax(each[:, 0] < tolerance)) for each in steps]
            samples = [float(each[place, 1]) for each, place in zip(steps, places, strict=True)]
            times = {"samples": samples, "seconds": float(np.median(samples)), "is_bound": 0 in places}
            lines.append({**line, "tol": tolerance} | times)
    points = pd.DataFrame(lines, columns=[*found.columns, "is_bound"])
    return _several(points[points.seconds > 0])


def _several(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points of contestants with several tolerances on a graph."""
    if points.empty:
        return points
    counts = points.groupby(["case", "called"]).tol.transform("nunique")
    return points[counts >= _LEAST_TOLERANCES]


def _without(points: pd.DataFrame, found: pd.DataFrame) -> str:
    """Return a text about the graphs on which no contestant has enough tolerances."""
    count, every = points.graph.nunique(), found.graph.nunique()
    what = f"those on which a contestant has {_LEAST_TOLERANCES} tolerances or more"
    return f"; {count} of {every} {plural(case_in_words(found))}: {what}" if count < every else ""


def _interval(points: pd.DataFrame) -> str:
    """Return a text about the lines through marks."""
    counts = points.samples.map(len)
    if counts.max() < 2:
        return ""
    if counts.min() >= FEWEST:
        return "; vertical lines: 95 % bootstrap interval of the median"
    several = f", where there are {FEWEST} samples 95 % bootstrap interval" if counts.max() >= FEWEST else ""
    return f"; vertical lines: from least to most of the samples{several}"
