"""Experiment kind rounding: contestants round the same values, and cpms agrees with each that is installed."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

from cpms.base.package_data import show_programs
from cpms.experiment.kinds.rounding import Config, Context
from cpms.experiment.report import show
from cpms.experiment.report.output import Output


@pytest.mark.parametrize("storage", ["fp16", "e4m3fn", "mxfp8-e4m3", "int16"])
def test_contestants_round_alike(storage, monkeypatch):
    monkeypatch.setitem(sys.modules, "pychop", None)  # What is not installed is left out.
    config = Config(name="x", kind="rounding", storages=[storage], sizes=[70], samples=1)
    [cell] = config.cells()
    row = Context(config).measure(cell)
    found = {result["contestant"]: result for result in row["results"]}
    assert row["bytes"] == 8 * 64
    assert "pychop" not in found
    assert {"fp16": "cast", "e4m3fn": "gfloat", "mxfp8-e4m3": "gfloat", "int16": "cpms"}[storage] in found
    assert all(result["differing"] == 0 for result in found.values())
    assert all(
        0.0 < each["least_ms"] <= each["median_ms"] <= each["most_ms"] for each in (row["copy"], *found.values())
    )


def test_rows_of_one_size_are_over_one_copy(tmp_path, monkeypatch):
    times = {"least_ms": 6.0, "median_ms": 6.0, "most_ms": 6.0}
    row = {"status": "ok", "cpu": "a CPU", "threads": 2, "results": [{"contestant": "cpms", "differing": 0, **times}]}
    copies = {("fp16", 100): 1.0, ("bf16", 100): 2.0, ("int16", 100): 6.0, ("mxint8", 10): 3.0}
    rows = pd.DataFrame(
        {**row, "storage": storage, "values": values, "copy": {"median_ms": median}}
        for (storage, values), median in copies.items()
    )
    made = []
    monkeypatch.setattr(Output, "figure", lambda _, figure, **texts: made.append((figure, texts)))
    with show.styled():
        show._program(show_programs()["rounding"]).show(rows, Output(tmp_path, "x", [].append), pd.DataFrame())
    [(figure, texts)] = made
    drawn = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert drawn == [3.0, 3.0, 3.0, 2.0]
    assert "2 ms (1 to 6) for 100 values, 3 ms (3 to 3) for 10 values" in texts["caption"]
    assert pd.read_csv(tmp_path / "x.csv")["copy, ms"].tolist() == list(copies.values())
