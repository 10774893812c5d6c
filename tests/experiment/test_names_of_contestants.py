"""Names of contestants in figures, and their marks, which are the same in all figures of an experiment."""

from __future__ import annotations

import pytest
from one_drawing import drawn_alone

from cpms.experiment.report.generic.parts import marks_of
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled
from cpms.experiment.report.templates import TEMPLATES, drawings

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


def products(*settings):
    shared = {"kind": "product", "entries": 9, "storage": "fp64", "read": 1}
    return numbered([{**shared, **each} for each in settings])


def test_figures_omit_the_values_that_most_contestants_have_and_captions_state_them():
    levels = [{"storage": "cpms2", "read": read} for read in (1, 2)]
    rows = products({}, {"storage": "fp32"}, {"compute": "fp32"}, {"engine": "cusparse", "algorithm": "alg1"}, *levels)
    rows = [{"compute": "fp64", **row} for row in rows]
    found = observations(rows)
    short = ["cpu fp64", "cpu fp32", "cpu fp64 compute=fp32", "cusparse fp64", "cpu cpms2 read=1", "cpu cpms2 read=2"]
    assert found.short.tolist() == short
    assert found.called.tolist()[3] == "cusparse fp64 fp64 read=1 alg1"  # Tables and numbers have full names.
    for made in drawings(rows):
        assert "named by engine, storage, compute (fp64), read, algorithm (alg1); values in par" in made.caption
        assert "alg1 " not in made.caption


def test_a_name_that_another_contestant_would_have_keeps_its_usual_value():
    rows = products({"batch": 2}, {"batch": 2, "engine": "cuda"}, {"batch": 4}, {})
    assert observations(rows).short.tolist() == ["cpu batch=2", "cuda", "cpu batch=4", "cpu"]


@pytest.mark.parametrize("name", ["cuda", "cuda batch=0"])
def test_a_baseline_has_its_short_name_or_its_full_one(name):
    rows = products({"batch": 0}, {"batch": 0, "engine": "cuda"}, {"batch": 4})
    made = drawn_alone(rows, "speedup", baseline=name)
    assert "speed-up over cuda in time of a product, on 1 matrix" in made.caption
