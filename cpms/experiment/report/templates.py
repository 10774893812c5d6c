"""Figures of any experiment, drawn from its rows without a program: one function of a few lines each.

A colour means bits and a marker the engine or layout, in every figure. Times are medians, compared on one graph and at
one tolerance; speed-ups are geometric means over graphs with the percentile interval of the bootstrap (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13), over graphs and over the samples of each. Figures are
as wide as one column of a journal or two, with text of at least 7 points at that size. The cost is that of Matplotlib.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cpms.base.errors import InputError
from cpms.base.text.escape import abbreviate
from cpms.experiment.report import captions, panels
from cpms.experiment.report.intervals import bootstrap
from cpms.experiment.report.observations import observations
from cpms.experiment.report.palette import NEUTRAL, colour, nearest
from cpms.experiment.report.style import STYLE, inches
from cpms.experiment.rows.rows import Row

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 20.0
"""Quotient of the slowest times of graphs from which on each graph has a scale of its own."""
_MOST_HISTORIES = 6
_MARKS_OF_HISTORY = 10
"""About so many marks tell a history from others; more would cover each other."""
_MIXED = "#b0b0b0"
"""Of bars whose time by bits is not recorded: sweeps of several numbers of bits, or of one that rows lack."""
_FEWEST = "; colour: fewest bits that a sweep reads"


class Drawing(NamedTuple):
    """A figure with its texts.

    Parameters
    ----------
    name : str
        The name of the template.
    figure : matplotlib.figure.Figure
    caption : str
        What is shown, machine, commit, repetitions and spread.
    alt : str
        Alternative text: the figure in words, with the ends of its range.
    experiment : str
    cells : list of str
        The rows that it is drawn from.
    """

    name: str
    figure: Figure
    caption: str
    alt: str
    experiment: str
    cells: list[str]


def drawings(rows: Sequence[Row], *, width: str = "single", baseline: str | None = None) -> Iterator[Drawing]:
    """Yield the figures that the rows of one experiment allow.

    Parameters
    ----------
    rows : sequence of dict
        Of one experiment.
    width : str
        ``single`` or ``double``, see `cpms.experiment.report.style.WIDTHS`.
    baseline : str, optional
        Part of the name of the contestant that speed-ups are over; by default the first that stores float64.

    Raises
    ------
    InputError
        If the width or the baseline does not exist.
    """
    import matplotlib

    size = inches(width)
    found = observations(rows)
    if found.empty:
        return
    for name, template in TEMPLATES.items():
        with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
            made = template(found, size, baseline)
        if made is not None:
            cells = [row["cell"] for row in rows if row["status"] == "ok"]
            named = f" Contestants are named by {found.named_by.iloc[0]}." if found.named_by.iloc[0] else ""
            what = f"Experiment {rows[0]['experiment']}: {made[1]}.{named}"
            caption = f"{what} {captions.provenance(rows, list(found.samples))}"
            yield Drawing(name, made[0], caption, made[2], rows[0]["experiment"], cells)


Made = tuple["Figure", str, str] | None


def time_by_precision(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the time of each contestant as a bar, stacked by the bits that were read, and its preparation.

    Where the times of graphs are far apart, each graph has a scale of its own.
    """
    found = found[found.seconds > 0]
    if found.empty:
        return None
    longest, apart = found.prepare.max(), ""
    if longest > 10 * found.seconds.max():  # Nothing else would be seen beside it.
        apart, found = f"; preparation, up to {longest:.3g} s, is not drawn", found.assign(prepare=0.0)
    figure, axes, places, found, some = _groups(found, width, _baseline(found, baseline))
    total = found.seconds + found.prepare
    slowest = total.groupby(found.case).transform("max")
    relative = slowest.max() > _APART * slowest.min() and bool((found.groupby("case").size() > 1).any())
    unit, scale = ("ms", 1e3) if total.max() < 0.1 else ("s", 1.0)
    scales = (1 / slowest if relative else scale * slowest**0).to_numpy()
    mixed = scales * np.where(found.by_bits.map(bool), 0.0, found.seconds)
    axes.barh(places, mixed, color=_MIXED, height=0.7)
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
    panels.state_small(axes, (scales * total.to_numpy()).tolist(), places)
    label = "time over the slowest of the graph" if relative else f"time in {unit}"
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, label + ("; hatched: preparation" if prepared else ""), width, names)
    _legend(figure, found, marked=False, by_sweep=True, mixed=bool(mixed.any()))
    texts = [
        "median time by bits read",
        ", over the slowest time of the graph" if relative else "",
        "; grey: sweeps of several numbers of bits, or of one that the rows lack" if mixed.any() else "",
        "; lines: from least to most of the samples" if spread.any() else "",
        apart + some,
        "; *: generated stand-in" if any(map(captions.stands_in, found.graph)) else "",
    ]
    return figure, "".join(texts), _range_of(found, "seconds", "Bars of the time", "s")


