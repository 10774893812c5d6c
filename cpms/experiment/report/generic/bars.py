"""Time by precision: a bar for each contestant on each graph, stacked by the bits that its sweeps read.

Times that are decades apart are dots on a logarithmic axis, since stacked parts would not show their shares there.

A solve that reads several numbers of bits without a recorded time of each has the colour of the fewest, with a hatch
that the legend explains. The whole bar is then an upper bound of the time at these bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.curves import against_number, number_of_problems, with_number
from cpms.experiment.report.generic.multiples import few_ticks, label, multiples, panel_inches
from cpms.experiment.report.generic.parts import (
    BAR_IN,
    SECONDS,
    Made,
    baseline_of,
    each_line,
    explain_bits,
    fewest,
    of_one_colour,
    range_of,
    unit,
)
from cpms.experiment.report.generic.words import (
    GROWS,
    bits_in_words,
    case_in_words,
    case_words,
    time_in_full,
    time_in_words,
)
from cpms.experiment.report.page import room
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import STARRED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_APART = 4.0
"""Ratio of the slowest times of two graphs above which each graph has a scale of its own."""
_UNITS = {"s": 0.1, "ms": 1e-4, "\u00b5s": 0.0}
"""Longest time in seconds from which an axis of times has a unit."""
_TOO_LONG = 10.0
"""Time of preparation over that of a solve above which preparation is not drawn, since it would hide the solve."""
_MIXED: dict[str, Any] = {"hatch": "xxxxx", "edgecolor": "white", "linewidth": 0.0}
"""Hatching of bars of several numbers of bits whose time by bits is not recorded."""
_PREPARATION: dict[str, Any] = {"facecolor": "none", "edgecolor": NEUTRAL, "hatch": "////"}
"""Look of the part of a bar that is the time of preparation."""
_OUTLINE_PT = 0.7
"""Width of the outline of a hatched bar, without which its end would not be seen."""
_GROWING = "; graphs named with a size a rank, or with log2 ranks, grow with the ranks"
_DECADES, _SHORTEST_IN = 10**1.5, 0.05
"""Ratio of the longest to the shortest bar above which times are dots on a logarithmic axis, and length of the shortest
bar in inches below which they are, as neither its colour nor its length would be seen."""


def time_by_precision(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the time of each contestant and its preparation: a bar that is stacked by the bits read, or a dot.

    If the times of graphs are far apart, each graph has a scale of its own.
    """
    found = found[found.seconds > 0]
    if found.empty:
        return None
    if name := number_of_problems(found):
        return _by_number(found, width, name)
    longest, apart = found.prepare.max(), ""
    if longest > _TOO_LONG * found.seconds.max() or (found.prepare / found.seconds).median() > _TOO_LONG:
        apart, found = f"; preparation, up to {longest:.3g} s, is not drawn", found.assign(prepare=0.0)
    names, cases = room.by_time(found)
    names = room.in_series(names)
    made = multiples(
        found.sort_values("seconds"), width, baseline_of(found, baseline), names=names, cases=cases, order="time"
    )
    found = made.found
    inches = panel_inches(made.names, made.columns, width)
    scales, unit_of = _scales(found, found.seconds + found.prepare)
    of_bars = scales[found.case].to_numpy()
    lengths = of_bars * (found.seconds + found.prepare)
    end = max(lengths.max(), (of_bars * found.most).max())
    draw = _bars
    if lengths.max() > _DECADES * lengths.min() or inches * lengths.min() < _SHORTEST_IN * end:
        draw, (scales, unit_of) = _dots, _scales(found, found.seconds)
    for panel in made.panels:
        draw(panel.axes, panel.places, panel.found, scales[panel.found.case].to_numpy())
    what, entries = _of_dots(found) if draw is _dots else _of_bars(found, relative=unit_of is None)
    swept = {*found.fewest_bits} if draw is _dots else _swept(found)
    coloured = fewest(found) if draw is _dots else f", by bits {bits_in_words(found)}"
    is_plain = not entries and len({*map(colour, swept)}) == 1
    relative = unit_of is None
    if draw is _dots:
        panels.logarithmic(made.panels[0].axes, most=5)
    else:
        few_ticks(made.panels[0].axes, inches, unit=relative)
    of = "panel" if len(made.panels) > 1 and case_words(found) != [case_in_words(found)] else case_in_words(found)
    time = time_in_words(found)
    label(made, f"{time} over the slowest of the {of}" if relative else f"{time} in {unit_of}", width)
    if not is_plain:
        explain_bits(made.figure, found, marked=False, swept=swept, others=entries, below=len(made.panels) == 1)
    texts = [
        f"median {time_in_full(found)}",
        f", over the slowest time of the {of}" if relative else "",
        of_one_colour(found, swept) if is_plain else coloured,
        what,
        "; lines: from least to most of the samples" if (found.least < found.most).any() else "",
        apart + made.text,
        _GROWING if found.graph.astype(str).str.contains(GROWS).any() else "",
        f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return made.figure, "".join(texts), range_of(found, "seconds", "Values of the time", "s"), {*found.graph}


def _scales(found: pd.DataFrame, drawn: pd.Series[float]) -> tuple[pd.Series[float], str | None]:
    """Return the factor of drawn times by graph, and their unit: None if they are over the slowest of their graph."""
    slowest = drawn.groupby(found.case).transform("max")
    several = found.groupby("case").size().median() > 1
    unit_of = None if several and slowest.max() > _APART * slowest.min() else unit(drawn.max(), _UNITS)
    factors = 1 / slowest if unit_of is None else slowest**0 / SECONDS[unit_of]
    return factors.groupby(found.case).first(), unit_of


def _by_number(found: pd.DataFrame, width: float, name: str) -> Made:
    """Draw times against a number of the problem."""
    time = unit(found.seconds.max(), SECONDS)
    scaled = {"y": found.seconds, "low": found.least, "high": found.most}
    points = with_number(found, name).assign(**{key: each / SECONDS[time] for key, each in scaled.items()})
    figure, _, found, some = against_number(points, width, name, f"{time_in_words(found)} in {time}")
    shades = {*map(colour, found.fewest_bits)}
    texts = [
        f"median {time_in_full(found)}, against {name}",
        fewest(found) if len(shades) > 1 else of_one_colour(found, found.fewest_bits),
        "; vertical lines: from least to most of the samples" if (found.least < found.most).any() else "",
        some,
        f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return figure, "".join(texts), range_of(found, "seconds", "Values of the time", "s"), {*found.graph}


def _swept(found: pd.DataFrame) -> set[int]:
    """Return the numbers of bits whose colours bars have."""
    return {bits for each in found.by_bits for bits in each} | {*found.fewest_bits[~found.by_bits.map(bool)]}


def _bars(axes: Axes, places: list[float], found: pd.DataFrame, scales: Any) -> None:
    """Draw bars of parts by bits, then of preparation."""
    mixed = scales * np.where(found.by_bits.map(bool), 0.0, found.seconds)
    if mixed.any():
        shades = np.array([colour(bits) for bits in found.fewest_bits])
        _part(axes, places, mixed, 0 * mixed, color=shades[mixed > 0], **_MIXED)
        _outline(axes, places, found, mixed)
    ends = mixed
    for bits in sorted({bits for each in found.by_bits for bits in each}, reverse=True):
        part = scales * np.array([each.get(bits, 0.0) for each in found.by_bits])
        _part(axes, places, part, ends, color=colour(bits))
        ends = ends + part
    if (found.prepare > 0).any():
        prepared = scales * found.prepare.to_numpy()
        _part(axes, places, prepared, ends, **_PREPARATION)
    spread = scales * np.array([found.seconds - found.least, found.most - found.seconds]).clip(min=0)
    if spread.any():
        axes.errorbar(scales * found.seconds, places, xerr=spread, fmt="none", ecolor="#222222", elinewidth=0.7)


def _part(axes: Axes, places: list[float], lengths: Any, starts: Any, **look: Any) -> None:
    """Draw parts of bars that have a length: the axis would end where one without a length is."""
    held = lengths > 0
    axes.barh(np.array(places)[held], lengths[held], left=starts[held], height=BAR_IN, **look)


def _outline(axes: Axes, places: list[float], found: pd.DataFrame, ends: Any) -> None:
    """Draw the edges of bars, which their hatching cuts."""
    from matplotlib.collections import LineCollection

    corners = [
        [(0, place - BAR_IN / 2), (end, place - BAR_IN / 2), (end, place + BAR_IN / 2), (0, place + BAR_IN / 2)]
        for place, end in zip(places, ends, strict=True)
        if end > 0
    ]
    shades = [colour(bits) for bits, end in zip(found.fewest_bits, ends, strict=True) if end > 0]
    axes.add_collection(LineCollection(corners, colors=shades, linewidths=_OUTLINE_PT), autolim=False)


def _of_bars(found: pd.DataFrame, *, relative: bool) -> tuple[str, list[Any]]:
    """Return a text for the caption of bars, which may be over the slowest time, and entries of the legend."""
    from matplotlib.patches import Patch

    mixed, prepared = not found.by_bits.map(bool).all(), bool((found.prepare > 0).any())
    text = "; crossed: the time of each number of bits is not recorded, the colour is the fewest" if mixed else ""
    entries = [Patch(facecolor=NEUTRAL, label="fewest bits of several", **_MIXED)] if mixed else []
    if prepared:
        text += f"; hatched: preparation{', which the slowest time includes' if relative else ''}"
        entries.append(Patch(label="preparation", **_PREPARATION))
    return text, entries


def _dots(axes: Axes, places: list[float], found: pd.DataFrame, scales: Any) -> None:
    """Draw dots for a logarithmic axis: beside the longest of bars that are decades apart others would not be seen."""
    for place, line, factor in zip(places, each_line(found), scales, strict=True):
        ends = (factor * line.least, factor * line.most) if line.least < line.most else None
        filled = len(line.by_bits) == 1
        panels.point(axes, factor * line.seconds, place, line.fewest_bits, ends=ends, filled=filled)
    axes.grid(axis="y")


def _of_dots(found: pd.DataFrame) -> tuple[str, list[Any]]:
    """Return of dots what `_of_bars` does of bars."""
    several, longest = bool((found.by_bits.map(len) != 1).any()), found.prepare.max()
    return (
        f"{', hollow where several' if several else ''}"
        f"{f'; preparation, up to {longest:.3g} s, is not drawn' if longest > 0 else ''}",
        panels.key(lines={"fewest bits of several": panels.HOLLOW}) if several else [],
    )
