"""Labels beside points: each as near to one of its points as possible, without touching marks, labels or the edge.

The method is a greedy search over candidate places, as in map labelling (Christensen, Marks and Shieber, ACM
Transactions on Graphics 14, 1995, section 3). Around each point of a label there are candidates in twelve directions at
a few distances. Labels with the most crowded points choose first, and each takes the cheapest free candidate. A
candidate is not free if it covers a mark, another label, a leader or a line of the figure, or leaves the panel. A label
at a distance from its point has a leader, a thin line to it. Leaders over marks or other leaders add to the cost. A
label without a leader must be nearer to one of its own points than to others, so that it is not read as theirs.

If a label has no free candidate, or its leader crosses another, the search is repeated with that label first, a few
times, and the cheapest placement is drawn. The cost is one layout of the figure, and some thousand comparisons of
rectangles for each label.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.experiment.report.palette import NEUTRAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = npt.NDArray[np.float64]
"""Pairs of coordinates, one a line."""
_SIZE = 7.0
"""Size of labels, in points."""
_MARK = 2.6
"""Half of the width of a mark with its edge, in points."""
_DISTANCES = (3.0, 5.0, 8.0, 12.0, 17.0, 23.0, 30.0, 40.0)
"""Distances of a label's nearest edge from its point, in points."""
_LEADER = 6.0
"""Distance above which a label has a leader, in points."""
_DIRECTIONS = 12
_ORDERS = 6
"""Most searches, each with another order of labels."""
_ON_MARK = 8.0
"""Cost of a mark below a leader, in points."""
_CROSSING, _SAMPLES = 30.0, 2.0
"""Cost of a leader that crosses others, and the distance of the sample points of a leader, in points."""


class _Place(NamedTuple):
    cost: float
    box: tuple[float, float, float, float]
    at: tuple[float, float]
    offset: tuple[float, float]
    distance: float


def place(
    axes: Axes, texts: Sequence[str], points: Sequence[Points], *, others: npt.ArrayLike = (),
    lines: Sequence[Points] = (), all_or_none: bool = True,
) -> bool:  # fmt: skip
    """Write each text beside one of its points; return False if one had no free place, and then write none.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The panel, which has its marks; its figure has its legend.
    texts : sequence of str
    points : sequence of array
        The points of each text, in the coordinates of the panel; other texts avoid them.
    others : array_like
        Further marks, without a text.
    lines : sequence of array
        Both ends of each straight line that no text may cover.
    all_or_none : bool
        If False, texts without a free place are omitted and the others written.
    """
    if not texts:
        return True
    figure: Any = axes.figure
    with _as_they_are(figure):
        figure.draw_without_rendering()
    unit = figure.dpi / 72
    edge = axes.get_window_extent().extents / unit
    held = [axes.transData.transform(each) / unit for each in points]
    more = np.asarray(others, dtype=float).reshape(-1, 2)
    other = axes.transData.transform(more) / unit if len(more) else more
    marks = np.concatenate([*held, other])
    drawn = np.concatenate([marks[:0], *(_sampled(axes.transData.transform(ends) / unit) for ends in lines)])
    crowd = [min(int((np.abs(marks - point).max(axis=1) < 20).sum()) for point in each) for each in held]
    order = sorted(range(len(texts)), key=lambda which: -crowd[which])
    extents = [_extent(axes, text) for text in texts]
    foreign = [np.concatenate([*held[:which], *held[which + 1 :], other]) for which in range(len(texts))]
    best = dict[int, _Place]()
    for _ in range(_ORDERS):
        boxes, leaders, found = list[tuple[float, float, float, float]](), marks[:0], dict[int, _Place]()
        for which in order:
            places = [
                candidate
                for point in held[which]
                for candidate in _candidates(point, extents[which], edge, marks, drawn, leaders, boxes)
                if candidate.distance > _LEADER or _is_own(candidate.box, held[which], foreign[which])
            ]  # fmt: skip
            if not places and not all_or_none:
                continue
            if not places:
                order = [which, *(other for other in order if other != which)]
                break
            found[which] = chosen = min(places)
            boxes.append(chosen.box)
            if chosen.distance > _LEADER:
                leaders = np.concatenate([leaders, _sampled(np.array([chosen.at, _nearest(chosen.at, chosen.box)]))])
        else:
            best = min([best, found] if best else [found], key=_rank)
            costliest = max(found, key=lambda which: found[which].cost, default=order[0])
            if costliest == order[0] or found[costliest].cost < _CROSSING:
                break
            order = [costliest, *(other for other in order if other != costliest)]
    for which, chosen in best.items():
        _write(axes, texts[which], chosen)
    return bool(best) or not all_or_none


def _rank(found: dict[int, _Place]) -> tuple[int, float]:
    """Return the key by which placements are compared: most labels first, then least cost."""
    return -len(found), sum(place.cost for place in found.values())


