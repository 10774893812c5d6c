"""Share of the roofline: the bytes that a result moves a second, over the rate of a copy on the same device.

Work that is bound by memory cannot move bytes faster than a copy does, unless a cache holds some of them (Williams,
Waterman and Patterson, Roofline, Communications of the ACM 52 (2009)). Results without bytes, or without the rate of a
copy on their device, have no share; the caption counts them. Contestants have the order of the configuration. Where
few of many graphs fit, those drawn are of the larger half, since small ones fit into caches and are bound by the start
of a kernel. The cost is that of the panels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic import bandwidth
from cpms.experiment.report.generic.conditions import at_one_tolerance
from cpms.experiment.report.generic.multiples import Multiples, label, multiples, panel_inches
from cpms.experiment.report.generic.parts import (
    BAR_IN,
    Made,
    baseline_of,
    each_line,
    explain,
    fewest,
    of_one_colour,
    range_of,
)
from cpms.experiment.report.page import room
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import STARRED

_COPY: dict[str, Any] = {"color": NEUTRAL, "linewidth": 0.7, "linestyle": "--"}
"""The line at the rate of a copy."""
_COPY_AT = 100.0
"""The rate of a copy, in percent of itself."""
_OF_SOLVES = "; a sweep moves the matrix once and a vector twice, in its bits"
_WHOLE = 10.0
"""Share in percent from which it is written in whole percents."""
_ABOVE = "; above 100 %: caches hold data, and a copy writes half its bytes"
_TICK_IN = 0.22
"""Least distance of ticks, in inches."""
_STEPS = (20, 50, 100, 200, 500, 1000)
"""Steps between ticks, in percent."""
_NUMBER_IN = 0.27
"""Width of a number beside a bar, in inches."""
_OFFSET_PT, _GAP_IN = 2.0, 0.02
"""Distance of a number from the end of its bar, in points, and from the line of a copy, in inches."""
_BELOW_AXES = 2.4
"""Place of numbers in the order of drawing: above the line of a copy, below the axes, which their boxes would cut."""


def share_of_roofline(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the bytes a second of each contestant as a share of the rate of a copy, with its range."""
    without, contestants = bandwidth.left_out(found), found.called.nunique()
    found = found[(found.seconds > 0) & (found.moved > 0) & (found.copy_gbps > 0)]
    if found.empty:
        return None
    times = {"share": "seconds", "least_share": "most", "most_share": "least"}
    found = found.assign(**{share: 1e-7 * found.moved / found[time] / found.copy_gbps for share, time in times.items()})
    found, tolerance = at_one_tolerance(found)
    made = _by_size(found, width, baseline)
    found = made.found
    inches = panel_inches(made.names, made.columns, width)
    end = _end_for(found, inches)
    for panel in made.panels:
        _draw(panel.axes, panel.places, panel.found, end / inches)
    step = next((step for step in _STEPS if step / end * inches >= _TICK_IN), _STEPS[-1])
    made.panels[0].axes.set_xlim(0, end)
    made.panels[0].axes.set_xticks(range(0, max(100, step) + 1, step))
    label(made, "effective bandwidth, % of a copy", width)
    several = len({*map(colour, found.fewest_bits)}) > 1
    explain(
        made.figure,
        panels.key(found.fewest_bits if several else (), lines={"copy": _COPY}),
        below=len(made.panels) == 1,
    )
    rates = sorted(set(found.copy_gbps.round()))
    copied = f"{rates[0]:.0f}" if len(rates) == 1 else f"{rates[0]:.0f} to {rates[-1]:.0f}"
    texts = [
        f"{captions.in_words(found.traffic_name)} over the median time, as a share of the rate of a copy "
        f"({copied} GB/s, read and written), which bounds work on data beyond the caches",
        f"; all bars: {found.called.iloc[0]}" if found.called.nunique() == 1 < contestants else "",
        fewest(found) if several else of_one_colour(found, found.fewest_bits),
        "; lines: from least to most of the samples" if (found.least < found.most).any() else "",
        _ABOVE if (found.share.round() > 100).any() else "",
        tolerance,
        made.text,
        _OF_SOLVES if found.kind.isin(bandwidth.SOLVES).any() else "",
        without,
        f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return made.figure, "".join(texts), range_of(found, "share", "Bars of the share of a copy", "%"), {*found.graph}


def _by_size(found: pd.DataFrame, width: float, baseline: str | None) -> Multiples:
    """Return panels of the graphs that at least half as many contestants have as the fullest, by size.

    Where fewer than half of these graphs have space, they are of the larger half.
    """
    names = list(dict.fromkeys(found.called))
    found = found.assign(order=found.called.map(names.index)).sort_values(["size", "case", "order"], kind="stable")
    counts = found.groupby("case", sort=False).size()
    cases = list(counts.index[2 * counts >= counts.max()])
    base = baseline_of(found, baseline)
    made = multiples(found, width, base, names=names, cases=cases, order="size")
    if len(made.panels) >= len(cases) // 2:
        return made
    larger = cases[len(cases) // 2 :]
    return multiples(found, width, base, names=names, cases=larger, order="size among the larger half")


def _percent(share: float) -> str:
    """Return a share in percent as text: whole percents from 10, since nearer ones would not order the bars.

    Examples
    --------
    >>> [_percent(each) for each in (117.4, 122.3, 102.0, 9.96, 0.523)]
    ['117', '122', '102', '10', '0.52']
    """
    return f"{share:.0f}" if share >= _WHOLE else f"{share:.2g}"


def _end_for(found: pd.DataFrame, inches: float) -> float:
    """Return the end of an axis of some inches with room for all bars and the numbers beside them."""
    longest = float(found[["share", "most_share"]].max().max())
    end = _end(longest, inches)
    at_copy = any(_place(line, end / inches) == _COPY_AT for line in each_line(found))
    return _end(max(_COPY_AT, longest), inches) if at_copy else end


def _end(longest: float, inches: float) -> float:
    """Return the end of an axis of some inches with room for a number beside its longest bar."""
    return max(105.0, 1.02 * longest * inches / max(0.3 * inches, inches - _NUMBER_IN))


def _place(line: Any, percent_of_inch: float) -> float:
    """Return the place of the number of a bar: its end, or the line of a copy if the number would cross that."""
    right = max(line.share, line.most_share)
    number_in = room.text_inches(_percent(line.share)) + _OFFSET_PT / 72 + _GAP_IN
    return _COPY_AT if right < _COPY_AT < right + number_in * percent_of_inch else right


def _draw(axes: Any, places: list[float], found: pd.DataFrame, percent_of_inch: float) -> None:
    """Draw bars with their ranges and numbers, and the line at the rate of a copy."""
    axes.barh(places, found.share, color=[colour(bits) for bits in found.fewest_bits], height=BAR_IN)
    spread = np.array([found.share - found.least_share, found.most_share - found.share]).clip(min=0)
    if spread.any():
        axes.errorbar(found.share, places, xerr=spread, fmt="none", ecolor="#222222", elinewidth=0.7)
    axes.axvline(_COPY_AT, **_COPY)
    for place, line in zip(places, each_line(found), strict=True):
        axes.annotate(
            _percent(line.share), (_place(line, percent_of_inch), place), (_OFFSET_PT, 0),
            textcoords="offset points", va="center_baseline", fontsize=7,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.2}, zorder=_BELOW_AXES,
        )  # fmt: skip
