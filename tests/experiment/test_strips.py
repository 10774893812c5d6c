"""Scatters whose marks would be too near each other have a row for each contestant, with a dot for each graph."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from one_drawing import drawn_alone
from scatter_laws import crowded_marks, is_rows, misplaced

from cpms.experiment.report import figures
from cpms.experiment.report.generic.scatters import quantities
from cpms.experiment.report.observations import observations
from cpms.experiment.report.page import nested
from cpms.experiment.report.palette import colour
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS

HIGHEST_IN = 4.5
"""Most height of a figure in inches."""
BITS = {"fp64": 64, "fp32": 32, "fp16": 16}


def rows_of(graphs, layouts, *, apart=1.003, tolerances=(1e-9,)):
    """Return rows of contestants, each with a format and a layout, whose results differ little."""
    return [
        {"cell": f"{graph} {storage} {layout} {tol}", "experiment": "mine", "status": "ok", "graph": f"graph-{graph}"}
        | {"engine": "cpu", "storage": storage, "layout": f"layout-{layout}", "tol": tol, "edges": 10 + graph}
        | {"solve_s": 3.0**graph * bits * apart**layout, "bytes_read": 5.0**graph * bits * 1e6 * apart ** (2 * layout)}
        | {"error_l1": tol * 10.0 ** (0.04 * layout - bits / 8) * 2.0**graph, "bits": bits}
        for graph in range(graphs)
        for layout in range(layouts)
        for storage, bits in [[*BITS.items()][layout % 3]]
        for tol in tolerances
    ]


def made(rows, name, width="single", baseline=None):
    drawing = drawn_alone(rows, name, width=width, baseline=baseline)
    with styled():
        figures._escape(drawing.figure)
        drawing.figure.draw_without_rendering()
    return drawing


def dots_of(axes):
    """Return the dots of each row, by its place."""
    found = dict[float, list[float]]()
    for line in axes.lines:
        if line.get_marker() not in ("|", "None"):
            for x, y in line.get_xydata().tolist():
                found.setdefault(y, []).append(x)
    return found


@pytest.mark.representatives(width=("single",), graphs=("12",))
@pytest.mark.representatives(width=("double",), graphs=("2",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["traffic", "error"])
@pytest.mark.parametrize(("graphs", "layouts"), [(1, 9), (12, 9), (2, 14)])
def test_each_contestant_has_a_row_and_each_graph_a_dot_at_its_value(name, width, graphs, layouts):
    rows = rows_of(graphs, layouts)
    drawing = made(rows, name, width)
    figure = drawing.figure
    assert is_rows(figure)
    assert [*crowded_marks(figure), *misplaced(figure, name, observations(rows))] == []
    assert figure.get_figheight() <= HIGHEST_IN
    assert len(figure.axes) == (2 if name == "traffic" else 1)  # The colour is the bits.
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    for axes in figure.axes:
        dots = dots_of(axes)
        assert sorted(dots) == pytest.approx(sorted(figure.axes[0].get_yticks()))
        assert {len(each) for each in dots.values()} == {graphs}
    assert len({*names}) == len(names) > 5
    assert "; a row for each contestant" in drawing.caption
    assert (f", with a dot for each of the same {graphs} graphs" in drawing.caption) == (graphs > 1)


def test_bytes_and_times_are_over_those_of_the_baseline_and_rows_are_by_bytes():
    rows = rows_of(4, 9)
    drawing = made(rows, "traffic", baseline="fp32 layout-4")
    left, right = drawing.figure.axes
    assert (left.get_xlabel(), right.get_xlabel()) == ("bytes read", "time")
    assert drawing.figure.get_supxlabel() == "over that of fp32 layout-4"
    assert ": time against bytes read, both over those of fp32 layout-4" in drawing.caption
    names = [text.get_text() for text in left.get_yticklabels()]
    expected = [f"{storage} layout-{3 * k + place}" for place, storage in enumerate(BITS) for k in (2, 1, 0)]
    assert names == [name for name in expected if name != "fp32 layout-4"]
    for axes, power in ((left, 2), (right, 1)):
        dots = dots_of(axes)
        for place, name in zip(left.get_yticks(), names, strict=True):
            storage, _, layout = name.partition(" layout-")
            assert dots[place] == pytest.approx([BITS[storage] / 32 * 1.003 ** (power * (int(layout) - 4))] * 4)
            shades = {to_hex(line.get_color()).upper() for line in axes.lines if line.get_ydata()[0] == place}
            assert colour(BITS[storage]) in shades


def test_rows_have_medians_where_all_have_the_same_graphs():
    rows = rows_of(5, 9)
    figure = made(rows, "error").figure
    (axes,) = figure.axes
    dots, strokes = (
        dots_of(axes),
        {line.get_ydata()[0]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|"},
    )
    assert {place: pytest.approx(np.median(each)) for place, each in dots.items()} == strokes
    assert "median" in [text.get_text() for text in figure.legends[0].get_texts()]
    fewer = made([row for row in rows if row["cell"] != "4 fp32 4 1e-09"], "error")
    assert not any(line.get_marker() == "|" for line in fewer.figure.axes[0].lines)
    assert ", with a dot for each graph;" in fewer.caption


def test_contestants_without_a_graph_of_the_others_are_left_out_of_ratios_and_named():
    rows = [
        row for row in rows_of(4, 9) if row["storage"] != "fp16" or row["layout"] != "layout-2" or row["edges"] < 11
    ]
    drawing = made(rows, "traffic")
    assert "; left out, since without results on some of these graphs: fp16 layout-2" in drawing.caption
    assert "fp16 layout-2" not in [text.get_text() for text in drawing.figure.axes[0].get_yticklabels()]


def test_tolerances_have_marks_of_their_own():
    rows = rows_of(1, 9, tolerances=(1e-4, 1e-8))
    figure = made(rows, "error").figure
    shapes = {line.get_marker() for line in figure.axes[0].lines}
    assert len(shapes) == 2
    assert {"tol=0.0001", "tol=1e-08"} < {text.get_text() for text in figure.legends[0].get_texts()}


def test_mean_bits_are_in_a_panel_of_their_own():
    rows = [{**row, "iterations_by_bits": {str(row["bits"]): 3, "64": 1 + row["edges"] % 3}} for row in rows_of(3, 9)]
    rows = [{key: value for key, value in row.items() if key != "bits"} for row in rows]
    left, right = made(rows, "error").figure.axes
    assert (left.get_xlabel(), right.get_xlabel()) == ("mean bits", "error, 1-norm")
    assert left.get_position().width < right.get_position().width


def test_marks_that_are_far_apart_or_few_have_panels_of_graphs():
    assert not is_rows(made(rows_of(2, 5), "traffic").figure)
    far = [{**row, "solve_s": 4.0 ** int(row["layout"][-1]) * row["solve_s"]} for row in rows_of(2, 9)]
    assert not is_rows(made(far, "traffic").figure)


def test_the_law_of_crowded_marks_finds_them(monkeypatch):
    monkeypatch.setattr(quantities, "strips", lambda *_: None)
    (fault,) = crowded_marks(made(rows_of(2, 9), "traffic").figure)
    assert "of 9 series are less than 6.0 points from another one's" in fault


def test_the_share_of_marks_near_others_is_in_points():
    with styled():
        figure = Figure(figsize=(2.0, 2.0))
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, 144), ylim=(0, 144))
        for place in (10.0, 15.9, 30.0, 36.1):
            nested.mark(axes, (place, 20.0), "o", "#000000", filled=False, label=f"{place}")
    assert nested.crowding(figure) == 0.5
