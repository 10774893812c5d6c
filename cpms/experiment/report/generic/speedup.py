"""Speed-up of each contestant over a baseline: geometric means over graphs, with bootstrap intervals.

All means of a figure are over the same graphs, those of every ranked contestant, since means over different graphs
cannot be compared. Contestants with which too few common graphs remain are not ranked, and the caption names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cpms.base.text.escape import abbreviate
from cpms.experiment.report import panels
from cpms.experiment.report.generic.curves import against_number, number_of_problems, with_number
from cpms.experiment.report.generic.flaws import fair
from cpms.experiment.report.generic.parts import (
    Made,
    baseline_of,
    each_line,
    explain_bits,
    fewest,
    lines_of_names,
    of_one_colour,
    range_of,
)
from cpms.experiment.report.generic.words import (
    GROWS,
    all_or_count,
    case_in_words,
    case_words,
    cases_in_all,
    cases_in_words,
    counted_graphs,
    mean_of_each,
    noun_of_errors,
    of_systems,
    plural,
    problem_in_words,
    time_in_full,
    time_in_words,
)
from cpms.experiment.report.intervals import FEWEST, bootstrap_or_range, ratios_of
from cpms.experiment.report.page.case_labels import case_label
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import among


def speedup(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the speed-up of each contestant over the baseline, or that of the only one on each graph.

    Means have a bootstrap interval of 95 percent. Below a mean lies a stroke at the median of its ratios. Means of
    fewer than `FEWEST` ratios have a stroke for each of these below them, and no interval.
    """
    base = baseline_of(found, baseline)
    lines = speedups(found, baseline)
    if base is None or not lines:
        return None
    kept, left = in_common(found, base)
    alone = len(lines) == 1 and kept.case.nunique() >= FEWEST
    ordered = _each_ratio(lines[0], kept, base) if alone else pd.DataFrame(lines)
    turned = baseline is None and all(line["speedup"] < 1 for line in lines)
    ordered = _turned(ordered) if turned else ordered
    ordered = ordered.sort_values(["graphs", "speedup"] if alone else "speedup", ascending=False)
    if alone and (name := number_of_problems(kept)):
        return _by_number(ordered, kept, width, name, (base, lines[0]["called"])[:: 1 if turned else -1], left)
    figure, axes, places, table, some = lines_of_names(ordered, width)
    if some and alone:
        some = (
            f"; rows: {len(table) - 1} of {len(ordered) - 1} {cases_in_words(kept)}, evenly chosen; the mean is of all"
        )
    several = len(set(panels.kinds(table))) < len(table)  # Else each line is named by its engine.
    marker = panels.markers(table) if several else "o" * len(table)
    names = [each.get_text() for each in axes.get_yticklabels()]
    few, means = (table.graphs > 1) & ~table.resampled, table.resampled
    for number, (place, line) in enumerate(zip(places, each_line(table), strict=True)):
        ends = None if few.iloc[number] else (line.low, line.high)
        at, below = place - (_ABOVE_IN if line.graphs > 1 else 0.0), place + _BELOW_IN
        panels.point(axes, line.speedup, at, line.fewest_bits, marker[number], ends=ends)
        if line.resampled:
            axes.plot(line.median, below, **_MEDIAN)
        elif line.graphs > 1:
            style = {**_RATIO, "color": colour(line.fewest_bits)}
            axes.plot(line.ratios, [below] * line.graphs, **style)
        axes.text(1.02, place, _three_digits(line.speedup), **_NUMBER, transform=axes.get_yaxis_transform())
    if table.graphs.iloc[-1] > 1:
        axes.set_ylim(axes.get_ylim()[0] + _BELOW_LAST_IN, 0.0)
        figure.set_figheight(figure.get_figheight() + _BELOW_LAST_IN)
    axes.axvline(1.0, color=NEUTRAL, linewidth=0.6)
    panels.logarithmic(axes, most=5)
    ours, theirs = lines[0]["called"] if alone else "", base
    if turned:
        ours, theirs = base, ours or "each"
    of = f" of {abbreviate(ours, 40)}" if ours else ""
    time = f" ({time_in_words(kept)})" if time_in_words(kept) != "time" else ""
    panels.label_below(axes, f"speed-up{of} over {abbreviate(theirs, 80)}{time}", width, names)
    kind, stroke = _kind(kept), _stroke(kept)
    looks = {
        "median": (means, _MEDIAN),
        f"{'an' if stroke == 'array' else 'a'} {stroke}": (few, _RATIO),
    }
    entries = {name: style for name, (where, style) in looks.items() if where.any()}
    bits = sorted({*table.fewest_bits})
    plain = len({*map(colour, bits)}) == 1 and not entries and not (several and len(set(panels.kinds(table))) > 1)
    if not plain:
        explain_bits(figure, table, marked=several, others=panels.key(lines=entries))
    differ = len(kept.drop_duplicates(["called", "fewest_bits"])) > kept.called.nunique()
    differ = differ and not _bits_are_of_problems(kept)  # Then each number of bits has marks of its own.
    coloured = (
        of_one_colour(kept, bits)
        if plain
        else fewest(kept) + (f" on most {plural(case_in_words(kept))}" if differ else "")
    )
    count = kept.case.nunique()
    first = case_label(*kept[["label", "problem"]].iloc[0])
    one = f", on 1 {kind}{f' ({first})' if first else ''}"
    mean = f", geometric mean over the same {counted_graphs(kept)} for all{mean_of_each(kept)}" if count > 1 else one
    each = "system" if of_systems(kept) else " and ".join(case_words(kept))
    mean = f"; a row for each {each}, and their geometric mean" if alone else mean
    what = f"speed-up of {base} over {theirs if alone else 'each'}" if turned else f"speed-up{of} over {base}"
    of_time = f" in {time_in_full(kept)}" if time else ""
    text = f"{what}{of_time}{mean}{_lines(table, kept)}; numbers: values of the marks{coloured}"
    text += f"{_stored(kept)}{_errors(kept, base)}"
    text += f"{left}{some}{among(kept.graph)}"
    return figure, text, range_of(table, "speedup", f"Values of the {what}", "times"), None


