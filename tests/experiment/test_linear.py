"""Experiment kinds linear and honesty: what is measured, and the tables and figures of it."""

from __future__ import annotations

import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from pydantic import ValidationError

from cpms import InputError
from cpms.base.package_data import show_programs
from cpms.experiment.kinds import honesty, linear, vector_bits
from cpms.experiment.report import show
from cpms.experiment.report.output import Output

WAYS = [{"method": "cg", "engine": "scipy"}, {"engine": "cpu"}, {"method": "cg", "engine": "cpu", "vectors": ["bf16"]}]


def config(**changes):
    given = {"name": "x", "kind": "linear", "matrices": ["stencil:points=5,side=9"], "ways": WAYS}
    return linear.Config(**given | {"right_hand_sides": ["ones"]} | changes)


def shown(name, row, folder):
    out = Output(folder, name, [].append)
    show._program(show_programs()[name]).show(pd.DataFrame([{"experiment": name, **row}]), out)
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


def test_ways_take_turns_and_whole_calls_are_timed(tmp_path):
    (cell,) = config(samples=2, history_points=0).cells()
    found = linear.Context(config()).measure(cell)
    for way in found["ways_found"]:
        assert len(way["whole_samples_s"]) == 2
        assert way["whole_s"] >= way["solve_s"] > 0.0
        assert way["history"] == []
    row = {**cell, **found, "status": "ok"}
    assert shown("cg_time", row, tmp_path)["times faster, whole call"][0] == 1.0
    assert shown("gpu_cg_time", {**row, "ways_found": [*found["ways_found"], found["ways_found"][0]]}, tmp_path).way[
        1
    ] == ("cpu auto")
    assert shown("regret", {**row, "ways_found": found["ways_found"][1:]}, tmp_path).regret[0] > 0.0


def test_a_way_that_refuses_a_system_is_a_line_with_its_reason(tmp_path):
    path = tmp_path / "zero.mtx"
    scipy.io.mmwrite(path, scipy.sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    given = config(matrices=[str(path)], ways=[{"method": "jacobi", "engine": "cpu"}, {"engine": "cpu"}], whole=False)
    (cell,) = given.cells()
    refused, solved = linear.Context(given).measure(cell)["ways_found"]
    assert (refused["status"], refused["residual"], solved["status"]) == ("REFUSED", None, "CONVERGED")
    assert "diagonal" in refused["reason"]
    assert set(refused) == set(solved)


@pytest.mark.parametrize(("method", "vectors"), [("gmres", ["blocks"]), ("cg", ["fp32", "bfp16"])])
def test_bits_of_vectors_are_counted(method, vectors, tmp_path):
    matrices = ["stencil:points=5,side=20"]
    given = vector_bits.Config(
        name="x", kind="vector_bits", method=method, matrices=matrices, vectors=[["fp64"], vectors], tol=1e-9
    )
    (cell,) = given.cells()
    found = vector_bits.Context(given).measure(cell)
    first, other = found["ways_found"]
    assert first["status"] == other["status"] == "CONVERGED"
    assert first["mean_bits"] == 64.0
    assert 16.0 < other["mean_bits"] < 30.0
    assert shown(f"{method}_bits", {**cell, **found, "status": "ok"}, tmp_path)["over float64"][0] == 1.0


def test_names_of_nothing_are_refused():
    with pytest.raises(ValidationError, match="not known"):
        config(ways=[{"method": "sor"}])
    with pytest.raises((ValidationError, InputError), match="float7"):
        vector_bits.Config(
            name="x", kind="vector_bits", method="cg", matrices=["stencil:points=5,side=3"], vectors=[["float7"]]
        )
    with pytest.raises((ValidationError, InputError), match="no such file"):
        config(matrices=["nothing.mtx"])
