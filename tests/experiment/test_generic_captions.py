"""Laws of the captions of figures without a program, in recorded rows: counts and spreads are of what is drawn."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from recorded_rows import RECORDED, recorded
from scatter_laws import is_rows, points_of

from cpms.experiment.report import templates
from cpms.experiment.report.generic.scatters.marks import STRUCK
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled

QUICK = ("cg_time", "cpu_product", "gpu_gmres_time", "gpu_speedup_ell", "ppr_half")
SLOW = sorted({path.stem for path in RECORDED.glob("*.jsonl")} - {*QUICK})
EXPERIMENTS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
OF_TIMES = ("time", "speed-up", "bandwidth")
"""Words in the labels of axes of times."""
SPREADS = ("Samples of each result", "Runs of each result", "Repetitions", "range")
"""Words for the repetitions of times and their spread."""
COPY_AT = 100.0
"""The rate of a copy in percent."""


@cache
def drawn(name):
    """Return the figures of an experiment."""
    with styled():
        return list(templates.drawings(recorded().chosen([name]).rows, beside=recorded().rows))


def labels(figure):
    """Return the texts of the axes of a figure, and of its panels."""
    texts = [figure.get_supxlabel(), figure.get_supylabel()]
    return [
        *texts,
        *(each for axes in figure.axes for each in (axes.get_xlabel(), axes.get_ylabel(), axes.get_title())),
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_spreads_are_of_times_and_stand_where_times_are_drawn(name):
    for made in drawn(name):
        is_of_times = any(word in text for text in labels(made.figure) for word in OF_TIMES)
        _, _, said = made.caption.rpartition("Commit")
        assert any(word in said for word in SPREADS) is is_of_times, made.caption
        assert ("without a spread" in said) is not is_of_times


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_stand_ins_are_counted_among_the_graphs_of_the_mean(name):
    for made in drawn(name):
        counted = re.search(r"(\d+) of (\d+) graphs? made in place", made.caption)
        assert not counted or made.name == "speedup"
        if counted and (of_mean := re.search(r"over the same (\d+) graphs?", made.caption)):
            assert counted[2] == of_mean[1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_number_of_a_bar_crosses_the_line_of_a_copy(name):
    for made in drawn(name):
        if made.name != "roofline":
            continue
        made.figure.draw_without_rendering()
        for axes in made.figure.axes:
            line = axes.transData.transform((COPY_AT, 0.0))[0]
            boxes = {each.get_text(): each.get_window_extent() for each in axes.texts}
            assert [text for text, box in boxes.items() if box.x0 < line < box.x1] == []


def test_residuals_of_linear_systems_have_one_name_in_all_figures():
    found = {made.name: made for made in drawn("gpu_gmres_time")}
    assert "relative residual, 2-norm" in found["residual_by_bits"].caption
    assert "not at equal errors" not in found["speedup"].caption


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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_strokes_are_through_the_results_that_did_not_converge_and_no_others(name):
    found = observations(recorded().chosen([name]).rows)
    states = defaultdict(set)
    for line in found[found.error > 0].itertuples():
        states[round(np.log(line.error), 9)].add(line.flaw.endswith("converged"))
    for made in drawn(name):
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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_contestants_without_an_error_are_counted_in_the_panels(name):
    found = observations(recorded().chosen([name]).rows)
    for made in drawn(name):
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
