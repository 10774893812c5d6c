"""Experiment kind spmv: who takes part, what a product must move, and the table of products in COO."""

import json
from types import SimpleNamespace

import pytest

from cpms import engines
from cpms.cuda import backend as backends
from cpms.errors import UnavailableError
from cpms.experiment import config, present
from cpms.experiment.kinds import spmv
from cpms.format import FP32, FP64
from cpms.graph import Graph
from cpms.shipped import folder

GRAPH = "weblike:nodes=300,edges=1200,seed=1"
ENGINES = ["cusparse", "coo_streams", "coo_basic", "reduce_by_key"]


class Timer:
    """Runs the work and says that it took as long as there are timers."""

    made = 0

    def __init__(self, work, *, same):
        assert same
        work()
        Timer.made += 1
        self.taken_ms = float(Timer.made)

    def turn(self):
        """Take no time."""

    def columns(self):
        return {"median_ms": self.taken_ms, "least_ms": self.taken_ms, "most_ms": self.taken_ms}


@pytest.fixture
def row(host_backend, monkeypatch):
    """A cell of experiment gpu_coo, measured on this machine; of cuSPARSE, with the times of others."""

    def get(name):
        if name == "cusparse" and not may_be_missing:
            raise UnavailableError("engine cusparse cannot run here: there is no CUDA device.")
        return engines.get_any(name)

    may_be_missing = [True]
    monkeypatch.setattr(spmv, "Timer", Timer)
    monkeypatch.setattr(spmv, "ceilings", lambda: {"copy_gbps": 4000.0})
    monkeypatch.setattr(spmv.engines, "get", get)
    given = spmv.Config(
        name="gpu_coo",
        kind="spmv",
        graphs=[GRAPH],
        layouts=["coo"],
        engines=ENGINES,
        storages=["fp64", "fp32"],
        also=[{"engine": "cusparse", "storage": "fp32", "layout": "csr"}],
        samples=2,
    )
    (cell,) = given.cells()
    context = spmv.Context(given)
    with backends.using(host_backend):
        may_be_missing.clear()
        monkeypatch.setattr(spmv.engines, "get", lambda name: None if name == "cusparse" else get(name))
        monkeypatch.setattr(spmv, "_contestants", without_cusparse(spmv._contestants, get, monkeypatch))
        measured = context.measure(cell)
    return cell, measured


def without_cusparse(contestants, get, monkeypatch):
    def found(problem, cell):
        monkeypatch.setattr(spmv.engines, "get", get)
        return contestants(problem, cell)

    return found


def test_contestants_are_all_that_can_run_and_the_others_are_named(row):
    cell, measured = row
    ran = [(c["engine"], c["storage"], c["layout"]) for c in measured["contestants"]]
    assert ran == [(engine, storage, "coo") for engine in ENGINES[1:] for storage in ("fp64", "fp32")]
    assert set(measured["refused"]) == {"cusparse fp64", "cusparse fp32"}
    assert cell["also"] == [{"engine": "cusparse", "storage": "fp32", "layout": "csr"}]


def test_cells_without_more_contestants_keep_their_names():
    plain = config.load(folder("experiments") / "gpu_spmv.toml")
    assert all("also" not in cell for cell in plain.cells())


def test_edges_in_coo_are_16_and_12_bytes():
    graph = Graph.from_edges([0, 1, 2], [1, 0, 0])
    assert spmv.least_bytes(graph, FP64, "coo", 1) == 3 * 16 + 3 * 2 * 8
    assert spmv.least_bytes(graph, FP32, "coo", 1) == 3 * 12 + 3 * 2 * 4


def test_the_algorithm_that_a_library_chose_is_recorded():
    assert spmv._algorithm(SimpleNamespace(product=SimpleNamespace(plan=SimpleNamespace(name="coo_alg2")))) == {
        "algorithm": "coo_alg2"
    }
    assert spmv._algorithm(SimpleNamespace()) == {}


def test_the_table_divides_by_cusparse_in_coo(row, tmp_path):
    _, measured = row
    for k, (storage, layout) in enumerate([("fp64", "csr"), ("fp32", "csr"), ("fp64", "coo"), ("fp32", "coo")]):
        library = {"engine": "cusparse", "storage": storage, "layout": layout, "median_ms": 0.5 + k, "least_bytes": 9e6}
        measured["contestants"].append({**library, "algorithm": "coo_alg1"})
    line = {"experiment": "gpu_coo", "status": "ok", "gpu": "a GPU", **measured}
    (tmp_path / "gpu_coo.jsonl").write_text(json.dumps(line) + "\n")
    present.show("coo", results=tmp_path, output=tmp_path / "out")
    text = (tmp_path / "out" / "coo.csv").read_text().splitlines()
    header = text[0].split(",")
    assert len(text) == 3
    for line, storage, library_ms in ((text[1], "fp64", 2.5), (text[2], "fp32", 3.5)):
        found = dict(zip(header, line.split(","), strict=True)) if '"' not in line else None
        took = {c["engine"]: c["median_ms"] for c in measured["contestants"] if c["storage"] == storage}
        if found:
            assert found["storage"] == storage
            assert float(found["coo_streams, times"]) == pytest.approx(took["coo_streams"] / library_ms, rel=1e-3)