def _by_number(
    ratios: pd.DataFrame, kept: pd.DataFrame, width: float, name: str, both: Sequence[str], left: str
) -> Made:
    """Draw the ratio of the only two contestants against a number of the problem."""
    mean, each = ratios[ratios.called != ""].iloc[0], ratios[ratios.called == ""]
    points = with_number(each, name)
    points = points.assign(y=points.speedup, called=points.rest, rest="")
    what = f"speed-up of {both[0]} over {both[1]}"
    figure, axes, table, some = against_number(points, width, name, f"speed-up of {both[0]}\nover {both[1]}")
    for panel in axes:
        panels.unity(panel, across=True)
    shades = {*map(colour, table.fewest_bits)}
    coloured = fewest(kept) if len(shades) > 1 else of_one_colour(kept, table.fewest_bits)
    lines = _interval(kept).replace(", with 95", "; lines: 95").replace("; lines:", "; vertical lines:")
    drawn = lines if (table.low < table.high).any() else ""
    of_graphs = f"over the same {counted_graphs(kept)}{mean_of_each(kept)}"
    text = f"{what}, against {name}; geometric mean {mean.speedup:.3g} {of_graphs}{drawn}{coloured}"
    text += f"{_errors(kept, both[1])}{left}{some}{among(kept.graph)}"
    return figure, text, range_of(table.assign(called=both[0]), "speedup", f"Values of the {what}", "times"), None


def _three_digits(value: float) -> str:
    """Return a ratio with three digits, of which none is omitted.

    Examples
    --------
    >>> [_three_digits(each) for each in (1.4, 0.0297, 371.2, 1234.5)]
    ['1.40', '0.0297', '371', '1234']
    """
    return f"{value:#.3g}".rstrip(".") if value < _THOUSAND else f"{value:.0f}"


