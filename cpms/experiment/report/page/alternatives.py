"""Alternative texts of figures, from what they draw: how many marks, of what, and the least and the most with labels.

Names are those of the picture: of rows, of panels, and of the legend's entries that look like a mark. So the text
cannot state a number that the picture does not show. The cost is one pass over the marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.palette import CUT, NEUTRAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class _Mark(NamedTuple):
    """A mark of a panel: its value, and what the picture calls it."""

    value: float
    names: str


def marks_in_words(figure: Figure, *, dots: bool = True) -> str:
    """Return the marks of panels with named rows as sentences: what their axis is, how many, the least and the most.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        With its legend and its labels.
    dots : bool
        False if pale dots, such as those around a mean, are not counted.
    """
    shown = [axes for axes in figure.axes if axes.axison]
    shared = figure.get_supxlabel().split("\n")[0]
    texts = list[str]()
    for axes in shown:
        marks = _marks(axes, figure, dots)
        head = ", ".join(filter(None, [axes.get_title().replace("\n", " "), axes.get_xlabel()]))
        of_panel = f"{_capital(head)}: " if head else ""
        texts.append(f"{of_panel}{_extremes(marks)}.")
    if not shared:
        return " ".join(texts)
    return " ".join([f"{_capital(shared)}{'.' if len(texts) > 1 else ':'}", *texts])


def _extremes(marks: list[_Mark]) -> str:
    """Return the number of marks, and the least and the most."""
    if not marks:
        return "no marks"
    least, most = (choose(marks, key=lambda mark: mark.value) for choose in (min, max))
    if len(marks) == 1:
        return f"1 mark, at {three_digits(least.value)} ({least.names})"
    return (
        f"{len(marks)} marks, from {three_digits(least.value)} ({least.names}) to {three_digits(most.value)} "
        f"({most.names})"
    )


def _marks(axes: Axes, figure: Figure, dots: bool) -> list[_Mark]:
    places = np.asarray(axes.get_yticks(), dtype=float).tolist()
    labels = axes.yaxis.get_major_formatter().format_ticks(places)  # Inner panels hide their labels.
    names = {round(at): text for at, text in zip(places, labels, strict=True)}
    found = list[_Mark]()
    for line in axes.lines:
        is_dot = not dots and line.get_alpha() is not None
        if line.get_marker() in ("", "None", None) or is_dot or line.get_gid() == CUT:
            continue
        looks = _called(line, figure)
        for value, row in np.asarray(line.get_xydata(), dtype=float):
            if np.isfinite(value) and np.isfinite(row):
                name = names.get(round(row), "").replace("\n", " ")
                called = [name, *(look for look in looks if look not in name)]
                found.append(_Mark(float(value), ", ".join(filter(None, called))))
    return found


def _called(line: Line2D, figure: Figure) -> list[str]:
    """Return the entries of the legend that look like a mark: of its colour, and of its shape."""
    entries: list[Any] = [entry for legend in figure.legends for entry in legend.legend_handles]
    found = list[str]()
    for entry in entries:
        name, shape = str(entry.get_label()).replace("\n", " ").strip(), getattr(entry, "get_marker", str)()
        own = _colour_of(entry) == _colour_of(line)
        alike = shape == line.get_marker() and _hollow(entry) == _hollow(line) and entry.get_alpha() == line.get_alpha()
        if (own if shape in ("", "None", None) else alike and (own or _colour_of(entry) == NEUTRAL)) and name:
            found.append(name)
    return found


def _colour_of(artist: Any) -> Any:
    return artist.get_color() if hasattr(artist, "get_color") else artist.get_facecolor()


def _hollow(line: Any) -> bool:
    return str(line.get_markerfacecolor()) in ("none", "white")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
