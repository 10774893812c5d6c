"""What keeps a figure from being printed: texts that are cut, small or covered, and marks that hide others."""

from __future__ import annotations

import itertools
import re

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.text import Text

from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.palette import NEUTRAL
from cpms.experiment.report.style import WIDTHS

AREAS = {*Line2D.filled_markers} - {"."}
"""Markers that can hide others; dots are those of a curve."""


def faults(figure):
    """Yield what keeps a figure from being printed."""
    figure.draw_without_rendering()
    renderer, page = FigureCanvasAgg(figure).get_renderer(), figure.bbox
    ticks = {id(axis): axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)}
    labels = [[tick.label1 for tick in axis._update_ticks() if shown(tick.label1)] for axis in ticks.values()]
    texts = [text for text in figure.findobj(Text) if shown(text)]
    if min(text.get_fontsize() for text in texts) < 7:
        yield "text below 7 points"
    if figure.get_figwidth() not in WIDTHS.values():
        yield f"{figure.get_figwidth()} inches wide"
    if figure.get_figheight() > 9.3:
        yield f"{figure.get_figheight()} inches high"
    for axis, names in zip(ticks.values(), labels, strict=True):
        count = len([name for name in names if shown(name)])
        if axis.get_scale() == "log" and 0 < count < 3:  # Inner panels of a row have none of their own.
            yield f"{count} labelled ticks from {axis.get_view_interval()}"
    heads = [axes.title for axes in figure.axes] + [axis.label for axis in ticks.values()] + figure.texts
    entries = [text for legend in figure.legends for text in legend.get_texts()]
    for legend in figure.legends:
        looks = [look(handle) for handle in legend.legend_handles if str(handle.get_label()).strip()]
        if len(set(looks)) < len(looks):
            yield f"entries look alike: {looks}"
    for text in [*filter(shown, heads), *entries, *itertools.chain(*labels)]:
        box = text.get_window_extent(renderer)
        if box.x0 < -2 or box.y0 < -2 or box.x1 > page.x1 + 2 or box.y1 > page.y1 + 2:
            yield f"{text.get_text()!r} is cut off"
    for legend, text in itertools.product(figure.legends, filter(shown, [*heads, *itertools.chain(*labels)])):
        if covers(legend.get_window_extent(renderer), text.get_window_extent(renderer)):
            yield f"a legend is on {text.get_text()!r}"
    for group in (*labels, [text for text in heads if shown(text)]):
        for one, other in itertools.combinations(group, 2):
            if covers(one.get_window_extent(renderer), other.get_window_extent(renderer)):
                yield f"{one.get_text()!r} is on {other.get_text()!r}"

    labelled = [axes for axes in figure.axes if axes.axison and not axes.get_xlabel() and not is_scatter(axes)]
    if figure.get_supxlabel() and len({axes.get_xlim() for axes in labelled}) > 1:
        yield f"{figure.get_supxlabel()!r} is below axes with ends of their own"
    for axes in figure.axes:
        yield from covered(axes, renderer)


def is_scatter(axes):
    """Return whether a panel has logarithmic axes with numbers of its own, and no bars to compare with others."""
    axis = axes.xaxis
    return axes.get_xscale() == axes.get_yscale() == "log" and any(shown(each) for each in axis.get_ticklabels())


def covered(axes, renderer):
    """Yield the texts and the legend of a panel that lie on each other, on marks, or across the edge of a bar."""
    legend = axes.get_legend()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in axes.texts if shown(text)]
    boxes += [] if legend is None else [("the legend", legend.get_window_extent(renderer))]
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        if covers(first, second):
            yield f"{one!r} is on {other!r}"
    inner = axes.get_window_extent(renderer)
    if any(
        (np.maximum([inner.x0, inner.y0] - place, place - [inner.x1, inner.y1]) > 1).any() for place, *_ in marks(axes)
    ):
        yield "marks lie beyond the ends of an axis"
    for (text, box), (place, radius, _) in itertools.product(boxes, marks(axes)):
        if (np.maximum([box.x0, box.y0] - place, place - [box.x1, box.y1]) < radius - 1).all():
            yield f"{text!r} is on a mark"
    named = [line for line in axes.lines if (line.get_linewidth(), line.get_color()) == (0.5, NEUTRAL)]
    leaders = [line.get_transform().transform(line.get_xydata()) for line in named]
    if any(cross(one, other) for one, other in itertools.combinations(leaders, 2) if len(one) == len(other) == 2):
        yield "leaders of names cross"
    for (text, box), bar in itertools.product(boxes, axes.patches):
        edge = bar.get_window_extent(renderer)
        inside = edge.x0 - 1 <= box.x0 and box.x1 <= edge.x1 + 1 and edge.y0 - 1 <= box.y0 and box.y1 <= edge.y1 + 1
        if covers(box, edge) and not inside:
            yield f"{text!r} is on the edge of a bar"


def cross(one, other):
    """Return whether two straight lines between two points each meet."""

    def sides(line, points):
        across = line[1] - line[0]
        return [np.sign(across[0] * (y - line[0][1]) - across[1] * (x - line[0][0])) for x, y in points]

    return np.prod(sides(one, other)) < 0 > np.prod(sides(other, one))


def marks(axes):
    """Return the place in pixels, the radius and the look of each opaque mark of a panel that has an area."""
    lines = [line for line in axes.lines if line.get_marker() in AREAS and line.get_alpha() is None]
    return [
        (place, line.get_markersize() / 2 * axes.figure.dpi / 72, (*look(line)[:3], line.get_markersize()))
        for line in lines
        for place in axes.transData.transform(np.asarray(line.get_xydata(), float))
        if np.isfinite(place).all()
    ]


def hidden(figure):
    """Yield the panels in which marks that look different lie more than half on each other."""
    for axes in figure.axes:
        pairs = [
            (one[2], other[2])
            for one, other in itertools.combinations(marks(axes), 2)
            if one[2] != other[2] and np.hypot(*(one[0] - other[0])) < min(one[1], other[1])
        ]
        if pairs:
            yield f"in panel {axes.get_title()!r} {len(pairs)} marks hide another, as {pairs[0]}"


def undrawn(figure):
    """Yield the extremes that an alternative text states, and that no mark, curve or bar of the figure has."""
    stated = re.findall(r"from (\d[\d.e+-]*)[^()]*\([^()]*\) to (\d[\d.e+-]*)", str(figure.get_label()))
    texts = {three_digits(value) for axes in figure.axes for value in values(axes)}
    for number in itertools.chain(*stated):
        if three_digits(float(number)) not in texts:
            yield f"{number} of the alternative text is not drawn"


def values(axes):
    """Yield the coordinates of the marks and curves of a panel, and the ends of its bars and the lengths of these."""
    for line in axes.lines:
        yield from np.asarray(line.get_xydata(), float).ravel()
    for bar in axes.patches:
        box = bar.get_extents().transformed(axes.transData.inverted())
        yield from (*box.extents, box.width, box.height)


def look(handle):
    """Return what tells an entry of a legend from others."""
    if not isinstance(handle, Line2D):
        return handle.get_facecolor(), getattr(handle, "get_hatch", str)()
    return handle.get_marker(), str(handle.get_color()), str(handle.get_markerfacecolor()), handle.get_linestyle()


def shown(text):
    return text.get_visible() and bool(text.get_text().strip()) and text.figure is not None


def covers(one, other):
    """Return whether two texts overlap by more than a pixel each way."""
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    return across > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
