"""Common parts of templates: names of contestants and graphs, panels of names, legends, and ranges as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cpms.base.errors import InputError
from cpms.base.text.counted import counted
from cpms.experiment.report import panels
from cpms.experiment.report.generic.words import bits_in_words
from cpms.experiment.report.page import room
from cpms.experiment.report.page.case_labels import case_labels
from cpms.experiment.report.palette import NEUTRAL, colour

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Made = tuple["Figure", str, str, Collection[str] | None] | None
"""A figure, the text of its caption, its alternative text and the graphs that it draws, None for all of the experiment;
None if the observations allow no figure."""
SECONDS = {"s": 1.0, "ms": 1e-3, "\u00b5s": 1e-6}
"""Units of time in seconds, from the longest."""
_LONGEST = 78
"""Most characters of a graph with its problem beside a result: three lines of one column."""
BAR_IN = 0.105
"""Height of a bar, in inches."""


def fewest(found: pd.DataFrame) -> str:
    """Return a text for captions about the meaning of colours."""
    bits = bits_in_words(found)
    if bits == "read":
        return "; colour: fewest bits read"
    several = "fewest " if (found.bits != found.fewest_bits).any() else ""
    return f"; colour: {several}bits {bits}"


def of_one_colour(found: pd.DataFrame, bits: Iterable[float]) -> str:
    """Return a text for captions about the bits of marks that have one colour, which need no legend."""
    return f"; bits {bits_in_words(found)}: {', '.join(f'{each:g}' for each in sorted({*bits}))}"


def range_of(found: pd.DataFrame, column: str, what: str, unit: str) -> str:
    """Return a sentence with the least and the largest value of a column, and their names."""
    ordered: list[Any] = [each for _, each in found.sort_values(column).iterrows()]
    least, most = ordered[0], ordered[-1]
    texts = [f"{each[column]:.3g} {unit}".strip() + f" ({_named(each)})" for each in (least, most)]
    of = counted(len(found), "contestant" if found.called.is_unique else "result")
    return f"{what} of {of}, " + (f"from {texts[0]} to {texts[1]}." if len(found) > 1 else f"{texts[0]}.")


def each_line(found: pd.DataFrame) -> list[Any]:
    """Return the lines of a table as named tuples."""
    return list(found.itertuples())


def _named(line: Any) -> str:
    return ", ".join(filter(None, [line.called, line.label, line.problem]))


def named_baseline(found: pd.DataFrame, baseline: str | None) -> str | None:
    """Return the name of the contestant whose short or full name a text is, or is a part of; None without a text.

    Raises
    ------
    InputError
        If there is no such contestant.
    """
    if baseline is None:
        return None
    held = found[[each for each in ("called", "short", "full") if each in found]].astype(str).drop_duplicates("called")
    names: dict[str, list[str]] = dict(zip(held.called, held.to_numpy().tolist(), strict=True))
    match = next((name for name, texts in names.items() if baseline in texts), None)
    match = match or next((name for name, texts in names.items() if any(baseline in each for each in texts)), None)
    if match is None:
        raise InputError(f"no contestant is called {baseline!r}; there is {', '.join(names)}")
    return match


def baseline_of(found: pd.DataFrame, baseline: str | None) -> str | None:
    """Return the contestant over which speed-ups are computed; None if there is only one, or not the one named."""
    names: list[str] = list(dict.fromkeys(found.called))
    if baseline is not None:
        return baseline if baseline in names else None
    if len(names) < 2:
        return None
    counts = found.groupby("called").case.nunique().to_dict()
    return max(names, key=lambda name: ("fp64" in name.partition("auto (")[0], counts.get(name, 0)))


def lines_of_names(
    found: pd.DataFrame, width: float, base: str | None = None, *, columns: int = 1
) -> tuple[Figure, Axes, list[float], pd.DataFrame, str]:
    """Return a panel with as many results along its vertical axis as fit, their places, and a text about the others.

    The vertical axis is in inches, since names have one line or more. Where names are long, results whose names end
    alike follow each other, below a line with this end. With several ``columns``, further panels of the figure lie
    beside this one and share its vertical axis.
    """
    found, names, ends = _by_ends(found, short_names(found), room.name_length(width))
    headings_in = len({*ends} - {""}) * room.line_height([""])
    found, labels, some = room.fitting(found.assign(end=ends), names, width, base, headings_in)
    rows = list[tuple[str, int]]()  # Each with its label, and the place of its result; -1 for the end of names.
    for place, (label, end) in enumerate(zip(labels, found.end, strict=True)):
        if end and (not place or end != found.end.iloc[place - 1]):
            rows.append((room.wrapped([f"{end}:"], room.name_length(width), 1)[0], -1))
        rows.append((label, place))
    heights = np.array([room.line_height([label]) for label, _ in rows])
    middles = heights.cumsum() - heights / 2
    figure, (axes, *_) = panels.grid(
        width, columns, 0.9 + float(heights.sum()), columns=(columns, columns), sharey=True
    )
    axes.set_yticks(middles.tolist(), [label for label, _ in rows])
    axes.set_ylim(float(heights.sum()), 0.0)
    for tick, (_, place) in zip(axes.yaxis.get_major_ticks(), rows, strict=True):
        if place < 0:
            tick.label1.set_fontstyle("italic")
            tick.tick1line.set_visible(False)
            tick.gridline.set_visible(False)
    places = [float(middle) for middle, (_, place) in zip(middles, rows, strict=True) if place >= 0]
    return figure, axes, places, found.drop(columns="end"), some


def _ends_of(name: str) -> list[str]:
    """Return the ends of a name after each of its commas, from the longest."""
    parts = name.split(", ")
    return [", ".join(parts[place:]) for place in range(1, len(parts))]


def _by_ends(found: pd.DataFrame, names: Sequence[str], most: int) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return results with names of up to a comma, and the ends of names, if names would have more than two lines."""
    counts = Counter(end for name in names for end in _ends_of(name))
    ends = [next((end for end in _ends_of(name) if counts[end] > 1), "") for name in names]
    heads = [name.removesuffix(f", {end}") if end else name for name, end in zip(names, ends, strict=True)]
    long = sum(label.count("\n") > 1 for label in room.wrapped(names, most, len(names)))
    if 4 * long < len(names) or 2 * len({*ends}) > len(names) or len({*zip(heads, ends, strict=True)}) < len(names):
        return found, [*names], [""] * len(names)
    first = {end: place for place, end in reversed([*enumerate(ends)])}
    order = sorted(range(len(names)), key=lambda place: (first[ends[place]], place))
    return found.iloc[order], [heads[place] for place in order], [ends[place] for place in order]


