"""Experiment kind spmv: who takes part, what a product must move, and the table of products in COO."""

from types import SimpleNamespace

import pandas as pd
import pytest

from cpms import engines
from cpms.backends.cuda.runtime import current
from cpms.base.errors import UnsupportedError
from cpms.base.package_data import experiments, show_programs
from cpms.experiment import config
from cpms.experiment.kinds import spmv
from cpms.experiment.memory_footprint import least_bytes
from cpms.experiment.report import show
from cpms.formats.formats import FP32, FP64, format_named
from cpms.graph.graph import Graph

ENGINES = ["cusparse", "coo_streams", "coo_basic", "reduce_by_key"]
ALSO = [{"engine": "cusparse", "storage": "fp32", "layout": "csr"}]


class Timer:
    """Runs the work, and says that the first of all took 1 ms, the second 2 ms, and so on."""

    made = 0

    def __init__(self, work, *, same):
        assert same
        work()
        Timer.made += 1
        self.taken_ms = float(Timer.made)

    def turn(self):
        """Take no time."""

    def columns(self):
        return {"median_ms": self.taken_ms}


class Refusing:
    def prepare(self, problem, storage, layout):
        raise UnsupportedError(f"no {problem.graph.name} in {storage.name}, {layout}")


def cell():
    given = spmv.Config(
        name="x",
        kind="spmv",
        graphs=["weblike:nodes=300,edges=1200,seed=1"],
        layouts=["coo"],
        engines=ENGINES,
        storages=["fp64", "fp32"],
        also=ALSO,
    )
    (only,) = given.cells()
    return only


@pytest.fixture
def measured(host_backend, monkeypatch):
    """A cell, measured on this machine, where cuSPARSE refuses everything."""
    known = SimpleNamespace(get=lambda name: Refusing() if name == "cusparse" else engines.get_any(name))
    monkeypatch.setattr(spmv, "engines", known)
    monkeypatch.setattr(spmv, "Timer", Timer)
    monkeypatch.setattr(spmv, "ceilings", lambda: {"copy_gbps": 4000.0})
    with current.using(host_backend):
        return spmv.Context(None).measure(cell())


def test_contestants_are_all_that_can_run_and_the_others_are_named(measured):
    ran = [(c["engine"], c["storage"], c["layout"], c["bits"]) for c in measured["contestants"]]
    bits = {"fp64": 64, "fp32": 32}
    assert ran == [(engine, storage, "coo", bits[storage]) for engine in ENGINES[1:] for storage in bits]
    assert set(measured["refused"]) == {"cusparse fp64", "cusparse fp32"}


def test_cells_without_more_contestants_keep_their_names():
    plain = config.read(experiments()["gpu_spmv"])
    assert all("also" not in each for each in plain.cells())
    assert cell()["also"] == ALSO


def test_edges_in_coo_are_16_and_12_bytes():
    graph = Graph.from_edges([0, 1, 2], [1, 0, 0])
    assert least_bytes(graph, FP64, "coo", 1) == 3 * 16 + 3 * 2 * 8
    assert least_bytes(graph, FP32, "coo", 1) == 3 * 12 + 3 * 2 * 4


def test_groups_count_their_bytes():
    graph = Graph.from_edges(range(64), [0] * 64, nodes=64)
    assert least_bytes(graph, format_named("mxfp4"), "csr", 1) == 64 * 4 + 64 * 4 + 3 * 2 * 17


def test_the_algorithm_that_a_library_chose_is_recorded():
    chosen = SimpleNamespace(product=SimpleNamespace(plan=SimpleNamespace(name="coo_alg2")))
    assert spmv._algorithm(chosen) == {"algorithm": "coo_alg2"}
    assert spmv._algorithm(SimpleNamespace(product=SimpleNamespace(plan=None))) == {}
    assert spmv._algorithm(SimpleNamespace()) == {}


def test_the_table_divides_by_cusparse_in_coo(measured):
    combinations = [(storage, layout) for layout in ("csr", "coo") for storage in ("fp64", "fp32")]
    for k, (storage, layout) in enumerate(combinations):
        library = {"engine": "cusparse", "storage": storage, "layout": layout, "median_ms": 0.5 + k}
        measured["contestants"].append({**library, "least_bytes": 7e6, "algorithm": f"{layout}_alg1"})
    rows = pd.DataFrame([{**measured, "status": "ok", "gpu": "a GPU", "graph": "path"}, {"status": "failed"}])
    tables = []
    out = SimpleNamespace(table=lambda table, caption, **_: tables.append((table, caption)))
    show._program(show_programs()["coo"]).show(rows, out, pd.DataFrame())
    (table, caption) = tables[0]
    assert "a GPU" in caption
    assert table.storage.tolist() == ["fp64", "fp32"]
    assert table.algorithm.tolist() == ["coo_alg1"] * 2
    for (_, line), library_ms in zip(table.iterrows(), (2.5, 3.5), strict=True):
        took_ms = {c["engine"]: c["median_ms"] for c in measured["contestants"] if c["storage"] == line.storage}
        for engine in ENGINES[1:]:
            assert line[f"{engine}, times"] == took_ms[engine] / library_ms
        assert line["coo_streams, GB/s"] == pytest.approx(7 / took_ms["coo_streams"])
