"""Figures of times: bars that can be seen, or else dots, over the slowest time that is drawn; and their names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from one_drawing import drawn_alone

from cpms.experiment.report import panels
from cpms.experiment.report.generic.words import case_words, cases_in_words
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS

ROW = {"experiment": "mine", "kind": "pagerank", "status": "ok", "engine": "cpu", "cpu": "a", "tol": 1e-6}
BITS = {"fp64": {"64": 3}, "cpms2": {"32": 3}, "fp16": {"16": 2}}


def rows_of(times, prepared=0.0):
    """Return rows of three formats on two graphs, of which one takes ten times as long; ``times`` are of the first.

    ``prepared`` is the time of preparation over that of the solve.
    """
    return [
        {**ROW, "cell": f"{graph} {storage}", "graph": graph, "storage": storage, "iterations_by_bits": BITS[storage]}
        | {"solve_samples_s": [factor * sample for sample in np.atleast_1d(time)]}
        | {"prepare_s": prepared * factor * float(np.median(time))}
        for graph, factor in (("path", 1.0), ("ring", 10.0))
        for storage, time in zip(BITS, times, strict=True)
    ]


def drawn(rows, name="time", width="single"):
    return drawn_alone(rows, name, width=width)


def test_an_axis_over_the_slowest_goes_beyond_1_which_has_a_number():
    (first, second) = drawn(rows_of([4.0, 3.0, 2.0])).figure.axes
    assert first.get_xlim()[1] > 1.0
    assert 1.0 in first.get_xticks()
    assert max(bar.get_width() for bar in second.patches) == 1.0


@pytest.mark.representatives(width=("single",))
@pytest.mark.representatives(width=("double",), ratio=("25.0",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("longest", [1.0, 3.0])
@pytest.mark.parametrize("ratio", [2.0, 12.0, 25.0, 40.0])
def test_bars_that_would_be_too_short_to_be_seen_are_dots(ratio, longest, width):
    figure = drawn(rows_of([[1.0, 1.0, longest], 0.5, 1 / ratio]), width=width).figure
    figure.draw_without_rendering()
    bars = [bar.get_window_extent().width / figure.dpi for axes in figure.axes for bar in axes.patches]
    assert not bars or min(bars) > 0.04
    assert bool(bars) == (ratio < 40 and (longest < 3 or ratio < (12 if width == "single" else 25)))


@pytest.mark.parametrize("shortest", [0.5, 0.01])
def test_times_are_over_the_slowest_that_is_drawn(shortest):
    made = drawn(rows_of([1.0, 0.5, shortest], prepared=0.6))
    dots = [x for axes in made.figure.axes for line in axes.lines if line.get_marker() == "o" for x in line.get_xdata()]
    assert bool(dots) == (shortest < 0.1)
    assert not dots or max(dots) == 1.0
    stated = "; hatched: preparation, which the slowest time includes"
    assert (stated in made.caption) == (not dots)
    entries = [text.get_text() for legend in made.figure.legends for text in legend.get_texts()]
    assert ("preparation" in entries) == (not dots)
    assert "preparation" not in made.figure.get_supxlabel() + made.figure.axes[0].get_xlabel()


def test_panels_are_named_by_what_they_differ_in():
    found = pd.DataFrame(
        [(graph, f"storage={storage}", f"{graph} {storage}") for graph in "ab" for storage in ("fp16", "bf16")],
        columns=["graph", "problem", "case"],
    )
    assert case_words(found) == ["graph", "format"]
    assert cases_in_words(found) == "pairs of graph and format"
    assert cases_in_words(found[:2].assign(kind="rounding")) == "formats"
    assert case_words(found[1:3]) == ["graph"]
    rows = [{**row, "tol": tol} for tol in (1e-3, 1e-6) for row in rows_of([4.0, 3.0, 2.0])]
    made = drawn([{**row, "cell": f"{row['cell']} {row['tol']}"} for row in rows])
    assert "; a panel for each graph and tolerance" in made.caption
    assert made.figure.get_supxlabel() == "time of a solve over the slowest of the panel"


def test_alternative_texts_have_the_labels_of_graphs():
    rows = [{**row, "graph": f"rmat:scale={20 + (row['graph'] == 'ring')},seed=1"} for row in rows_of([4.0, 3.0, 2.0])]
    alt = drawn(rows).alt
    assert "(fp16, rmat 20)" in alt
    assert "scale=" not in alt


def test_formats_of_linear_systems_are_by_system():
    solves = [("fp64", "fp64", "fp64"), ("auto", "e4m3", "fp16")]
    rows = [
        {"experiment": "mine", "kind": "linear", "status": "ok", "cell": graph, "graph": graph, "rows": 9, "cpu": "a"}
        | {
            "ways_found": [
                {"engine": "cpu", "method": "cg", "used": "cg", "storage": asked, "stored_as": stored[place]}
                | {"vectors": ["fp64"], "vectors_as": ["fp64"], "status": "CONVERGED", "solve_s": 1.0}
                for asked, *stored in solves
            ]
        }
        for place, graph in enumerate("ab")
    ]
    assert "; by system: " in drawn(rows, "speedup").caption


@pytest.mark.parametrize("width", [2.6, 2.9, 3.1, 3.2])
def test_words_in_parentheses_are_on_one_line_of_a_label(width):
    words = "speed-up over cuda vectors fp64 jacobi (A fp64)"
    with styled():
        figure, (axes,) = panels.grid(WIDTHS["single"], 1, 1.0)
        panels.label_below(axes, words, width, ["name"])
        lines = axes.get_xlabel().split("\n")
    assert " ".join(lines) == words
    assert any(words[words.index("(") :] in line for line in lines)
    assert figure


@pytest.mark.parametrize("formats", [1, 2])
def test_one_colour_has_no_legend(formats):
    rows = [row for row in rows_of([4.0, 3.0, 2.0]) if row["storage"] in [*BITS][:formats]]
    made = drawn([{**row, "cell": f"{row['cell']} {k}", "layout": f"l{k}"} for row in rows for k in range(2)])
    assert len(made.figure.legends) == formats - 1
    assert ("; bits read: 64" in made.caption) == (formats == 1)
