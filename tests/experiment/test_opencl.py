"""The experiment of OpenCL's stages: right ranks but for sums that are meant to be wrong, and what is shown of it."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from cpms import Graph
from cpms.base.package_data import show_programs
from cpms.engines import opencl
from cpms.experiment.kinds.opencl import first_nodes
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

GRAPH = '"weblike:nodes=3000,edges=12000,seed=1"'
CONFIG = f"""
name = "opencl_stages"
kind = "opencl"
samples = 2

[[runs]]
purpose = "stages"
graph = {GRAPH}
storages = ["fp32", "fp64"]
cores = [1]
adds = ["add_atomically", "add_nothing"]
others = ["serial", "cuda_thread_rows"]

[[runs]]
purpose = "long"
graph = {GRAPH}
iterations = 30
stages = ["pattern"]
others = ["serial"]

[[runs]]
purpose = "work_groups"
graph = {GRAPH}
work_groups = [1, 64, 1000000, 0]

[[runs]]
purpose = "scaling"
graph = {GRAPH}
nodes = [100, 3000]
stages = ["pattern"]
devices = ["", "a device of none"]
cores = [1, 0]
others = ["serial"]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    reason = opencl.ENGINE.missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rows")
    path = folder / "opencl_stages.toml"
    path.write_text(CONFIG)
    run(path, output=folder)
    return folder


def test_every_contestant_ranks_but_those_that_do_not_add(recorded):
    results = [(row, result) for row in rows.read(recorded / "opencl_stages.jsonl") for result in row["results"]]
    assert len(results) == 2 * 5 + 1 + 2 + 9 + 6
    for row, result in results:
        assert len(result["run_samples_s"]) == row["samples"]
        assert min(result["run_samples_s"]) <= result["run_s"] <= max(result["run_samples_s"])
        if result.get("add") == "add_nothing":
            assert result["error_l1"] > 0.1
        else:
            assert result["error_l1"] < (1e-4 if result["storage"] == "fp32" else 1e-12)


def test_contestants_that_cannot_run_are_recorded_with_a_reason(recorded):
    refused = {}
    for row in rows.read(recorded / "opencl_stages.jsonl"):
        refused.update(row["refused"])
    assert any("1000000" in reason for reason in refused.values())
    assert any("'a device of none'" in reason for reason in refused.values())


@pytest.mark.slow
def test_shown_from_rows_alone(recorded, tmp_path):
    written = show.show("opencl_stages", results=recorded, output=tmp_path)
    names = {path.name for path in written}
    assert {
        "opencl_stages.md",
        "opencl_stages_parts.csv",
        "opencl_stages_work_groups.tex",
        "opencl_stages.png",
    } <= names
    text = (tmp_path / "opencl_stages.md").read_text()
    assert "GPU / CPU" in text
    assert "| 1 core, ms an iteration |" in text


def test_curves_of_work_groups_go_through_their_marks_and_are_in_the_legend():
    program = show._program(show_programs()["opencl_stages"])
    sizes, times_s = [1, 2, 4, 4096, 0], [4.0, 2.0, 1.0, 1.0, 3.0]
    results = pd.DataFrame(
        {
            "layout": layout,
            "work_group": size,
            "iterations": 1,
            "run_samples_s": [second],
            "ms an iteration": 1e3 * second,
        }
        for layout in program.STAGES
        for size, second in zip(sizes, times_s, strict=True)
    )
    axes = Figure().subplots()
    program._work_group_panel(axes, results)
    drawn = [line for line in axes.lines if len(line.get_xdata())]
    assert len(drawn) == 3 * len(program.STAGES)  # Up to 4, 4096, and the driver's choice.
    assert all(line.get_marker() not in ("None", "") for line in drawn)
    assert {line.get_linestyle() for line in drawn if len(line.get_xdata()) > 1} == {"-"}
    curves, labels = axes.get_legend_handles_labels()
    assert labels == list(program.STAGES.values())
    assert {curve[0].get_linestyle() for curve in curves} == {"-"}


def test_sub_graphs_keep_the_edges_between_their_nodes():
    random = np.random.default_rng(2)
    sources, targets = random.integers(0, 50, 400), random.integers(0, 50, 400)
    cut = first_nodes(Graph.from_edges(sources, targets, nodes=50), 20)
    inside = (sources < 20) & (targets < 20)
    assert cut.nodes == 20
    assert sorted(zip(cut.sources, cut.targets, strict=True)) == sorted(
        zip(sources[inside], targets[inside], strict=True)
    )
