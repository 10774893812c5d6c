"""Figures of show programs: every text in them is escaped here, and nothing else saves figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms import escape
from cpms.errors import InputError
from cpms.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_ENDINGS: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
"""Of the files of a figure, with metadata that no clock changes."""
_LONGEST_NAME = 40
"""Of a tick, in characters."""
_LONGEST_ENTRY = 60
"""Of a title or an entry of a legend."""
_LONGEST_LABEL = 160
"""Of an axis or of a figure."""


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as ``.pdf``, ``.svg`` and ``.png``, close it and return these paths.

    All texts are plain: dollars and other characters are no markup, and long names are abbreviated.

    Raises
    ------
    InputError
        If one of its panels is empty.
    """
    import matplotlib.pyplot as plt

    written = []
    try:
        if any(axes.axison and not _has_marks(axes) for axes in figure.axes):
            raise InputError(f"{stem.name}: the rows hold nothing to draw in a panel of this figure")
        _escape(figure)
        for ending, metadata in _ENDINGS.items():
            path = stem.with_name(stem.name + ending)
            with replacing(path) as temporary:
                figure.savefig(temporary, metadata=metadata)
            written.append(path)
    finally:
        plt.close(figure)
    return written


def _has_marks(axes: Axes) -> bool:
    """Say whether a panel shows a value: lines across all of it, such as limits, are none."""
    lines = (line for line in axes.lines if line.get_transform() == axes.transData)
    drawn = any(np.isfinite(np.asarray(line.get_xydata(), dtype=float)).all(axis=1).any() for line in lines)
    bars = any(np.isfinite(bar.get_window_extent().extents).all() for bar in axes.patches)
    return drawn or bars or bool(axes.images) or any(np.size(each.get_offsets()) for each in axes.collections)


def _escape(figure: Figure) -> None:
    from matplotlib.ticker import FixedFormatter

    for text in _texts(figure):
        text.set_text(_plain(text.get_text(), _LONGEST_ENTRY))
    for text in figure.texts:
        text.set_text(_plain(text.get_text(), _LONGEST_LABEL))
    for axes in figure.axes:
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_text(_plain(label.get_text(), _LONGEST_LABEL))
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_plain(text, _LONGEST_NAME) for text in formatter.seq]


def _texts(figure: Figure) -> Iterator[Text]:
    """Yield the titles of panels, what is written into them, and the entries of legends."""
    legends = list(figure.legends)
    for axes in figure.axes:
        yield axes.title
        yield from axes.texts
        legend = axes.get_legend()
        legends += [] if legend is None else [legend]
    for legend in legends:
        yield from legend.get_texts()


def _plain(text: str, most: int) -> str:
    return escape.mathtext(escape.abbreviate(text, most))
