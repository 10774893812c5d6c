"""Alternative texts of figures, read from what is drawn: quantity, counts and extremes of each panel.

For readers who cannot see a figure, a text states three things of each panel: the label of the axis of values; how many
marks, dots, strokes, bars or curves each entry of the legend has; and the least and the largest value, with the names
that the figure has for their places. Everything is read from Matplotlib's artists, so a text contains no value that is
not drawn. Intervals, lines of two points without marks, such as a reference, and lines across a whole panel are not
counted. The cost is one pass over the artists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpms.base.text.counted import counted
from cpms.base.text.escape import abbreviate
from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.palette import CUT, NEUTRAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_MOST_SERIES = 6
"""Most entries of a legend with extremes of their own; with more entries, a panel has common extremes."""
_LONGEST, _LONGEST_TEXT = 60, 1100
"""Most characters of a name in a text, and of a text whose panels have extremes of each series."""
_PLACES, _LABEL = "_cpms_places", "_cpms_label"
"""Attributes of an artist: the names of the places of its points, and its own name."""
_NUMBER = re.compile("[\\s\\d.,e\u00d7+\u2212\u207a\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079-]*")


class Series(NamedTuple):
    """The artists of one entry of the legend in a panel.

    Parameters
    ----------
    kind : str
        ``mark``, ``dot``, ``stroke``, ``bar`` or ``curve``.
    label : str
        Label of the entry, and of its colour.
    drawn : int
        Number of artists.
    values : list of float
        All values that are drawn, on the axis of values.
    places : list of str
        The name of the place of each value.
    """

    kind: str
    label: str
    drawn: int
    values: list[float]
    places: list[str]


def name_places(artist: Any, names: Iterable[object], label: str = "") -> None:
    """Give an artist names for the places of its points, which need not lie at ticks, and a label of its own."""
    setattr(artist, _PLACES, [f"{name:g}" if isinstance(name, int | float) else str(name) for name in names])
    setattr(artist, _LABEL, label)


def described(figure: Figure) -> str:
    """Return a figure in words, one sentence for each panel.

    A text that would be too long to be heard has common extremes of each kind of mark in a panel.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.subplots()
    >>> _ = axes.plot([3.0, 1.0, 2.0], range(3), "o", label="ours")
    >>> _ = axes.set_yticks(range(3), ["first", "second", "third"])
    >>> _ = axes.set_xlabel("times faster")
    >>> described(figure)
    'times faster: 3 marks (ours), from 1 (second) to 3 (first).'
    """
    text, brief = (
        " ".join(_sentence(figure, axes, most) for axes in figure.axes if axes.axison) for most in (_MOST_SERIES, 1)
    )
    return text if len(text) <= _LONGEST_TEXT else brief


def _sentence(figure: Figure, axes: Axes, most: int) -> str:
    """Return a panel in words, with extremes of at most so many series of a kind."""
    across = _is_named(axes.yaxis) or _has_lying_bars(axes)
    quantity = _label(figure, axes, across)
    head = ", ".join(filter(None, [_plain(axes.get_title()), quantity])) or "panel"
    found = list(_joined(_series(figure, axes), most))
    return f"{head}: {'; '.join(map(_clause, found)) if found else 'no values'}."


def _label(figure: Figure, axes: Axes, across: bool) -> str:
    """Return the common label of all panels and that of an axis, which may be shared with another panel."""
    of_all = figure.get_supxlabel() if across else figure.get_supylabel()
    shared = axes.get_shared_x_axes() if across else axes.get_shared_y_axes()
    own = [each.get_xlabel() if across else each.get_ylabel() for each in (axes, *shared.get_siblings(axes))]
    return " ".join(filter(None, map(_plain, [of_all, next(filter(None, own), "")])))


def _plain(text: str) -> str:
    return abbreviate(" ".join(text.split()), 2 * _LONGEST)


def _clause(series: Series) -> str:
    """Return a series in words: its number of artists, and its extremes."""
    label = f" ({series.label})" if series.label else ""
    what = counted(series.drawn, series.kind) + label
    known = [place for place, value in enumerate(series.values) if np.isfinite(value)]
    if not known:
        return what
    least, most = (pick(known, key=series.values.__getitem__) for pick in (min, max))
    texts = [_at(series.values[place], series.places[place]) for place in (least, most)]
    if len(known) == 1:
        return f"{what} at {texts[0]}"
    if three_digits(series.values[least]) == three_digits(series.values[most]):
        return f"{what} at {three_digits(series.values[least])}"
    return f"{what}, from {texts[0]} to {texts[1]}"


def _at(value: float, place: str) -> str:
    return f"{three_digits(value)} ({place})" if place else three_digits(value)


def _joined(found: Iterable[Series], most: int) -> Iterator[Series]:
    """Join series of one kind and label; with too many labels, join all of a kind and put labels at the extremes.

    Dots beside marks, such as the graphs of means, are joined in any case.
    """
    groups: dict[tuple[str, str], list[Series]] = {}
    for series in found:
        groups.setdefault((series.kind, series.label), []).append(series)
    kinds = [kind for kind, _ in groups]
    for kind in dict.fromkeys(kinds):
        own = {label: parts for (of_kind, label), parts in groups.items() if of_kind == kind}
        if len(own) <= (1 if kind == "dot" and "mark" in kinds else most):
            for label, parts in own.items():
                yield _pooled(kind, label, parts)
            continue
        labelled = [
            part._replace(places=[", ".join(filter(None, [place, part.label])) for place in part.places])
            for parts in own.values()
            for part in parts
        ]
        yield _pooled(kind, "", labelled)


def _pooled(kind: str, label: str, parts: Sequence[Series]) -> Series:
    return Series(
        kind, label, sum(part.drawn for part in parts),
        [value for part in parts for value in part.values], [place for part in parts for place in part.places],
    )  # fmt: skip


def _series(figure: Figure, axes: Axes) -> Iterator[Series]:
    """Yield the series of a panel: lines with marks, curves, bars and scattered points."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import ErrorbarContainer

    names = _Names(figure, axes)
    labels: dict[int, str] = {}
    caps = set()
    for each in axes.containers:
        if isinstance(each, ErrorbarContainer):
            caps |= {id(cap) for cap in each.lines[1]}
            labels[id(each.lines[0])] = str(each.get_label() or "")  # Early Matplotlib has None for no label.
    for line in axes.lines:
        if id(line) in caps or line.get_gid() == CUT or line.get_transform() is not axes.transData:
            continue
        points = np.asarray(line.get_xydata(), dtype=float)
        points_only = str(line.get_linestyle()).lower() in ("none", "", " ") or len(points) == 1
        marker = str(line.get_marker())
        is_marked = marker.lower() not in ("none", "", " ")
        if not len(points) or (not is_marked and (points_only or len(points) < 3)):
            continue
        label = names.of_line(line, labels.get(id(line), str(line.get_label())))
        kind = "curve"
        if points_only:
            kind = "stroke" if marker in "|_" else "dot" if marker == "." or line.get_alpha() is not None else "mark"
        values, places = names.read(points, line)
        yield Series(kind, label, len(values) if points_only else 1, values, places)
    yield from _bars(axes, names)
    for scattered in axes.collections:
        if isinstance(scattered, PathCollection) and scattered.get_offset_transform() is axes.transData:
            points = np.asarray(scattered.get_offsets(), dtype=float).reshape(-1, 2)
            values, places = names.read(points, scattered)
            yield Series("mark", _own(str(scattered.get_label())), len(values), values, places)


