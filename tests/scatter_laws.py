"""Laws of scatters without a program: a mark stands at the values of a row, within its panel, and no text is on it."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.text import Text

from cpms.experiment.report.generic.bandwidth import of_one_quantity
from cpms.experiment.report.page.nested import lay_out

UNITS = {"ms": 1e-3, "\u00b5s": 1e-6, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}
"""Units of bytes and seconds."""
APART_PT = 6.0
"""Distance of marks below which they are read together, in points."""
MOST_NAMED_IN_A_CROWD = 5
"""Most series whose marks a reader can name in a crowd, by those that are left."""
LEAST_VISIBLE = 0.15
"""Least share of a mark that those above it leave."""


def shown(text):
    return text.get_visible() and bool(text.get_text().strip()) and text.figure is not None


def points_of(axes):
    """Return the marks of a panel: the place of each, and its collection."""
    held = [each for each in axes.collections if isinstance(each, PathCollection)]
    return [(tuple(at), each) for each in held for at in np.asarray(each.get_offsets()).tolist()]


def is_rows(figure):
    """Return whether a figure has a row for each contestant in place of a panel for each graph."""
    return not any(points_of(axes) for axes in figure.axes)


def labels_of(figure):
    """Return the labels of the horizontal and of the vertical axes."""
    first = figure.axes[0]
    return [figure.get_supxlabel() or first.get_xlabel(), figure.get_supylabel() or first.get_ylabel()]


def visible_shares(axes):
    """Return the share of each mark of a panel that those drawn above it leave: of its face, or of a hollow's outline.

    A mark covers what its edge does, and the white on either side of it.
    """
    scale = 72 / axes.figure.dpi
    outlines, faces, covers = [], [], []
    drawn = sorted(points_of(axes), key=lambda mark: mark[1].get_zorder())  # Stable, as the order of drawing.
    for at, each in drawn:
        rings = [np.asarray(ring) * np.sqrt(each.get_sizes()[0]) for ring in each.get_paths()[0].to_polygons()]
        place = axes.transData.transform(at) * scale
        outline = np.concatenate([_along(ring) for ring in rings])
        outlines.append(outline + place)
        face = np.concatenate([share * outline for share in np.linspace(0.1, 1, 8)])
        faces.append((face if len(each.get_facecolor()) else outline) + place)
        strokes = [effect._gc["linewidth"] for effect in each.get_path_effects() or () if hasattr(effect, "_gc")]
        covers.append(max([each.get_linewidths()[0], *strokes]) / 2)
    for number, points in enumerate(faces):
        is_seen = np.ones(len(points), bool)
        for above, reach in zip(outlines[number + 1 :], covers[number + 1 :], strict=True):
            is_seen &= np.hypot(*(points[:, None] - above).transpose(2, 0, 1)).min(axis=1) > reach
        yield drawn[number], float(is_seen.mean())


def _along(ring):
    """Return points at equal distances along a closed outline, about five in a point of length."""
    steps = np.hypot(*np.diff(ring, axis=0).T).cumsum()
    places = np.linspace(0, steps[-1], max(8, int(5 * steps[-1])), endpoint=False)
    return np.stack([np.interp(places, [0, *steps], each) for each in ring.T], axis=1)


def crowded_marks(figure):
    """Yield a text if the marks of many contestants cannot be told apart: too many are near another one's."""
    if is_rows(figure):
        places = [figure.axes[0].transData.transform((1.0, at))[1] for at in figure.axes[0].get_yticks()]
        if len(places) > 1 and min(np.abs(np.diff(sorted(places)))) * 72 / figure.dpi < APART_PT:
            yield f"rows are less than {APART_PT} points apart"
        return
    marks, near = 0, 0
    for axes in figure.axes:
        places = [axes.transData.transform(at) * 72 / figure.dpi for at, _ in points_of(axes)]
        pairs = [
            {one, other}
            for one, other in itertools.combinations(range(len(places)), 2)
            if np.hypot(*(places[one] - places[other])) < APART_PT
        ]
        marks, near = marks + len(places), near + len(set().union(*pairs))
    looks = {each.get_label() for axes in figure.axes for _, each in points_of(axes)}
    if len(looks) > MOST_NAMED_IN_A_CROWD and 3 * near > marks:
        yield f"{near} of {marks} marks of {len(looks)} series are less than {APART_PT} points from another one's"