def speedup(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the speed-up of each contestant over the baseline, with a bootstrap interval of 95 percent."""
    base = _baseline(found, baseline)
    lines = speedups(found, baseline)
    if base is None or not lines:
        return None
    over = f"graphs{' and problems' if any(found.problem) else ''}"
    figure, axes, table, some = _lines(pd.DataFrame(lines).sort_values("speedup", ascending=False), width)
    several = len(set(panels.kinds(table))) < len(table)  # Else each line is named by its engine.
    marker = panels.markers(table) if several else "o" * len(table)
    for place, line in enumerate(_each(table)):
        error = [[line.speedup - line.low], [line.high - line.speedup]]
        axes.errorbar(
            line.speedup, place, xerr=error, color=colour(line.fewest_bits), marker=marker[place], markersize=4
        )
    axes.axvline(1.0, color=NEUTRAL, linewidth=0.6)
    panels.logarithmic(axes, most=5)
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, f"speed-up over {abbreviate(base, 80)}", width, names)
    _legend(figure, table, marked=several)
    mean = f", geometric mean over {over}" if len(set(found.case)) > 1 else ""
    text = f"speed-up over {base}{mean}, with 95 % bootstrap interval{_FEWEST}{some}"
    return figure, text, _range_of(table, "speedup", f"Points of the speed-up over {base}", "times")


_SPEED, _GROWS = ("speedup", "low", "high"), "RANKS"
"""Columns, and a word in the names of graphs that grow with the ranks."""


def speedups(found: pd.DataFrame, baseline: str | None = None) -> list[dict[str, Any]]:
    """Return the observation of each other contestant with its ``speedup`` over the baseline, ``low`` and ``high``.

    Times of one graph and of one problem on it are compared, so that a looser tolerance is no speed-up. Graphs that
    grow with the number of ranks are left out.
    """
    base = _baseline(found, baseline)
    found = found[(found.seconds > 0) & ~found.graph.astype(str).str.contains(_GROWS)]
    if base is None:
        return []
    samples = {line.case: line.samples for line in _each(found[found.called == base])}
    lines = []
    for name, group in found[found.case.isin(samples)].groupby("called", sort=False):
        if name != base:
            pairs = [(samples[line.case], line.samples) for line in _each(group)]
            first = {**group.iloc[0], "contestant": name, "graph": "", "problem": "", "case": ""}
            bits = {"fewest_bits": group.fewest_bits.min()}
            lines.append({**first, **bits, **dict(zip(_SPEED, bootstrap(pairs), strict=True))})
    return lines


def residuals(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw residual against iteration, each stretch in the colour of the bits that were read."""
    del baseline
    held = found[found.history.map(bool)]
    found = held.iloc[:_MOST_HISTORIES]
    if found.empty:
        return None
    figure, axes = _panel(width, 2.4)
    for place, (marker, line) in enumerate(zip(panels.ALL_MARKERS, _each(found), strict=False)):
        iterations, values, bits = (np.array(each) for each in zip(*line.history, strict=True))
        step = max(1, len(bits) // _MARKS_OF_HISTORY)
        marked = np.arange(len(bits))[place * step // len(found) :: step]
        ends = [0, *(np.flatnonzero(np.diff(bits)) + 1), len(bits)]
        for start, end in itertools.pairwise(ends):
            at = slice(max(start - 1, 0), end)
            axes.plot(iterations[at], values[at], color=colour(bits[start]), zorder=1)
        shades = [colour(each) for each in bits[marked]]
        axes.scatter(
            iterations[marked], values[marked], s=9, c=shades, marker=marker, zorder=2, linewidths=0, clip_on=False
        )
    panels.logarithmic(axes, "y")
    axes.set(xlabel="iteration", ylabel="residual")
    named = dict(zip(_short_names(found), panels.ALL_MARKERS, strict=False))
    swept = {int(each) for line in found.history for _, _, each in line}
    _explain(figure, panels.key(sorted({nearest(each) for each in swept}), named))
    last = min(line[-1][1] for line in found.history)
    some = f"; {len(found)} of {len(held)} solves" if len(found) < len(held) else ""
    return (
        figure,
        f"residual against iteration by bits read{some}",
        f"{len(found)} falling curves; the least ends at {last:.1e}.",
    )


def traffic(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw time against bytes, coloured by bits."""
    del baseline
    found = found[(found.seconds > 0) & (found.traffic > 0)]
    if not _relates(found.traffic):
        return None
    figure, axes = _scatter(found, width, "traffic", "seconds")
    names = captions.in_words(found.traffic_name)
    panels.logarithmic(axes, most=5)
    panels.logarithmic(axes, "y")
    axes.set(xlabel=names, ylabel="time in s")
    return figure, f"time against {names}{_FEWEST}", _range_of(found, "seconds", "Points of the time", "s")


def error_by_bits(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the error against the mean number of bits read."""
    from matplotlib.ticker import MultipleLocator

    del baseline
    found = found[(found.error > 0) & (found.bits > 0)]
    if not _relates(found.bits):
        return None
    figure, axes = _scatter(found, width, "bits", "error")
    names = captions.in_words(found.error_name)
    panels.logarithmic(axes, "y")
    span = found.bits.max() - found.bits.min()
    axes.xaxis.set_major_locator(MultipleLocator(8.0 if span > 24 else 4.0 if span > 10 else 2.0))
    axes.set(xlabel="bits read, mean over iterations", ylabel=names)
    text = f"{names}, against the mean of the bits read{_FEWEST}"
    return figure, text, _range_of(found, "error", "Points of the error", "")


TEMPLATES: dict[str, Callable[[pd.DataFrame, float, str | None], Made]] = {
    "time": time_by_precision,
    "speedup": speedup,
    "residual": residuals,
    "traffic": traffic,
    "error": error_by_bits,
}
"""The templates by name; a figure's file has the name of its experiment and of its template."""


def _relates(across: pd.Series[float]) -> bool:
    """Return whether points are enough to show how something depends on a quantity: three, not all in one place."""
    return len(across) >= 3 and bool(across.min() < across.max())


def _range_of(found: pd.DataFrame, column: str, what: str, unit: str) -> str:
    ordered: list[Any] = [each for _, each in found.sort_values(column).iterrows()]
    least, most = ordered[0], ordered[-1]
    texts = [f"{each[column]:.3g} {unit}".strip() + f" ({_named(each)})" for each in (least, most)]
    return f"{what} of {len(found)} contestants, from {texts[0]} to {texts[1]}."


def _each(found: pd.DataFrame) -> list[Any]:
    """Return the lines of a table as named tuples."""
    return list(found.itertuples())


def _named(line: Any) -> str:
    graph = str(line.graph) if isinstance(line.graph, str) else ""
    return " ".join(filter(None, [line.called, graph, line.problem]))


def _baseline(found: pd.DataFrame, baseline: str | None) -> str | None:
    """Return the contestant that speed-ups are over; None if there is one contestant alone."""
    names: list[str] = list(dict.fromkeys(found.called))
    if baseline is not None:
        match = next((name for name in names if name == baseline), None)
        match = match or next((name for name in names if baseline in name), None)
        if match is None:
            raise InputError(f"no contestant is called {baseline!r}; there is {', '.join(names[:12])}")
        return match
    if len(names) < 2:
        return None
    counts = found.groupby("called").case.nunique().to_dict()
    return max(names, key=lambda name: ("fp64" in name, counts.get(name, 0)))


def _panel(width: float, height: float) -> tuple[Figure, Axes]:
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")


def _lines(found: pd.DataFrame, width: float) -> tuple[Figure, Axes, pd.DataFrame, str]:
    """Return a panel with contestants along its vertical axis, those that it has room for, and a text about others."""
    found, labels, some = panels.fitting(found, _short_names(found), width)
    figure, axes = _panel(width, 0.9 + panels.line_height(labels) * len(found))
    axes.set_yticks(range(len(found)), labels)
    axes.set_ylim(len(found) - 0.5, -0.5)
    return figure, axes, found, some


def _short_names(found: pd.DataFrame) -> list[str]:
    """Return contestants and graphs as one text each, without that of both which all have in common."""
    graphs = [captions.case_label(*each) for each in zip(found.graph, found.problem, strict=True)]
    if len(set(found.called)) == 1 < len(set(graphs)):
        return graphs
    one_graph = len(set(graphs)) == 1
    pairs = zip(found.called, graphs, strict=True)
    named = [" ".join(filter(None, [str(name), "" if one_graph else graph])) for name, graph in pairs]
    return [" ".join(name.split()) for name in named]


def _groups(found: pd.DataFrame, width: float, base: str | None) -> tuple[Figure, Axes, list[int], pd.DataFrame, str]:
    """Return a panel of names below the name of their graph, the place of each line, those shown, and a text."""
    if len(set(found.case)) == 1 or len(set(found.called)) == 1:
        figure, axes, found, some = _lines(found.sort_values("seconds"), width)
        return figure, axes, list(range(len(found))), found, some
    found, labels, some = panels.comparable(found, width, base)
    places, ticks, before = list[int](), list[str](), None
    for line in _each(found):
        if line.case != before:
            ticks.append(f"{captions.case_label(line.graph, line.problem, 38 if width < 5 else 44)}:")
            before = line.case
        places.append(len(ticks))
        ticks.append(labels[line.called])
    figure, axes = _panel(width, 0.9 + panels.line_height(ticks) * len(ticks))
    axes.set_yticks(range(len(ticks)), ticks)
    for at, tick in enumerate(axes.yaxis.get_major_ticks()):
        tick.tick1line.set_visible(at in places)
        tick.label1.set_fontstyle("normal" if at in places else "italic")
    axes.set_ylim(len(ticks) - 0.5, -0.5)
    return figure, axes, places, found, some


def _scatter(found: pd.DataFrame, width: float, x: str, y: str) -> tuple[Figure, Axes]:
    figure, axes = _panel(width, 2.4)
    marker = panels.markers(found)
    for each in dict.fromkeys(marker):
        part = found[[one == each for one in marker]]
        axes.scatter(
            part[x],
            part[y],
            s=9,
            c=[colour(bits) for bits in part.fewest_bits],
            marker=each,
            linewidths=0,
            clip_on=False,
        )
    _legend(figure, found)
    return figure, axes


def _legend(
    figure: Figure, found: pd.DataFrame, *, marked: bool = True, by_sweep: bool = False, mixed: bool = False
) -> None:
    """Explain colours and, where there are several, markers, below the panel.

    Colours are of the fewest bits of each contestant, or ``by_sweep`` of the bits that its sweeps read, which some
    lack if ``mixed``.
    """
    swept = {bits for each in found.by_bits for bits in each} if by_sweep else set(found.fewest_bits)
    bits = sorted({nearest(each) for each in swept}, reverse=True)
    kinds = dict(zip(panels.kinds(found), panels.markers(found), strict=True))
    named = (
        {kind: kinds[kind] for kind in sorted(filter(None, kinds))} if 1 < len(kinds) <= len(panels.ALL_MARKERS) else {}
    )
    grey = {"not recorded by bits": {"color": _MIXED, "marker": "s", "linestyle": ""}} if mixed else {}
    _explain(figure, panels.key(bits[:8], named if marked else {}, grey))


def _explain(figure: Figure, entries: list[Artist]) -> None:
    """Write a legend below the panels, which keep their height."""
    lines = panels.legend(figure, entries, below=True)
    figure.set_figheight(figure.get_figheight() + 0.14 * (lines - 1))
