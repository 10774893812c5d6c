"""The common style of figures: widths for one and for two columns of a journal, and sizes of text in print.

Text has 7 or 8 points in print, as IEEE and ACM require. Fonts are embedded as TrueType outlines (type 42), since
publishers refuse type 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpms.base.errors import InputError

WIDTHS = {"single": 3.3, "double": 7.0}
"""Widths of figures in inches: one column of a journal, and two."""
STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "figure.labelsize": 8,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.linewidth": 0.3,
    "grid.color": "#dddddd",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.bbox": None,
    "savefig.dpi": 200,
    "svg.hashsalt": "cpms",
    "pdf.fonttype": 42,
}
"""Parameters of Matplotlib; sizes are in points."""
_OF_THE_SESSION = ("backend", "interactive", "savefig.directory", "toolbar", "tk.", "webagg.", "figure.max_open")
"""Beginnings of the names of parameters that are no style."""


@contextmanager
def common_style() -> Iterator[None]:
    """Draw in the common style within the block: Matplotlib's defaults and `STYLE`, whatever a ``matplotlibrc`` says.

    A figure of the same rows is then the same for every user. A program may choose a style of its own within the block.

    Examples
    --------
    >>> import matplotlib
    >>> with matplotlib.rc_context({"axes.grid": True}), common_style():
    ...     matplotlib.rcParams["axes.grid"], matplotlib.rcParams["font.size"]
    (False, 8.0)
    """
    import matplotlib

    with matplotlib.rc_context():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", matplotlib.MatplotlibDeprecationWarning)
            usual = {
                name: value
                for name, value in matplotlib.rcParamsDefault.items()
                if not name.startswith(_OF_THE_SESSION)
            }
            common: Any = {str(name): value for name, value in usual.items()} | STYLE
            matplotlib.rcParams.update(common)
        yield


def inches(width: str) -> float:
    """Return the width of a figure of one or two columns.

    Raises
    ------
    InputError
        If the width is neither.

    Examples
    --------
    >>> inches("double")
    7.0
    """
    if width not in WIDTHS:
        raise InputError(f"width {width!r} does not exist; it can be {' or '.join(WIDTHS)}")
    return WIDTHS[width]