def covered_marks(figure):
    """Yield the marks of scatters of which others leave too little to be seen."""
    for axes in figure.axes:
        for (at, each), share in visible_shares(axes):
            if share < LEAST_VISIBLE:
                yield f"{each.get_label()!r} at {at} of {axes.get_title()!r} is covered but for {share:.0%}"


def misplaced(figure, name, found):
    """Yield the panels whose marks are not all at values of rows of one graph.

    ``found`` holds the observations of an experiment, and ``name`` is that of the drawing.
    """
    if is_rows(figure):
        yield from misplaced_in_rows(figure, name, found)
        return
    bits, up = name != "traffic", "iterations" if name.startswith("iterations") else "error"
    scale = [1.0, 1.0] if bits else [UNITS.get(label.split()[-1], 1.0) for label in labels_of(figure)]
    found = found if bits else of_one_quantity(found)
    held = found[["bits", up] if bits else ["traffic", "seconds"]].to_numpy(float)
    graphs = found.graph.astype(str) + found.besides
    for axes in figure.axes:
        at = [np.multiply(place, scale) for place, _ in points_of(axes)]
        own = [{*graphs[np.isclose(held, place, rtol=1e-12, atol=0).all(axis=1)]} for place in at]
        if len(own) < 2 or not set.intersection(*own):
            yield f"marks of {axes.get_title()!r} are not at the values of one graph"


def misplaced_in_rows(figure, name, found):
    """Yield the rows whose marks are not at values of a contestant's rows, or at ratios of these on one graph."""
    held = of_one_quantity(found) if name == "traffic" else found
    wanted = [held.traffic, held.seconds] if name == "traffic" else [held.bits, held.error][-len(figure.axes) :]
    pairs = (held.graph.astype(str) + held.besides).to_numpy()
    for axes, values in zip(figure.axes, wanted, strict=True):
        known = values.to_numpy(float)
        if name == "traffic":  # Each over that of another contestant on the graph.
            same = pairs[:, None] == pairs
            known = (known[:, None] / known)[same]
        known = np.sort(known[np.isfinite(known)])
        lines = [line for line in axes.lines if line.get_marker() not in ("|", "None") and len(line.get_xdata())]
        for line in lines:
            for value in np.asarray(line.get_xdata(), float):
                if np.abs(known - value).min() > 1e-9 * value:
                    yield f"{value} in a row of {axes.get_title() or axes.get_xlabel()!r} is no value of a row"
        at = {float(y) for line in lines for y in line.get_ydata()}
        if not at <= {*map(float, figure.axes[0].get_yticks())}:
            yield "a mark is beside its row"


def unreadable(figure):
    """Yield what keeps the marks of a scatter from being read: marks outside of their panel, and texts on marks."""
    lay_out(figure)
    texts = [text for text in figure.findobj(Text) if shown(text) and text.get_text()]
    for axes in figure.axes:
        hidden = [text for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels(which="both")]
        texts = [text for text in texts if text not in hidden]
        texts += [tick.label1 for axis in (axes.xaxis, axes.yaxis) for tick in axis._update_ticks()]
    boxes = [text.get_window_extent() for text in texts if shown(text) and text.get_text()]
    for axes in figure.axes:
        inside = axes.get_window_extent()
        for at, each in points_of(axes):
            place = axes.transData.transform(at)
            if not inside.contains(*place):
                yield f"{at} is outside of {axes.get_title()!r}"
            radius = np.sqrt(each.get_sizes()[0]) / 2 * figure.dpi / 72
            near = [place - np.clip(place, (box.x0, box.y0), (box.x1, box.y1)) for box in boxes]
            if near and min(np.hypot(*np.array(near).T)) < radius - 1:
                yield f"a text is on the mark at {at} of {axes.get_title()!r}"
    for one, other in itertools.combinations(boxes, 2):
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1:
            yield f"texts are on each other: {one} and {other}"
