"""Alternative texts state what is drawn: their counts are those of the artists, and their extremes are drawn values."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import pytest
from alternative_texts import check_texts, panels_of
from recorded_rows import RECORDED, recorded

from cpms.base.package_data import show_programs
from cpms.experiment.report import figures, output, panels, show
from cpms.experiment.report.intervals import is_range, median_ends
from cpms.experiment.report.page.described import described


@pytest.fixture
def kept(monkeypatch):
    """The panels of figures with what they draw, as found before they are written."""
    found = {}

    def saved(figure, stem, endings=figures.ENDINGS):
        found[stem.name] = panels_of(figure)
        plt.close(figure)
        return [stem.with_suffix(".pdf")]

    monkeypatch.setattr(figures, "save", saved)
    return found


def test_counts_and_extremes_are_those_of_what_is_drawn(tmp_path, kept):
    """Those of other programs are tried where their figures are."""
    name = "tolerance"
    if not any((RECORDED / f"{need}.jsonl").exists() for need in show._program(show_programs()[name]).NEEDS):
        pytest.skip("no rows are recorded")
    show.show(name, results=recorded(), output=tmp_path)
    check_texts(kept, tmp_path)


def made(draw):
    with show.styled():
        figure, axes = plt.subplots()
        draw(figure, axes)
        plt.close(figure)
    return described(figure)


def test_marks_have_the_names_of_their_rows_and_of_the_legend():
    def draw(figure, axes):
        for place, value in enumerate((2.0, 0.5, 4.0)):
            panels.point(axes, value, place, 64, "o", ends=(value / 2, value * 2))
            panels.point(axes, 3 * value, place, 16, "X", filled=False)
        axes.plot([0.7, 0.8], [2, 2], marker="o", linestyle="", alpha=0.5, color=panels.NEUTRAL)
        panels.unity(axes)
        panels.named_rows(axes, ["one", "two", "three"])
        panels.logarithmic(axes)
        axes.set(title="ours", xlabel="times faster")
        hollow = {"theirs": {**panels.HOLLOW, "marker": "X"}, "a graph": {**panels.FILLED, "alpha": 0.5}}
        panels.legend(figure, panels.key((64, 16), {"mine": "o"}, hollow))

    assert made(draw) == (
        "ours, times faster: 3 marks (mine, 64 bits), from 0.5 (two) to 4 (three); 3 marks (theirs, 16 bits), "
        "from 1.5 (two) to 12 (three); 2 dots (a graph), from 0.7 (three) to 0.8 (three)."
    )


def test_dots_beside_marks_have_common_extremes():
    def draw(figure, axes):
        for shade, values in ((16, [1.0, 2.0]), (64, [0.5])):
            axes.plot(values, [0] * len(values), **{**panels.DOT, "color": panels.colour(shade)})
        if with_marks:
            panels.point(axes, 3.0, 0, 64)
        panels.named_rows(axes, ["one"])
        axes.set_xlabel("times faster")
        panels.legend(figure, panels.key((64, 16), lines={"a graph": panels.DOT}))

    with_marks = False
    of_bits = "times faster: 2 dots (a graph, 16 bits), from 1 (one) to 2 (one); 1 dot (a graph, 64 bits) at 0.5 (one)"
    assert made(draw) == f"{of_bits}."
    with_marks = True
    assert made(draw).startswith(
        "times faster: 3 dots, from 0.5 (one, a graph, 64 bits) to 2 (one, a graph, 16 bits); 1 mark"
    )


def test_curves_have_their_places_and_parts_of_bars_their_colours():
    def draw(figure, axes):
        marks = axes.errorbar([1.1, 2.1], [5.0, 7.0], yerr=[[1, 1], [1, 1]], marker="o", label="ours", capsize=2)
        panels.name_places(marks[0], [1, 2])
        axes.plot([1, 2], [5, 7], ":")
        axes.set(xlabel="GPUs", ylabel="speed-up")

    assert made(draw) == "speed-up: 1 curve (ours), from 5 (GPUs = 1) to 7 (GPUs = 2)."

    def bars(figure, axes):
        axes.barh([0, 1], [3.0, 2.0], color=panels.colour(64))
        axes.barh([0, 1], [0.0, 5.0], left=[3.0, 2.0], color=panels.colour(16))
        panels.named_rows(axes, ["one", "two"])
        figure.supxlabel("sweeps")
        panels.legend(figure, panels.key((64, 16)))

    assert made(bars) == (
        "sweeps: 2 bars (64 bits), from 2 (two) to 3 (one); 1 bar (16 bits) at 5 (two); "
        "2 whole bars, from 3 (one) to 7 (two)."
    )


def test_ranges_of_few_samples_have_caps_which_are_no_marks():
    for samples, caps in (([1.0, 2.0, 3.0], 2), ([1.0, 2.0, 3.0, 4.0, 5.0], 0)):
        with show.styled():
            figure, axes = plt.subplots()
            panels.point(axes, 2.0, 0, 64, ends=median_ends(samples), capped=is_range(samples))
            axes.set_xlabel("ms")
            plt.close(figure)
        drawn = [cap for cap in axes.lines if cap.get_marker() == "|" and cap.get_markersize() > 0]
        assert len(drawn) == caps
        assert described(figure).count("mark") == 1
        assert "stroke" not in described(figure)


def test_many_entries_have_common_extremes_with_their_labels():
    def draw(_, axes):
        for place in range(9):
            axes.plot([place], [place + 1.0], "o", label=f"entry {place}")
        axes.set(xlabel="k", ylabel="share")

    assert made(draw) == "share: 9 marks, from 1 (k = 0, entry 0) to 9 (k = 8, entry 8)."


@pytest.mark.parametrize("panels_drawn", [1, 4, 9])
def test_a_text_too_long_to_be_heard_has_common_extremes_of_each_panel(panels_drawn):
    figure, grid = plt.subplots(panels_drawn, squeeze=False)
    for axes in grid.flat:
        for name in "abc":
            axes.plot(range(3), [ord(name), 1, 2], "o", label=f"a contestant with a long name {name}")
        axes.set(xlabel="k", ylabel="share")
    plt.close(figure)
    text, long = described(figure), panels_drawn > 4
    assert text.count("9 marks, from 1 (k = 1, ") == (panels_drawn if long else 0)
    assert text.count("3 marks (") == (0 if long else 3 * panels_drawn)
    assert len(text) <= 1100


def test_a_program_may_write_its_own_text(tmp_path):
    out = output.Output(tmp_path, "x", print)
    for given, expected in (("Own.", "Own."), ("", "panel: 1 mark at 2 (1).")):
        figure, axes = plt.subplots()
        axes.plot([1], [2], "o")
        out.figure(figure, alt=given)
        assert json.loads((tmp_path / "x.json").read_text())["alt"] == expected
