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
from cpms.experiment.report.generic.parts import (
    Made,
    baseline_of,
    each_line,
    explain_bits,
    fewest,
    lines_of_names,
    range_of,
)
from cpms.experiment.report.generic.words import bits_in_words, case_in_words
from cpms.experiment.report.page import room
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import STARRED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 20.0
"""Ratio of the slowest times of two graphs above which each graph has a scale of its own."""
_TOO_LONG = 10.0
"""Time of preparation over that of a solve above which preparation is not drawn, since it would hide the solve."""
_MIXED: dict[str, Any] = {"hatch": "xxxxx", "edgecolor": "white", "linewidth": 0.0}
"""Hatching of bars of several numbers of bits whose time by bits is not recorded."""
_DECADES = 10**1.5
"""Ratio of the longest to the shortest bar above which times are dots on a logarithmic axis."""


def time_by_precision(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the time of each contestant and its preparation: a bar that is stacked by the bits read, or a dot.

    If the times of graphs are far apart, each graph has a scale of its own.
    """
    found = found[found.seconds > 0]
    if found.empty:
        return None
    longest, apart = found.prepare.max(), ""
    if longest > _TOO_LONG * found.seconds.max() or (found.prepare / found.seconds).median() > _TOO_LONG:
        apart, found = f"; preparation, up to {longest:.3g} s, is not drawn", found.assign(prepare=0.0)
    figure, axes, places, found, some = groups(found, width, baseline_of(found, baseline))
    total = found.seconds + found.prepare
    slowest = total.groupby(found.case).transform("max")
    relative = slowest.max() > _APART * slowest.min() and bool((found.groupby("case").size() > 1).any())
    unit, scale = ("\u00b5s", 1e6) if total.max() < 1e-4 else ("ms", 1e3) if total.max() < 0.1 else ("s", 1.0)
    scales = (1 / slowest if relative else scale * slowest**0).to_numpy()
    lengths = scales * total
    if lengths.max() > _DECADES * lengths.min():
        what, entries, below = _dots(axes, places, found, scales)
    else:
        what, entries, below = _bars(axes, places, found, scales)
    label = f"time over the slowest of the {case_in_words(found)}" if relative else f"time in {unit}"
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, label + below, width, names)
    swept = found.fewest_bits if not axes.patches else _swept(found)
    explain_bits(figure, found, marked=False, swept=swept, others=entries)
    texts = [
        "median time",
        f", over the slowest time of the {case_in_words(found)}" if relative else "",
        what,
        "; lines: from least to most of the samples" if (found.least < found.most).any() else "",
        apart + some,
        f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return figure, "".join(texts), range_of(found, "seconds", "Points of the time", "s")


def _swept(found: pd.DataFrame) -> set[int]:
    """Return the numbers of bits whose colours bars have."""
    return {bits for each in found.by_bits for bits in each} | {*found.fewest_bits[~found.by_bits.map(bool)]}


def _bars(axes: Axes, places: list[int], found: pd.DataFrame, scales: Any) -> tuple[str, list[Any], str]:
    """Draw bars, and return a text for the caption, entries of the legend, and a text for the label below."""
    mixed = scales * np.where(found.by_bits.map(bool), 0.0, found.seconds)
    if mixed.any():
        axes.barh(places, mixed, color=[colour(bits) for bits in found.fewest_bits], height=0.7, **_MIXED)
    ends = mixed
    for bits in sorted({bits for each in found.by_bits for bits in each}, reverse=True):
        part = scales * np.array([each.get(bits, 0.0) for each in found.by_bits])
        axes.barh(places, part, left=ends, color=colour(bits), height=0.7)
        ends = ends + part
    prepared = bool((found.prepare > 0).any())
    if prepared:
        axes.barh(places, scales * found.prepare, left=ends, color="none", edgecolor=NEUTRAL, height=0.7, hatch="////")
    spread = scales * np.array([found.seconds - found.least, found.most - found.seconds]).clip(min=0)
    if spread.any():
        axes.errorbar(scales * found.seconds, places, xerr=spread, fmt="none", ecolor="#222222", elinewidth=0.7)
    text = "; crossed: the time of each number of bits is not recorded, the colour is the fewest" if mixed.any() else ""
    return (
        f" by bits {bits_in_words(found)}{text}",
        _explained() if mixed.any() else [],
        "; hatched: preparation" if prepared else "",
    )


def _dots(axes: Axes, places: list[int], found: pd.DataFrame, scales: Any) -> tuple[str, list[Any], str]:
    """Draw dots on a logarithmic axis, and return what `_bars` returns.

    Beside the longest of bars that are decades apart the others would not be seen.
    """
    several = [len(each) != 1 for each in found.by_bits]
    for place, line, factor, hollow in zip(places, each_line(found), scales, several, strict=True):
        ends = (factor * line.least, factor * line.most) if line.least < line.most else None
        panels.point(axes, factor * line.seconds, place, line.fewest_bits, ends=ends, filled=not hollow)
    axes.grid(axis="y")
    panels.logarithmic(axes, most=5)
    entries = panels.key(lines={"fewest bits of several": panels.HOLLOW}) if any(several) else []
    longest = found.prepare.max()
    return (
        f"{fewest(found)}{', hollow where several' if any(several) else ''}"
        f"{f'; preparation, up to {longest:.3g} s, is not drawn' if longest > 0 else ''}",
        entries,
        "",
    )


def _explained() -> list[Any]:
    """Return the entry of a legend for bars whose time by bits is not recorded."""
    from matplotlib.patches import Patch

    return [Patch(facecolor=NEUTRAL, label="fewest bits of several", **_MIXED)]


def groups(found: pd.DataFrame, width: float, base: str | None) -> tuple[Figure, Axes, list[int], pd.DataFrame, str]:
    """Return a panel of names below the name of their graph, the place of each line, those shown, and a text."""
    if 1 in (len(set(found.case)), len(set(found.called)), found.groupby("case").size().max()):
        figure, axes, found, some = lines_of_names(found.sort_values("seconds"), width)
        return figure, axes, list(range(len(found))), found, some
    found, labels, some = room.comparable(found, width, base)
    cases = list(dict.fromkeys(zip(found.case, found.graph, found.problem, strict=True)))
    heads = captions.case_labels([(graph, problem) for _, graph, problem in cases], 38 if width < 5 else 44)
    by_case = {case: head for (case, *_), head in zip(cases, heads, strict=True)}
    places, ticks, before = list[int](), list[str](), None
    for line in each_line(found):
        if line.case != before:
            ticks.append(f"{by_case[line.case]}:")
            before = line.case
        places.append(len(ticks))
        ticks.append(labels[line.called])
    figure, (axes,) = panels.grid(width, 1, 0.9 + room.line_height(ticks) * len(ticks))
    axes.set_yticks(range(len(ticks)), ticks)
    for at, tick in enumerate(axes.yaxis.get_major_ticks()):
        tick.tick1line.set_visible(at in places)
        tick.label1.set_fontstyle("normal" if at in places else "italic")
    axes.set_ylim(len(ticks) - 0.5, -0.5)
    return figure, axes, places, found, some