def _turned(lines: pd.DataFrame) -> pd.DataFrame:
    """Return ratios that are all below 1 as those of the baseline over the others."""
    ratios = pd.Series([[1 / ratio for ratio in each] for each in lines.ratios], index=lines.index)
    ends = {"speedup": 1 / lines.speedup, "low": 1 / lines.high, "high": 1 / lines.low}
    return lines.assign(**ends, ratios=ratios, median=[float(np.median(each)) for each in ratios])


def _kind(found: pd.DataFrame) -> str:
    return "system" if of_systems(found) else case_in_words(found)


def _unit(found: pd.DataFrame) -> str:
    """Return the word for what has a ratio: a graph, or if all ratios are of one graph, what is solved on it."""
    one_graph = len(set(found.graph)) == 1 < len(set(found.case))
    return problem_in_words(found.problem) if one_graph else _kind(found)


def _stroke(found: pd.DataFrame) -> str:
    """Return the word for what a ratio of a mean of few is of: of several matrices, each has one for its systems."""
    means = len(set(found.graph)) > 1 and found.case.nunique() > found.graph.nunique()
    return case_in_words(found) if means else _unit(found)


_SPEED = ("speedup", "low", "high")
"""Columns of a mean and of the ends of its interval."""
_MEDIAN: dict[str, Any] = {"color": "#222222", "marker": "|", "markersize": 3.2, "linestyle": ""}
"""The stroke at the median of the ratios of which a mean is drawn."""
_RATIO: dict[str, Any] = {**_MEDIAN, "color": NEUTRAL, "markersize": 4.0, "markeredgewidth": 0.9}
"""The stroke of a ratio of a mean of few; a small circle would look like the mark of an engine."""
_THOUSAND = 999.5
"""Value from which three digits would have an exponent."""
_NUMBER: dict[str, Any] = {"fontsize": 7, "ha": "left", "va": "center_baseline"}
"""Look of the value of a mark at the right of its row."""
_ABOVE_IN, _BELOW_IN = 0.021, 0.045
"""Distances of a mean, and of what lies below it, from the middle of a row, in inches."""
_BELOW_LAST_IN = 0.04
"""Height of the space below a stroke of the last row, which would else be read as a tick of the axis, in inches."""
_MOST_STORED, _LONGEST_STORED = 2, 100
"""Most contestants whose formats a caption states, and most characters of that text."""
_SAME_ERROR = 2.0
"""Ratio of errors above which a caption states it."""


def speedups(found: pd.DataFrame, baseline: str | None = None) -> list[dict[str, Any]]:
    """Return the observation of each other contestant with its ``speedup`` over the baseline, ``low`` and ``high``.

    ``median`` is that of its ``ratios``, one of each of its ``graphs``, whose geometric mean the speed-up is. The ratio
    of a graph is the geometric mean over the problems on it; if there is only one graph, each problem has a ratio. The
    interval draws whole graphs again (``resampled``), if there are `FEWEST` of them. ``has_interval`` tells whether
    ``low`` and ``high`` are the ends of an interval of 95 percent.
    Times of one graph and of one problem on it are compared, so that a looser tolerance is no speed-up. Graphs that
    grow with the number of ranks are left out, and those that not every ranked contestant has. Where the bits are those
    of the problem, such as the type of an array, each contestant has an observation for each number of them.
    """
    found, _ = fair(found)
    base = baseline_of(found, baseline)
    if base is None:
        return []
    found, _ = in_common(found, base)
    of_base = {line.case: line for line in each_line(found[found.called == base])}
    lines = []
    by_problem = _bits_are_of_problems(found)
    parts = found.assign(bits_of=found.fewest_bits if by_problem else 0)
    for (name, bits_of), group in parts.groupby(["called", "bits_of"], sort=False):
        if name != base:
            pairs = [_pair(of_base[line.case], line, len(group) == 1) for line in each_line(group)]
            called = f"{name}, {bits_of:g} bits" if by_problem else name
            first = {
                **group.iloc[0],
                "contestant": called,
                "called": called,
                "graph": "",
                "label": "",
                "problem": "",
                "case": "",
            }
            bits = {"fewest_bits": group.fewest_bits.mode().max()}
            units = [*(group.graph if len(set(group.graph)) > 1 else group.case)]
            ratios = ratios_of(pairs, units)
            middle = {"median": float(np.median(ratios)), "graphs": len(ratios), "ratios": ratios}
            middle["resampled"] = len(set(group.graph)) >= FEWEST
            *found_ends, is_range = bootstrap_or_range(pairs, units)
            middle["has_interval"] = middle["resampled"] or (len(ratios) == 1 and not is_range)
            lines.append({**first, **bits, **dict(zip(_SPEED, found_ends, strict=True)), **middle})
    return lines


