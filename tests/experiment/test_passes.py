"""Passes of an iteration of conjugate gradients or GMRES: which are timed, their bytes and rates, and what is shown."""

import json
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from launched_kernels import timers_of

from cpms import UnavailableError, engines
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.runtime import current
from cpms.base.package_data import experiments, show_programs
from cpms.experiment import config
from cpms.experiment.kinds import passes
from cpms.experiment.kinds.passes import measure
from cpms.experiment.pages.numbers import Rows, modules
from cpms.experiment.report import show
from cpms.experiment.report.observations import observations
from cpms.experiment.rows.schema import columns
from cpms.sources import matrices

WAYS = [{"storage": "fp64"}, {}, {"vectors": "fp32"}, {"vectors": "bfp16"}]
OPERATOR = ["product", "curvature", "update", "direction", "solution"]
PATTERNS = ["product", "update", "direction", "solution"]
KERNELS = {"curvature": "cg_curvature", "update": "cg_update", "direction": "cg_direction", "solution": "cg_solution"}


def cell(matrix, ways=WAYS):
    (only,) = passes.Config(name="x", kind="passes", matrices=[matrix], ways=ways, samples=3).cells()
    return only


@pytest.fixture
def measured(host_backend, monkeypatch):
    """Return a function that measures a cell on this machine; the columns have the kernels that each pass launched."""
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    monkeypatch.setattr(measure, "Timer", timers_of(host_backend, monkeypatch))
    monkeypatch.setattr(measure, "copy_rates", lambda names: {"copy_gbps": 4000.0} if [*names] == ["cuda"] else {})

    def of(given):
        with current.using(host_backend):
            return passes.Context(None).measure(given)

    return of


def test_each_pass_launches_its_kernel_alone(measured):
    found = measured(cell("stencil:points=5,side=9"))["contestants"]
    by_way = {}
    for each in found:
        by_way.setdefault((each["storage"], each["vectors"]), []).append(each)
    assert [[each["stage"] for each in way] for way in by_way.values()] == [OPERATOR, PATTERNS, PATTERNS, PATTERNS]
    for each in found:
        (kernel,) = each["kernels"]
        if each["stage"] != "product":
            assert kernel == KERNELS[each["stage"]]
        else:
            assert (kernel == "cg_patterns") == (each["storage"] == "auto")
        assert each["turns"] == 3


@pytest.mark.parametrize("vectors", ["fp64", "blocks"])
def test_each_pass_of_gmres_launches_its_kernel_alone(measured, vectors):
    found = measured(cell("stencil:points=5,side=9", [{"method": "gmres", "vectors": vectors}]))["contestants"]
    kernels = {each["stage"]: {*each["kernels"]} for each in found}
    assert [*kernels] == ["product", "dots", "coefficients", "combination", "store"]
    assert [*kernels.values()][1:] == [{f"arnoldi_{each}"} for each in ("dots", "parts", "combine", "store")]
    assert {each["method"] for each in found} == {"gmres"}
    assert all(each["bandwidth_gbps"] > 0 for each in found)


def test_a_method_without_fused_passes_in_a_format_is_refused_at_once():
    with pytest.raises(ValueError, match="cg has fused passes for vectors in fp64, fp32, bfp16, not in blocks"):
        cell("stencil:points=5,side=9", [{"vectors": "blocks"}])


def test_rates_are_bytes_over_median_times(measured):
    row = measured(cell("stencil:points=5,side=9"))
    assert (row["rows"], row["copy_gbps"]) == (81, 4000.0)
    for each in row["contestants"]:
        assert each["bandwidth_gbps"] == pytest.approx(each["least_bytes"] / 0.25e-3 / 1e9)
    moved = {(each["vectors"], each["stage"]): each["least_bytes"] for each in row["contestants"]}
    assert moved["fp32", "product"] == (2 + 4 + 4) * 81
    assert moved["bfp16", "solution"] == (8 * 2 + 16) * 81
    assert {"stage", "bandwidth_gbps", "ways_json", "stored_as"} <= columns().keys()


def test_a_matrix_of_many_patterns_is_multiplied_by_its_operator(measured):
    found = measured(cell("diffusion:side=12,contrast=10", [{"vectors": "fp32"}]))["contestants"]
    assert [each["stage"] for each in found] == OPERATOR
    assert {each["stored_as"] for each in found} == {"fp32"}


def test_without_a_gpu_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(type(engines.get_any("cuda")), "missing", lambda _: "there is no GPU")
    with pytest.raises(UnavailableError, match="there is no GPU"):
        passes.Context(None).measure(cell("stencil:points=5,side=9"))


@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_the_configuration_has_the_ways_of_the_experiment_of_whole_solves(method):
    kernels, solves = (config.read(experiments()[name]) for name in (f"gpu_{method}_kernels", f"gpu_{method}_time"))
    assert all(matrices.is_name(name) for name in kernels.matrices)
    assert set(kernels.matrices) <= set(solves.matrices)
    asked = {(way.storage, *way.vectors) for way in solves.ways if (way.engine, way.method) == ("cuda", method)}
    assert {(way.storage, way.vectors) for way in kernels.ways} == asked
    assert {way.method for way in kernels.ways} == {method}


@pytest.mark.gpu
def test_passes_are_timed_on_a_gpu(gpu_backend):
    with current.using(gpu_backend):
        row = passes.Context(None).measure(cell("stencil:points=7,side=40"))
    assert row["copy_gbps"] > 0
    assert len(row["contestants"]) == len(OPERATOR) + 3 * len(PATTERNS)
    for each in row["contestants"]:
        assert 0 < each["least_ms"] <= each["median_ms"] <= each["most_ms"]
        assert each["as_one_graph"], each["stage"]


