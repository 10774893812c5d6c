"""Rows of given speed-ups, and what the generic figure of speed-ups draws of rows."""

from __future__ import annotations

from one_drawing import drawn_alone


def rows_of_ratios(ratios, storages=("cpms2",)):
    shared = {"experiment": "mine", "status": "ok", "engine": "cpu"}
    return [
        {**shared, "cell": f"{graph}{storage}", "graph": graph, "storage": storage, "solve_s": time}
        for graph, faster in zip("abcdefgh", ratios, strict=False)
        for storage, time in (("fp64", 8.0), *((storage, 8.0 / faster) for storage in storages))
    ]


def of_speedups(rows):
    """Return a drawing of speed-ups, its lines with data by marker, and its number of intervals."""
    made = drawn_alone(rows, "speedup")
    (axes,) = made.figure.axes
    lines = {line.get_marker(): line for line in axes.lines if line.get_marker() not in ("None", "")}
    return made, lines, sum(len(each.get_segments()) for each in axes.collections)
