"""Panels that share one column of names: a panel for each graph, so that the name of a contestant is written once.

Where results have one graph or one contestant, or most graphs one contestant, one panel has a name for each result.
The vertical axis is in inches, since names have one line or more. The panels have at most `MOST_IN` of height. As many
graphs as fit with all contestants are drawn, those with results of all first; if not even a row of panels fits, fewer
contestants are. A dash is in the row of a contestant without a result. The baseline and a user's plug-ins are always
drawn. The cost is a sort of the observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpms.base.text.escape import abbreviate
from cpms.experiment.report import panels
from cpms.experiment.report.generic.parts import lines_of_names
from cpms.experiment.report.generic.words import all_of, case_words, cases_in_all, cases_in_words
from cpms.experiment.report.page import room
from cpms.experiment.report.page.case_labels import case_labels
from cpms.experiment.report.palette import NEUTRAL
from cpms.experiment.report.style import WIDTHS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = {False: 2, True: 4}
"""Most panels side by side, in one column of a journal and in two."""
_MOST_ROWS = 4
"""Most panels one above the other."""
MOST_IN = 3.4
"""Most height of all panels and their titles, in inches; ticks, label and legend need about one more."""
_LINE_IN, _GAP_IN = 0.12, 0.1
"""Height of a line of a title, and of the space between a title and the panels, in inches."""
_MARGIN_IN = 0.12
"""Width of the space beside the names and beside a panel, in inches."""
_LEAST_PANEL_IN = 0.6
"""Least width of a panel of a row that has one more than usual, in inches."""
_LEAST_TITLE_IN = 0.5
"""Least width of a title, in inches."""
_TITLE_SHARE, _CHARACTER_PT = 0.775, 4.2
"""Width of panels over that of their figure before its layout, and width of a character of a title in points."""
_TICK_IN, _MOST_UNITS = 0.25, 4.0
"""Least distance of ticks in inches, and end of an axis from which its ticks may leave out 1."""
_FULL = {True: 0.67, False: 0.9}
"""Part of the results of all contestants on all graphs below which panels would have many gaps, by whether all fit."""
_TITLE_LINES = 3
"""Most lines of a title."""
_GAP_AT = 0.04
"""Place across a panel of the dash in the row of a contestant without a result, as a part of its width."""
_GAP: dict[str, Any] = {"fontsize": 7, "color": NEUTRAL, "va": "center_baseline"}
"""Look of this dash."""
_PARTS = re.compile(r"[^_:,=-]*[_:,=-]+|[^_:,=-]+")
"""Parts of a word between which a title may be divided."""


class Panel(NamedTuple):
    """A panel, the results in it, and the place of each along its vertical axis."""

    axes: Axes
    found: pd.DataFrame
    places: list[float]


class Multiples(NamedTuple):
    """A figure, its panels, the results in them, the names at the left, and a text about the results left out."""

    figure: Figure
    panels: list[Panel]
    found: pd.DataFrame
    names: list[str]
    text: str

    @property
    def columns(self) -> int:
        """The number of panels in a row."""
        return min(len(self.panels), _columns_of(self.panels[0].axes))


def multiples(
    found: pd.DataFrame, width: float, base: str | None, *, names: Sequence[str], cases: Sequence[str], order: str
) -> Multiples:
    """Return a panel for each graph that fits.

    Parameters
    ----------
    found : pandas.DataFrame
    width : float
        Width of the figure, in inches.
    base : str or None
        The contestant over which speed-ups are computed.
    names, cases : sequence of str
        Contestants from the top, and graphs from the left.
    order : str
        The quantity by which graphs have this order, for captions.
    """
    if 1 in (len(set(found.case)), len(set(found.called)), found.groupby("case").size().median()):
        figure, axes, places, found, some = lines_of_names(found, width, base)
        return Multiples(figure, [Panel(axes, found, places)], found, _texts(axes), some)
    cases, kept, labels, some = _fitting(found, width, base, names, cases)
    shown = found[found.case.isin(cases) & found.called.isin(kept)]
    cases = [case for case in cases if case in set(shown.case)]
    kept = [name for name in kept if name in set(shown.called)]
    heads = _heads(found, cases, list(labels.values()), width)
    heights = [room.line_height([labels[name]]) for name in kept]
    middles = dict(zip(kept, np.cumsum(heights) - np.array(heights) / 2, strict=True))
    columns = _columns(width, len(cases), list(labels.values()))
    rows = -(-len(cases) // columns)
    above = _above(list(heads.values()))
    figure, grid = panels.grid(
        width, len(cases), sum(heights) + above + 0.75 / rows, columns=(columns, columns), sharex=True, sharey=True
    )
    drawn = []
    for place, (panel, case) in enumerate(zip(grid, cases, strict=True)):
        part = shown[shown.case == case].reset_index(drop=True)
        drawn.append(Panel(panel, part, [float(middles[name]) for name in part.called]))
        panel.set_title(heads[case], fontsize=7)
        panel.tick_params(labelbottom=place + columns >= len(cases))
        for name in [each for each in kept if each not in {*part.called}]:
            panel.text(_GAP_AT, middles[name], "\u2013", transform=panel.get_yaxis_transform(), **_GAP)
    grid[0].set_yticks([*middles.values()], [labels[name] for name in kept])
    grid[0].set_ylim(sum(heights), 0.0)
    text = "".join(_left_out(found, cases, kept, order, len(shown))) + some
    return Multiples(figure, drawn, shown, [labels[name] for name in kept], text)


def label(made: Multiples, text: str, width: float) -> None:
    """Label the horizontal axes: below the panel, or once below all panels."""
    if len(made.panels) == 1:
        panels.label_below(made.panels[0].axes, text, width, made.names)
    else:
        made.figure.supxlabel(text, fontsize=8)


def panel_inches(names: Sequence[str], columns: int, width: float) -> float:
    """Return about the width of each panel of a row beside names."""
    longest = max((room.text_inches(line) for name in names for line in name.split("\n")), default=0.0)
    return (width - longest - _MARGIN_IN) / columns - _MARGIN_IN


def few_ticks(axes: Axes, width_in: float, *, unit: bool = False) -> None:
    """Give a linear horizontal axis as many ticks as fit into a panel; with ``unit``, one of them is at 1."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    end = axes.get_xlim()[1]
    if unit and end < _MOST_UNITS:
        step = next((step for step in (0.2, 0.5) if step / end * width_in >= _TICK_IN), 1.0)
        axes.xaxis.set_major_locator(FixedLocator(np.arange(0.0, end, step).round(1).tolist()))
        return
    axes.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(5, int(width_in / _TICK_IN))), steps=[1, 2, 2.5, 5, 10]))