# What is shown

TIMES_MS = {"product": 0.5, "curvature": 0.1, "update": 0.2, "direction": 0.2, "solution": 0.8}


def row_of(graph, stages=tuple(TIMES_MS), divisor=1):
    timed = [
        {
            "engine": "cuda",
            "method": "cg",
            "storage": storage,
            "vectors": vectors,
            "stored_as": "e4m3",
            "stage": stage,
            "bits": 64,
            "least_bytes": 10**6,
            "bandwidth_gbps": 1 / TIMES_MS[stage] * divisor,
            **{f"{end}_ms": by * TIMES_MS[stage] / divisor for end, by in (("median", 1), ("least", 0.9), ("most", 2))},
        }
        for storage, vectors in (("fp64", "fp64"), ("auto", "fp32"))
        for stage in stages
    ]
    known = {"cell": graph, "experiment": "gpu_cg_kernels", "kind": "passes", "status": "ok", "graph": graph}
    return {**known, "gpu": "a GPU", "rhs": "random", "samples": 11, "copy_gbps": 4.0, "contestants": timed}


def solves_of(graph, gpu="a GPU"):
    way = {"engine": "cuda", "method": "cg", "storage": "auto", "vectors": ["fp32"], "status": "CONVERGED"}
    ways = [{**way, "solve_s": 0.3, "iterations": 100}, {**way, "storage": "fp64", "status": "DIVERGED"}]
    return {"status": "ok", "gpu": gpu, "graph": graph, "rhs": "random", "ways_found": ways}


def shown(rows, beside=()):
    """Return the table and its caption."""
    found = []
    out = SimpleNamespace(
        table=lambda table, caption="", **_: found.append((table, caption)),
        figure=lambda figure, **_: plt.close(figure),
        width=3.3,
    )
    show._program(show_programs()["cg_kernels"]).show(pd.DataFrame(rows), out, pd.DataFrame(beside))
    return found[0]


def test_the_table_has_a_line_for_each_kernel_and_their_sum():
    table, caption = shown([row_of("stencil:points=7,side=9")], [solves_of("stencil:points=7,side=9")])
    assert table.kernel.tolist() == [*OPERATOR, "iteration", *OPERATOR, "iteration", "iteration of a solve"]
    assert table.ms.tolist()[:6] == pytest.approx([*TIMES_MS.values(), 1.1])
    assert table["of a copy"].tolist()[:5] == pytest.approx([0.25 / took_ms for took_ms in TIMES_MS.values()])
    assert table["GB/s"][5] == pytest.approx(4.125 / 1.1)
    assert table["least ms"].tolist()[:2] == pytest.approx([0.45, 0.09])
    assert table.ms.tolist()[-1] == 3.0
    assert "each kernel was timed alone" in caption.lower()
    assert "held out" not in caption


def test_solves_on_another_gpu_are_not_shown_and_held_out_matrices_are_marked():
    held = "stencil:points=9,side=1500"
    table, caption = shown([row_of(held, PATTERNS)], [solves_of(held, "another GPU")])
    assert table.kernel.tolist() == [*PATTERNS, "iteration"] * 2
    assert set(table.matrix) == {f"{held} (held out)"}
    assert "nothing was tuned" in caption
    assert "of a solve" not in caption
    assert len(shown([row_of(held)])[0]) == 12


def test_figures_of_any_experiment_compare_within_a_pass():
    found = observations([row_of("stencil:points=7,side=9")])
    assert set(found.problem) == {f"stage={stage}" for stage in OPERATOR}


def test_numbers_of_gmres_are_of_its_passes(tmp_path):
    passes = ("product", "dots", "coefficients", "combination", "store")
    timed = [{"storage": "auto", "vectors": "blocks", "stage": each, "least_bytes": 10**6} for each in passes]
    timed = [each | {"median_ms": 0.5, "bandwidth_gbps": 2.0} for each in timed]
    row = {"cell": "x", "experiment": "gpu_gmres_kernels", "kind": "passes", "status": "ok", "graph": "stencil:"}
    (tmp_path / "gpu_gmres_kernels.jsonl").write_text(json.dumps({**row, "copy_gbps": 4.0, "contestants": timed}))
    found = {number.key: number for number in modules()["passes"].kernels_of_gmres(Rows(tmp_path))}
    assert [*found] == [f"gmres.kernels.auto.blocks.{each}" for each in (*passes, "iteration")]
    assert {number.value for number in found.values()} == {50.0}


def test_numbers_are_means_over_matrices_and_there_are_none_without_rows(tmp_path):
    kernels = modules()["passes"].kernels_of_cg
    assert list(kernels(Rows(tmp_path))) == []
    rows = [row_of("stencil:points=7,side=9"), row_of("elasticity:side=9", PATTERNS, 4)]
    rows += [row_of("stencil:points=9,side=1500", PATTERNS)]
    (tmp_path / "gpu_cg_kernels.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = {number.key: number for number in kernels(Rows(tmp_path))}
    update = found["cg.kernels.auto.fp32.update"]
    assert (update.value, update.low, update.high) == pytest.approx((250.0, 125.0, 500.0))
    assert found["cg.kernels.fp64.fp64.curvature"].value == pytest.approx(250.0)
    assert "1 matrix" in found["cg.kernels.fp64.fp64.curvature"].what
    held = found["cg.kernels.held.auto.fp32.iteration"]
    assert held.what.endswith("1 matrix, held out")
    assert held.value == held.low == held.high == pytest.approx(3.125 / 1.0 / 4.0 * 100.0)
    assert len(found) == 2 * (len(OPERATOR) + 1) + 2
