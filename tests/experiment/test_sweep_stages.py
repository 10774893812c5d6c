"""Stages of a sweep on edges in COO: which are timed, the bytes that they move, and what is shown of them."""

from types import SimpleNamespace

import pandas as pd
import pytest
from launched_kernels import timers_of

import cpms
from cpms import engines
from cpms.backends.cuda.runtime import current
from cpms.base.package_data import experiments, show_programs
from cpms.experiment import config
from cpms.experiment.kinds import spmv
from cpms.experiment.memory_footprint import least_bytes_of_stage
from cpms.experiment.report import show, style
from cpms.experiment.report.observations import observations
from cpms.experiment.rows.schema import columns
from cpms.formats.formats import FP32, FP64
from cpms.graph.graph import Graph

GRAPH = "weblike:nodes=300,edges=1200,seed=1"
WITHOUT_DANGLING = "uniform:nodes=50,edges=2000,seed=1"
STAGES = ["product", "dangling", "update", "distance", "sweep"]
KERNELS = {
    "product": ["coo_product", "coo_carry_out"],
    "dangling": ["coo_dangling"],
    "update": ["coo_epilogue"],
    "distance": ["coo_distance"],
    "sweep": ["coo_dangling", "coo_product", "coo_carry_out", "coo_epilogue", "coo_distance"],
}


def cell(stages, graph=GRAPH, used=("coo_streams",)):
    given = {"name": "x", "kind": "spmv", "graphs": [graph], "layouts": ["coo"], "engines": list(used)}
    (only,) = spmv.Config(**given, storages=["fp64", "fp32"], stages=stages).cells()
    return only


class Library:
    """An engine, and its operator, with a product that launches no kernel of cpms."""

    def prepare(self, *_):
        return self

    def load(self, values):
        return values

    def empty(self):
        return None

    def multiply(self, *_, **__):
        """Take no time."""


@pytest.fixture
def measured(host_backend, monkeypatch):
    """Return a function that measures a cell on this machine; the columns have the kernels that each work launched."""
    known = {"cusparse": Library()}
    monkeypatch.setattr(spmv, "engines", SimpleNamespace(get=lambda name: known.get(name) or engines.get_any(name)))
    monkeypatch.setattr(spmv, "Timer", timers_of(host_backend, monkeypatch))
    monkeypatch.setattr(spmv, "ceilings", lambda: {"copy_gbps": 4000.0})

    def of(given):
        with current.using(host_backend):
            first, *others = spmv.Context(None).measure(given)["contestants"]
        assert first["engine"] == "cusparse"
        assert first.get("stage") == ("product" if given.get("stages") else None)
        return others

    return of


def test_each_stage_launches_its_kernels_alone(measured):
    found = measured(cell(STAGES))
    assert [(each["storage"], each["stage"]) for each in found] == [
        (storage, stage) for storage in ("fp64", "fp32") for stage in STAGES
    ]
    assert [each["kernels"] for each in found] == [KERNELS[stage] for stage in STAGES] * 2


def test_rates_are_bytes_over_median_times(measured):
    graph = cpms.load(GRAPH)
    for each in measured(cell(STAGES)):
        storage = {"fp64": FP64, "fp32": FP32}[each["storage"]]
        assert each["least_bytes"] == least_bytes_of_stage(graph, storage, "coo", 1, each["stage"])
        assert each["bandwidth_gbps"] == pytest.approx(each["least_bytes"] / 0.25e-3 / 1e9)
    assert {"stage", "stages_json", "bandwidth_gbps"} <= columns().keys()


def test_no_other_stages_than_those_of_the_cell_are_timed(measured):
    assert [each["stage"] for each in measured(cell(["update", "product"]))] == ["product", "update"] * 2
    stages = [each["stage"] for each in measured(cell(STAGES, WITHOUT_DANGLING))]
    assert stages == ["product", "update", "distance", "sweep"] * 2
    assert measured(cell(["dangling"], WITHOUT_DANGLING)) == []


