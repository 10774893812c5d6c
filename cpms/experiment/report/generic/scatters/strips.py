"""A row for each contestant, with a dot for each graph: the form of scatters whose marks would be too near each other.

Two panels share the names: one has the bytes or the bits, and one the time, the error or the iterations. Bytes and
times are over those of the baseline on the same graph, since graphs differ in size, and are of the same graphs for all
contestants, as speed-ups are. Rows are in the order of the quantity in the left panel. If all contestants have the same
graphs and tolerances, a stroke is the median of each row. The cost is a sort of the observations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.base.text.escape import abbreviate
from cpms.experiment.report import panels
from cpms.experiment.report.generic.contestants import is_tuned
from cpms.experiment.report.generic.flaws import is_unconverged, is_wrong
from cpms.experiment.report.generic.multiples import panel_inches
from cpms.experiment.report.generic.parts import explain, fewest, lines_of_names, of_one_colour
from cpms.experiment.report.generic.scatters.choice import spread
from cpms.experiment.report.generic.scatters.marks import (
    Quantities,
    bits_axis,
    keep_on_page,
    key_of_struck,
    logarithmic_ends,
    strike,
)
from cpms.experiment.report.generic.speedup import in_common
from cpms.experiment.report.generic.words import all_of, case_words, cases_in_all, cases_in_words
from cpms.experiment.report.page import nested, room
from cpms.experiment.report.page.series import chosen_series
from cpms.experiment.report.palette import NEUTRAL, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 3
"""Fewest graphs of a median."""
_DOT: dict[str, Any] = {"linestyle": "", "markersize": 3.6, "alpha": 0.55, "markeredgewidth": 0.0}
"""Look of the dots of a contestant, one of each graph."""
_MARK: dict[str, Any] = {"linestyle": "", "markersize": 4.0, "markeredgewidth": 0.7}
"""Look of the only result of a contestant, or of its only result at a tolerance."""
_MEDIAN: dict[str, Any] = {
    "color": "#222222", "marker": "|", "markersize": 7.5, "markeredgewidth": 1.0, "linestyle": "",
}  # fmt: skip
"""Look of the median of a row."""
_SHAPES = "osD^v"
"""Markers of tolerances."""
_MOST_SHAPED = 12
"""Most marks of a row by whose markers a reader finds tolerances; more lie on one another."""
_MEAN_BITS, _BITS_SHARE = "mean bits", 0.35
"""Label of a panel of bits, and its part of the width of both panels."""
_LEAST_LINE = 10
"""Least number of characters of a line of a label."""
_STEPS, _TICK_IN = (4.0, 8.0, 16.0, 32.0), 0.2
"""Distances of ticks of bits, and the least of them in inches."""
_LABEL_IN, _LINE_IN, _MARGIN_IN = 1.15 * room.CHARACTER_IN, 0.14, 0.2
"""Width of a character of a label, height of a line, and width of the margin beside a label, in inches."""


def strips(
    found: pd.DataFrame, drawable: pd.Series[bool], width: float, base: str | None, axes: Quantities
) -> tuple[Figure, pd.DataFrame, str] | None:
    """Return a figure, the results in it, and a text about it; None if no two contestants have a graph in common.

    Parameters
    ----------
    found : pandas.DataFrame
        Observations with columns ``x`` and ``y``.
    drawable : pandas.Series of bool
        Those of graphs whose contestants are not all in one place across.
    width : float
        Of the figure, in inches.
    base : str or None
        The contestant over which speed-ups are computed.
    axes : Quantities
    """
    is_ratio = axes.across == "bytes"
    shown, left = _over(found[drawable], base) if is_ratio else _of_most(found, drawable, base)
    if shown.called.nunique() < 2:
        return None
    medians = shown.groupby("called").agg(x=("x", "median"), y=("y", "median"))
    order = medians.sort_values(["x", "y"], ascending=False).index
    table = shown.drop_duplicates("called").set_index("called", drop=False).loc[order].reset_index(drop=True)
    both = is_ratio or bool((shown.bits != shown.fewest_bits).any())
    table = table.assign(case="", label="", problem="")
    figure, _, places, table, some = lines_of_names(table, width, base, columns=1 + both)
    shown = shown[shown.called.isin(table.called)]
    shapes = {} if is_ratio else _shapes(shown)
    counts = shown.groupby("called").case.nunique()
    alike = bool((counts == shown.case.nunique()).all())
    comparable = is_ratio or len(_tolerances(shown)) < 2
    medians_too = alike and comparable and shown.case.nunique() >= _FEWEST
    drawn = {"x": axes.xlabel if is_ratio else _MEAN_BITS, "y": axes.ylabel} if both else {"y": axes.ylabel}
    for panel, column in zip(figure.axes, drawn, strict=True):
        for place, name in zip(places, table.called, strict=True):
            part = shown[shown.called == name]
            _row(panel, part, column, place, shapes if column == "y" else {}, coloured=axes.coloured)
            if column == "y":
                _mark_failures(panel, part, place, of_errors=axes.up == "error")
            if medians_too:
                panel.plot(part[column].median(), place, **_MEDIAN)
        panel.grid(axis="y")
    names = [each.get_text() for each in figure.axes[0].get_yticklabels()]
    _axes(figure, shown, [*drawn.values()], panel_inches(names, 1, width), base if is_ratio else None)
    shades = {*map(colour, shown.fewest_bits)} if axes.coloured else set()
    looks = {**_key_of_shapes(shapes), **({"median": _MEDIAN} if medians_too else {}), **key_of_struck(shown)}
    entries = panels.key(shown.fewest_bits if len(shades) > 1 else (), lines=looks)
    if entries:
        explain(figure, entries, below=not both)
    keep_on_page(figure)
    what = f", both over those of {base}" if is_ratio else ""
    text = "".join([what, *_of_looks(shown, shades, alike, bool(shapes)), left, some])
    return figure, shown, text


def _over(found: pd.DataFrame, base: str | None) -> tuple[pd.DataFrame, str]:
    """Return the ratios of contestants over the baseline on the graphs that all have, and a text about the others."""
    if base is None:
        return found[:0], ""
    kept, left = in_common(found, base, "left out")
    own = kept[kept.called == base].drop_duplicates("case").set_index("case")
    ratios = kept.assign(x=kept.x / kept.case.map(own.x), y=kept.y / kept.case.map(own.y))
    return ratios[ratios.called != base], left


def _of_most(found: pd.DataFrame, drawable: pd.Series[bool], base: str | None) -> tuple[pd.DataFrame, str]:
    """Return the results on the graphs that at least half as many contestants have as the fullest, and a text."""
    names = chosen_series(found[drawable], {base, *room.own_names(found)}, room.MOST_LINES)
    shown = spread(found[drawable], names)
    counts = shown.groupby("case").size()
    full = counts.index[2 * counts >= counts.max()]
    shown = shown[shown.case.isin(full)]
    left = [name for name in dict.fromkeys(found.called) if name not in {*shown.called}]
    named = all_of(left)
    cases, of_cases = shown.case.nunique(), cases_in_all(found)
    least = f" {-(-int(counts.max()) // 2)} or more of these contestants have results, and"
    rule = f"those on which{least if len(full) < len(counts) else ''} mean bits differ"
    texts = [
        f"; {shown.called.nunique()} of {found.called.nunique()} contestants, in whole series" if left else "",
        f"; left out: {named}" if named else "",
        f"; {cases} of {of_cases} {cases_in_words(found)}{_named(shown)}: {rule}" if cases < of_cases else "",
    ]
    return shown, "".join(texts)


def _named(shown: pd.DataFrame) -> str:
    """Return the names of graphs in parentheses, if they are few."""
    cases = shown.drop_duplicates("case")
    names = [", ".join(filter(None, each)) for each in zip(cases.label, cases.problem, strict=True)]
    return f" ({'; '.join(names)})" if len(names) < _FEWEST and all(names) else ""


def _shapes(found: pd.DataFrame) -> dict[float, str]:
    """Return the marker of each tolerance, from the loosest; none if there is one alone, or if marks are too many."""
    tolerances = _tolerances(found)
    few = 1 < len(tolerances) <= len(_SHAPES) and found.groupby("called").size().max() <= _MOST_SHAPED
    return dict(zip(tolerances, _SHAPES, strict=False)) if few else {}


def _tolerances(found: pd.DataFrame) -> list[float]:
    """Return the tolerances of results, from the loosest; none if each result has one of its own."""
    return [] if is_tuned(found) else sorted({*found.tol.dropna()}, reverse=True)


def _of_tolerances(found: pd.DataFrame) -> str:
    """Return a text about the tolerances of dots that have one marker."""
    held = [f"{each:g}" for each in _tolerances(found)]
    several = ", ".join(held) if len(held) <= len(_SHAPES) else f"{held[0]} to {held[-1]}"
    return f" (tolerances: {several})" if len(held) > 1 else ""


def _key_of_shapes(shapes: dict[float, str]) -> dict[str, dict[str, Any]]:
    """Return the looks of the markers of tolerances, by their words in the legend."""
    look = {**_MARK, "color": NEUTRAL, "markerfacecolor": "none"}
    return {f"tol={tol:g}": {**look, "marker": shape} for tol, shape in shapes.items()}


def _row(
    axes: Axes, found: pd.DataFrame, column: str, place: float, shapes: dict[float, str], *, coloured: bool
) -> None:
    """Draw the results of a contestant in its row."""
    style = {**_MARK, "markerfacecolor": "none"} if shapes else _DOT
    held = found.fillna({"tol": 0.0})
    for bits, tol in dict.fromkeys(zip(held.fewest_bits.astype(float), held.tol.astype(float), strict=True)):
        part = held[(held.fewest_bits == bits) & (held.tol == tol)]
        shade, marker = colour(bits) if coloured else NEUTRAL, shapes.get(tol, "o")
        axes.plot(part[column], [place] * len(part), marker, color=shade, clip_on=False, **style)


def _mark_failures(axes: Axes, found: pd.DataFrame, place: float, *, of_errors: bool) -> None:
    """Ring the wrong errors in a contestant's row, and strike out what did not converge."""
    for each in found.y[is_wrong(found)] if of_errors else ():
        nested.ring(axes, (each, place), NEUTRAL)
    for each in found.y[is_unconverged(found)]:
        strike(axes, (each, place))


