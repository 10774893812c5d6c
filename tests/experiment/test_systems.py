"""Every engine in one table: answers are verified, what cannot take part says why, and rows alone are shown."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cpms
from cpms import FP64, Graph, InputError, UnavailableError, engines
from cpms.backends.cuda.runtime.current import using
from cpms.base.package_data import folder
from cpms.engines import opencl
from cpms.experiment import config, solver_specs
from cpms.experiment.kinds import contest
from cpms.experiment.memory_footprint import held_bytes
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run
from cpms.experiment.solver_specs import Contestant, Solver
from cpms.mpi import launch
from cpms.problems.pagerank import Problem

GRAPHS = ("weblike:nodes=600,edges=2500,seed=1", "grid:rows=20,columns=30")
CONFIG = f"""
name = "systems_cpu"
kind = "contest"
graphs = ["{GRAPHS[0]}", "{GRAPHS[1]}"]
rounds = 2
reference_tol = 1e-14
contestants = [
    {{ engine = "reference", only = ["{GRAPHS[1]}"] }},
    {{ engine = "scipy" }},
    {{ engine = "serial" }},
    {{ engine = "cpu", storage = "cpms4" }},
    {{ engine = "cpu", storage = "fp32", fixed = true, tol = 1e-6 }},
    {{ engine = "cpu", layout = "pattern", method = "refine", storage = "fp16" }},
    {{ engine = "scipy", layout = "pattern" }},
    {{ engine = "serial", method = "refine" }},
    {{ engine = "mpi", ranks = 2, only = ["{GRAPHS[1]}"] }},
    {{ engine = "opencl", layout = "pattern" }},
    {{ engine = "opencl", device = "no such device", layout = "pattern" }},
]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    output = tmp_path_factory.mktemp("rows")
    (output / "systems_cpu.toml").write_text(CONFIG)
    return run(output / "systems_cpu.toml", output=output)


def results(recorded):
    return [(row, result) for row in rows.read(recorded) for result in row["results"]]


def test_every_answer_is_verified_and_as_good_as_its_tolerance(recorded):
    solved = [(row, result) for row, result in results(recorded) if result["status"] == "ok"]
    assert len({result["engine"] for _, result in solved}) >= 4
    for row, result in solved:
        tol = result.get("tol", row["tol"])
        assert result["solver_status"] == "converged"
        # What a solve found is of stored values, the residual of them as float64.
        assert result["residual_l1"] < 2 * tol
        assert result["error_bound"] == pytest.approx(result["residual_l1"] / 0.15, rel=1e-2)
        assert result["error_l1"] <= result["error_bound"] + row["reference_tol"] / 0.15
        assert result["top20_overlap"] == 1.0
        assert len(result["solve_samples_s"]) == row["rounds"] == 2
        assert result["matrix_bytes"] > 0
        if result["engine"] not in ("reference", "mpi"):  # One reads the graph as it is, the other holds it elsewhere.
            assert result["held_bytes"] >= result["matrix_bytes"] + 2 * row["nodes"] * (4 if "tol" in result else 2)


def test_float32_stays_float32_at_its_own_tolerance(recorded):
    single = [result for _, result in results(recorded) if result["storage"] == "fp32"]
    assert len(single) == 2
    for result in single:
        assert set(result["bits"]) == {32}
        assert result["residual_l1"] > 1e-9


def test_what_cannot_take_part_says_why(recorded):
    refused = [(row, result) for row, result in results(recorded) if result["status"] != "ok"]
    reasons = {(result["engine"], row["graph"]): result["reason"] for row, result in refused}
    assert "leaves it out" in reasons["reference", GRAPHS[0]]
    assert ("reference", GRAPHS[1]) not in reasons
    assert "no layout 'pattern'" in reasons["scipy", GRAPHS[0]]
    assert "no method 'refine'" in reasons["serial", GRAPHS[0]]
    assert reasons["opencl", GRAPHS[0]]
    assert all(row["status"] == "ok" for row, _ in refused)


def test_ranks_and_devices_that_are_here_take_part(recorded):
    solved = {result["engine"] for _, result in results(recorded) if result["status"] == "ok"}
    if not opencl.ENGINE.missing():
        assert "opencl" in solved
    try:
        launch.mpiexec()
    except UnavailableError:
        return
    assert "mpi" in solved


