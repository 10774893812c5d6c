"""Share of the roofline: the bytes that a result moves a second, over the rate of a copy on the same device.

Work that is bound by memory cannot move bytes faster than a copy does, unless a cache holds some of them (Williams,
Waterman and Patterson, Roofline, Communications of the ACM 52 (2009)). Results without bytes, or without the rate of a
copy on their device, have no share; the caption counts them. Contestants have the order of the configuration. If bars
do not fit, fewer graphs are drawn, chosen by size, and then fewer contestants. The cost is that of the panel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic import bandwidth
from cpms.experiment.report.generic.parts import Made, baseline_of, each_line, explain, fewest, range_of, short_names
from cpms.experiment.report.generic.words import bits_in_words, cases_in_words
from cpms.experiment.report.page import room
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import STARRED

_COPY: dict[str, Any] = {"color": NEUTRAL, "linewidth": 0.7, "linestyle": "--"}
"""The line at the rate of a copy."""
_OF_SOLVES = "; a sweep moves the matrix once, and reads and writes a vector in its bits"
_MOST_IN, _BAR_IN = 2.95, 0.105
"""Most height of the panel, and height of a bar, in inches."""
_BY_SIZE = {3: "the smallest, the median and the largest", 2: "the smallest and the largest", 1: "the largest"}
"""Numbers of graphs that are drawn where not all fit, and which ones these are by their size."""


def share_of_roofline(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the bytes a second of each contestant as a share of the rate of a copy, with its range."""
    without = bandwidth.left_out(found)
    found = found[(found.seconds > 0) & (found.moved > 0) & (found.copy_gbps > 0)]
    if found.empty:
        return None
    ends = {"share": "seconds", "least_share": "most", "most_share": "least"}
    found = found.assign(**{share: 1e-7 * found.moved / found[time] / found.copy_gbps for share, time in ends.items()})
    found, tolerance = _at_one_tolerance(found)
    found, some = _fitting(found, width, baseline_of(found, baseline))
    figure, axes, places = _panel(found, width)
    axes.barh(places, found.share, color=[colour(bits) for bits in found.fewest_bits], height=_BAR_IN)
    spread = np.array([found.share - found.least_share, found.most_share - found.share]).clip(min=0)
    if spread.any():
        axes.errorbar(found.share, places, xerr=spread, fmt="none", ecolor="#222222", elinewidth=0.7)
    axes.axvline(100.0, **_COPY)
    for place, line in zip(places, each_line(found), strict=True):
        axes.annotate(
            panels.number(float(f"{line.share:.2g}")), (max(line.share, line.most_share), place), (2, 0),
            textcoords="offset points", va="center_baseline", fontsize=7,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.2},
        )  # fmt: skip
    axes.set_xlim(0, max(105.0, 1.15 * found.most_share.max()))
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, "effective bandwidth, % of a copy", width, names)
    several = len({*map(colour, found.fewest_bits)}) > 1
    explain(figure, panels.key(found.fewest_bits if several else (), lines={"copy": _COPY}))
    rates = sorted(set(found.copy_gbps.round()))
    copied = f"{rates[0]:.0f}" if len(rates) == 1 else f"{rates[0]:.0f} to {rates[-1]:.0f}"
    texts = [
        f"{captions.in_words(found.traffic_name)} over the median time, as a share of the rate of a copy "
        f"({copied} GB/s, read and written), which bounds work on data beyond the caches",
        _of_colours(found) if several else _of_bits(found),
        "; lines: from least to most of the samples" if (found.least < found.most).any() else "",
        tolerance,
        some,
        _OF_SOLVES if found.kind.isin(bandwidth.SOLVES).any() else "",
        without,
        f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return figure, "".join(texts), range_of(found, "share", "Bars of the share of a copy", "%")


def _of_colours(found: pd.DataFrame) -> str:
    return "; colour: the fewest bits read" if bits_in_words(found) == "read" else fewest(found)


def _of_bits(found: pd.DataFrame) -> str:
    """Return a text about the bits of bars of one colour."""
    return f"; bits {bits_in_words(found)}: {', '.join(f'{bits:g}' for bits in sorted({*found.fewest_bits}))}"


def _at_one_tolerance(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the lines of each graph at its smallest tolerance, and a text about it; their problem lacks it."""
    least = found.groupby("graph", dropna=False).tol.transform("min")
    kept = found[~(found.tol > least)]
    if len(kept) == len(found):
        return found, ""
    cases = [", ".join(filter(None, each)) for each in zip(kept.graph.astype(str), kept.besides, strict=True)]
    alike = len(set(kept.tol)) == 1
    text = f"tolerance {kept.tol.max():g}, the smallest of {found.tol.nunique()}"
    return kept.assign(problem=kept.besides, case=cases), f"; {text if alike else 'smallest tolerance of each graph'}"


def _fitting(found: pd.DataFrame, width: float, base: str | None) -> tuple[pd.DataFrame, str]:
    """Return the lines that fit, by the size of their graph and in the order of contestants, and a text."""
    names = list(dict.fromkeys(found.called))
    found = found.assign(order=found.called.map(names.index)).sort_values(["size", "case", "order"], kind="stable")
    counts = found.groupby("case", sort=False).size()
    full = list(counts.index[2 * counts >= counts.max()])
    several = counts.max() > 1
    kept, what = found, ""
    for most in () if _height(found, width) <= _MOST_IN else range(len(full), 0, -1) if not several else (3, 2, 1):
        if most > len(full):
            continue
        cases = room.evenly(full, most) if most > 1 else full[-1:]
        kept = found[found.case.isin(cases)]
        chosen = _BY_SIZE[most] if most in _BY_SIZE and len(set(found["size"])) > 1 else "evenly chosen"
        what = f"; {most} of {len(counts)} {cases_in_words(found)}: {chosen}"
        if _height(kept, width) <= _MOST_IN:
            break
    if kept.case.nunique() == len(counts):
        what = ""
    elif len(set(kept.case)) == 1:  # No name beside the bars says which graph it is.
        what += f", {captions.case_label(kept.graph.iloc[0], kept.problem.iloc[0])}"
    here = [name for name in names if name in set(kept.called)]
    shown = kept
    for most in range(len(here) - 1, 1, -1):
        if _height(shown, width) <= _MOST_IN:
            break
        shown = kept[kept.called.isin(_with_own(kept, here, most, base))]
    drawn = shown.called.nunique()
    some = f"; {drawn} of {len(names)} contestants, evenly chosen" if drawn < len(names) else ""
    return shown.reset_index(drop=True), what + some


def _with_own(found: pd.DataFrame, names: list[str], most: int, base: str | None) -> list[str]:
    """Return so many contestants, evenly chosen after the baseline and a user's plug-ins."""
    own = [name for name in names if name == base or name in set(found.called[found.own])]
    others = [name for name in names if name not in own]
    return own + room.evenly(others, max(1, most - len(own)))


def _height(found: pd.DataFrame, width: float) -> float:
    return sum(room.line_height([tick]) for tick, _ in _ticks(found, width))


def _ticks(found: pd.DataFrame, width: float) -> list[tuple[str, bool]]:
    """Return the names along the vertical axis from the top, and whether each has a bar or is that of a graph."""
    cases = list(dict.fromkeys(zip(found.case, found.graph, found.problem, strict=True)))
    if len(cases) == 1 or len(cases) == len(found):
        return [(name, True) for name in room.wrapped(short_names(found), room.name_length(width), room.MOST_LINES)]
    heads = captions.case_labels([(graph, problem) for _, graph, problem in cases], 38 if width < 5 else 44)
    by_case = {case: head for (case, *_), head in zip(cases, heads, strict=True)}
    names = list(dict.fromkeys(found.called))
    labels = dict(zip(names, room.wrapped(names, room.name_length(width), room.MOST_LINES), strict=True))
    ticks, before = list[tuple[str, bool]](), None
    for line in each_line(found):
        ticks += [(f"{by_case[line.case]}:", False)] if line.case != before else []
        ticks.append((labels[line.called], True))
        before = line.case
    return ticks


def _panel(found: pd.DataFrame, width: float) -> tuple[Any, Any, list[float]]:
    """Return a figure, its panel, whose vertical axis is in inches, and the places of bars."""
    ticks = _ticks(found, width)
    heights = np.array([room.line_height([tick]) for tick, _ in ticks])
    middles = (heights.cumsum() - heights / 2).tolist()
    figure, (axes,) = panels.grid(width, 1, 0.9 + float(heights.sum()))
    axes.set_yticks(middles, [tick for tick, _ in ticks])
    for tick, (_, barred) in zip(axes.yaxis.get_major_ticks(), ticks, strict=True):
        tick.tick1line.set_visible(barred)
        tick.label1.set_fontstyle("normal" if barred else "italic")
    axes.set_ylim(float(heights.sum()), 0.0)
    return figure, axes, [place for place, (_, barred) in zip(middles, ticks, strict=True) if barred]
