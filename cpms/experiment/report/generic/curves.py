"""Curves of the residual against iteration, and marks of times or speed-ups against a number of the problem.

Of residuals there is a curve for each solve, in the colour of the bits that were read.

Curves of one graph nearly coincide if contestants differ in storage alone, and those of several graphs could not be
distinguished. So only the graph with the most iterations is drawn, and each curve is thinner than those below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.generic.parts import (
    Made,
    each_line,
    explain,
    key_of_contestants,
    marks_of,
    short_names,
)
from cpms.experiment.report.generic.tolerances import factor_of, lanes, mark_size, slots
from cpms.experiment.report.generic.words import bits_in_words, case_in_words, cases_in_words, of_systems, plural
from cpms.experiment.report.page import room
from cpms.experiment.report.page.case_labels import case_label
from cpms.experiment.report.page.ticks import LEAST_TICKS
from cpms.experiment.report.palette import colour
from cpms.experiment.report.style import WIDTHS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_HISTORIES = 6
_WIDEST_PT, _THINNEST_PT = 2.6, 0.8
"""Widths of curves, from the one that is drawn first to the last."""
_NORMS = {"l1": "residual, 1-norm", "l2": "residual, 2-norm", "linf": "residual, largest entry"}
_MARKS_OF_HISTORY = 10
"""About the number of marks of a curve; more would cover each other."""

_MANY_PANELS = 8
"""Number of cases from which a number of their problems has an axis of its own."""
_COLUMNS = {False: (1, 3), True: (2, 4)}
"""Panels side by side in one column of a journal and in two, by whether a graph has several."""
_DENSEST = 24.0
"""Most marks in an inch of a panel, above which half as many panels are side by side."""
_ROWS, _ROW_IN, _AXIS_IN, _ABOVE_IN = 3, 1.15, 0.5, 0.55
"""Most graphs; height of a row of panels, width of the labels of a panel, and height of its titles, in inches."""
_PANELS_IN = 4.3
"""Most height of all panels, in inches."""


def number_of_problems(found: pd.DataFrame) -> str:
    """Return the parameter of many problems that has an axis of its own: three numbers or more; empty if none has.

    Examples
    --------
    >>> problems = [f"pattern={name} k={k}" for name in ("equal", "ranks", "random") for k in (5, 10, 100)]
    >>> number_of_problems(pd.DataFrame({"problem": problems, "case": problems}))
    'k'
    """
    given = [dict(word.partition("=")[::2] for word in str(problem).split()) for problem in found.problem]
    if found.case.nunique() <= _MANY_PANELS:
        return ""
    for name in given[0]:
        values = {each.get(name, "") for each in given}
        if name != "tol" and len(values) >= LEAST_TICKS and all(value.isdecimal() and int(value) for value in values):
            return name
    return ""


def with_number(found: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return observations with a column ``number``, a parameter of their problem, and ``rest``, the others."""
    words = [str(problem).split() for problem in found.problem]
    return found.assign(
        number=[float(next(word for word in each if word.startswith(f"{name}="))[len(name) + 1 :]) for each in words],
        rest=[" ".join(word for word in each if not word.startswith(f"{name}=")) for each in words],
    )


