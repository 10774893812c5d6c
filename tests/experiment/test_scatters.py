"""Points of figures without a program are named: each by its graph and by its contestant, and no name is covered."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from cpms.experiment.report.observations import observations
from cpms.experiment.report.page.apart import apart
from cpms.experiment.report.page.labels import place
from cpms.experiment.report.palette import colour
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
        figure, _, _ = TEMPLATES[name](observations(rows), WIDTHS[width], None)
        figure.draw_without_rendering()
    return figure


def places_across(figure):
    points = {each.get_label(): each for each in figure.axes[0].collections if isinstance(each, PathCollection)}
    return [across for name in STORAGES for across in points[name].get_offsets()[:, 0]]


def legend_of(figure):
    """Return the entries of the legend, and those of the title, which are numbered."""
    titles = [entry for line in figure.axes[0].get_title().split("\n") for entry in line.split(" \u00b7 ")]
    entries = [text.get_text().replace("\n", " ") for each in figure.legends for text in each.get_texts()]
    return entries + [each for each in titles if each[:1].isdecimal()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("graphs", "apart", "name"), [(3, 5.0, "traffic"), (9, 1.003, "traffic"), (4, 1.3, "error")])
def test_each_point_has_a_name_that_nothing_covers(width, graphs, apart, name):
    figure = drawn(rows_of(graphs, apart), width, name)
    (axes,) = figure.axes
    entries, texts = legend_of(figure), [text for text in axes.texts if text.get_text()]
    named = [text.get_text() for text in texts]
    points = [each for each in axes.collections if isinstance(each, PathCollection)]
    shown = len(points[0].get_offsets())
    assert {each.get_label() for each in points} == set(STORAGES) <= set(entries)
    assert len(named) >= len(set(named)) == shown >= (min(graphs, 4) if apart > 1.1 else 2)
    assert all(
        name.startswith("graph-") or any(each.startswith(f"{name} graph-") for each in entries) for name in named
    )
    looks = [(to_hex(each.get_facecolor()[0]), each.get_paths()[0].vertices.tobytes()) for each in points]
    assert len(set(looks)) == len(looks)
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    marks = np.concatenate([each.get_offset_transform().transform(each.get_offsets()) for each in points])
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    edge = axes.get_window_extent()
    assert all(edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1 for box in boxes)


def test_names_that_have_no_room_are_numbers_with_a_key():
    rows = [
        {**row, "graph": f"{row['graph']} of a long name in two lines, and what is done"} for row in rows_of(9, 1.0)
    ]
    figure = drawn(rows, "single", "traffic")
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(numbers) == [str(place) for place in range(1, 1 + len(numbers))]
    assert {f"{number} graph-" for number in numbers} <= {f"{entry.partition('-')[0]}-" for entry in legend_of(figure)}
    text = "; named: each group of a graph's points, by its number above the panel"
    assert text in captions_of(rows_of(4, 1.3), "error")
    assert "by its number" not in captions_of(rows_of(3, 5.0), "traffic")


def test_points_of_one_graph_have_its_name_above_them():
    figure = drawn(rows_of(1, 3.0), "single", "error")
    assert figure.axes[0].get_title() == "graph-0"


def test_graphs_with_one_point_are_drawn_where_the_others_have_all_theirs_in_one_place():
    rows = [row for row in rows_of(3, 2.0) if row["graph"] == "graph-0" or row["storage"] == "fp16"]
    rows = [{**row, "bits": 64} if row["graph"] == "graph-0" else row for row in rows]
    figure = drawn(rows, "single", "error")
    assert {text.get_text() for text in figure.axes[0].texts} == {"graph-0", "graph-1", "graph-2"}


def test_graphs_whose_names_are_alike_are_told_apart():
    rows = rows_of(2, 9.0)
    rows = [{**row, "graph": f"rmat:scale=20,edge_factor=16,seed={row['graph'][-1]}"} for row in rows]
    figure = drawn(rows, "single", "traffic")
    assert {text.get_text() for text in figure.axes[0].texts} == {"rmat 20 seed=0", "rmat 20 seed=1"}


@pytest.mark.parametrize(("apart", "shown"), [(1.0, 2), (3.0, 4)])
def test_fewer_graphs_are_drawn_where_points_of_several_would_coincide(apart, shown):
    rows = rows_of(5, apart)
    figure = drawn(rows, "single", "error")
    points = [each for each in figure.axes[0].collections if isinstance(each, PathCollection)]
    assert {len(each.get_offsets()) for each in points} == {shown}


def test_of_graphs_with_the_same_bytes_one_is_drawn():
    rows = [
        {**row, "bytes_read": 5e6 * STORAGES[row["storage"]] * (1 + (row["graph"] == "graph-0"))}
        for row in rows_of(4, 2.0)
    ]
    figure, text, _ = TEMPLATES["traffic"](observations(rows), WIDTHS["single"], None)
    assert [each.get_text() for each in figure.axes[0].texts if each.get_text()] == ["graph-0", "graph-1"]
    assert "without 2 that have the bytes of one drawn" in text


@pytest.mark.parametrize("share", [1.0, 1.05, 1.5])
def test_bytes_that_differ_by_graph_alone_are_not_drawn(share):
    rows = [
        {**row, "bytes_read": 1e6 * (1 + int(row["graph"][-1])) * share ** (row["storage"] == "fp64")}
        for row in rows_of(4, 2.0)
    ]
    assert (TEMPLATES["traffic"](observations(rows), WIDTHS["single"], None) is None) == (share < 1.1)


def captions_of(rows, name):
    return TEMPLATES[name](observations(rows), WIDTHS["single"], None)[1]


def test_lines_join_points_of_few_graphs_whose_paths_are_monotone_and_do_not_cross():
    def lines(rows, name="traffic"):
        figure = drawn(rows, "single", name)
        held = [line for line in figure.axes[0].lines if to_hex(line.get_color()) == "#c8c8c8"]
        assert bool(held) == ("; lines: points of one graph" in captions_of(rows, name))
        return len(held)

    rows = rows_of(3, 20.0)
    assert lines(rows) == 3 * (len(STORAGES) - 1)
    assert lines(rows, "error") == lines(rows_of(4, 20.0)) == 0
    falls = [{**row, "solve_s": 50.0} if row["cell"] == "2 fp32" else row for row in rows]
    assert lines(falls) == 0
    crossing = [
        {**row, "solve_s": 1e3 / row["solve_s"]} if row["graph"] == "graph-1" else row for row in rows_of(2, 1.3)
    ]
    assert lines(crossing) == 0


@pytest.mark.parametrize("name", ["traffic", "error"])
def test_each_point_that_no_line_joins_has_its_graph_beside_its_group(name):
    figure = drawn(rows_of(4, 30.0), "single", name)
    (axes,) = figure.axes
    unit = figure.dpi / 72
    boxes = [(text.get_text(), text.get_window_extent().extents / unit) for text in axes.texts if text.get_text()]
    graph_of = {text: f"graph-{text[-1]}" for text, _ in boxes}
    for entry in legend_of(figure):
        number, _, graph = entry.partition(" ")
        if number in graph_of:
            graph_of[number] = graph
    found = TEMPLATES[name](observations(rows_of(4, 30.0)), WIDTHS["single"], None)
    assert "named: each group" in found[1]
    points = [each for each in axes.collections if isinstance(each, PathCollection)]
    for each in points:
        order = np.argsort(each.get_offsets()[:, 1])
        for rank, at in enumerate(order):
            mark = axes.transData.transform(each.get_offsets()[at]) / unit
            own = [box for text, box in boxes if graph_of[text] == f"graph-{rank}"]
            assert min(np.hypot(*(mark - np.clip(mark, box[:2], box[2:]))) for box in own) < 60


def test_no_mark_is_far_beyond_the_most_bits_and_the_axis_ends_there():
    rows = [{**row, "engine": engine, "error_l1": 1e-9} for row in rows_of(1, 1.0) for engine in ("cpu", "cuda", "mpi")]
    rows = [{**row, "cell": str(place)} for place, row in enumerate(rows)]
    figure = drawn(rows, "single", "error")
    (axes,) = figure.axes
    mark = 4.6 * figure.dpi / 72
    end = axes.transData.transform((64.0, 1e-9))[0]
    assert end < axes.get_window_extent().x1 < end + 2 * mark
    marks = np.concatenate([axes.transData.transform(each.get_offsets()) for each in axes.collections])
    assert marks[:, 0].max() < end + mark
    apart = np.hypot(*np.moveaxis(marks[:, None] - marks, 2, 0)) + 1e9 * np.eye(len(marks))
    assert apart.min() > 0.75 * mark
    assert "set apart by at most a mark's width" in captions_of(rows, "error")


def test_products_without_an_error_are_stated_and_wrong_ones_are_ringed():
    errors = {"fp64": 0.0, "fp32": 1e-7, "fp16": 1e-3, "bf16": 30.0}
    rows = [
        {**row, "kind": "product", "error": errors[row["storage"]], "error_l1": None, "least_bytes": 1e6}
        for row in rows_of(1, 2.0)
    ]
    figure, text, _ = TEMPLATES["error"](observations(rows), WIDTHS["single"], None)
    assert figure.axes[0].get_ylabel() == "largest relative error"
    assert "; error 0, on so many graphs: fp64 (1);" in text
    assert "error above 1, 1 of 3 (bf16)" in text
    (ring,) = figure.axes[0].lines
    assert ring.get_ydata() == pytest.approx([30.0])


def test_a_contestant_of_several_colours_has_an_open_mark_in_the_legend():
    rows = [{**row, "bits": 8} if row["cell"] == "1 fp32" else row for row in rows_of(2, 9.0)]
    figure = drawn(rows, "single", "traffic")
    faces = {line.get_label(): line.get_markerfacecolor() for each in figure.legends for line in each.get_lines()}
    assert faces["fp32"] == "white"
    assert faces["fp64"] == colour(64)
    assert "; open marks of the legend have several colours" in captions_of(rows, "traffic")
    assert "open" not in captions_of(rows_of(2, 9.0), "traffic")


def test_the_unit_of_time_is_that_of_the_longest():
    rows = rows_of(3, 1000.0)
    assert drawn(rows, "single", "traffic").axes[0].get_ylabel() == "time in s"
    rows = [{**row, "solve_s": row["solve_s"] / 1e9} for row in rows]
    assert drawn(rows, "single", "traffic").axes[0].get_ylabel() == "time in ms"


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
    assert "fewest bits of several" in legend_of(figure)


def test_bars_of_results_that_name_no_storage_are_of_float64():
    rows = [{key: value for key, value in row.items() if key != "storage"} for row in rows_of(2, 3.0)]
    figure = drawn(rows, "single", "time")
    assert {to_hex(bar.get_facecolor()).upper() for bar in figure.axes[0].patches if bar.get_width()} == {"#0072B2"}
    assert legend_of(figure) == ["64 bits"]


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


def test_only_points_that_would_coincide_are_set_apart_and_by_at_most_a_mark():
    bits = {"fp64": 64.0, "fp32": 32.0, "fp16": 16.0, "bf16": 16.0}
    figure = drawn([{**row, "error_l1": 10.0 ** -bits[row["storage"]] * (1 + (row["storage"] == "bf16") * 1e9)}
                    for row in rows_of(2, 1.0)], "single", "error")  # fmt: skip
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for each in (each for each in axes.collections if isinstance(each, PathCollection)):
        across = each.get_offsets()[:, 0] - bits[each.get_label()]
        assert across[0] == pytest.approx(-across[1])
        assert across[0] != 0
        assert np.ptp(axes.transData.transform([(abs(across[0]), 1.0), (0.0, 1.0)])[:, 0]) < 4.5 * figure.dpi / 72
    figure = drawn(rows_of(1, 1.0), "single", "error")  # The last two storages have one error, on one graph.
    across = places_across(figure)
    assert across[2] + across[3] == pytest.approx(32.0)
    assert across[2] != across[3]
    apart = [{**row, "error_l1": row["error_l1"] * (1 + 30 * (row["storage"] == "bf16"))} for row in rows_of(2, 1000.0)]
    assert {*places_across(drawn(apart, "single", "error"))} == {64.0, 32.0, 16.0}


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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=12))
def test_marks_are_moved_by_at_most_their_width_and_those_alone_stay(points):
    places = np.array(points) / 10
    moved = apart(places)
    assert (np.hypot(*(moved - places).T) <= 1 + 1e-9).all()
    distance = np.hypot(*np.moveaxis(places[:, None] - places, 2, 0)) + 1e9 * np.eye(len(places))
    far = distance.min(axis=1) > 3
    assert moved[far] == pytest.approx(places[far])


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.floats(-9, 9), st.floats(-9, 9))
def test_a_few_marks_in_one_place_are_moved_until_they_touch(count, across, up):
    moved = apart(np.tile([[across, up]], (count, 1)))
    distance = np.hypot(*np.moveaxis(moved[:, None] - moved, 2, 0)) + 1e9 * np.eye(count)
    assert distance.min() > 0.95


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