def _texts(axes: Axes) -> list[str]:
    return [each.get_text() for each in axes.get_yticklabels()]


def _columns_of(axes: Axes) -> int:
    place = axes.get_subplotspec()
    return 1 if place is None else int(place.get_gridspec().ncols)


def _columns(width: float, count: int = 0, names: Sequence[str] = ()) -> int:
    """Return the most panels in a row, which are one more where this gives all panels one row and width enough."""
    most = _COLUMNS[width > WIDTHS["single"]]
    return most + 1 if count == most + 1 and panel_inches(names, count, width) >= _LEAST_PANEL_IN else most


def _heads(found: pd.DataFrame, cases: Sequence[str], names: Sequence[str], width: float) -> dict[str, str]:
    """Return the titles of panels, in as many lines as they need."""
    first = found.drop_duplicates("case").set_index("case")
    columns = min(len(cases), _columns(width, len(cases), names))
    panel = panel_inches(names, columns, width)
    given = [(first.label[case], first.problem[case]) for case in cases]
    fits = _TITLE_SHARE * 72 * width / (columns + 0.2 * (columns - 1)) / _CHARACTER_PT

    def of_width(inches: float) -> list[list[str]]:
        most = max(_LEAST_TITLE_IN, inches)
        heads = case_labels(given, int(_TITLE_LINES * most / room.CHARACTER_IN))
        lines = [_lines(head, most, max(8, int(fits))) for head in heads]
        return [
            _lines(head, most, max(8, int(fits)), ends=True) if lines.count(line) > 1 else line
            for head, line in zip(heads, lines, strict=True)
        ]

    heads = of_width(panel + _MARGIN_IN)
    if sum(max(map(room.text_inches, head)) > panel for head in heads) > 1:  # Two beside each other would touch.
        heads = of_width(panel)
    return {case: "\n".join(head) for case, head in zip(cases, heads, strict=True)}


def _lines(title: str, most: float, characters: int = 60, *, ends: bool = False) -> list[str]:
    r"""Return a title in lines of at most some inches and characters: longer words are divided after a mark, or cut.

    Of a word that is cut, beginning and end are kept, or with ``ends`` the end alone.

    Examples
    --------
    >>> _lines("luxembourg_osm", 0.7), _lines("graph", 0.7)
    (['luxembourg_', 'osm'], ['graph'])
    """
    rows = list[str]()
    for word in title.split():
        parts = [word] if room.text_inches(word) <= most else _PARTS.findall(word)
        for place, part in enumerate(parts):
            joined = f"{rows[-1]}{'' if place else ' '}{part}" if rows else part
            fits = not rows or (room.text_inches(joined) <= most and len(joined) <= characters)
            rows[-1:] = [joined] if fits else [rows[-1], part]
    for place, row in enumerate(rows):
        texts = (_end(row, size) if ends else abbreviate(row, size) for size in range(len(row), 3, -1))
        rows[place] = next((text for text in texts if room.text_inches(text) <= most), abbreviate(row, 4))
    return rows


def _end(text: str, size: int) -> str:
    """Return the last characters of a text, after an ellipsis where it is longer.

    Examples
    --------
    >>> _end("rmat", 4), _end("measured2.mtx", 6)
    ('rmat', '…2.mtx')
    """
    return text if len(text) <= size else f"\u2026{text[1 - size :]}"