def _extent(axes: Axes, text: str) -> tuple[float, float]:
    """Return width and height of a text in points."""
    figure: Any = axes.figure
    drawn = figure.text(0, 0, text, fontsize=_SIZE)
    with _as_they_are(figure):
        box = drawn.get_window_extent()
    drawn.remove()
    return float(box.width) * 72 / figure.dpi, float(box.height) * 72 / figure.dpi


@contextmanager
def _as_they_are(figure: Any) -> Iterator[None]:
    """Lay out texts without markup and without warnings about characters, as names are escaped only when saved."""
    from matplotlib.text import Text

    own = r"$\mathdefault"  # Matplotlib's markup of numbers.
    marked_up = [text for text in figure.findobj(Text) if text.get_parse_math() and own not in text.get_text()]
    for text in marked_up:
        text.set_parse_math(False)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")
            yield
    finally:
        for text in marked_up:
            text.set_parse_math(True)


def _nearest(point: npt.ArrayLike, box: Sequence[float]) -> tuple[float, float]:
    """Return the point of a label's box that is nearest to a point."""
    across, up = np.clip(point, np.array(box[:2]), np.array(box[2:]))
    return float(across), float(up)


def _is_own(box: Sequence[float], own: Points, foreign: Points) -> bool:
    """Return whether the point that is nearest to a label's box is one of its own."""
    near = [np.hypot(*(each - np.clip(each, box[:2], box[2:])).T).min(initial=np.inf) for each in (own, foreign)]
    return bool(near[0] < near[1])


def _sampled(ends: Points) -> Points:
    """Return the ends of a line and points between them, in distances of at most ``_SAMPLES``."""
    start, end = ends
    count = int(np.hypot(*(end - start)) // _SAMPLES)
    return np.asarray(start + np.linspace(0, 1, count + 2)[:, None] * (end - start))


def _candidates(
    point: Points, extent: tuple[float, float], edge: Points, marks: Points, lines: Points, leaders: Points,
    boxes: Sequence[tuple[float, float, float, float]],
) -> list[_Place]:  # fmt: skip
    """Return the free places around a point, with their costs."""
    width, height = extent
    free = []
    for distance in _DISTANCES:
        for angle in 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS:
            across, up = float(np.cos(angle)), float(np.sin(angle))
            left = point[0] + (distance + _MARK) * across + (np.clip(across * 2, -1, 1) - 1) * width / 2
            low = point[1] + (distance + _MARK) * up + (np.clip(up * 2, -1, 1) - 1) * height / 2
            box = (float(left), float(low), float(left + width), float(low + height))
            inside = edge[0] + 2 <= box[0] and box[2] <= edge[2] and edge[1] + 2 <= box[1] and box[3] <= edge[3]
            covered = _within(marks, box, _MARK).any() or _within(np.concatenate([lines, leaders]), box, 1).any()
            if not inside or covered or any(_meet(box, other) for other in boxes):
                continue
            at = (float(point[0]), float(point[1]))
            cost = distance
            if distance > _LEADER:
                leader = _sampled(np.array([point, _nearest(point, box)]))
                if any(_within(leader, other, 1).any() for other in boxes):
                    continue
                beyond = leader[np.abs(leader - point).max(axis=1) > 2 * _MARK]
                apart = np.abs(marks[:, None] - beyond).max(axis=2) if len(beyond) else np.full((1, 1), np.inf)
                cost += _ON_MARK * int((apart.min(axis=0) < _MARK).sum())
                crossed = np.hypot(*np.moveaxis(leaders[:, None] - leader, 2, 0)).min(initial=np.inf) < 0.8 * _SAMPLES
                cost += _CROSSING * crossed
            free.append(_Place(cost, box, at, (box[0] - at[0], box[1] - at[1]), distance))
    return free


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two boxes are less than a point apart."""
    return bool(
        one[0] < other[2] + 1.5 and other[0] < one[2] + 1.5 and one[1] < other[3] + 0.5 and other[1] < one[3] + 0.5
    )


def _within(points: Points, box: Sequence[float], margin: float) -> npt.NDArray[np.bool_]:
    low, high = np.array(box[:2]) - margin, np.array(box[2:]) + margin
    return np.asarray(((points > low) & (points < high)).all(axis=1))


def _write(axes: Axes, text: str, chosen: _Place) -> None:
    """Write a text, with a line to its point if it is not beside it."""
    figure: Any = axes.figure
    inverse = axes.transData.inverted()
    unit = figure.dpi / 72
    at: tuple[float, float] = tuple(inverse.transform(np.array(chosen.at) * unit))
    if chosen.distance > _LEADER:
        end = inverse.transform(np.array(_nearest(chosen.at, chosen.box)) * unit)
        axes.plot(
            [at[0], end[0]], [at[1], end[1]], color=NEUTRAL, linewidth=0.5, zorder=1.5, scalex=False, scaley=False
        )
    axes.annotate(
        text, at, chosen.offset, textcoords="offset points", va="bottom", fontsize=_SIZE, zorder=3, in_layout=False,
        annotation_clip=False,
    )  # fmt: skip
