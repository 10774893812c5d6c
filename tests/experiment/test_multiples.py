"""Panels that share a column of names: each name is written once, with the marks of its contestant beside it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from one_drawing import drawn_alone

from cpms.base.text.escape import drawn as drawn_of
from cpms.experiment.report import figures, templates
from cpms.experiment.report.generic.multiples import _PARTS, _lines, panel_inches
from cpms.experiment.report.generic.parts import marks_of
from cpms.experiment.report.observations import observations
from cpms.experiment.report.page import room
from cpms.experiment.report.page.legends import markers
from cpms.experiment.report.palette import NEUTRAL
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS

HIGHEST_IN = 4.5
"""Most height of a figure in inches."""
WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=6)


def rows_of(graphs, names):
    """Return rows of contestants by name, the first of which is the slowest on every graph."""
    shared = {
        "experiment": "mine",
        "status": "ok",
        "engine": "cpu",
        "kind": "product",
        "entries": 9,
        "host_copy_gbps": 8.0,
    }
    return [
        {**shared, "cell": f"{graph} {place}", "graph": f"graph-{graph}", "nodes": 2 + graph, "solve_s": time}
        | {"storage": name, "least_bytes": 10**9, "layout": "csr"}
        for graph in range(graphs)
        for place, name in enumerate(names)
        for time in [(1 + graph) / (1 + place / len(names))]
    ]


def drawn(rows, name, width="single"):
    found = drawn_alone(rows, name, width=width)
    with styled():
        figures._escape(found.figure)
        found.figure.draw_without_rendering()
    return found


@pytest.mark.representatives(width=("single",), graphs=("2", "12"))
@pytest.mark.representatives(width=("double",), graphs=("30",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["time", "roofline"])
@pytest.mark.parametrize(("graphs", "count"), [(2, 3), (5, 9), (30, 4), (12, 40)])
def test_names_are_written_once_and_marks_are_beside_them(name, width, graphs, count):
    names = [f"{'long name of a format ' * (place % 3)}f{place}" for place in range(count)]
    made = drawn(rows_of(graphs, names), name, width)
    grid = made.figure.axes
    labels = [text.get_text() for text in grid[0].get_yticklabels()]
    assert len(set(labels)) == len(labels) <= count
    assert made.figure.get_figheight() <= HIGHEST_IN
    assert 2 <= len(grid) <= graphs
    assert len({axes.get_title() for axes in grid}) == len(grid)
    assert not any(text.get_visible() for axes in grid[1:2] for text in axes.get_yticklabels() if text.get_text())
    places = dict(zip(grid[0].get_yticks(), labels, strict=True))
    for axes in grid:
        at = [bar.get_y() + bar.get_height() / 2 for bar in axes.patches]
        assert sorted(at) == pytest.approx(sorted(places))
        times = [bar.get_width() for bar in sorted(axes.patches, key=lambda bar: bar.get_y())]
        assert times == sorted(times)  # The fastest is at the top; it also has the largest share.


def test_the_legend_and_the_label_of_several_panels_are_on_either_side_of_them():
    figure = drawn(rows_of(4, ["fp64", "fp32", "fp16"]), "roofline").figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    (legend,) = (each.get_window_extent(renderer) for each in figure.legends)
    below = next(text for text in figure.texts if text.get_text() == figure.get_supxlabel())
    panels = [axes.get_tightbbox(renderer) for axes in figure.axes]
    assert max(panel.y1 for panel in panels) <= legend.y0 + 1
    assert below.get_window_extent(renderer).y1 <= min(panel.y0 for panel in panels) + 1


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=60, unique_by=" ".join), st.data())
def test_rows_of_names_fit_and_plug_ins_are_kept(words, data):
    names = [" ".join(each) for each in words]
    own = data.draw(st.sets(st.sampled_from(names), max_size=3))
    found = pd.DataFrame({"called": names, "case": "g", "own": [name in own for name in names], "problem": ""})
    headings_in = data.draw(st.sampled_from([0.0, 0.6]))
    kept, labels, text = room.fitting(found, names, WIDTHS["single"], headings_in=headings_in)
    lines_in = sum(room.line_height([label]) for label in labels)
    assert lines_in <= max(room.MOST_IN - headings_in, 0.4 * (len(own) + 1))
    assert own <= set(kept.called)
    assert kept.called.tolist() == [name for name in names if name in set(kept.called)]
    assert text == (f"; {len(kept)} of {len(names)} contestants, evenly chosen" if len(kept) < len(names) else "")


@pytest.mark.parametrize("count", [2, 8, 12])
def test_contestants_have_markers_of_their_own_in_all_colours(count):
    found = observations(rows_of(1, [f"fp{64 >> place % 3}+{place}" for place in range(count)]))
    assert len(set(marks_of(found).values())) == count


def test_a_parameter_that_is_true_is_its_name_alone():
    rows = [{**row, "whole": row["storage"] == "fp32" or None} for row in rows_of(1, ["fp64", "fp32"])]
    assert set(observations(rows).called) == {"fp64", "fp32 whole"}


@pytest.mark.parametrize(("tolerances", "shown"), [([1e-8], 1), ([1e-4, 1e-8], 0)])
def test_residuals_of_several_tolerances_are_not_drawn(tolerances, shown):
    rows = [
        {**row, "cell": f"{row['cell']} {tol}", "tol": tol, "residual_l1": tol / 10 ** (1 + 2 * place)}
        for tol in tolerances
        for place, row in enumerate(rows_of(1, ["fp64", "fp32", "fp16"]))
    ]
    assert (drawn_alone(rows, "residual_by_bits") is not None) == bool(shown)


def test_solves_without_times_are_compared_by_their_iterations():
    bits = {"fp64": 64.0, "fp32": 32.0, "bfp16": 17.5}
    found = [
        {"vectors": [name], "status": "CONVERGED", "residual": 1e-11, "iterations": 10 * 2**place, "mean_bits": mean}
        for place, (name, mean) in enumerate(bits.items())
    ]
    failed = {"vectors": ["fp16"], "status": "STAGNATED", "residual": 1.0, "iterations": 999, "mean_bits": 16.0}
    row = {"cell": "0", "experiment": "mine", "kind": "vector_bits", "status": "ok", "graph": "g", "tol": 1e-10}
    (made,) = templates.drawings([{**row, "ways_found": [*found, failed]}])
    (axes,) = made.figure.axes
    points = sorted(tuple(at) for each in axes.collections for at in each.get_offsets().tolist())
    assert made.name == "iterations_by_bits"
    assert points == [(17.5, 40.0), (32.0, 20.0), (64.0, 10.0)]
    assert axes.get_ylabel() == "iterations"
    assert "against the mean of the bits of a vector's value; filled: fp64" in made.caption
    assert "join" not in made.caption
    assert len(axes.lines) == 0  # Formats of one system are no function of their bits.
    assert {to_hex(shade) for each in axes.collections for shade in each.get_edgecolor()} == {NEUTRAL}
    assert "; not drawn: 1 of 4 solves, which did not converge" in made.caption


@settings(max_examples=100)
@given(st.lists(st.text("abcd_:,", min_size=1, max_size=16), min_size=1, max_size=3), st.floats(0.6, 1.5))
def test_titles_that_are_divided_keep_their_characters(words, most):
    """A title is divided between words, and a word that is too long after a mark; only a part too long is cut."""
    lines = _lines(" ".join(words), most)
    assert all(room.text_inches(line) <= most for line in lines)
    parts = [part for word in words for part in _PARTS.findall(word)]
    if all(room.text_inches(part) <= most for part in parts):
        assert "".join(lines).replace(" ", "") == "".join(words)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(2, 4), st.integers(1, 4), st.integers(6, 40), st.data())
def test_contestants_that_do_not_all_fit_are_whole_series(layouts, storages, reads, most, data):
    """Whole layouts if these fill half of the space, else whole series of numbers, else an even choice."""
    lines = [
        {"called": f"cuda f{storage} l{layout} read={read}", "case": "g", "engine": "cuda", "layout": f"l{layout}"}
        for layout in range(layouts)
        for storage in range(storages)
        for read in range(1, reads + 1)
    ]
    found = pd.DataFrame(lines)
    names = list(found.called)
    base = data.draw(st.sampled_from(names))
    chosen, text = room.whole_series(found, names, {base}, lambda few: len(few) <= most)
    assert base in chosen
    assert chosen == [name for name in names if name in chosen]
    assert len(chosen) <= most
    assert bool(text) == (len(chosen) < len(names))
    if "whole series" in text:
        by = "layout" if "left out: cuda l" in text else "series"
        series = found.assign(series=found.called.str.partition(" read=")[0])
        parts = [set(part.called) for _, part in series.groupby(by)]
        assert all(part <= {*chosen} or not (part - {base}) & {*chosen} for part in parts)
        assert f"{len(chosen)} of {len(names)} contestants" in text
    elif storages * reads + 1 <= most < len(names) and 2 * storages * reads >= most:
        raise AssertionError(text)


def test_numbers_of_a_series_are_in_order_whatever_their_times():
    rows = [
        {"experiment": "mine", "status": "ok", "engine": engine, "cell": f"{engine} {ranks}", "graph": graph}
        | {"ranks": ranks, "solve_s": time}
        for graph in ("a", "b")
        for engine, times in (("mpi", {1: 1.0, 4: 3.0, 2: 2.5}), ("cpu", {4: 2.0, 2: 0.5, 1: 4.0}))
        for ranks, time in times.items()
    ]
    names = [text.get_text() for text in drawn(rows, "time").figure.axes[0].get_yticklabels()]
    assert names == [f"{engine} ranks={ranks}" for engine in ("cpu", "mpi") for ranks in (1, 2, 4)]


@pytest.mark.parametrize("width", WIDTHS)
def test_whole_series_that_are_chosen_have_results_on_the_graphs_that_are_drawn(width):
    """The series of most graphs is not on the one graph with most of the contestants."""
    shared = {"experiment": "mine", "status": "ok", "kind": "product"}
    rows = [
        {**shared, "engine": engine, "storage": f"f{place}", "cell": f"{graph} {engine} {place}", "graph": graph}
        | {"layout": layout, "solve_s": 1.0 + place}
        for engine, layout, count, graphs in (
            ("mpi", "csr", 30, "z"),
            ("cpu", "ell", 12, "z"),
            ("cuda", "coo", 3, "abcdef"),
        )
        for graph in graphs
        for place in range(count)
    ]
    made = drawn(rows, "time", width)
    assert all(axes.patches for axes in made.figure.axes)
    names = [text.get_text() for text in made.figure.axes[0].get_yticklabels()]
    assert 3 <= len(names) <= len({bar.get_y() for axes in made.figure.axes for bar in axes.patches})


def test_one_panel_more_than_a_row_has_stands_in_it():
    for count, names, columns in (
        (3, ["fp64", "fp32"], 3),
        (4, ["fp64", "fp32"], 2),
    ):
        panels_of = drawn(rows_of(count, names), "roofline").figure.axes
        assert (len(panels_of), panels_of[0].get_subplotspec().get_gridspec().ncols) == (count, columns)


@pytest.mark.representatives(letters=("8", "20", "38"))
@pytest.mark.parametrize("letters", range(8, 40, 2))
def test_titles_of_panels_beside_each_other_are_apart(letters):
    rows = rows_of(4, ["name of a contestant", "other name of one"])
    for row in rows:
        row["graph"] = f"{row['graph'][-1]} {'web like, 52M edges ' * 2}"[:letters]
    figure = drawn(rows, "time").figure
    left, right = (axes.title.get_window_extent() for axes in figure.axes[:2])
    assert right.x0 - left.x1 > 0.12 * figure.dpi


def test_a_title_that_is_little_wider_than_its_panel_alone_is_whole():
    names = ["name of a contestant", "other name of one"]
    rows, width = rows_of(4, names), panel_inches(names, 2, WIDTHS["single"])
    title = next(text for text in ("w-" * count for count in range(40)) if room.text_inches(text) > width)
    made = drawn([{**row, "graph": row["graph"].replace("graph-3", title)} for row in rows], "time")
    assert title in [axes.get_title() for axes in made.figure.axes]


def test_titles_are_divided_between_words_unless_one_has_no_room():
    assert figures._wrapped("12 x web-Google-scc", 16) == "12 x\nweb-Google-scc"
    assert figures._wrapped("12 x web-Google-scc", 12) == "12 x web-\nGoogle-scc"


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["cuda", "cusparse", "sell", *"abcdefgh"]), min_size=1, unique=True))
def test_no_marker_of_an_engine_points_along_an_interval(engines):
    for column, other in (("engine", "layout"), ("layout", "engine")):
        chosen = markers(pd.DataFrame({column: engines, other: "x"}))
        assert not {*chosen} & {"<", ">"}
        assert len({*chosen}) == len(engines)


@pytest.mark.parametrize(("alone", "panels"), [(3, 1), (1, 4)])
def test_results_of_graphs_with_one_contestant_each_are_in_one_panel(alone, panels):
    rows = [row for row in rows_of(4, ["first", "second"]) if row["storage"] == "first" or row["nodes"] - 2 >= alone]
    assert len(drawn(rows, "time").figure.axes) == panels


@pytest.mark.parametrize("lacking", [2, 15])
def test_graphs_that_are_chosen_have_all_contestants_if_enough_do(lacking):
    names = ["first", "second", "third"]
    rows = rows_of(16, names)
    rows = [row for row in rows if row["storage"] != "third" or row["nodes"] % 16 >= lacking]
    made = drawn(rows, "time")
    counts = [len(axes.patches) for axes in made.figure.axes]
    stated = "; those drawn have all contestants" in made.caption
    assert stated == (counts == [3] * len(counts)) == (lacking == 2)


def test_graphs_with_the_same_results_are_drawn_where_none_has_those_of_all_contestants():
    rows = rows_of(16, ["first", "second", "third", "fourth", "fifth"])
    lacking = {"third": range(8), "fourth": range(8, 12), "fifth": range(12, 16)}
    rows = [row for row in rows if row["nodes"] - 2 not in lacking.get(row["storage"], [])]
    made = drawn(rows, "time")
    assert {len(axes.patches) for axes in made.figure.axes} == {4}
    assert "; 4 of 5 contestants, with results on all of these; left out: third" in made.caption
    assert not any(axes.texts for axes in made.figure.axes)


def test_a_dash_is_in_the_row_of_a_contestant_without_a_result():
    rows = [row for row in rows_of(2, ["first", "second", "third"]) if row["cell"] != "1 1"]
    made = drawn(rows, "time")
    whole, lacking = sorted(made.figure.axes, key=lambda axes: len(axes.texts))
    assert (len(whole.texts), len(lacking.texts)) == (0, 1)
    names = dict(zip(made.figure.axes[0].get_yticks(), made.figure.axes[0].get_yticklabels(), strict=True))
    assert names[lacking.texts[0].get_position()[1]].get_text() == "second"
    assert "; \u2013: no such result" in made.caption


def test_results_whose_long_names_end_alike_are_below_their_end():
    rows = rows_of(6, ["fp64"])
    for place, row in enumerate(rows):
        row["graph"] = f"graph-{place}, a long text about what is measured here, on machine {'ab'[place % 2]}"
    made = drawn(rows, "time")
    (axes,) = made.figure.axes
    labels = [text.get_text().replace("\n", " ") for text in axes.get_yticklabels()]
    ends = [f"a long text about what is measured here, on machine {name}:" for name in "ab"]
    assert labels == [ends[0], "graph-0", "graph-2", "graph-4", ends[1], "graph-1", "graph-3", "graph-5"]
    marks = {round(bar.get_y() + bar.get_height() / 2, 6) for bar in axes.patches}
    assert {round(tick, 6) for tick, name in zip(axes.get_yticks(), labels, strict=True) if name not in ends} == marks


def test_titles_omit_the_only_graph_which_the_caption_states():
    rows = [{**row, "tol": tol} for tol in (1e-3, 1e-6) for row in rows_of(1, ["fp64", "fp32"])]
    made = drawn([{**row, "cell": f"{row['cell']} {row['tol']}"} for row in rows], "time")
    assert [axes.get_title() for axes in made.figure.axes] == ["tol=0.001", "tol=1e-06"]
    assert "Matrix: graph-0." in made.caption


def test_captions_state_which_graphs_were_measured_on_which_machine():
    rows = [{**row, "cpu": "Xeon" if row["nodes"] == 2 else "EPYC"} for row in rows_of(3, ["fp64", "fp32"])]
    assert "Machines: Xeon (graph-0); EPYC (the others)." in drawn(rows, "time").caption


@pytest.mark.parametrize("text", ["グラフ", "\U0001f469 and a name", "plain"])
def test_texts_are_as_wide_as_what_is_drawn_of_them(text):
    assert room.text_inches(text) == room.text_inches(drawn_of(text)) > 0


def svg_of(rows):
    with styled():
        return figures.svg(drawn_alone(rows, "time").figure)


def test_figures_do_not_depend_on_a_users_style():
    rows = rows_of(2, ["fp64", "fp16"])
    with plt.rc_context({"text.usetex": True, "axes.grid": True, "font.size": 22, "axes.facecolor": "red"}):
        own = svg_of(rows)
        assert plt.rcParams["font.size"] == 22
    assert own == svg_of(rows)