def _axes(figure: Figure, found: pd.DataFrame, labels: Sequence[str], inches: float, base: str | None) -> None:
    """Set the ends, ticks and labels of panels that have some inches together; of ratios, ``base`` is theirs."""
    left, right = figure.axes[0], figure.axes[-1]
    share = 1.0 if len(labels) == 1 else _BITS_SHARE if base is None else 0.5
    widths = [inches] if len(labels) == 1 else [share * inches, (1 - share) * inches]
    if len(labels) > 1:
        grid: Any = left.get_gridspec()
        grid.set_width_ratios(widths)
        right.tick_params(axis="y", length=0)
    if base is None and len(labels) > 1:
        span = float(found.x.max() - found.x.min())
        bits_axis(left, found, next((step for step in _STEPS if step * widths[0] >= _TICK_IN * span), _STEPS[-1]))
    for panel, values in ((left, found.x), (right, found.y)) if base is not None else ((right, found.y),):
        panels.logarithmic(panel, most=4)
        panel.set_xlim(*logarithmic_ends(values if base is None else pd.concat([values, pd.Series([1.0])])))
        if base is not None:
            panels.unity(panel)
    rows = [
        room.whole_words(text, max(_LEAST_LINE, int(each / _LABEL_IN)))
        for text, each in zip(labels, widths, strict=True)
    ]
    for panel, text in zip(figure.axes, rows, strict=True):
        panel.set_xlabel("\n".join(text))
    below = list[str]()
    if base is not None:
        most = int((figure.get_figwidth() - 2 * _MARGIN_IN) / _LABEL_IN)
        below = room.whole_words(f"over that of {abbreviate(base, 2 * most - 20)}", most)
        figure.supxlabel("\n".join(below), fontsize=8)
    figure.set_figheight(figure.get_figheight() + _LINE_IN * (max(map(len, rows)) - 1 + len(below)))


def _of_looks(found: pd.DataFrame, shades: set[str], alike: bool, has_shapes: bool) -> Iterator[str]:
    """Yield texts about the rows, the dots and their colours."""
    count, words = found.case.nunique(), case_words(found)
    what = " and ".join(words)
    yield "; a row for each contestant"
    if count > 1:
        each = f"each of the same {count} {cases_in_words(found)}" if alike else f"each {what}"
        yield f", with a {'mark' if has_shapes else 'dot'} for {each}{'' if has_shapes else _of_tolerances(found)}"
    if shades:
        yield fewest(found) if len(shades) > 1 else of_one_colour(found, found.fewest_bits)
