"""Laws of the captions of figures without a program, in recorded rows: counts and spreads are of what is drawn."""

from __future__ import annotations

import re
from functools import cache

import pytest
from recorded_rows import RECORDED, recorded

from cpms.experiment.report import templates
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