def short_names(found: pd.DataFrame) -> list[str]:
    """Return a text of contestant and graph for each line; a contestant or graph that all share is omitted."""
    cases = list(dict.fromkeys(zip(found.label, found.problem, strict=True)))
    by_case = dict(zip(cases, case_labels(cases, _LONGEST), strict=True))
    graphs = [by_case[each] for each in zip(found.label, found.problem, strict=True)]
    if len(set(found.called)) == 1 < len(set(graphs)):
        return graphs
    one_graph = len(set(graphs)) == 1
    pairs = zip(found.called, graphs, strict=True)
    texts = [" ".join(filter(None, [str(name), "" if one_graph else graph])) for name, graph in pairs]
    return [" ".join(text.split()) for text in texts]


def explain_bits(
    figure: Figure, found: pd.DataFrame, *, marked: bool = True, swept: Iterable[float] = (),
    others: Sequence[Any] = (), below: bool = True,
) -> None:  # fmt: skip
    """Add a legend of colours, and of markers if there are several, below the panels or above them.

    Colours are those of the bits in ``swept``, by default of the fewest bits of each contestant; ``others`` are further
    entries.
    """
    bits = sorted({*(list(swept) or found.fewest_bits)}, reverse=True)
    kinds = dict(zip(panels.kinds(found), panels.markers(found), strict=True))
    named = (
        {kind: kinds[kind] for kind in sorted(filter(None, kinds))} if 1 < len(kinds) <= len(panels.ALL_MARKERS) else {}
    )
    explain(figure, [*panels.key(bits, named if marked else {}), *others], below=below)


def explain(figure: Figure, entries: list[Artist], *, below: bool = True) -> None:
    """Write a legend below the panels or above them, which keep their height."""
    lines = panels.legend(figure, entries, most=50, below=below)
    figure.set_figheight(figure.get_figheight() + 0.14 * (lines - 1))


def marks_of(found: pd.DataFrame) -> dict[str, str]:
    """Return the marker of each contestant: that of its engine or layout, or an unused one, as grey has no colours."""
    chosen = dict[str, str]()
    for name, marker in dict(zip(found.called, panels.markers(found), strict=True)).items():
        free = [each for each in [marker, *panels.ALL_MARKERS] if each not in chosen.values()]
        chosen[name] = free[0] if free else marker
    return chosen


def key_of_contestants(found: pd.DataFrame, marks: dict[str, str]) -> tuple[list[Artist], bool]:
    """Return the entries of a legend for contestants, and whether some are hollow, as they have several colours."""
    lines = {}
    for name, part in found.groupby("called", sort=False):
        shades = {colour(bits) for bits in part.fewest_bits}
        look = {"color": shades.pop()} if len(shades) == 1 else {"color": NEUTRAL, "markerfacecolor": "white"}
        lines[str(name)] = {**look, "marker": marks[str(name)], "linestyle": "", "markersize": 4}
    entries = panels.key(lines=lines) if len(lines) > 1 else []
    return entries, any("markerfacecolor" in line for line in lines.values()) and bool(entries)


def unit(value: float, units: dict[str, float]) -> str:
    """Return the largest unit that is at most a value; the smallest unit if there is none."""
    return next((name for name, size in units.items() if value >= size), [*units][-1])
