"""Figures of speed-ups of several problems on a graph, in either direction, and with their values beside them."""

from __future__ import annotations

import pytest
from drawn_speedups import of_speedups, rows_of_ratios
from one_drawing import drawn_alone

from cpms.experiment.report.observations import observations
from cpms.experiment.report.templates import speedups


def at_tolerances(graphs, tolerances=(1e-2, 1e-4, 1e-6), faster=lambda *_: 2.0):
    return [
        {"cell": f"{graph} {tol} {storage}", "experiment": "mine", "status": "ok", "graph": graph, "engine": "cpu"}
        | {"storage": storage, "tol": tol, "solve_s": 8.0 / (1.0 if storage == "fp64" else faster(graph, tol))}
        for graph in graphs
        for tol in tolerances
        for storage in ("fp64", "fp32", "cpms2")
    ]


def test_ratios_of_one_graph_at_several_tolerances_are_drawn_together():
    """As many tolerances as there are change neither the mean nor its interval, if ratios depend on the graph alone."""
    ratios = dict(zip("abcdef", (1.0, 1.5, 2.0, 3.0, 4.0, 8.0), strict=True))
    held = [
        speedups(observations(at_tolerances(ratios, tolerances, lambda graph, _: ratios[graph])))[0]
        for tolerances in ((1e-2,), (1e-2, 1e-4), (1e-2, 1e-3, 1e-4, 1e-5, 1e-6))
    ]
    assert len({tuple(round(line[key], 9) for key in ("speedup", "low", "high", "median")) for line in held}) == 1
    assert all(line["low"] < 2.0 < line["high"] for line in held)
    assert [line["graphs"] for line in held] == [6] * 3


@pytest.mark.parametrize(("graphs", "count"), [("abc", 3), ("a", 3), ("abcde", 0)])
def test_means_over_few_graphs_at_many_tolerances_have_strokes_and_no_interval(graphs, count):
    rows = at_tolerances(graphs, faster=lambda graph, tol: 2.0 - "abcde".index(graph) / 9 - tol)
    made, _, intervals = of_speedups(rows)
    strokes = [line for line in made.figure.axes[0].lines if line.get_marker() == "|"]
    assert [len(line.get_xdata()) for line in strokes] == [count or 1] * 2
    assert intervals == (0 if count else 2)
    entries = {text.get_text() for text in made.figure.legends[0].get_texts()}
    assert ("a tolerance" if graphs == "a" else "a graph" if count else "median") in entries
    assert ("; strokes: the ratio of each tolerance, whose mean has no interval" in made.caption) == (graphs == "a")
    assert ("; strokes: the mean of each graph; of fewer than 5" in made.caption) == (graphs == "abc")


def test_speedups_that_are_all_below_one_are_those_of_the_baseline():
    rows = rows_of_ratios([0.25, 0.5], ("cpms2", "cpms4"))
    found = [drawn_alone(rows, "speedup", baseline=base) for base in (None, "fp64")]
    marks = [[line.get_xdata()[0] for line in each.figure.axes[0].lines if line.get_marker() == "o"] for each in found]
    assert marks == [[pytest.approx(8**0.5)] * 2, [pytest.approx(8**-0.5)] * 2]
    assert ["speed-up of fp64 over each" in each.caption for each in found] == [True, False]
    assert ["speed-up of fp64 over each" in each.alt for each in found] == [True, False]


@pytest.mark.parametrize("ratios", [[1.0, 1.1, 1.2], [0.01, 3.0, 400.0], [1.0, 2.0, 2.5, 3.0, 8.0]])
def test_values_of_speedups_are_written_beside_their_marks(ratios):
    made, _, _ = of_speedups(rows_of_ratios(ratios, ("cpms2", "cpms4")))
    (axes,) = made.figure.axes
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert [float(text.get_text()) for text in axes.texts] == [pytest.approx(each, rel=5e-3) for each in marks]


@pytest.mark.parametrize("graphs", ["abc", "abcdef"])
def test_strokes_of_the_lowest_row_are_no_ticks_of_the_axis(graphs):
    figure = of_speedups(at_tolerances(graphs))[0].figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    strokes = [line for line in axes.lines if line.get_marker() == "|"]
    lowest = min(axes.transData.transform(line.get_xydata())[:, 1].min() for line in strokes)
    assert 72 / figure.dpi * (lowest - axes.bbox.y0) > 2.0 + max(line.get_markersize() for line in strokes) / 2


def test_long_formats_by_graph_are_counted():
    """Solves of two contestants with long names read other bits on one of the graphs."""
    rows = rows_of_ratios([1.0, 2.0, 3.0], ("cpms2", "cpms4"))
    for row in rows:
        bits = "64" if row["storage"] == "fp64" else "8" if row["graph"] == "a" else "16"
        row |= {"kind": "pagerank", "method": row["storage"] * 6, "iterations_by_bits": {bits: 1}}
    assert "; 2 contestants read several numbers of bits, by graph" in of_speedups(rows)[0].caption