def _pair(base: Any, own: Any, alone: bool) -> tuple[list[float], list[float]]:
    """Return the samples of two results; of a ratio that is alone, their ends if the rows hold these only."""
    both = [
        [line.least, line.seconds, line.most] if alone and _holds_ends(line) else line.samples for line in (base, own)
    ]
    return both[0], both[1]


def _holds_ends(line: Any) -> bool:
    return len(line.samples) < 2 and line.least < line.most


def _lines(table: pd.DataFrame, found: pd.DataFrame) -> str:
    """Return a text about intervals, and about the strokes below means."""
    means, alone = table.resampled, table.graphs == 1
    few = ~means & ~alone
    drawn = (table.low < table.high) & ~few
    if few.all():
        interval = ""
    elif drawn.any():
        of_means = " with 95 % bootstrap interval" if alone.any() else ", with 95 % bootstrap interval"
        of_others = _interval(found) if (drawn & alone).any() else ""
        interval = (of_means if (drawn & means).any() else "") + of_others
    elif (found.least < found.most).any():
        interval = "; no interval: the rows hold the least and the most of the samples only"
    else:
        interval = "; the rows hold no samples for an interval"
    kind, several = _kind(found), any(found.problem) and found.case.nunique() > found.graph.nunique()
    if not several:
        dots = f"; strokes: the ratios of a mean of fewer than {FEWEST}, which has no interval"
    elif len(set(found.graph)) > 1:
        dots = f"; strokes: the mean of each {_stroke(found)}; of fewer than {FEWEST}, a mean has no interval"
    else:
        dots = f"; strokes: the ratio of each {_unit(found)}, whose mean has no interval, as they are of one {kind}"
    return f"{interval}{'; strokes: medians' if means.any() else ''}{dots if few.any() else ''}"


def _each_ratio(mean: dict[str, Any], found: pd.DataFrame, base: str) -> pd.DataFrame:
    """Return a line for the mean of the only contestant, and one for its ratio on each graph, named by the graph."""
    of_base = {line.case: line for line in each_line(found[found.called == base])}
    lines = [{**mean, "called": "geometric mean"}]
    for line in each_line(found[found.called != base]):
        pairs = [_pair(of_base[line.case], line, alone=True)]
        ratios = ratios_of(pairs)
        ratio = {"called": "", "median": ratios[0], "graphs": 1, "ratios": ratios, "resampled": False}
        ends = dict(zip(_SPEED, bootstrap_or_range(pairs)[:3], strict=True))
        lines.append({**line._asdict(), **ends, **ratio})
    return pd.DataFrame(lines)


def _interval(found: pd.DataFrame) -> str:
    """Return a text about the lines of single ratios."""
    counts = found.samples.map(len)
    if counts.min() >= FEWEST:
        return ", with 95 % bootstrap interval"
    ranges = "; lines: least to most ratio of the samples"
    several = f", where these are fewer than {FEWEST}, else 95 % bootstrap interval"
    return ranges + several if counts.max() >= FEWEST else ranges


def _bits_are_of_problems(found: pd.DataFrame) -> bool:
    """Return whether graphs or problems differ in their bits, and on each all contestants have the same."""
    return len(set(found.fewest_bits)) > 1 and found.drop_duplicates(["case", "fewest_bits"]).case.is_unique


