"""Figures of many problems that differ in a number: it has an axis of its own, and every result a mark at its place."""

from __future__ import annotations

import pytest
from one_drawing import drawn_alone

from cpms.experiment.report.generic.curves import number_of_problems
from cpms.experiment.report.observations import observations
from cpms.experiment.report.style import WIDTHS

NUMBERS = (5, 10, 32, 100)


def rows_of(patterns, sizes=(10**6, 10**7), names=("cpms", "other")):
    """Return rows of which ``cpms`` takes as many milliseconds as the number, and others twice as many and more."""
    return [
        {"experiment": "mine", "kind": "topk", "status": "ok", "cell": f"{name} {size} {pattern} {k}", "k": k}
        | {"contestant": name, "values": size, "pattern": pattern, "dtype": "float64"}
        | {"median_ms": 1.0 * k * (1 + place) + add, "least_ms": 0.5 * k, "most_ms": 4.0 * k + add, "samples": 9}
        for place, name in enumerate(names)
        for add, pattern in enumerate(patterns)
        for size in sizes
        for k in NUMBERS
    ]


def drawn(rows, name, width):
    return drawn_alone(rows, name, width=width)


def marks(axes):
    return [line for line in axes.lines if line.get_marker() not in ("None", "", None)]


def places(axes):
    """Return the places of the marks of a panel along its axis."""
    return [round(float(line.get_xdata()[0]), 6) for line in marks(axes)]


def points(axes):
    """Return the marks of a panel: the number to whose part of the axis each belongs, and its height."""
    lines = marks(axes)
    between = sorted(line.get_xdata()[0] for line in axes.lines if line.get_color() == "#c8c8c8")
    assert len(between) == len(NUMBERS) - 1
    return sorted((NUMBERS[sum(end < line.get_xdata()[0] for end in between)], line.get_ydata()[0]) for line in lines)


@pytest.mark.representatives(width=("single",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "patterns", [("random",), ("random", "equal"), ("random", "equal", "ranks", "rising", "falling")]
)
def test_times_of_many_problems_are_curves_in_a_panel_for_each_size_and_pattern(width, patterns):
    sizes = (10**6, 10**7, 10**8)
    made = drawn(rows_of(patterns, sizes), "time", width)
    shown = {axes.get_title() for axes in made.figure.axes}
    alone = patterns if len(patterns) == 1 else ()  # It is not in the titles.
    kept = alone or [pattern for pattern in patterns if any(pattern in title for title in shown)]
    assert len(shown) == len(made.figure.axes) == 3 * len(kept)
    assert len(kept) == min(len(patterns), 4 if width == "double" else 2)
    for axes in made.figure.axes:
        add = next((place for place, pattern in enumerate(patterns) if pattern in axes.get_title()), 0)
        expected = sorted((k, k * factor + add) for k in NUMBERS for factor in (1, 2))
        assert [k for k, _ in points(axes)] == [k for k, _ in expected]
        assert [each for _, each in points(axes)] == pytest.approx([each for _, each in expected])
    if len(kept) < len(patterns):
        assert f"; {len(kept)} of {len(patterns)} values of pattern" in made.caption
    across = {x for axes in made.figure.axes for x in places(axes)}
    assert ("; marks of one k lie side by side" in made.caption) == (len(across) > len(NUMBERS))
    assert made.figure.get_supylabel() == "time of a selection in ms"
    assert made.figure.get_figheight() <= 4.5


@pytest.mark.parametrize("width", WIDTHS)
def test_ratios_of_two_contestants_have_a_panel_for_each_size(width):
    made = drawn(rows_of(("random", "equal", "ranks")), "speedup", width)
    assert [axes.get_title() for axes in made.figure.axes] == ["1M values", "10M values"]
    for axes in made.figure.axes:
        found = points(axes)
        assert [k for k, _ in found] == sorted(NUMBERS * 3)
        assert {round(each, 9) for _, each in found} == {
            round((2 * k + add) / (k + add), 9) for k in NUMBERS for add in range(3)
        }
    assert "speed-up of cpms over other, against k; geometric mean 1.9" in made.caption
    assert "; vertical lines: least to most ratio of the samples" in made.caption
    entries = {text.get_text() for text in made.figure.legends[0].get_texts()}
    assert {"pattern=random", "pattern=equal", "pattern=ranks"} <= entries


def test_few_problems_and_tolerances_have_no_axis_of_a_number():
    assert number_of_problems(observations(rows_of(("random",)))) == ""
    assert number_of_problems(observations(rows_of(("random", "equal")))) == "k"
    shared = {"experiment": "mine", "status": "ok", "engine": "cpu", "solve_s": 1.0}
    rows = [
        {**shared, "cell": f"{graph} {tol} {name}", "graph": graph, "tol": tol, "storage": name}
        for graph in "abcd"
        for tol in (1, 2, 3, 4)
        for name in ("fp64", "fp32")
    ]
    assert number_of_problems(observations(rows)) == ""


def test_marks_that_would_meet_lie_side_by_side():
    rows = [{**row, "median_ms": float(row["k"])} for row in rows_of(("random",), (10**6, 10**7, 10**8))]
    for axes in drawn(rows, "time", "single").figure.axes:
        assert len({*places(axes)}) == 2 * len(NUMBERS)


@pytest.mark.parametrize("count", [2, 8])
def test_panels_of_many_marks_have_the_width_of_a_column(count):
    names = [f"name-{place}" for place in range(count)]
    figure = drawn(rows_of(("random", "equal"), (10**6, 10**7, 10**8), names), "time", "single").figure
    across = {axes.get_subplotspec().colspan.start for axes in figure.axes}
    assert len(across) == (1 if count == 8 else 2)
    assert figure.get_figheight() < 6.0
