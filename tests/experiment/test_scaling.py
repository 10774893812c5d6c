"""Scaling over ranks: rows hold every contestant, the metric is the defined one, printed tables are shown beside."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from cpms import UnavailableError
from cpms.backends.mpi.exchange import world
from cpms.base.errors import InputError
from cpms.base.package_data import show_programs
from cpms.experiment.derived.karp_flatt import karp_flatt
from cpms.experiment.kinds import scaling
from cpms.experiment.report import output as output_module
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run
from cpms.mpi import launch

CONFIG = """
name = "scaling_cpu"
kind = "scaling"
graphs = ["uniform:nodes=10000,edges=38598"]
ranks = [1, 2]
local = ["serial"]
rounds = 1
solves = 2
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    try:
        launch.mpiexec()
    except UnavailableError as error:
        pytest.skip(str(error))
    output = tmp_path_factory.mktemp("rows")
    (output / "scaling_cpu.toml").write_text(CONFIG)
    return run(output / "scaling_cpu.toml", output=output)


def test_rows_hold_all_contestants_at_the_same_residual(recorded):
    (row,) = rows.read(recorded)
    assert row["status"] == "ok"
    assert [(r["engine"], r["ranks"]) for r in row["results"]] == [("serial", 1), ("mpi", 1), ("mpi", 2)]
    assert len({r["iterations"] for r in row["results"]}) == 1
    for result in row["results"]:
        assert result["converged"]
        assert len(result["solve_samples_s"]) == 2
    assert sum(row["results"][2]["edges_by_rank"]) == row["edges"]


@pytest.mark.slow
def test_rows_are_shown_beside_the_report(recorded, tmp_path):
    first, second = (show.show("scaling", results=recorded.parent, output=tmp_path / name) for name in "ab")
    assert {path.name for path in first} >= {"scaling.md", "scaling_table1.csv", "scaling_table2.tex", "scaling.pdf"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert "two shared CPU cores" in (tmp_path / "a" / "scaling.md").read_text()


def test_their_table_has_ours_of_processors_and_of_a_gpu_at_every_size(tmp_path):
    show.show("scaling", output=tmp_path)
    table = pd.read_csv(tmp_path / "scaling_table1.csv").set_index("vertices")
    assert len(table) == len(output_module.printed("agrawal_table1"))
    assert (table.loc[:20_000_000, ["serial, ours", "mpi, cpu products, 2 ranks"]] > 0).all(axis=None)
    rows_of_a_gpu = show.folder("experiments") / "results" / "gpu_table1.jsonl"
    if not rows_of_a_gpu.exists():
        pytest.skip("no rows of gpu_table1 are recorded")
    on_gpu = pd.read_json(rows_of_a_gpu, lines=True)
    sized = table.reset_index().set_index(["vertices", "edges"])
    columns = {"cusparse": "cuSPARSE, ours", "cuda_fused": "CUDA, fp64, ours"}
    for _, row in on_gpu.iterrows():
        line = sized.loc[row.nodes, row.edges]
        for solve in row.results:
            column = "CUDA, refine, ours" if solve.get("method") == "refine" else columns[solve["engine"]]
            assert line[column] == pytest.approx(1e3 * solve["solve_s"])
    assert table[[*columns.values(), "CUDA, refine, ours"]].notna().all(axis=None)


def test_the_report_divides_wrongly_where_it_should_divide():
    table = show._program(show_programs()["scaling"])._table2()
    for _, row in table[table.p > 1].iterrows():
        share = 1 - 1 / row.p
        assert row["psi"] == pytest.approx(row["psi, printed"], rel=1e-9)
        assert row["e, printed"] == pytest.approx((1 / row.psi - 1 / row.p) * share, rel=1e-7)
        assert row["e"] == pytest.approx((1 / row.psi - 1 / row.p) / share, rel=1e-12)


@pytest.mark.parametrize(("serial_share", "processes"), [(0.0, 2), (0.1, 4), (0.5, 20), (1.0, 3)])
def test_the_metric_finds_the_serial_share_of_amdahl(serial_share, processes):
    speedup = 1 / (serial_share + (1 - serial_share) / processes)
    assert karp_flatt(speedup, processes) == pytest.approx(serial_share, abs=1e-12)
    assert math.isnan(karp_flatt(speedup, 1))


def test_what_ranks_refuse_is_passed_on():
    if world.missing():
        pytest.skip(world.missing())
    with pytest.raises(InputError, match="no such file"):
        launch.report(2, "missing.txt", [], timeout_s=60)
    with pytest.raises(UnavailableError, match="longer than"):
        launch.report(1, "uniform:scale=16", [], timeout_s=0.01)


def test_without_mpi_cells_are_recorded_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(world, "missing", lambda: "mpi4py is not installed")
    (tmp_path / "x.toml").write_text(CONFIG)
    with pytest.raises(UnavailableError, match="mpi4py is not installed"):
        run(tmp_path / "x.toml", output=tmp_path)
    (row,) = rows.read(tmp_path / "scaling_cpu.jsonl")
    assert row["status"] == "unavailable"
    assert "mpi4py is not installed" in row["reason"]


def test_cells_do_not_depend_on_the_number_of_graphs():
    given = {"name": "x", "kind": "scaling", "ranks": [1, 2]}
    one = scaling.Config(graphs=["uniform:scale=4"], **given).cells()
    two = scaling.Config(graphs=["uniform:scale=5", "uniform:scale=4"], **given).cells()
    assert one[0] == two[1]
