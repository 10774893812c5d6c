"""Marks of scatters that none hides: each is at its place, and of marks near each other each has a size of its own.

Marks of equal contestants lie in one place, and no place of an axis may be changed. So hollow marks are drawn around
each other, as circles of a target are: pointed ones inside, round ones outside, and the filled mark of the baseline in
the middle, above all. A white line on either side of an outline separates it from those that it crosses, of which the
smaller is above. Marks with no other near have one area. More than `MOST` marks in one place could not be told apart,
so that a figure leaves some out (`crowded`). The cost is a comparison of each two marks of a panel.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

MOST = 3
"""Most marks that are drawn around each other."""
AREA_PT, EDGE_PT, HALO_PT = 13.0, 0.8, 0.35
"""Area of a mark with no other near, in square points; widths of its edge, and of the white on either side of it."""
_STEP_PT = 1.3
"""Difference of the radii of discs of the areas of two sizes, in points."""
_NEAR_PT = 3.0
"""Distance of centres below which two marks of one size would run together, in points."""
CROWD_PT = 6.0
"""Distance of centres below which two marks have less white between them than half of their width, in points."""
_RING_PT = 8.0
"""Least diameter of a ring around a mark, in points."""
_HOLLOW_Z, _FILLED_Z = 3.0, 5.0


def mark(axes: Axes, at: tuple[float, float], marker: str, shade: str, *, filled: bool, label: str) -> None:
    """Draw a mark at its place, which `nest` gives its size."""
    from matplotlib.patheffects import withStroke

    drawn = axes.scatter(
        *at, s=size_of(marker), marker=marker, linewidths=EDGE_PT, facecolors=shade if filled else "none",
        edgecolors=shade, zorder=_FILLED_Z if filled else _HOLLOW_Z, clip_on=False, label=label,
    )  # fmt: skip
    drawn.set_path_effects([withStroke(linewidth=EDGE_PT + 2 * HALO_PT, foreground="white")])
    drawn.set_gid(marker)


def ring(axes: Axes, at: tuple[float, float], shade: str) -> None:
    """Draw a ring around a mark, which `nest` makes larger than the mark."""
    axes.plot(*at, "o", markersize=_RING_PT, markerfacecolor="none", color=shade, clip_on=False)


def lay_out(figure: Figure) -> None:
    """Give the panels of a figure their places, which takes most of its time, unless nothing has changed since then."""
    layout: Any = figure.get_layout_engine()
    if figure.stale and layout is None:
        figure.draw_without_rendering()
    elif figure.stale:
        layout.execute(figure)
        figure.stale = False


def nest(figure: Figure) -> bool:
    """Give the marks of a figure sizes at which none hides another, and return whether some differ."""
    lay_out(figure)
    levels = list[int]()
    for axes in figure.axes:
        held, places = _ordered(axes)
        found = levels_of(places)
        for each, level in zip(held, found, strict=True):
            each.set_sizes([size_of(str(each.get_gid()), level)])
            if not is_filled(each):
                each.set_zorder(_HOLLOW_Z + 1 / (1 + level))
        for line in axes.lines:
            if line.get_marker() == "o":
                ring = axes.transData.transform(np.asarray(line.get_xydata())[0]) * 72 / figure.dpi
                own = np.hypot(*(places - ring).T)
                near = [each for each, far in zip(held, own, strict=True) if far < _NEAR_PT]
                widest = max(float(each.get_sizes()[0]) ** 0.5 for each in near)
                line.set_markersize(max(_RING_PT, widest + 4 * EDGE_PT))
        levels += found
    return any(levels)


def crowding(figure: Figure) -> float:
    """Return the share of the marks of a figure that are nearer than `CROWD_PT` to another one of their panel."""
    lay_out(figure)
    near = list[bool]()
    for axes in figure.axes:
        _, places = _ordered(axes)
        near += [int((np.hypot(*(places - own).T) < CROWD_PT).sum()) > 1 for own in places]
    return float(np.mean(near)) if near else 0.0


def stacked(figure: Figure) -> float:
    """Return the share of the marks of a figure that lie on two others or more."""
    lay_out(figure)
    levels = [level for axes in figure.axes for level in levels_of(_ordered(axes)[1])]
    return float(np.mean([level > 1 for level in levels])) if levels else 0.0


def crowded(figure: Figure, staying: Collection[str]) -> list[str]:
    """Return the labels without whose marks at most `MOST` marks lie on one another, but none of those that stay.

    Of the marks that lie on one another, the last ones drawn are left out.
    """
    lay_out(figure)
    panels = [_ordered(axes) for axes in figure.axes]
    order = list(dict.fromkeys(str(each.get_label()) for axes in figure.axes for each in _marks(axes)))
    left = list[str]()
    while True:
        over = set[str]()
        for held, places in panels:
            kept = [place for place, each in enumerate(held) if str(each.get_label()) not in left]
            labels = [str(held[place].get_label()) for place in kept]
            for own, level in zip(places[kept], levels_of(places[kept]), strict=True):
                if level >= MOST:
                    near = np.hypot(*(places[kept] - own).T) < _NEAR_PT
                    over |= {label for label, is_near in zip(labels, near, strict=True) if is_near} - {*staying}
        if not over:
            return left
        left.append(max(over, key=order.index))


def levels_of(places: npt.NDArray[np.float64]) -> list[int]:
    """Return the size of each mark, from 0: the least that no earlier mark near it has.

    Examples
    --------
    >>> levels_of(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [9.0, 0.0]]))
    [0, 1, 2, 0]
    """
    levels = list[int]()
    for number, place in enumerate(places):
        near = np.hypot(*(places[:number] - place).T) < _NEAR_PT
        taken = {level for level, is_near in zip(levels, near, strict=True) if is_near}
        levels.append(next(level for level in range(number + 1) if level not in taken))
    return levels


def size_of(marker: str, level: int = 0) -> float:
    """Return the size of a marker, in square points, at which its area is that of all marks of a level."""
    radius = (AREA_PT / np.pi) ** 0.5 + _STEP_PT * level
    return float(np.pi * radius**2 / _shape(marker)[0])


def is_filled(drawn: PathCollection) -> bool:
    """Return whether a mark is filled."""
    return len(np.asarray(drawn.get_facecolor())) > 0


def place_of(axes: Axes, drawn: PathCollection) -> Any:
    """Return the place of a mark on its page, in points."""
    figure: Any = axes.figure
    return axes.transData.transform(np.asarray(drawn.get_offsets())[0]) * 72 / figure.dpi


def _ordered(axes: Axes) -> tuple[list[PathCollection], npt.NDArray[np.float64]]:
    """Return the marks of a panel and their places, from the innermost: filled marks, then pointed ones."""
    held = sorted(_marks(axes), key=lambda each: (not is_filled(each), -_pointed(str(each.get_gid()))))
    return held, np.array([place_of(axes, each) for each in held]).reshape(-1, 2)


def _marks(axes: Axes) -> Iterator[PathCollection]:
    from matplotlib.collections import PathCollection

    yield from (each for each in axes.collections if isinstance(each, PathCollection))


def _pointed(marker: str) -> float:
    return _shape(marker)[1]


@functools.cache
def _shape(marker: str) -> tuple[float, float]:
    """Return the area of a marker of size 1, and the ratio of its farthest point from its centre to a disc's radius."""
    from matplotlib.markers import MarkerStyle

    style = MarkerStyle(marker)
    rings: Sequence[Any] = style.get_path().transformed(style.get_transform()).to_polygons()
    areas = [abs(float(x[:-1] @ y[1:] - y[:-1] @ x[1:])) / 2 for x, y in (np.asarray(each).T for each in rings)]
    farthest = max(float(np.hypot(*np.asarray(each).T).max()) for each in rings)
    return sum(areas), farthest / (sum(areas) / np.pi) ** 0.5