def _bars(axes: Axes, names: _Names) -> Iterator[Series]:
    """Yield the bars of each colour, and whole bars where they have parts."""
    from matplotlib.container import BarContainer

    bars = [(each, patch) for each in axes.containers if isinstance(each, BarContainer) for patch in each.patches]
    lengths: dict[tuple[float, str], float] = {}
    rows: list[tuple[float, str]] = []
    for container, patch in bars:
        lies = container.orientation == "horizontal"
        length = float(patch.get_width() if lies else patch.get_height())
        middle = float(patch.get_y() + patch.get_height() / 2 if lies else patch.get_x() + patch.get_width() / 2)
        if not np.isfinite(length) or length == 0:
            continue
        place = names.at(middle)
        row = (round(middle, 6), place)
        lengths[row] = lengths.get(row, 0.0) + length
        rows.append(row)
        label = names.of_bar(patch.get_facecolor(), str(container.get_label()))
        yield Series("bar", label, 1, [length], [place])
    if len(rows) > len(lengths):
        yield Series("whole bar", "", len(lengths), list(lengths.values()), [place for _, place in lengths])


class _Names:
    """Names of places and of series, which are read from the ticks and legends of a figure."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self._across = _is_named(axes.yaxis) or _has_lying_bars(axes)
        axis = axes.yaxis if self._across else axes.xaxis
        self._ticks = _ticks(axis) if _is_named(axis) else {}
        self._of_places = _label(figure, axes, not self._across)
        legends = [*figure.legends, *filter(None, [axes.get_legend()])]
        self._entries = [
            (handle, _plain(text.get_text()))
            for legend in legends
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False)
            if handle is not None and text.get_text().strip()
        ]

    def read(self, points: Any, artist: Any) -> tuple[list[float], list[str]]:
        """Return the values of points and the names of their places."""
        held = points[np.isfinite(points).all(axis=1)]
        given = getattr(artist, _PLACES, None)
        across = 1 if self._across else 0
        if given is not None and len(given) == len(points):
            kept = np.isfinite(points).all(axis=1)
            places = [self._named(name) for name, is_kept in zip(given, kept, strict=True) if is_kept]
        else:
            places = [self.at(place) for place in held[:, across]]
        return held[:, 1 - across].tolist(), places

    def at(self, place: float) -> str:
        """Return the name of a place on the axis across the values: that of its tick, or its number."""
        if not self._ticks:
            return self._named(three_digits(place))
        near = min(self._ticks, key=lambda tick: abs(tick - place))
        return self._ticks[near] if abs(near - place) <= 0.5 else ""

    def _named(self, name: str) -> str:
        return " = ".join(filter(None, [self._of_places, name])) if _NUMBER.fullmatch(name) else name

    def of_line(self, line: Any, given: str) -> str:
        """Return the labels of the legend's entries for a line's marks and for their colour."""
        own = _own(given) or getattr(line, _LABEL, "") or self._of_marks(line)
        bits = self._of_colour(line.get_color(), of_bits=True)
        return own if bits in own else ", ".join(filter(None, [own, bits]))

    def of_bar(self, shade: Any, given: str) -> str:
        """Return the label for a bar: of its colour's bits, else its own, else that of any entry of its colour."""
        return self._of_colour(shade, of_bits=True) or _own(given) or self._of_colour(shade, of_bits=False)

    def _of_marks(self, line: Any) -> str:
        """Return the entry of a line's marker, filled or hollow as the line's or else otherwise.

        The entry has the colour of the line, or that of marks that belong to no number of bits.
        """
        looks = [(handle, text) for handle, text in self._entries if not _is_of_bits(handle, text)]
        marker, _, is_pale = _look(line)
        for wanted in ([_look(line)], [(marker, is_hollow, is_pale) for is_hollow in (False, True)]):
            alike = [(handle, text) for handle, text in looks if _look(handle) in wanted]
            for shade in (line.get_color(), NEUTRAL):
                for handle, text in alike:
                    if _shade(_colour_of(handle)) == _shade(shade):
                        return text
        return ""

    def _of_colour(self, shade: Any, *, of_bits: bool) -> str:
        """Return the label of the first entry of a colour, among entries of bits alone or among all entries."""
        alike = [each for each in self._entries if _shade(_colour_of(each[0])) == _shade(shade)]
        return next((text for handle, text in alike if _is_of_bits(handle, text) or not of_bits), "")


