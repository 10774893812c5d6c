"""What figures draw, by rules that share nothing with their alternative texts: counts and extremes must be the same."""

from __future__ import annotations

import json
import re

import numpy as np
from matplotlib.patches import Rectangle

OWN = {"fig1", "fig2", "fig3", "fig5", "convergence", "coo", "gmres_bits", "linear"}
"""Programs that write the texts of their figures themselves."""
COUNTS = re.compile(r"(?:: |; )([\d,]+) (whole bar|bar|curve|dot|mark|stroke)s?(?=[ ,;.])")
EXTREMES = re.compile(r", from (\S+)(?: \([^;]*?\))? to ([^\s;]+?)(?= \(|;|\. |\.$)")


def values_of(axes):
    """Return the values of each kind of artist of a panel, on both axes, by rules of this test alone."""
    found = {"curve": [], "dot": [], "mark": [], "stroke": [], "bar": []}
    errors = [each for each in axes.containers if type(each).__name__ == "ErrorbarContainer"]
    caps = {cap for each in errors for cap in each.lines[1]}
    for line in axes.lines:
        x, y = np.asarray(line.get_xydata(), float).T
        marked, joined = line.get_marker() not in ("None", "", None), line.get_linestyle() != "None" and len(x) > 1
        if (
            line in caps
            or line.get_gid() == "cut"
            or line.get_transform() is not axes.transData
            or not (marked or len(x) > 2)
        ):
            continue
        kind = "curve" if joined else "stroke" if line.get_marker() == "|" else "dot" if line.get_alpha() else "mark"
        kind = "dot" if line.get_marker() == "." and not joined else kind
        points = [(a, b) for a, b in zip(x, y, strict=True) if np.isfinite(a) and np.isfinite(b)]
        found[kind] += [points] if joined else [[point] for point in points]
    for bar in bars_of(axes):
        if bar.get_width() and bar.get_height():
            found["bar"].append([(bar.get_width(),)])
    return {kind: each for kind, each in found.items() if each}


def bars_of(axes):
    """Return the rectangles on a panel's data axes; arrows and other shapes stand for no number."""
    return [
        each for each in axes.patches if isinstance(each, Rectangle) and each.get_data_transform() is axes.transData
    ]


def whole_bars(axes):
    rows = {}
    for bar in bars_of(axes):
        key = round(bar.get_y() + bar.get_height() / 2, 6)
        rows[key] = rows.get(key, 0.0) + bar.get_width()
    return rows.values()


def text(number):
    return f"{float(f'{number:.3g}'):g}"


def panels_of(figure):
    """Return what each panel of a figure draws."""
    return [(values_of(axes), whole_bars(axes)) for axes in figure.axes]


def check_texts(kept, folder):
    """Compare what figures draw with the alternative texts beside them in a folder."""
    for stem, axes in kept.items():
        alt = json.loads((folder / f"{stem}.json").read_text())["alt"]
        if stem == "sweeps_ablation":  # Its means are a list.
            continue
        counted = {}
        for count, kind in COUNTS.findall(alt):
            counted[kind] = counted.get(kind, 0) + int(count.replace(",", ""))
        counted.pop("whole bar", None)
        held = [kind for panel, _ in axes for kind, each in panel.items() for _ in each]
        assert counted == {kind: held.count(kind) for kind in held}, stem
        values = [
            [{text(value) for value in point} for part in each for point in part]
            for panel, _ in axes
            for each in panel.values()
        ]
        known = {value for each in values for point in each for value in point}
        known |= {text(length) for _, rows in axes for length in rows}
        named = {end for pair in EXTREMES.findall(alt) for end in pair}
        assert named <= known, stem
        for panel, _ in axes:
            for each in panel.values():
                along = [list(axis) for axis in zip(*(point for part in each for point in part), strict=True)]
                assert any(
                    all(
                        re.search(rf"(from|to|at) {re.escape(text(end))}(?!\d|\.\d|e)", alt)
                        for end in (min(axis), max(axis))
                    )
                    for axis in along
                ), stem
