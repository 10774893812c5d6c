"""Marks of scatters without a program stand at the values of their rows, in a panel for each graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from one_drawing import drawn_alone
from scatter_laws import UNITS, covered_marks, labels_of, points_of, unreadable

from cpms.experiment.report import templates
from cpms.experiment.report.generic.scatters import quantities
from cpms.experiment.report.observations import observations
from cpms.experiment.report.page import nested
from cpms.experiment.report.page.labels import place
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES

STORAGES = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16}
"""The last two have one colour."""


def rows_of(graphs, apart):
    """Return rows of some graphs whose bytes and times are as far apart as asked."""
    return [
        {"cell": f"{place} {storage}", "experiment": "mine", "status": "ok", "graph": f"graph-{place}", "engine": "cpu"}
        | {"storage": storage, "solve_s": apart**place * bits, "bytes_read": apart**place * bits * 1e6}
        | {"error_l1": 1e-9 * apart**place / bits}
        for place in range(graphs)
        for storage, bits in STORAGES.items()
    ]


def drawn(rows, width, name):
    with styled():
        figure, *_ = TEMPLATES[name](observations(rows), WIDTHS[width], None)
        figure.draw_without_rendering()
    return figure


def named(figure):
    return [text.get_text().replace("\n", " ") for each in figure.legends for text in each.get_texts()]


def values_of(rows, name, figure):
    """Return the values of rows by graph, in the units of the figure."""
    size, time = (UNITS.get(label.split()[-1], 1.0) for label in labels_of(figure))
    found = dict[str, list[tuple[float, float]]]()
    for row in rows:
        at = (row["bytes_read"] / size, row["solve_s"] / time)
        at = at if name == "traffic" else (float(STORAGES[row["storage"]]), row["error_l1"])
        found.setdefault(row["graph"], []).append(at)
    return found


def in_layouts(count, apart=0.0):
    """Return rows of two formats on two graphs in some layouts, whose values differ by shares of ``apart``."""
    return [
        {**row, "cell": f"{row['cell']} {layout}", "layout": layout}
        | {key: row[key] * (1 + apart * place) for key in ("solve_s", "bytes_read", "error_l1")}
        for row in rows_of(2, 2.0)
        if row["storage"] in ("fp64", "fp32")
        for place, layout in enumerate(SHAPES[:count])
    ]


@pytest.mark.representatives(width=("single",), graphs=("1", "9"))
@pytest.mark.representatives(width=("double",), graphs=("30",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["traffic", "error"])
@pytest.mark.parametrize(("graphs", "apart"), [(1, 1.0), (3, 5.0), (4, 1.003), (9, 1.3), (30, 1.1)])
def test_each_mark_stands_at_the_values_of_its_row(width, name, graphs, apart):
    rows = rows_of(graphs, apart)
    for row in rows:  # Two contestants coincide on each graph.
        same = row["storage"] in ("fp16", "bf16")
        row["solve_s"] *= 1.0 if same else 2.0
    figure = drawn(rows, width, name)
    values = values_of(rows, name, figure)
    assert 1 <= len(figure.axes) <= 4
    for axes in figure.axes:
        points, of_rows = [at for at, _ in points_of(axes)], values[axes.get_title()]
        if name == "traffic":
            assert sorted(points) == sorted(of_rows)
        else:  # A contestant with the marks of another one on all graphs is drawn once.
            assert {*points} <= {*of_rows}
            assert all(any(x == at and 0.79 < y / up < 1.26 for x, y in points) for at, up in of_rows)
    assert list(unreadable(figure)) == []
    assert figure.get_figheight() <= 4.5


def test_marks_with_no_other_near_have_one_area_and_those_of_the_baseline_alone_are_filled_above_the_others():
    figure = drawn(rows_of(3, 5.0), "single", "traffic")
    assert [name for name in named(figure) if name.strip()] == [
        "64 bits",
        "32 bits",
        "16 bits",
        "fp64/fp32/fp16",
        "bf16",
    ]
    for axes in figure.axes:
        *filled, hollow = axes.collections
        shades = [to_hex(shade).upper() for each in filled for shade in each.get_facecolor()]
        assert shades == [colour(bits) for bits in (64, 32, 16)]
        assert len(hollow.get_facecolor()) == 0
        assert all(each.get_zorder() > hollow.get_zorder() for each in filled)
        areas = [
            each.get_sizes()[0] * sum(abs(area(ring)) for ring in each.get_paths()[0].to_polygons())
            for each in axes.collections
        ]
        assert areas[:3] == pytest.approx([13.0] * 3, rel=0.01)
        assert areas[3] > 26  # It is at the place of the third.
    text = captions_of(rows_of(3, 5.0), "traffic")
    assert "; filled: fp64/fp32/fp16" in text
    assert "; grey in the legend: several colours" in text
    assert {line.get_color() for line in figure.legends[0].get_lines()} >= {NEUTRAL, colour(16)}


SHAPES = ("pattern", "csr", "ell", "sell", "coo", "coo_exchange")
"""Layouts, whose markers are of all shapes."""


@pytest.fixture
def in_panels(monkeypatch):
    """Draw marks in panels of graphs, however near each other they are."""
    monkeypatch.setattr(quantities, "strips", lambda *_: None)


@pytest.mark.representatives(width=("single",), apart=("0.0",), count=("4",))
@pytest.mark.representatives(width=("double",), apart=("0.01",), count=("4",))
@pytest.mark.usefixtures("in_panels")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["traffic", "error"])
@pytest.mark.parametrize("apart", [0.0, 0.01])
@pytest.mark.parametrize("count", [2, 4])
def test_marks_of_one_place_or_nearly_one_can_all_be_seen(width, name, apart, count):
    rows = in_layouts(count, apart)
    figure = drawn(rows, width, name)
    assert list(covered_marks(figure)) == []
    drawn_of_each = min(count, count if apart else nested.MOST) if name == "traffic" else 1
    assert all(len(points_of(axes)) == 2 * drawn_of_each for axes in figure.axes)
    if name == "error":
        others = {storage: [f"{storage} {layout}" for layout in SHAPES[1:count]] for storage in ("fp64", "fp32")}
        alone = "; of ".join(f"{storage} {SHAPES[0]}: {', '.join(names)}" for storage, names in others.items())
        assert f"; not drawn, with the marks of {alone}" in captions_of(rows, name)
    elif not apart:
        text = "; nested marks: the centre of each is its value"
        assert text in captions_of(rows, name)


@pytest.mark.usefixtures("in_panels")
@pytest.mark.parametrize("count", [3, 4])
def test_no_more_marks_lie_on_one_another_than_can_be_told_apart_and_the_baseline_is_one_of_them(count):
    rows = in_layouts(count)
    made = drawn_alone(rows, "traffic", baseline=SHAPES[count - 1])
    assert all(len(points_of(axes)) == 2 * min(count, nested.MOST) for axes in made.figure.axes)
    assert f"filled: fp64/fp32 {SHAPES[count - 1]}" in made.caption
    left = f"left out, as over {nested.MOST} marks would lie on one another: fp64/fp32 {SHAPES[count - 2]}"
    assert (left in made.caption) == (count > nested.MOST)


@pytest.mark.parametrize("count", [2, 3, nested.MOST + 1])
def test_contestants_have_rows_where_most_marks_lie_on_two_others(count):
    rows = in_layouts(count)
    made = drawn_alone(rows, "traffic")
    assert ("; a row for each contestant" in made.caption) == (count > 2)
    assert "left out" not in made.caption


def area(ring):
    x, y = np.asarray(ring).T
    return (x[:-1] @ y[1:] - y[:-1] @ x[1:]) / 2


def test_a_line_joins_the_members_of_a_series_from_left_to_right():
    rows = rows_of(2, 5.0)
    figure = drawn(rows, "single", "traffic")
    for axes in figure.axes:
        (joined,) = (np.asarray(line.get_xydata()) for line in axes.lines)
        assert len(joined) == 3
        assert {tuple(at) for at in joined.tolist()} == {*values_of(rows, "traffic", figure)[axes.get_title()]}
        assert (np.diff(joined[:, 0]) > 0).all()
    assert "; lines join formats or levels" in captions_of(rows, "traffic")


def test_of_many_graphs_those_drawn_are_of_the_larger_half_and_each_is_drawn_once():
    rows = [
        {**row, "edges": 10 * (1 + graph), "tol": tol, "cell": f"{row['cell']} {tol}", "solve_s": row["solve_s"] / tol}
        for row in rows_of(12, 1.5)
        for graph in [int(row["graph"].partition("-")[2])]
        for tol in (1e-3, 1e-6)
    ]
    figure = drawn(rows, "single", "traffic")
    assert [axes.get_title() for axes in figure.axes] == ["graph-6", "graph-8", "graph-9", "graph-11"]
    assert all(max(y for (_, y), _ in points_of(axes)) > 1e6 for axes in figure.axes)
    text = captions_of(rows, "traffic")
    assert "; a panel for each graph, with axes of its own" in text
    assert "; 4 of 12 graphs, evenly chosen by size among the larger half" in text
    assert "; tolerance 1e-06, the smallest of 2" in text


@pytest.mark.usefixtures("in_panels")
def test_contestants_are_chosen_by_their_bytes_where_those_of_whole_series_have_the_same():
    rows = [
        {**row, "cell": f"{row['cell']} {place}", "layout": f"layout-{place}", "bytes_read": 1e9 * max(place, 12)}
        for row in rows_of(2, 2.0)
        if row["storage"] == "fp64"
        for place in range(16)
    ]
    for axes in drawn(rows, "single", "traffic").axes:
        across = [x for (x, _), _ in points_of(axes)]
        assert (min(across), max(across), len(across)) == (12.0, 15.0, nested.MOST + 2)


def test_panels_of_bits_have_one_axis_and_other_panels_their_own():
    figure = drawn([row for row in rows_of(4, 9.0) if row["cell"] != "0 fp64"], "single", "error")
    assert len(figure.axes) == 4
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert len({axes.get_ylim() for axes in figure.axes}) == 4
    figure = drawn(rows_of(4, 9.0), "single", "traffic")
    assert len({axes.get_xlim() for axes in figure.axes}) == 4
    narrow = [{**row, "solve_s": 1.0 + 1e-6 * row["solve_s"]} for row in rows_of(2, 1.0)]
    for axes in drawn(narrow, "single", "traffic").axes:
        low, high = axes.get_ylim()
        assert 1.5 < high / low < 2.0


def test_panels_of_bits_reach_the_edge_of_the_page():
    figure = drawn(rows_of(4, 5.0), "single", "error")
    assert max(axes.get_position().x1 for axes in figure.axes) > 0.93


def test_graphs_whose_results_all_read_the_same_bits_are_not_drawn():
    rows = [{**row, "bits": 64} if row["graph"] != "graph-0" else row for row in rows_of(3, 2.0)]
    assert [axes.get_title() for axes in drawn(rows, "single", "error").axes] == ["graph-0"]
    assert "; 1 of 3 graphs" in captions_of(rows, "error")
    assert TEMPLATES["error"](observations([{**row, "bits": 64} for row in rows]), WIDTHS["single"], None) is None


def test_titles_of_graphs_that_are_alike_differ():
    rows = rows_of(2, 9.0)
    rows = [{**row, "graph": f"rmat:scale=20,edge_factor=16,seed={row['graph'][-1]}"} for row in rows]
    figure = drawn(rows, "single", "traffic")
    assert {axes.get_title() for axes in figure.axes} == {"rmat 20 seed=0", "rmat 20 seed=1"}
    rows = [{**row, "graph": f"{row['graph']} of a name that two lines cannot hold, nor even three"} for row in rows]
    assert list(unreadable(drawn(rows, "single", "traffic"))) == []


def test_products_without_an_error_are_stated_and_wrong_ones_are_ringed():
    errors = {"fp64": 0.0, "fp32": 1e-7, "fp16": 1e-3, "bf16": 30.0}
    rows = [
        {**row, "kind": "product", "error": errors[row["storage"]], "error_l1": None, "least_bytes": 1e6}
        for row in rows_of(1, 2.0)
    ]
    figure, text, *_ = TEMPLATES["error"](observations(rows), WIDTHS["single"], None)
    assert figure.axes[0].get_ylabel() == "largest relative error"
    assert "; error 0: fp64;" in text
    assert "error above 1, 1 of 3 (bf16)" in text
    (ring,) = (line for line in figure.axes[0].lines if line.get_marker() == "o")
    assert ring.get_ydata() == pytest.approx([30.0])


@pytest.mark.parametrize(("longest", "unit"), [(64.0, "s"), (0.64, "ms"), (0.064, "ms"), (6.4e-5, "\u00b5s")])
def test_the_unit_of_time_is_that_of_the_shortest_numbers(longest, unit):
    rows = [{**row, "solve_s": row["solve_s"] * longest / 64} for row in rows_of(1, 1.0)]
    assert labels_of(drawn(rows, "single", "traffic"))[1] == f"time in {unit}"


@pytest.mark.parametrize(("most", "unit"), [(64e9, "GB"), (64e12, "TB"), (2e9, "GB"), (64e7, "MB"), (100e3, "kB")])
def test_the_unit_of_bytes_is_that_of_the_shortest_numbers(most, unit):
    rows = [{**row, "bytes_read": most / 64 * STORAGES[row["storage"]]} for row in rows_of(1, 1.0)]
    assert labels_of(drawn(rows, "single", "traffic"))[0] == f"bytes read, in {unit}"


@pytest.mark.parametrize("share", [1.0, 1.05, 1.5])
def test_bytes_that_differ_by_graph_alone_are_not_drawn(share):
    rows = [
        {**row, "bytes_read": 1e6 * (1 + int(row["graph"][-1])) * share ** (row["storage"] == "fp64")}
        for row in rows_of(4, 2.0)
    ]
    assert (TEMPLATES["traffic"](observations(rows), WIDTHS["single"], None) is None) == (share < 1.1)


def captions_of(rows, name):
    return TEMPLATES[name](observations(rows), WIDTHS["single"], None)[1]


def test_bars_of_several_bits_have_the_colour_of_the_fewest_and_a_hatch_in_the_legend():
    rows = [{**row, "iterations_by_bits": {"8": 3, "64": 2}} for row in rows_of(2, 3.0)]
    figure = drawn(rows, "single", "time")
    bars = [bar for bar in figure.axes[0].patches if bar.get_width() > 0]
    assert {bar.get_hatch() for bar in bars} == {"xxxxx"}
    (outline,) = [each for each in figure.axes[0].collections if len(each.get_segments()[0]) == 4]
    assert [each[:, 0].max() for each in outline.get_segments()] == [bar.get_width() for bar in bars]
    assert {to_hex(bar.get_facecolor()).upper() for bar in bars} == {"#CC79A7"}
    (legend,) = figure.legends
    assert [patch.get_hatch() for patch in legend.get_patches()] == ["xxxxx"]
    assert "fewest bits of several" in named(figure)


def test_bars_of_results_that_name_no_storage_are_of_float64():
    rows = [{key: value for key, value in row.items() if key != "storage"} for row in rows_of(2, 3.0)]
    figure = drawn(rows, "single", "time")
    assert {to_hex(bar.get_facecolor()).upper() for bar in figure.axes[0].patches if bar.get_width()} == {"#0072B2"}
    assert not figure.legends


def test_names_without_room_may_be_left_out():
    with styled():
        axes = Figure(figsize=(1.5, 1.0)).subplots()
        axes.scatter([0, 0, 1], [0, 0, 1])
        points = [np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])]
        texts = ["a name that is wider than the whole panel", "b"]
        assert not place(axes, texts, points)
        assert not list(axes.texts)
        place(axes, texts, points, all_or_none=False)
    assert [text.get_text() for text in axes.texts] == ["b"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=4, max_size=10, unique=True))
@example([(3, 2), (4, 3), (2, 9), (3, 3), (10, 5), (9, 10), (8, 0)])  # Decided by less than a text's descent.
def test_a_name_without_a_line_to_its_point_has_one_of_its_own_points_nearest(points):
    places = np.array(points, float)
    parts = [places[start::3] for start in range(3)]
    with styled():
        axes = Figure(figsize=(3.0, 2.5)).subplots()
        axes.scatter(*places.T)
        place(axes, ["one", "two", "three"], parts, all_or_none=False)
    leaders = {tuple(np.round(line.get_xydata()[0], 9)) for line in axes.lines}
    for text in axes.texts:
        if tuple(np.round(text.xy, 9)) not in leaders:
            box = text.get_window_extent()
            screen = [axes.transData.transform(part) for part in parts]
            low, high = np.array([box.x0, box.y0]), np.array([box.x1, box.y1])
            near = [np.hypot(*(part - np.clip(part, low, high)).T).min() for part in screen]
            assert int(np.argmin(near)) == ["one", "two", "three"].index(text.get_text())


def test_a_name_is_not_written_where_another_mark_is_nearer():
    axes = Figure(figsize=(3, 3), dpi=72).subplots()
    axes.set(position=(0, 0, 1, 1), xlim=(0, 216), ylim=(0, 216))  # A unit is a point.
    own, reach = np.array([100.0, 100.0]), 27.0
    # Marks on all sides leave room for the name, but less from them to the name than from the name to its point.
    around = [own + reach * np.array([np.cos(turn), np.sin(turn)]) for turn in np.arange(0, 6.28, 0.5)]
    assert place(axes, ["name"], [own[None]], others=around, all_or_none=False)
    box = axes.texts[-1].get_window_extent()

    def distance(point):
        return np.hypot(*(np.clip(point, (box.x0, box.y0), (box.x1, box.y1)) - point))

    assert axes.lines or distance(own) < min(map(distance, around))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(*[st.floats(0, 12)] * 4), min_size=1, max_size=4))
def test_no_name_is_on_a_line(ends):
    lines = [np.array(each).reshape(2, 2) for each in ends]
    with styled():
        axes = Figure(figsize=(3.0, 2.5)).subplots()
        axes.set(xlim=(0, 12), ylim=(0, 12))
        texts = [f"name {k}" for k in range(len(lines))]
        place(axes, texts, [line[:1] for line in lines], lines=lines, all_or_none=False)
    for text in axes.texts:
        box = text.get_window_extent()
        for line in lines:
            along = axes.transData.transform(line[0] + np.linspace(0, 1, 200)[:, None] * (line[1] - line[0]))
            assert not any(box.contains(*each) for each in along)


def rows_with_histories(lengths, **more):
    return [
        {**row, "history": [[10.0**-step, 64] for step in range(lengths[int(row["graph"][-1])])], **more}
        for row in rows_of(len(lengths), 2.0)
    ]


@pytest.mark.parametrize("lengths", [(3, 9, 5), (7,)])
def test_of_several_graphs_the_curves_of_the_one_with_the_most_iterations_are_drawn(lengths):
    rows = rows_with_histories(lengths, norm="l2")
    (axes,) = drawn(rows, "single", "residual").axes
    assert axes.get_title() == f"graph-{lengths.index(max(lengths))}"
    assert axes.get_ylabel() == "residual, 2-norm"
    assert len(axes.lines) == len(STORAGES)
    assert {len(line.get_xdata()) for line in axes.lines} == {max(lengths)}
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(widths)
    text = captions_of(rows, "residual")
    assert (f"of {len(lengths)} graphs the one with the most iterations" in text) == (len(lengths) > 1)
    assert "first" not in text


def test_residuals_of_systems_are_relative_and_solves_without_room_are_counted():
    rows = [
        {**row, "kind": "linear", "cell": f"{row['cell']} {k}", "layout": f"{k}"}
        for row in rows_with_histories((4,))
        for k in range(3)
    ]
    (axes,) = drawn(rows, "single", "residual").axes
    assert axes.get_ylabel() == "relative residual, 2-norm"
    assert "; first 6 of its 12 solves" in captions_of(rows, "residual")


@pytest.mark.parametrize(
    ("column", "apart", "shown"), [("residual_l1", 9, 0), ("residual_l1", 11, 1), ("error_l1", 9, 1)]
)
def test_residuals_that_the_tolerance_decides_are_not_drawn(column, apart, shown):
    rows = [
        {**row, "error_l1": None}
        | {column: 1e-9 * 100.0 ** int(row["graph"][-1]) * apart ** (row["storage"] == "fp64")}
        for row in rows_of(3, 2.0)
    ]
    assert (TEMPLATES["error"](observations(rows), WIDTHS["single"], None) is not None) == bool(shown)


def test_captions_of_errors_name_results_that_have_not_converged():
    rows = [{**row, "converged": row["storage"] != "bf16"} for row in rows_of(3, 5.0)]
    for number, row in enumerate(rows):
        row["error_l1"] = 10.0 ** -(number % 4 + 3)
    made = {name: drawn_alone(rows, name) for name in ("error", "time")}
    assert "; struck through: bf16 (not converged)" in made["error"].caption
    assert made["error"].alt.endswith(" Struck through are 3 of these, which did not converge.")
    assert "; results left out: bf16 (not converged)" in made["time"].caption
    assert not any("truck through" in each.caption + each.alt for each in templates.drawings(rows[:2], width="single"))