def test_rows_are_shown(recorded, tmp_path):
    first, second = (show.show("systems", results=recorded.parent, output=tmp_path / name) for name in "ab")
    names = {path.name for path in first}
    assert {"systems_cpu.md", "systems_cpu_times.tex", "systems_cpu_refused.csv", "systems.pdf"} <= names
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    table = (tmp_path / "a" / "systems_cpu.md").read_text()
    for part in ("GTEPS", "memory MB", "bound", "top 20", "cpu pattern refine fp16", "cpu csr fp32 to 1e-06"):
        assert part in table
    assert "False" not in table
    assert "no such device" in (tmp_path / "a" / "systems_cpu_refused.md").read_text()


def test_solves_that_stagnate_have_no_time(recorded, tmp_path):
    found = [json.loads(line) for line in recorded.read_text().splitlines()]
    solved = [result for result in found[0]["results"] if result["status"] == "ok" and "tol" in result]
    solved[0]["solver_status"] = "stagnated"
    (tmp_path / "systems_cpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    show.show("systems", results=tmp_path, output=tmp_path)
    refused = pd.read_csv(tmp_path / "systems_cpu_refused.csv").set_index("reason")
    system = refused.loc["the solve stagnated above its tolerance", "system"]
    times = pd.read_csv(tmp_path / "systems_cpu_times.csv").set_index("system").drop(columns="over the fastest")
    assert system not in times.index or times.loc[system].isna().any()


def test_a_contest_of_other_contestants_stands_in_the_place_of_the_one_before(recorded, tmp_path):
    now = [json.loads(line) for line in recorded.read_text().splitlines()]
    before = [{**row, "cell": "before", "results": row["results"][1:2]} for row in now[:1]]
    (tmp_path / "systems_cpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*before, *now]))
    show.show("systems", results=tmp_path, output=tmp_path / "both")
    show.show("systems", results=recorded.parent, output=tmp_path / "now")
    both, alone = ((tmp_path / name / "systems_cpu.csv").read_text() for name in ("both", "now"))
    assert both == alone


def test_an_engine_that_fails_later_leaves_the_others_alone(tmp_path, monkeypatch):
    solve = Solver.solve

    def failing(self, given, *, on_device=False):
        if given.engine == "serial" and on_device:
            raise MemoryError
        return solve(self, given, on_device=on_device)

    monkeypatch.setattr(Solver, "solve", failing)
    text = 'name = "x"\nkind = "contest"\ngraphs = ["grid:rows=3,columns=3"]\n'
    (tmp_path / "x.toml").write_text(text + 'contestants = [{ engine = "serial" }, { engine = "scipy" }]\n')
    (row,) = rows.read(run(tmp_path / "x.toml", output=tmp_path))
    assert [result["status"] for result in row["results"]] == ["out of memory", "ok"]
    assert row["results"][0]["reason"] == "out of memory"


def test_ranks_of_another_engine_are_refused(tmp_path):
    text = 'name = "x"\nkind = "contest"\ngraphs = ["grid:rows=3,columns=3"]\n'
    (tmp_path / "x.toml").write_text(text + 'contestants = [{ engine = "cpu", ranks = 2 }, { engine = "cpu" }]\n')
    with pytest.raises(InputError, match=r"contestants\.0: .*ranks are engine mpi's"):
        config.read(tmp_path / "x.toml")


def test_a_storage_that_the_engine_chooses_is_of_refine(tmp_path):
    text = 'name = "x"\nkind = "contest"\ngraphs = ["uniform:scale=8,edge_factor=4"]\n'
    chosen = '{ engine = "cpu", method = "refine", storage = "auto" }'
    (tmp_path / "x.toml").write_text(text + f'contestants = [{{ engine = "cpu", storage = "auto" }}, {chosen}]\n')
    with pytest.raises(InputError, match=r"contestants\.0: .*storage auto is method refine's"):
        config.read(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text(text + f'contestants = [{{ engine = "cpu" }}, {chosen}]\n')
    (row,) = rows.read(run(tmp_path / "x.toml", output=tmp_path))
    assert [(result["storage"], min(result["bits"])) for result in row["results"]] == [("fp64", 64), ("auto", 32)]


@pytest.mark.parametrize("name", ["gpu_refine", "gpu_speedup", "gpu_speedup_ell", "gpu_tolerance"])
def test_what_contestants_may_say_since_then_leaves_recorded_cells_their_names(name):
    experiments = folder("experiments")
    cells = {rows.cell_key(cell) for cell in config.read(next((experiments / "configs").rglob(f"{name}.toml"))).cells()}
    assert {row["cell"] for row in rows.read(experiments / "results" / f"{name}.jsonl")} <= cells


def test_solves_without_a_matrix_of_floats_of_their_own_are_prepared_once():
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    solver = Solver(Problem(graph), "none", layout="csr", tol=1e-10)
    once, anew = Contestant(engine="cpu"), Contestant(engine="cpu", storage="cpms4")
    prepared = []
    engine = engines.get("cpu")
    with pytest.MonkeyPatch.context() as patch:
        prepare = type(engine).prepare
        patch.setattr(type(engine), "prepare", lambda *given: prepared.append(given[2].name) or prepare(*given))
        for _ in range(3):
            for given in (once, anew):
                solver.solve(given)
    assert prepared == ["fp64", "cpms4", "cpms4", "cpms4"]


def test_contestants_may_sweep_over_all_nodes_where_passes_would_do():
    chain = Graph.from_edges(np.arange(49), np.arange(1, 50))
    solver = Solver(Problem(chain), "none", layout="pattern", tol=1e-10)
    passed, swept = (
        solver.solve(Contestant(engine="cpu", method="refine", storage="fp16", whole=whole)) for whole in (False, True)
    )
    assert passed.bits == [64]
    assert set(swept.bits) == {16, 64}
    assert np.abs(passed.ranks - swept.ranks).sum() < 1e-9


def test_memory_that_is_held_is_counted_once_and_graphs_are_not():
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    values = np.zeros(50)
    assert held_bytes(values, values[10:20], [values[::2], {"also": values.reshape(5, 10)}]) == 400
    assert held_bytes(graph, Problem(graph), "text", 3, None, math.pi) == 0
    loop: list[object] = [values]
    loop.append(loop)
    assert held_bytes(loop) == 400
    operator = engines.get("serial").prepare(Problem(graph), FP64, "csr")
    assert held_bytes(operator) == operator.nbytes


DEVICE = [
    {"engine": "cuda", "storage": "cpms4", "layout": "csr"},
    {"engine": "cuda_fused", "layout": "pattern", "method": "refine", "storage": "fp16"},
    # Each is compiled for this machine, for seconds.
    *(
        pytest.param(each, marks=pytest.mark.slow)
        for each in (
            {"engine": "cuda", "storage": "fp32", "layout": "pattern", "fixed": True, "tol": 1e-6},
            {"engine": "cuda_fused", "layout": "pattern"},
        )
    ),
]


@pytest.mark.parametrize("given", DEVICE, ids=lambda given: " ".join(map(str, given.values())))
def test_contestants_of_a_device_solve_and_hold_at_least_their_matrix(host_backend, monkeypatch, given):
    graph = Graph.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 0, 5, 0])
    exact = cpms.pagerank(graph, tol=1e-14, engine="cpu").ranks
    monkeypatch.setattr(type(engines.get_any(given["engine"])), "missing", lambda _: None)
    monkeypatch.setattr(solver_specs, "import_module", lambda _: host_backend.arrays)
    solver = Solver(Problem(graph), "none", layout="csr", tol=1e-9)
    with using(host_backend):
        solved = solver.solve(Contestant(**given))
        again = solver.solve(Contestant(**given), on_device=True)
    assert np.abs(solved.ranks - exact).sum() < 10 * given.get("tol", 1e-9)
    assert again.bits == solved.bits
    assert again.sizes == {}
    assert solved.sizes["held_bytes"] >= solved.sizes["matrix_bytes"] > 0


@pytest.mark.parametrize(
    ("ranks", "times", "counted"),
    [
        (None, [9e-3, 3e-3, 2e-3, 1e-3], [3e-3, 1e-3]),
        (None, [0.5, 0.4], [0.5, 0.4]),
        (2, [3e-3, 1e-3], [3e-3, 1e-3]),
    ],
)
def test_short_solves_are_timed_behind_one_of_their_own(ranks, times, counted):
    status = cpms.Status.CONVERGED
    solves = iter([solver_specs.Solved(np.ones(3), status, [64], [at], at, {}) for at in [1.0, *times]])
    solver = SimpleNamespace(solve=lambda *_, **__: next(solves))
    entrant = contest._Entrant(solver, {"engine": "mpi" if ranks else "cpu", "ranks": ranks})
    for _ in counted:
        entrant.sample(is_measured=True)
    assert entrant.columns()["solve_samples_s"] == counted