def test_without_stages_rows_are_as_before(measured):
    found = measured(cell([]))
    assert [each["kernels"] for each in found] == [KERNELS["product"]] * 2
    assert not any({"stage", "bandwidth_gbps"} & each.keys() for each in found)


def test_cells_without_stages_keep_their_names():
    given = {name: config.read(experiments()[name]).cells() for name in ("gpu_coo", "gpu_spmv", "gpu_coo_kernels")}
    assert not any("stages" in each for each in given["gpu_coo"] + given["gpu_spmv"])
    assert all(each["stages"] == STAGES for each in given["gpu_coo_kernels"])
    assert [each["graph"] for each in given["gpu_coo_kernels"]] == [each["graph"] for each in given["gpu_coo"]]


@pytest.mark.parametrize(("storage", "size"), [(FP64, 8), (FP32, 4)], ids=["fp64", "fp32"])
def test_a_stage_moves_its_vectors_once(storage, size):
    graph = Graph.from_edges([0, 1, 0, 0], [1, 2, 2, 3], nodes=5)  # Nodes 2, 3 and 4 are dangling.
    expected = {"product": 4 * (8 + size) + 10 * size, "dangling": 3 * (4 + size)}
    expected |= {"update": 10 * size, "distance": 10 * size}
    expected["sweep"] = sum(expected.values())
    assert {stage: least_bytes_of_stage(graph, storage, "coo", 1, stage) for stage in STAGES} == expected


@pytest.mark.gpu
def test_stages_are_timed_on_a_gpu(gpu_backend, monkeypatch):
    """Each is one CUDA graph, the sweep with its second stream, too; no kernel takes longer than the sweep."""
    monkeypatch.setattr(spmv, "ceilings", lambda: {"copy_gbps": 4000.0})
    with current.using(gpu_backend):
        found = spmv.Context(None).measure(cell(STAGES, used=["coo_streams", "coo_basic", "reduce_by_key"]))
    assert found["refused"] == {}
    times_ms = {(each["engine"], each["storage"], each["stage"]): each["median_ms"] for each in found["contestants"]}
    assert len(times_ms) == 1 + 3 * 2 * len(STAGES)
    assert all(each["as_one_graph"] for each in found["contestants"] if each["engine"] != "cusparse")
    for (engine, storage, stage), took_ms in times_ms.items():
        assert took_ms > 0
        assert engine == "cusparse" or took_ms <= times_ms[engine, storage, "sweep"], (engine, storage, stage)


# What is shown

PARTS_MS = {"product": 0.5, "dangling": 0.05, "update": 0.2, "distance": 0.1, "sweep": 0.9}
PRODUCT = {"engine": "coo_streams", "storage": "fp64", "layout": "coo", "bits": 64}
ROW = {"status": "ok", "gpu": "a GPU", "nodes": 1000, "edges": 5000, "copy_gbps": 2.0, "cell": "0", "samples": 11}


def timed(took_ms):
    return {"least_bytes": 1e6, "median_ms": took_ms, "least_ms": 0.9 * took_ms, "most_ms": 1.2 * took_ms}


def coo_row(graph):
    return {
        **ROW,
        "graph": graph,
        "graph_name": graph,
        "experiment": "gpu_coo",
        "contestants": [{**PRODUCT, **timed(0.4)}],
    }


def solve_row(graph):
    result = {"status": "ok", "engine": "coo_streams", "storage": "fp64", "step_s": [0.001, 0.002, 0.003]}
    return {**ROW, "graph": graph, "graph_name": graph, "experiment": "gpu_systems", "results": [result]}


def kernel_row(graph, parts_ms=None, gpu="a GPU"):
    parts = [
        {**PRODUCT, "storage": storage, "stage": stage, **timed(took_ms / divisor), "bandwidth_gbps": divisor / took_ms}
        for storage, divisor in (("fp64", 1), ("fp32", 2))
        for stage, took_ms in (parts_ms or PARTS_MS).items()
    ]
    return {
        **ROW,
        "graph": graph,
        "graph_name": graph,
        "gpu": gpu,
        "experiment": "gpu_coo_kernels",
        "contestants": parts,
    }


