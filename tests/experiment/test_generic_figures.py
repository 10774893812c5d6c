"""Laws of the figures without a program, in recorded rows: they are printable, and captions count what is drawn."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figure_laws import faults, hidden
from one_drawing import drawn_alone
from recorded_rows import RECORDED, recorded
from scatter_laws import covered_marks, crowded_marks, is_rows, misplaced, points_of, unreadable

from cpms.experiment.report import figures, templates
from cpms.experiment.report.generic.scatters.marks import STRUCK
from cpms.experiment.report.observations import observations
from cpms.experiment.report.page.nested import lay_out
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS

QUICK = [("gpu_gmres_time", "single"), ("ppr_half", "single"), ("linear_gpu", "double")]
"""Recorded experiments whose figures are drawn in each run of the tests, and their width."""
ALL = itertools.product(sorted(path.stem for path in RECORDED.glob("*.jsonl")), WIDTHS)
HIGHEST_IN = 4.5
"""Most height of a figure in inches, which leaves room for its caption and for text."""
OF_TIMES = ("time", "speed-up", "bandwidth")
"""Words in the labels of axes of times."""
SPREADS = ("Samples of each result", "Runs of each result", "Repetitions", "range")
"""Words for the repetitions of times and their spread."""
MOST_OF_CAPTION = 920
"""Most characters of a caption; see `test_figures.MOST_OF_CAPTION`."""
COPY_AT = 100.0
"""The rate of a copy in percent."""


def labels(figure):
    """Return the texts of the axes of a figure, and of its panels."""
    texts = [figure.get_supxlabel(), figure.get_supylabel()]
    return [
        *texts,
        *(each for axes in figure.axes for each in (axes.get_xlabel(), axes.get_ylabel(), axes.get_title())),
    ]


def spreads_are_of_times_and_stand_where_times_are_drawn(drawn, _):
    for made in drawn:
        is_of_times = any(word in text for text in labels(made.figure) for word in OF_TIMES)
        _, _, said = made.caption.rpartition("Commit")
        assert any(word in said for word in SPREADS) is is_of_times, made.caption
        assert ("without a spread" in said) is not is_of_times


def stand_ins_are_counted_among_the_graphs_of_the_mean(drawn, _):
    for made in drawn:
        counted = re.search(r"(\d+) of (\d+) graphs? made in place", made.caption)
        assert not counted or made.name == "speedup"
        if counted and (of_mean := re.search(r"over the same (\d+) graphs?", made.caption)):
            assert counted[2] == of_mean[1]


def no_number_of_a_bar_crosses_the_line_of_a_copy(drawn, _):
    for made in drawn:
        if made.name != "roofline":
            continue
        lay_out(made.figure)
        for axes in made.figure.axes:
            line = axes.transData.transform((COPY_AT, 0.0))[0]
            boxes = {each.get_text(): each.get_window_extent() for each in axes.texts}
            assert [text for text, box in boxes.items() if box.x0 < line < box.x1] == []


def captions_are_short_enough_to_be_read(drawn, _):
    for made in drawn:
        assert len(made.caption) <= MOST_OF_CAPTION, made.caption


def results_left_out_are_of_graphs_that_are_drawn(drawn, found):
    """All results of a flawed contestant are stated but in a speed-up, whose graphs depend on the results left out."""
    for made in drawn:
        texts = ["".join(axes.get_title().split()) for axes in made.figure.axes]
        flawed = {"".join(label.split()) for label in found.label[found.flaw != ""]}
        if made.name == "speedup" or not all(texts) or len({*found.label}) == 1:
            continue
        named = any(label in text for label in flawed for text in texts)
        assert named or "results left out" not in made.caption, made.caption


def marks_of(figure):
    """Return the places of the marks of results, and those of strokes through them, each with its panel."""
    marks, strokes = list[tuple[int, float, float]](), list[tuple[int, float, float]]()
    for number, axes in enumerate(figure.axes):
        marks += [(number, *at) for at, _ in points_of(axes)]
        for line in axes.lines:
            is_mark = line.get_marker() in (*"osD^v",) and len(line.get_xdata()) and is_rows(figure)
            places = [(number, float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
            marks += places if is_mark else []
            strokes += places if line.get_marker() == STRUCK["marker"] else []
    return marks, strokes


def strokes_are_through_the_results_that_did_not_converge_and_no_others(drawn, found):
    states = defaultdict(set)
    for line in found[found.error > 0].itertuples():
        states[round(np.log(line.error), 9)].add(line.flaw.endswith("converged"))
    for made in drawn:
        if made.name not in ("error", "residual_by_bits"):
            continue
        last, across = len(made.figure.axes) - 1, is_rows(made.figure)
        marks, strokes = marks_of(made.figure)
        own = [mark for mark in marks if not across or mark[0] == last]
        wanted = {mark for mark in own if states[round(np.log(mark[1 if across else 2]), 9)] == {True}}
        either = {mark for mark in own if len(states[round(np.log(mark[1 if across else 2]), 9)]) == 2}
        assert {*strokes} - either == wanted
        legends = [text.get_text() for legend in made.figure.legends for text in legend.get_texts()]
        assert ("not converged" in legends) == ("struck through" in made.caption) == bool(strokes)
        assert ("Struck through" in made.alt) == bool(strokes)


def contestants_without_an_error_are_counted_in_the_panels(drawn, found):
    for made in drawn:
        stated = re.search(r"; error 0(?:, on (.*?))?: (.*?)(?:;|\. )", made.caption)
        if made.name != "error" or not (found.kind == "product").all():
            assert stated is None
            continue
        if is_rows(made.figure):  # Rows do not name the matrices of their dots.
            continue
        titles = {axes.get_title().replace("\n", " ") for axes in made.figure.axes}
        in_panels = found[found.label.isin(titles)] if len({*found.label}) > 1 else found
        lacking = in_panels[~(in_panels.error > 0)].short.value_counts()
        assert bool(len(lacking)) == (stated is not None)
        if stated and (counted := re.fullmatch(r"(\d+) contestants?", stated[2])):
            assert int(counted[1]) == len(lacking)
        elif stated:
            names = [name if count == 1 and not stated[1] else f"{name} ({count})" for name, count in lacking.items()]
            assert sorted(stated[2].split(", ")) == sorted(names)


def figures_are_printable(drawn, found):
    for made in drawn:
        figure = made.figure
        figures._escape(figure)
        figures._centre(figure)
        seen = [*faults(figure), *(hidden(figure) if made.name in {"time", "roofline"} else [])]
        if made.name == "traffic" or made.name.endswith("_by_bits"):
            seen += [*unreadable(figure), *covered_marks(figure), *crowded_marks(figure)]
            seen += misplaced(figure, made.name, found)
        assert not seen, (made.name, seen)
        assert figure.get_figheight() <= HIGHEST_IN, made.name
        assert len(made.alt) > 30


LAWS = [
    captions_are_short_enough_to_be_read,
    results_left_out_are_of_graphs_that_are_drawn,
    spreads_are_of_times_and_stand_where_times_are_drawn,
    stand_ins_are_counted_among_the_graphs_of_the_mean,
    strokes_are_through_the_results_that_did_not_converge_and_no_others,
    contestants_without_an_error_are_counted_in_the_panels,
    figures_are_printable,
    no_number_of_a_bar_crosses_the_line_of_a_copy,
]
"""The one before the last escapes the texts of the figures, and lays them out for the last one."""


@pytest.mark.parametrize(
    ("name", "width"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL if each not in QUICK)],
)
def test_figures_of_an_experiment_keep_all_laws(name, width):
    rows = recorded().chosen([name]).rows
    with styled():
        drawn = list(templates.drawings(rows, width=width, beside=recorded().rows))
        found = observations(rows)
        for law in LAWS:
            law(drawn, found)
    for made in drawn:
        plt.close(made.figure)


def test_residuals_of_linear_systems_have_one_name_in_all_figures():
    rows = recorded().chosen(["gpu_gmres_time"]).rows
    with styled():
        found = {name: drawn_alone(rows, name) for name in ("residual_by_bits", "speedup")}
    assert "relative residual, 2-norm" in found["residual_by_bits"].caption
    assert "not at equal errors" not in found["speedup"].caption
