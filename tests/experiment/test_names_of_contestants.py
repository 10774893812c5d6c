"""Names of contestants in figures, and their marks, which are the same in all figures of an experiment."""

from __future__ import annotations

import pytest

from cpms.experiment.report.generic.parts import marks_of
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled
from cpms.experiment.report.templates import TEMPLATES

ROW = {"experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 1.0}
STEPS = [[1e-1, 16, 1.0, 0.1], [1e-9, 64, 1.0, 0.2]]


def numbered(rows):
    return [{**ROW, **row, "cell": str(place)} for place, row in enumerate(rows)]


def test_a_rule_that_is_left_to_the_method_is_called_the_default():
    found = observations(numbered([{"policy": {}}, {"policy": {"rule": "fixed", "read": 1}}]))
    assert found.called.tolist() == ["default policy", "fixed+read=1"]


@pytest.mark.parametrize(("stored", "called"), [("ab", "cg A auto"), ("aa", "cg auto (A a)")])
def test_a_choice_that_differs_by_matrix_is_named_by_its_parameter(stored, called):
    by_hand = {"method": "jacobi", "storage": "fp64", "used": "jacobi", "stored_as": "fp64"}
    ways = [{"method": "cg", "storage": "auto", "used": "cg", "stored_as": each} for each in stored]
    rows = [{**way, "graph": graph} for graph, each in zip("gh", ways, strict=True) for way in (each, by_hand)]
    assert set(observations(numbered(rows)).called) == {called, "jacobi A fp64"}


def test_marks_are_those_of_other_figures():
    rows = [{"kind": "pagerank", "layout": "csr", "storage": name, "history": STEPS} for name in ("fp64", "cpms4")]
    found = observations(numbered(rows))
    with styled():
        figure, *_ = TEMPLATES["residual"](found, 3.3, None)
    named = {text.get_text(): mark for legend in figure.legends for text, mark in zip(
        legend.get_texts(), legend.legend_handles, strict=True)}  # fmt: skip
    assert {name: named[name].get_marker() for name in ("fp64", "cpms4")} == marks_of(found)
