"""Experiment ``ppr``: every contestant answers the same queries, and is judged by a float64 solution."""

import numpy as np
import pytest

from cpms import Graph
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.persistent import device_graph
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.spmv import reordering
from cpms.certify.residual import residual
from cpms.contracts.batch import Query
from cpms.engines import coo
from cpms.experiment.kinds import ppr
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run
from cpms.experiment.sequential_queries import OneQuery
from cpms.problems.pagerank import Problem

CONFIG = """
name = "ppr_cpu"
kind = "ppr"
graphs = ["weblike:nodes=3000,edges=20000"]
queries = 4
warmup = 1
settings = [
    { tol = 1e-6, starts = ["uniform", "penalised"] },
    { tol = 1e-10, norm = "l1", max_iterations = 1000 },
]
contestants = [
    { engine = "cpu" },
    { engine = "cpu", batch = 3, certified = 100 },
    { engine = "cpu", method = "refine", storage = "fp16", queries = 2 },
    { engine = "reference", storage = "fp16", layout = "csr", queries = 2, least_tol = 1e-6 },
    { engine = "reference", storage = "fp16-scaled", layout = "csr", queries = 2, least_tol = 1e-6 },
    { engine = "serial", layout = "coo", least_tol = 1e-6 },
    { engine = "scipy", batch = 4 },
]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    output = tmp_path_factory.mktemp("rows")
    (output / "ppr_cpu.toml").write_text(CONFIG)
    return run(output / "ppr_cpu.toml", output=output)


def test_rows_hold_what_was_found(recorded):
    found = [row for row in rows.read(recorded) if row["status"] == "ok"]
    assert len(found) == 13
    for row in found:
        assert row["answered"] == min(4, row["limit"] or 4)
        assert row["top20_accuracy"] > 0.8
        assert row["query_s"] > 0
        assert len(row["iterations"]) == row["answered"]
        if row["tol"] == 1e-10:
            assert row["certified_answers"] == row["certified_converged"] == min(row["answered"], row["certified"])
            assert row["residual_l1"] < 1e-10
            assert row["error_l1"] < row["residual_l1"] / 0.15 + 1e-11
        else:
            assert max(row["iterations"]) <= 30


def test_one_at_a_time_and_batches_take_the_same_iterations(recorded):
    found = [r for r in rows.read(recorded) if r["status"] == "ok" and r["engine"] == "cpu" and r["method"] == "power"]
    found.sort(key=lambda row: (row["graph"], row["tol"], row["start"], row["batch"]))
    for alone, together in zip(found[::2], found[1::2], strict=True):
        assert (alone["batch"], together["batch"]) == (0, 3)
        assert np.abs(np.subtract(alone["iterations"], together["iterations"])).max() <= 1


def test_scaled_halves_keep_what_halves_lose(recorded):
    half, scaled = (
        next(row for row in rows.read(recorded) if row["storage"] == name and row["method"] == "power")
        for name in ("fp16", "fp16-scaled")
    )
    assert half["zero_share"] + half["subnormal_share"] > 0.1
    assert scaled["zero_share"] + scaled["subnormal_share"] < 0.01


def test_engines_that_cannot_are_recorded_with_their_reason(recorded):
    reasons = {row["engine"]: row["reason"] for row in rows.read(recorded) if row["status"] == "unsupported"}
    assert "no layout 'coo'" in reasons["serial"]
    assert "takes no batches" in reasons["scipy"]


def test_rows_are_shown_beside_the_report(recorded, tmp_path):
    said = []
    first = show.show("ppr", results=recorded.parent, output=tmp_path / "a", echo=said.append)
    second = show.show("ppr", results=recorded.parent, output=tmp_path / "b")
    names = {path.name for path in first}
    assert {"ppr_table1.md", "ppr_table1_printed.csv", "ppr_table2.tex", "ppr_batches.md", "ppr_half.md"} <= names
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert any(text.startswith("left out: serial") for text in said)
    assert "10.54" in (tmp_path / "a" / "ppr_table1_printed.md").read_text()


@pytest.mark.representatives(engine=("cuda_fused", "coo_basic"))
@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("engine", "method", "storage", "layout"),
    [
        ("cuda", "power", "fp64", "pattern"),
        ("cuda_fused", "power", "fp64", "pattern"),
        ("cuda_fused", "refine", "fp16", "pattern"),
        ("coo_basic", "power", "fp32", "coo"),
        ("coo_streams", "power", "fp32", "coo"),
    ],
)
def test_solvers_on_devices_are_aimed_in_place(request, monkeypatch, where, engine, method, storage, layout):
    for module in (device_engine, coo):
        monkeypatch.setattr(module, "missing", lambda: None)
    random = np.random.default_rng(1)
    graph = Graph.from_edges(random.integers(0, 60, 300), random.integers(0, 70, 300), nodes=70)
    contestant = {"engine": engine, "method": method, "storage": storage, "layout": layout}
    tol = 1e-5 if storage == "fp32" else 1e-8
    cell = {**contestant, "damping": 0.5, "dangling": "uniform", "tol": tol, "norm": "l1", "max_iterations": 200}
    with current.using(request.getfixturevalue(f"{where}_backend")) as backend:
        solver = OneQuery(graph, cell, np.full(70, 1 / 70))
        for node in (3, 69):
            solver.set_teleport(Query(np.array([node]), np.ones(1)))
            ranks, _, _ = solver.solve()
            teleport = np.zeros(70)
            teleport[node] = 1.0
            assert residual(Problem(graph, 0.5, teleport, "uniform"), backend.to_host(ranks)) < 2 * tol


@pytest.mark.representatives(engine=("cuda_balanced_rows",))
@pytest.mark.parametrize("engine", ["cuda_balanced_rows", "cuda_fused"])
def test_solvers_on_devices_that_reorder_nodes_are_aimed_in_place(host_backend, monkeypatch, engine):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    monkeypatch.setattr(device_graph, "_MIN_WORK", 0)
    random = np.random.default_rng(1)
    graph = Graph.from_edges(random.integers(0, 60, 300), random.integers(0, 70, 300), nodes=70)
    cell = {"engine": engine, "method": "power", "storage": "fp64", "layout": "pattern", "damping": 0.5}
    cell |= {"dangling": "uniform", "tol": 1e-8, "norm": "l1", "max_iterations": 200}
    teleport = np.zeros(70)
    teleport[3] = 1.0
    with current.using(host_backend):
        moved = reordering.Reordering.of_order(host_backend.arrays.asarray(random.permutation(70)))
        monkeypatch.setattr(reordering, "chosen", lambda *_: moved)
        solver = OneQuery(graph, cell, np.full(70, 1 / 70))
        solver.set_teleport(Query(np.array([3]), np.ones(1)))
        ranks = host_backend.to_host(solver.solve()[0])
    assert residual(Problem(graph, 0.5, teleport, "uniform"), ranks) < 2e-8


def in_batches(engine, method, storage):
    graph = Graph.from_edges(np.arange(300), np.arange(300) * 7 % 310, nodes=310)
    judged = {"queries": 6, "warmup": 1, "seed": 3, "damping": 0.85, "dangling": "uniform", "reference_tol": 1e-9}
    solved = {"engine": engine, "method": method, "storage": storage, "batch": 3, "limit": None}
    cell = {**judged, **solved, "tol": 1e-10, "norm": "l1", "max_iterations": 1000}
    return ppr._in_batches(ppr._ReferenceQueries(graph, cell), cell, np.full(310, 1 / 310))


@pytest.mark.parametrize(("method", "storage"), [("refine", "fp16"), ("power", "fp64")])
def test_batches_take_at_least_as_long_as_their_queries(monkeypatch, method, storage):
    monkeypatch.setattr(ppr, "_MOST_TURNS", 1)
    answers, columns = in_batches("cpu", method, storage)
    spent_s = [history[-1].seconds for _, _, history in answers]
    together = sum if method == "refine" else max  # One after the other, each on a clock of its own; or all at once.
    for batch_s, some in zip(columns["query_samples_s"], (spent_s[:3], spent_s[3:]), strict=True):
        assert batch_s >= together(some)
    assert columns["query_s"] == pytest.approx(sum(columns["query_samples_s"]) / 6)


@pytest.mark.slow
def test_batches_on_devices_are_waited_for(host_backend, monkeypatch):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    monkeypatch.setattr(ppr, "_MOST_TURNS", 2)
    monkeypatch.setattr(ppr, "_ENOUGH_S", np.inf)
    waited = []
    monkeypatch.setattr(type(host_backend), "synchronize", lambda _: waited.append(True))
    with current.using(host_backend):
        answers, _ = in_batches("cuda", "power", "fp64")
    assert len(answers) == 6
    assert len(waited) == 1 + 2 * 2


def test_queries_are_the_same_for_all():
    graph = Graph.from_edges(np.arange(50), np.arange(50) // 2, nodes=60)
    cell = {"queries": 9, "warmup": 2, "seed": 3, "damping": 0.85, "dangling": "uniform", "reference_tol": 1e-9}
    one, other = ppr._ReferenceQueries(graph, cell), ppr._ReferenceQueries(graph, cell)
    assert [query.nodes.tolist() for query in one.queries] == [query.nodes.tolist() for query in other.queries]
    assert (len(one.queries), len(one.top), one.warmup) == (11, 9, 2)
    assert all(query.nodes[0] < 50 for query in one.queries)
