"""Experiment kind rounding: contestants round the same values, and cpms agrees with each that is installed."""

from __future__ import annotations

import sys

import pytest

from cpms.experiment.kinds.rounding import Config, Context


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