def against_number(
    points: pd.DataFrame, width: float, name: str, label: str
) -> tuple[Figure, list[Any], pd.DataFrame, str]:
    """Draw points against a number of their problem: a panel for each graph, and for each rest of the problem.

    Parameters
    ----------
    points : pandas.DataFrame
        Columns ``number`` and ``rest`` of `with_number`; ``y``, ``low`` and ``high``; ``called``, of which each has
        marks of its own; ``graph``, ``size`` and ``fewest_bits``.
    width : float
    name : str
        The parameter.
    label : str
        Of the vertical axes.

    Returns
    -------
    tuple
        The figure, its panels, the points drawn, and a text about the others.
    """
    graphs = list(dict.fromkeys(points.sort_values("size", kind="stable").graph))
    rests = list(dict.fromkeys(points.rest))
    columns = most = _COLUMNS[len(rests) > 1][width > WIDTHS["single"]]
    most_graphs = _ROWS
    if points.called.nunique() * points.number.nunique() > _DENSEST * (width / columns - _AXIS_IN):
        columns, most_graphs = max(1, columns // 2), _ROWS - 1
    shown, kept = room.evenly(graphs, most_graphs), room.evenly(rests, most) if len(rests) > 1 else rests
    found = points[points.graph.isin(shown) & points.rest.isin(kept)]
    parts = [
        (graph, rest, part)
        for graph in shown
        for rest in kept
        if len(part := found[(found.graph == graph) & (found.rest == rest)])
    ]
    rows = -(-len(parts) // columns)
    row_in = min(_ROW_IN, _PANELS_IN / rows) if rows > 1 else _ROW_IN + 0.6
    figure, axes = panels.grid(width, len(parts), row_in, columns=(columns, columns), sharex=True)
    numbers = sorted(found.number.unique())
    places = [10.0**place for place in range(len(numbers))]  # Numbers have equal space on a logarithmic axis.
    place_of = dict(zip(numbers, places, strict=True))
    marks, names = marks_of(found), list(dict.fromkeys(found.called))
    panel_in = width / min(columns, len(parts)) - _AXIS_IN
    drawn = found.assign(slot=found.number, case=found.graph.astype(str) + " " + found.rest)
    beside = lanes(drawn, names, row_in - _ABOVE_IN)
    count = max(beside.values()) + 1
    factor = factor_of(places, count, panel_in)
    size = mark_size(places, factor, panel_in)
    for number, (panel, (_, rest, part)) in enumerate(zip(axes, parts, strict=True)):
        panel.margins(y=0.12)
        for each in names:
            own = part[part.called == each].sort_values("number")
            across = panels.abreast(own.number.map(place_of).to_numpy(float), beside[each], count, factor)
            _points(panel, across, own, marks[each], size)
        panel.set_title(case_label(part.label.iloc[0], rest.rpartition("=")[2]), fontsize=7)
        panels.logarithmic(panel, "y", most=4)
        panel.set_xscale("log")
        slots(panel, places, panel_in, numbers)
        if number + columns >= len(parts):
            panel.set_xlabel(name)
            panel.tick_params(labelbottom=True)
    figure.supylabel(label, fontsize=8)
    several_shades = len({*map(colour, found.fewest_bits)}) > 1
    explain(figure, [*panels.key({*found.fewest_bits} if several_shades else ()), *key_of_contestants(found, marks)[0]])
    what = [
        f"; {len(shown)} of {len(graphs)} {_plural(points)}" if len(shown) < len(graphs) else "",
        f"; {len(kept)} of {len(rests)} {_others(rests)}" if len(kept) < len(rests) else "",
        f"; marks of one {name} lie side by side, between two vertical lines" if count > 1 else "",
    ]
    return figure, axes, found, "".join(what)


def _points(axes: Any, across: Sequence[float], found: pd.DataFrame, marker: str, size: float) -> None:
    """Draw the points of a contestant at places across, each with its interval if it has one."""
    for x, line in zip(across, each_line(found), strict=True):
        ends = (line.low, line.high) if line.low < line.high else None
        panels.point(axes, x, line.y, line.fewest_bits, marker, ends=ends, across=False, size=size)


def _others(rests: Sequence[str]) -> str:
    """Return the words for the rest of problems, by the only parameter that they have."""
    names = {rest.partition("=")[0] for rest in rests if rest.count("=") == 1 and " " not in rest}
    return f"values of {names.pop()}" if len(names) == 1 else "combinations of other parameters"


def _plural(found: pd.DataFrame) -> str:
    return plural(case_in_words(found))


def residuals(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw residual against iteration, each part of a curve in the colour of the bits that were read."""
    del baseline
    held = found[found.history.map(bool)]
    if held.empty:
        return None
    slowest = held.case.iloc[int(np.argmax([history[-1][0] for history in held.history]))]
    own = held[held.case == slowest]
    found = own.iloc[:_MOST_HISTORIES]
    widths = np.linspace(_WIDEST_PT, _THINNEST_PT, len(found)) if len(found) > 1 else [1.2]
    figure, (axes,) = panels.grid(width, 1, 2.4)
    marks = marks_of(found)
    for place, (line, marked) in enumerate(zip(each_line(found), _marked(found), strict=True)):
        _curve(axes, line.history, widths[place], marked, marks[line.called])
    panels.logarithmic(axes, "y")
    named_norm = _NORMS.get(found.norm.iloc[0], "residual")
    norm = "relative residual, 2-norm" if of_systems(found) else named_norm
    axes.set(xlabel="iteration", ylabel=norm, title=case_label(*found[["label", "problem"]].iloc[0]))
    named = dict(zip(short_names(found), (marks[name] for name in found.called), strict=True))
    swept = {int(each) for line in found.history for _, _, each in line}
    explain(figure, panels.key(swept, named))
    last = min(line[-1][1] for line in found.history)
    count = held.case.nunique()
    texts = [
        f"{norm}, against iteration, by bits {bits_in_words(found)}",
        f"; of {count} {cases_in_words(held)} the one with the most iterations" if count > 1 else "",
        f"; first {len(found)} of its {len(own)} solves" if len(found) < len(own) else "",
        "; a curve is thinner than those below it" if len(found) > 1 else "",
        _estimates(found, swept),
    ]
    return figure, "".join(texts), f"{len(found)} falling curves; the least ends at {last:.1e}.", {*found.graph}


def _curve(axes: Any, history: Any, width_pt: float, marked: Any, marker: str) -> None:
    """Draw a history of residuals, each part in the colour of its bits, with marks at some iterations."""
    iterations, values, bits = (np.array(each) for each in zip(*history, strict=True))
    for start, end in itertools.pairwise([0, *(np.flatnonzero(np.diff(bits)) + 1), len(bits)]):
        at = slice(max(start - 1, 0), end)
        axes.plot(iterations[at], values[at], color=colour(bits[start]), linewidth=width_pt, zorder=1)
    axes.scatter(
        iterations[marked], values[marked], s=18, c=[colour(each) for each in bits[marked]], marker=marker, zorder=2,
        linewidths=0.3, edgecolors="white", clip_on=False,
    )  # fmt: skip


def _marked(found: pd.DataFrame) -> list[Any]:
    """Return which iterations of each curve have marks: evenly chosen ones, and the last in bits that have no mark yet.

    Examples
    --------
    >>> bits = [16, 16, *[32] * 30]
    >>> histories = [[[place, 1.0, each] for place, each in enumerate(own)] for own in ([64] * 32, bits)]
    >>> [marks.tolist()[:4] for marks in _marked(pd.DataFrame({"history": histories}))]
    [[0, 3, 6, 9], [1, 4, 7, 10]]
    """
    every = [np.array([bits for *_, bits in history]) for history in found.history]
    steps = [max(1, len(bits) // _MARKS_OF_HISTORY) for bits in every]
    marks = [
        np.arange(len(bits))[place * step // len(every) :: step]
        for place, (bits, step) in enumerate(zip(every, steps, strict=True))
    ]
    seen = {each for bits, own in zip(every, marks, strict=True) for each in bits[own]}
    lasts = [[np.flatnonzero(bits == each)[-1] for each in {*bits} - seen] for bits in every]
    return [np.union1d(own, last).astype(int) for own, last in zip(marks, lasts, strict=True)]


def _estimates(found: pd.DataFrame, swept: Collection[int]) -> str:
    """Return a text about residuals that are no float64 ones of the whole problem."""
    parts = [
        "of iterations in fewer than 64 bits" if min(swept) < 64 else "",
        "of refine, which may have trimmed the graph" if found.trims.any() else "",
    ]
    which = " and ".join(filter(None, parts))
    return f"; residuals {which} are estimates, and only the last one of a solve is certified" if which else ""