def shown(rows, beside):
    """Return the table of kernels with its caption, and the figure with its caption."""
    tables, figures = {}, []
    out = SimpleNamespace(
        table=lambda table, suffix="", caption="", **_: tables.update({suffix: (table, caption)}),
        figure=lambda figure, caption, **_: figures.append((figure, caption)),
        names=lambda graphs, *_, **__: list(graphs),
        width=style.WIDTHS["single"],
    )
    with show.styled():
        show._program(show_programs()["coo"]).show(pd.DataFrame(rows), out, pd.DataFrame(beside))
    return tables["_kernels"], figures


def bars(figure):
    """Return the widths of the bars of each row of the first panel, from the left."""
    found = {}
    for bar in sorted(figure.axes[0].patches, key=lambda bar: bar.get_x()):
        found.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(round(bar.get_width(), 9))
    return found


def test_the_table_has_a_line_for_each_kernel_and_the_figure_a_bar():
    (table, caption), [(figure, said)] = shown([coo_row("path")], [solve_row("path"), kernel_row("path")])
    assert table.kernel.tolist() == ["product", "dangling mass", "update", "distance", "sweep", "sweep of a solve"]
    assert table.ms.tolist() == [*PARTS_MS.values(), 1.0]
    assert table["GB/s"].tolist()[:5] == pytest.approx([1 / took_ms for took_ms in PARTS_MS.values()])
    assert table["of a copy"].tolist()[:5] == pytest.approx([0.5 / took_ms for took_ms in PARTS_MS.values()])
    assert table["fp32, ms"].tolist()[:5] == [took_ms / 2 for took_ms in PARTS_MS.values()]
    assert bars(figure) == {0: [0.5, 0.2, 0.1, 0.2]}
    assert [text.get_text() for text in figure.axes[0].child_axes[0].get_yticklabels()] == ["dangling", "5 %"]
    assert "each kernel was timed alone" in caption
    assert "not recorded" not in caption + said


def test_without_rows_of_kernels_what_there_is_is_shown():
    beside = [solve_row("path"), kernel_row("path", gpu="another GPU")]
    (table, caption), [(figure, said)] = shown([coo_row("path")], beside)
    assert table.kernel.tolist() == ["product", "update, distance, waits", "sweep of a solve"]
    assert table.ms.tolist() == pytest.approx([0.4, 0.6, 1.0])
    assert bars(figure) == {0: [0.4, 0.6]}
    assert "each kernel" not in caption
    assert "is not recorded" in said


def test_rows_of_kernels_on_some_graphs_or_without_a_solve_are_shown():
    rows, of_kernels = [coo_row("path"), coo_row("star"), coo_row("ring")], [kernel_row("star"), kernel_row("ring")]
    (table, caption), [(figure, _)] = shown(rows, [solve_row("path"), solve_row("star"), *of_kernels])
    assert table.groupby("graph", sort=False).size().to_dict() == {"path": 3, "star": 6, "ring": 5}
    assert sorted(map(len, bars(figure).values())) == [2, 4]
    assert "each kernel was timed alone" in caption
    assert "where single kernels were not timed" in caption
    _, figures = shown(rows[2:], of_kernels)
    assert figures == []


def test_kernels_that_take_longer_alone_than_together_fill_the_bar():
    slow_ms = {"product": 1.0, "update": 0.6, "distance": 0.4}
    _, [(figure, _)] = shown([coo_row("path")], [solve_row("path"), kernel_row("path", slow_ms)])
    assert bars(figure) == {0: [0.5, 0.3, 0.2, 0.0]}
    assert [text.get_text() for text in figure.axes[0].child_axes[0].get_yticklabels()] == ["dangling", "none"]


def test_figures_of_any_experiment_compare_within_a_stage():
    row = {**kernel_row("path"), "kind": "spmv", "layout": "coo", "samples": 11}
    found = observations([row])
    assert set(found.problem) == {f"stage={stage}" for stage in STAGES}
    assert set(found.called) == {"fp64", "fp32"}
