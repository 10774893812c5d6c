"""The whole road as recorded rows: every way of every solver, answers that agree, and what is made of the rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from cpms import Graph, UnsupportedError
from cpms.backends.cuda import device_engine
from cpms.experiment import config
from cpms.experiment.kinds.road.measuring import Config, Context, permuted_edges
from cpms.experiment.report import show
from cpms.experiment.rows import rows, series
from cpms.experiment.runner import run

CONFIG = """
name = "gpu_road"
kind = "road"
graphs = ["copying:nodes=300,degree=4,seed=1", "torus:side=5,dimensions=2,seed=1"]
solvers = [{ method = "refine", engine = "cpu" }, { method = "power", engine = "cpu" }]
rounds = 2
old_rounds = 1
warmup = 1
changed = 0.01
"""
WAYS = ("road", "old_road", "call", "prepared", "update")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    output = tmp_path_factory.mktemp("rows")
    (output / "gpu_road.toml").write_text(CONFIG)
    return run(output / "gpu_road.toml", output=output)


def test_rows_hold_all_ways_and_their_stages(recorded):
    found = rows.read(recorded)
    assert [row["status"] for row in found] == ["ok", "ok"]
    for row in found:
        assert len(row["built_samples_s"]) == 1
        assert row["built_s"] > 0
        assert [result["method"] for result in row["results"]] == ["refine", "power"]
        for result in row["results"]:
            assert result["solver_status"] == "converged"
            assert 0 < result["update_iterations"] <= sum(result["iterations_by_bits"].values())
            for way in WAYS:
                assert len(result[f"{way}_samples_s"]) == (1 if way == "old_road" else 2)
                stages = [result[f"{way}_{stage}_s"] for stage in ("prepare", "solve", "certify")]
                assert min(stages) > 0
                assert sum(stages) <= 2 * max(result[f"{way}_samples_s"])
            assert not any(name.startswith("device") for name in result)
    quantities = {each.quantity for each in series.series_of(found)}
    assert {*WAYS, "road_solve", "prepared_certify"} <= quantities


@pytest.mark.parametrize(
    ("method", "engine"), [pytest.param("refine", "cuda", marks=pytest.mark.slow), ("power", "cuda_fused")]
)
def test_engines_on_a_device_take_the_ways_through_its_memory(device, monkeypatch, method, engine):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    given = {"method": method, "engine": engine}
    experiment = Config(
        name="road",
        kind="road",
        graphs=["torus:side=4,dimensions=2"],
        solvers=[given],
        rounds=2,
        warmup=1,
        changed=0.05,
    )
    (result,) = Context(experiment).measure(experiment.cells()[0])["results"]
    assert result["status"] == "ok"
    for way in ("road", "call", "prepared", "update", "device_road", "device_prepared", "device_update"):
        assert len(result[f"{way}_samples_s"]) == 2
    assert result["difference_from_processors_l1"] <= result["difference_bound"] < 1e-8
    assert result["residual_l1"] == pytest.approx(result["residual_on_processors_l1"], abs=1e-14)


def test_answers_agree_with_the_processors(recorded):
    for row in rows.read(recorded):
        for result in row["results"]:
            assert result["difference_from_processors_l1"] <= result["difference_bound"] < 1e-8
            assert result["residual_l1"] == pytest.approx(result["residual_on_processors_l1"], abs=1e-15)


def test_edges_are_a_permutation_of_the_graphs():
    random = np.random.default_rng(1)
    graph = Graph.from_edges(random.integers(0, 50, 400), random.integers(0, 50, 400), nodes=60)
    sources, targets = permuted_edges(graph)
    assert not np.array_equal(sources, graph.sources)
    again = Graph.from_edges(sources, targets, nodes=60)
    assert np.array_equal(again.sources, graph.sources)
    assert np.array_equal(again.indptr, graph.indptr)


def test_weights_are_refused():
    with pytest.raises(UnsupportedError, match="weights"):
        permuted_edges(Graph.from_edges([0, 1], [1, 0], weights=[1.0, 2.0]))


def test_rows_are_shown(recorded, tmp_path):
    written = show.show("road", results=recorded.parent, output=tmp_path)
    assert {path.name for path in written} >= {
        "road.md",
        "road_details.csv",
        "road_targets.csv",
        "road_agreement.csv",
        "road.pdf",
    }
    table, details = (pd.read_csv(tmp_path / f"road{suffix}.csv") for suffix in ("", "_details"))
    assert (table["edges to ranks, ms"] > 0).all()
    assert (details["least ms"] <= details["ms"]).all()
    assert (details["ms"] <= details["most ms"]).all()
    text = "medians of 2 in turn, 1 where processors build and certify, of edges in random order"
    assert text in (tmp_path / "road.md").read_text()
    assert "ranges of 1 to 2 samples" in json.loads((tmp_path / "road.json").read_text())["caption"]


_HOLDING_OUT = ("gpu_road_held", "cpu_peers_road")


def test_the_held_graphs_are_no_other_experiments():
    """Of the experiments on a GPU and on processors that hold these families out."""
    configs = show.folder("experiments") / "configs"
    held = config.read(configs / "comparisons" / "gpu_road_held.toml").graphs
    others = [path.read_text() for path in configs.rglob("*.toml") if path.stem not in _HOLDING_OUT]
    assert len(held) == 5
    assert not any(graph.path.split(",")[0] in text for graph in held for text in others)