def _is_of_bits(handle: Any, text: str) -> bool:
    """Return whether an entry of a legend states the bits of a colour."""
    return text.endswith(" bits") and _shade(_colour_of(handle)) != _shade(NEUTRAL)


def _own(label: str) -> str:
    """Return the label that a program gave an artist; Matplotlib's own begin with an underscore."""
    return "" if label.startswith("_") else _plain(label)


def _colour_of(handle: Any) -> Any:
    return handle.get_color() if hasattr(handle, "get_color") else handle.get_facecolor()


def _look(line: Any) -> tuple[str, bool, bool]:
    """Return the marker of a line or of an entry, whether it is hollow, and whether it is pale."""
    from matplotlib.colors import to_rgba

    if not hasattr(line, "get_marker"):
        return "", False, False
    face = to_rgba(line.get_markerfacecolor())
    return str(line.get_marker()), face[3] == 0 or face[:3] == (1.0, 1.0, 1.0), line.get_alpha() is not None


def _shade(colour: Any) -> tuple[float, ...] | None:
    """Return a colour without its transparency; None for an array of colours."""
    from matplotlib.colors import to_rgb

    try:
        return tuple(to_rgb(colour))
    except ValueError:
        return None


def _ticks(axis: Axis) -> dict[float, str]:
    places = np.asarray(axis.get_majorticklocs(), dtype=float).tolist()
    texts = axis.get_major_formatter().format_ticks(places)
    return {place: abbreviate(" ".join(text.split()), _LONGEST) for place, text in zip(places, texts, strict=True)}


def _is_named(axis: Axis) -> bool:
    """Return whether the ticks of an axis are names."""
    from matplotlib.category import StrCategoryLocator
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator | StrCategoryLocator):
        return False
    return any(not _NUMBER.fullmatch(text) for text in _ticks(axis).values())


def _has_lying_bars(axes: Axes) -> bool:
    return any(getattr(each, "orientation", "") == "horizontal" for each in axes.containers)
