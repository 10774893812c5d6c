"""Figures as files: every text is escaped for Matplotlib's mathtext and abbreviated. No other module saves figures."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.atomic_files import replacing
from cpms.base.text import escape
from cpms.experiment.report.page.nested import lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_ENDINGS: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
"""File types of a figure, with metadata that leave out the time, so that equal figures are equal files."""
ENDINGS = tuple(_ENDINGS)
_DESCRIPTION = {".pdf": "Subject", ".svg": "Description", ".png": "Description"}
"""The metadata field of each type for the alternative text."""
_LONGEST_NAME = 44
"""Most characters of a name at a tick."""
_LONGEST_ENTRY = 52
"""Most characters of an entry of a legend, and of a title unless its panel is wider."""
_LONGEST_LABEL = 160
"""Most characters of a label of an axis or of a figure."""


def save(figure: Figure, stem: Path, endings: Sequence[str] = ENDINGS) -> list[Path]:
    """Write a figure as ``.pdf``, ``.svg`` and ``.png``, or some of these, close it, and return the paths.

    The label of the figure becomes the alternative text in the metadata of the files. Texts are shown as they are: no
    character of them is markup, and long names are abbreviated. A figure with an empty panel is not written, and the
    list of paths is then empty.
    """
    import matplotlib.pyplot as plt

    written = []
    try:
        if not figure.axes or any(axes.axison and not _shows_data(axes) for axes in figure.axes):
            return []
        _escape(figure)
        _centre(figure)
        for ending in endings:
            metadata = _ENDINGS[ending]
            path = stem.with_name(stem.name + ending)
            with replacing(path) as temporary:
                alt = escape.terminal(str(figure.get_label()))
                described = {"Title": stem.name, _DESCRIPTION[ending]: alt} if alt else {}
                figure.savefig(temporary, metadata={**metadata, **described})
            written.append(path)
    finally:
        plt.close(figure)
    return written


def svg(figure: Figure) -> str:
    """Return a figure as SVG with text elements, and close it; the result is empty if a panel is."""
    import matplotlib
    import matplotlib.pyplot as plt

    held = io.StringIO()
    try:
        if any(axes.axison and not _shows_data(axes) for axes in figure.axes):
            return ""
        _escape(figure)
        _centre(figure)
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            figure.savefig(held, format="svg", metadata=_ENDINGS[".svg"])
    finally:
        plt.close(figure)
    return held.getvalue()


def _shows_data(axes: Axes) -> bool:
    """Return whether a panel shows data; lines across the whole panel, such as limits, are not data."""
    lines = (line for line in axes.lines if line.get_transform() is axes.transData)
    drawn = any(np.isfinite(np.asarray(line.get_xydata(), dtype=float)).all(axis=1).any() for line in lines)
    bars = any(np.isfinite(bar.get_window_extent().extents).all() for bar in axes.patches)
    return drawn or bars or bool(axes.images) or any(np.size(each.get_offsets()) for each in axes.collections)


def _escape(figure: Figure) -> None:
    for text in _texts(figure):
        text.set_text("\n".join(escape.mathtext(line, _LONGEST_ENTRY) for line in text.get_text().split("\n")))
    for axes in figure.axes:
        most = _title_characters(figure, axes)
        axes.title.set_text("\n".join(_wrapped(line, most) for line in axes.get_title().split("\n")))
    labels = [axis.label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    for label in (*figure.texts, *labels):
        label.set_text("\n".join(escape.mathtext(line, _LONGEST_LABEL) for line in label.get_text().split("\n")))
        label.set_wrap(label not in figure.texts or label.get_rotation() == 0)  # A turned text would leave the page.
    shared = {id(axis.major): axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)}
    for axis in shared.values():
        _escape_ticks(axis)


def _centre(figure: Figure) -> None:
    """Move the common label below the panels to their middle, as far as it remains within the figure."""
    label = next((text for text in figure.texts if text.get_text() and text.get_text() == figure.get_supxlabel()), None)
    if label is None:
        return
    lay_out(figure)
    ends = [axes.get_position() for axes in figure.axes if axes.axison]
    middle = (min(each.x0 for each in ends) + max(each.x1 for each in ends)) / 2
    half = label.get_window_extent().width / figure.bbox.width / 2 + 0.01
    label.set_x(min(max(middle, half), max(0.5, 1 - half)))


def _escape_ticks(axis: Axis) -> None:
    """Escape ticks that are names; matplotlib formats numbers itself, with powers of ten as mathtext."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    if isinstance(formatter, FuncFormatter | FixedFormatter | StrCategoryFormatter):
        names = formatter.format_ticks(np.asarray(axis.get_majorticklocs()).tolist())
        plain = ["\n".join(escape.mathtext(line, _LONGEST_NAME) for line in name.split("\n")) for name in names]
        if plain != names:
            axis.set_ticks(axis.get_majorticklocs(), labels=plain)


def _texts(figure: Figure) -> Iterator[Text]:
    """Yield the texts in panels and the entries of legends."""
    legends = list(figure.legends)
    for axes in figure.axes:
        yield from axes.texts
        legend = axes.get_legend()
        legends += [] if legend is None else [legend]
    for legend in legends:
        yield from legend.get_texts()


def _title_characters(figure: Figure, axes: Axes) -> int:
    """Return the approximate number of characters of a title as wide as its panel, before names narrow this one.

    Titles are then divided alike whether or not the figure has been laid out.
    """
    place = axes.get_subplotspec()
    width = axes.get_position().width if place is None else place.get_position(figure).width
    panel_pt = 72 * figure.get_figwidth() * width
    return max(8, int(panel_pt / (0.6 * float(axes.title.get_fontsize()))))


def _wrapped(title: str, most: int) -> str:
    text = escape.terminal(escape.abbreviate(title, max(_LONGEST_ENTRY, most)))
    longest = max(map(len, text.split()), default=0)  # Only a word that has no room in a line is divided.
    lines = textwrap.wrap(text, most, break_long_words=False, break_on_hyphens=longest > most)
    return "\n".join(map(escape.mathtext, lines))