def _stored(found: pd.DataFrame) -> str:
    """Return a text about contestants that store several formats, or read several numbers of bits, and on how many."""
    if _bits_are_of_problems(found):
        counts = found.drop_duplicates("case").fewest_bits.value_counts()
        first, *others = [f"{count} of {bits} bits" for bits, count in counts.items()]
        noun = _unit(found) if len(set(found.graph)) == 1 else "problem" if any(found.problem) else _kind(found)
        number, _, rest = first.partition(" ")
        return "; " + " and ".join([f"{number} {noun if number == '1' else plural(noun)} {rest}", *others])
    by_counts = dict[str, list[str]]()
    for name, part in found.groupby("called", sort=False):
        counts = part.stored.value_counts()
        if len(counts) > 1:
            text = ", ".join(f"{stored} ({count})" for stored, count in counts.items())
            by_counts.setdefault(text, []).append(str(name))
    texts = [f"{', '.join(names)} as {text}" for text, names in by_counts.items()]
    count, text = sum(map(len, by_counts.values())), "; ".join(texts)
    if count > _MOST_STORED or (count > 1 and len(text) > _LONGEST_STORED):
        several = (
            "read several numbers of bits" if found.stored.str.endswith(" bits").all() else "store several formats"
        )
        return f"; {count} contestants {several}, by {_kind(found)}"
    return f"; by {_kind(found)}: {text}" if text else ""


def in_common(found: pd.DataFrame, base: str, word: str = "not ranked") -> tuple[pd.DataFrame, str]:
    """Return the lines of contestants on the graphs that all have, and a text about the others.

    While these graphs are under half of the most that a contestant has, the contestant without which the most are left
    is not ranked.
    """
    grows = found.graph.astype(str).str.contains(GROWS)
    measured, grown = found[(found.seconds > 0) & ~grows], found[grows].case.nunique()
    held: dict[str, set[str]] = {str(name): set(part.case) for name, part in measured.groupby("called")}
    own, others = held.pop(base, set()), list(held)
    held = {name: cases & own for name, cases in held.items() if cases & own}
    most = max(map(len, held.values()), default=0)
    ranked = {name: cases for name, cases in held.items() if 2 * len(cases) >= most}
    while ranked and 2 * len(set.intersection(*ranked.values())) < most:
        del ranked[max(ranked, key=lambda name: (_left(ranked, name), -len(ranked[name]), name))]
    cases = set.intersection(*ranked.values()) if ranked else set[str]()
    count, fewer = cases_in_all(found) - grown, [name for name in others if name not in ranked]
    what = cases_in_words(found)
    rule = "that all contestants here solve" if of_systems(found) else "with results of all contestants here"
    these = "these" if len(cases) < count else f"these {what}"
    texts = [
        f"; {len(cases)} of {count} {what}: those {rule}" if len(cases) < count else "",
        f"; {grown} {'graphs grow' if grown > 1 else 'graph grows'} with the ranks: no speed-up" if grown else "",
        f"; {word}, since without results on some of {these}: {all_or_count(fewer)}" if fewer else "",
    ]
    return measured[measured.case.isin(cases) & measured.called.isin([base, *ranked])], "".join(texts)


def _left(ranked: dict[str, set[str]], without: str) -> int:
    """Return the number of graphs that all but one contestant have."""
    others = [cases for name, cases in ranked.items() if name != without]
    return len(set.intersection(*others)) if others else 0


def _errors(found: pd.DataFrame, base: str) -> str:
    """Return a text about the errors of contestants whose times are compared, where they are not the same.

    Errors and residuals on one graph are not compared with each other.
    """
    known = found[found.error > 0]
    of_base = known[known.called == base]
    own = dict(zip(zip(of_base.case, of_base.error_name, strict=True), of_base.error, strict=True))
    alike = [line for line in each_line(known) if (line.case, line.error_name) in own]
    ratios = [line.error / own[line.case, line.error_name] for line in alike]
    what = noun_of_errors(line.error_name for line in alike or each_line(known))
    if not own and len(known):
        return f"; not at equal {what}: others are up to {known.error.max():.2g}, the baseline's are 0 or not recorded"
    if not ratios or max(max(ratios), 1 / min(ratios)) < _SAME_ERROR:
        return ""
    return f"; not at equal {what}: they are {min(ratios):.2g} to {max(ratios):.2g} times the baseline's"