def _above(heads: Sequence[str]) -> float:
    """Return the height of the part of a row of panels that is above them."""
    return _GAP_IN + _LINE_IN * max(head.count("\n") + 1 for head in heads)


def _fitting(
    found: pd.DataFrame, width: float, base: str | None, names: Sequence[str], cases: Sequence[str]
) -> tuple[list[str], list[str], dict[str, str], str]:
    """Return the graphs and contestants that fit, the labels of all contestants, and a text about those left out."""
    labels = dict(zip(names, room.wrapped(names, room.name_length(width), room.MOST_LINES), strict=True))
    columns = _columns(width)

    def fits(chosen: Sequence[str], kept: Sequence[str]) -> bool:
        above = _above([*_heads(found, chosen, list(labels.values()), width).values()])
        each = above + sum(room.line_height([labels[name]]) for name in kept)
        return -(-len(chosen) // _columns(width, len(chosen), list(labels.values()))) * each <= MOST_IN

    if not fits(cases, names):
        compared = {*found[found.called == base].case}
        cases = [case for case in cases if case in compared] or cases  # Else these compare with nothing.
    for among, kept, text in _without_gaps(found, cases, names, base, fits(cases, names)):
        for count in _counts(len(among), columns):
            chosen = room.evenly(among, count) if count > 1 else list(among[-1:])
            if (count > 1 or among == cases) and fits(chosen, kept):
                return chosen, kept, labels, text
    own = {*room.own_names(found), base}
    inner = found[found.case.isin(cases)]
    measured = [name for name in names if name in set(inner.called)]
    kept, text = room.whole_series(
        inner, measured, [name for name in measured if name in own], lambda few: fits(chosen, few)
    )
    counts = inner[inner.called.isin(kept)].groupby("case").size()
    full = [case for case in cases if counts.get(case, 0) == len(kept)]
    full = full if len(full) > 1 else [case for case in cases if 2 * counts.get(case, 0) >= counts.max()]
    held = [*(count for count in _counts(len(full), columns) if count > 1), 1]
    chosen = next((each for count in held if fits(each := room.evenly(full, count), kept)), room.evenly(full, columns))
    return chosen, kept, labels, text


def _without_gaps(
    found: pd.DataFrame, cases: Sequence[str], names: Sequence[str], base: str | None, fit: bool
) -> Iterator[tuple[list[str], list[str], str]]:
    """Yield graphs and contestants to draw, with a text, from the preferred ones.

    Several graphs with results of all contestants come first, unless all graphs fit and have nearly all results. If
    there are none, and a part of the results of all graphs lacks, graphs with results of the same contestants come
    next, of which these have the most. All graphs come last.
    """
    own = {*room.own_names(found), base}
    held = {case: {*found.called[found.case == case]} & {*names} for case in cases}
    whole = [case for case in cases if len(held[case]) == len(names)]
    has_gaps = sum(map(len, held.values())) < _FULL[fit] * len(cases) * len(names)
    if 1 < len(whole) < len(cases) and (has_gaps or (not fit and 2 * len(whole) >= len(cases))):
        yield whole, list(names), "; those drawn have all contestants"
    alike = [[case for case in cases if held[case] >= some] for some in held.values()]
    common = [set.intersection(*(held[case] for case in each)) for each in alike]
    several = [
        (len(some), len(each), each)
        for some, each in zip(common, alike, strict=True)
        if len(each) > 1 and len(some) > 1 and 2 * len(some) >= len(names) and some >= own & {*names}
    ]
    if several and len(whole) < 2 and has_gaps:
        _, _, among = max(several, key=lambda each: each[:2])
        kept = set.intersection(*(held[case] for case in among))
        left = [name for name in names if name not in kept]
        text = f"; {len(kept)} of {len(names)} contestants, with results on all of these"
        text += f"; left out: {some}" if (some := all_of(left)) else ""
        yield among, [name for name in names if name in kept], text
    yield list(cases), list(names), ""


def _counts(cases: int, columns: int) -> Iterator[int]:
    """Yield the numbers of graphs to try, from the most: all, or whole rows of panels."""
    if cases <= columns * _MOST_ROWS:
        yield cases
    yield from (columns * rows for rows in range(_MOST_ROWS, 0, -1) if columns * rows < cases)


def _left_out(found: pd.DataFrame, cases: Sequence[str], kept: Sequence[str], order: str, drawn: int) -> Iterator[str]:
    """Yield texts about the panels, and about the graphs, contestants and results that are not drawn."""
    yield f"; a panel for each {' and '.join(case_words(found))}"
    of_cases = cases_in_all(found)
    if len(cases) < of_cases:
        yield f"; {len(cases)} of {of_cases} {cases_in_words(found)}, evenly chosen by {order}"
    if drawn < len(cases) * len(kept):
        yield "; \u2013: no such result"
