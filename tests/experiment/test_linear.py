"""Experiment kinds linear and honesty: what is measured, and the tables and figures of it."""

from __future__ import annotations

import pandas as pd
import pytest
from pydantic import ValidationError

from cpms import InputError
from cpms.base.package_data import show_programs
from cpms.experiment.kinds import honesty, linear
from cpms.experiment.report import show
from cpms.experiment.report.output import Output

WAYS = [{"method": "cg", "engine": "scipy"}, {"engine": "cpu"}, {"method": "cg", "engine": "cpu", "vectors": ["bf16"]}]


def config(**changes):
    given = {"name": "x", "kind": "linear", "matrices": ["stencil:points=5,side=9"], "ways": WAYS}
    return linear.Config(**given | {"right_hand_sides": ["ones"]} | changes)


def shown(name, row, folder):
    out = Output(folder, name, [].append)
    show._program(show_programs()[name]).show(pd.DataFrame([row]), out)
    return pd.read_csv(folder / f"{name}.csv")


def test_each_way_is_certified_and_drawn(tmp_path):
    (cell,) = config().cells()
    found = linear.Context(config()).measure(cell)
    assert [way["status"] for way in found["ways_found"]] == ["CONVERGED"] * 3
    assert all(way["residual"] <= 1e-10 for way in found["ways_found"][1:])
    assert list(found["ways_found"][2]["iterations_by_bits"]) == ["16"]
    table = shown("linear", {**cell, **found, "status": "ok"}, tmp_path)
    assert table.method.tolist() == ["scipy cg", "cg", "cg"]
    assert (tmp_path / "linear.png").exists()


def test_our_answers_are_never_wrong(tmp_path):
    given = honesty.Config(name="x", kind="honesty", systems=24, largest=60, max_iterations=100)
    (cell,) = given.cells()
    found = honesty.Context(given).measure(cell)
    counts = found["counts"]
    assert counts["cpms auto"]["converged"] > 8
    assert counts["cpms auto"]["wrong"] == counts["cpms gmres"]["wrong"] == 0
    assert shown("honesty", {**cell, **found, "status": "ok"}, tmp_path).systems.tolist() == [24] * 4


def test_names_of_nothing_are_refused():
    with pytest.raises(ValidationError, match="not known"):
        config(ways=[{"method": "sor"}])
    with pytest.raises((ValidationError, InputError), match="no such file"):
        config(matrices=["nothing.mtx"])
