"""Scaling over GPUs: all contestants are timed and agree, and the table divides as it should; emulated here."""

from __future__ import annotations

import json

import kernel_catalogue
import mpi_runs
import pandas as pd
import pytest

from cpms.backends.cuda.kernels import template
from cpms.backends.mpi.exchange.device_vectors import RANK_TOTALS
from cpms.base.errors import UnavailableError
from cpms.base.package_data import show_programs
from cpms.experiment.derived.karp_flatt import karp_flatt
from cpms.experiment.kinds import scaling_gpu
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run
from cpms.formats.formats import FP16
from cpms.mpi import launch

CONFIG = """
name = "scaling_gpu"
kind = "scaling_gpu"
strong = ["uniform:nodes=5000,edges=9000,seed=1", "rmat:scale=8,edge_factor=4"]
weak = ["weblike-parts:parts=RANKS,nodes=700,edges=2000,seed=1"]
ranks = [1, 2, 8]
solves = 2
tol = 1e-6
"""
EMULATED = """
import sys
from contextlib import ExitStack
from pathlib import Path
import kernel_catalogue
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime.current import using
from cpms.backends.cuda.runtime.host_emulation import HostBackend
from cpms.formats.formats import FP16

emulation = ExitStack()  # until the end
host = emulation.enter_context(using(HostBackend(Path(sys.argv.pop(1)))))
alone = kernel_catalogue.in_cache([FP16])
host.compile([*template.PADDED_CSR, *alone, *kernel_catalogue.ranks([FP16], personal=False)])
from cpms.mpi import scaling
sys.exit(scaling.main())
"""


@pytest.fixture(scope="module")
def recorded(request, tmp_path_factory):
    used = [*kernel_catalogue.in_cache([FP16]), *kernel_catalogue.ranks([FP16], personal=False)]
    kernels = mpi_runs.kernels_on_host(request, [*template.PADDED_CSR, *used])

    def answer(ranks, module, task, *, timeout_s):
        assert module == "cpms.mpi.scaling"
        code, output, errors = mpi_runs.run(ranks, "-c", EMULATED, kernels, json.dumps(task))
        assert code == 0, errors
        return json.loads(output)

    output = tmp_path_factory.mktemp("rows")
    (output / "scaling_gpu.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "answer", answer)
        patch.setattr(scaling_gpu, "_devices", lambda: 2)
        return run(output / "scaling_gpu.toml", output=output)


@pytest.mark.slow
def test_each_graph_is_solved_by_all_contestants_on_each_count_of_ranks(recorded):
    found = rows.read(recorded)
    assert [row["scaling"] for row in found] == ["weak", "strong", "strong"]
    for row in found:
        assert row["status"] == "ok"
        assert [(r["engine"], r["method"], r["ranks"]) for r in row["results"]] == [
            *(("mpi_cuda", "power", 1), ("mpi_cuda", "refine", 1)),
            *(("cuda_fused", "power", 1), ("cuda_fused", "refine", 1)),
            *(("mpi_cuda", "power", 2), ("mpi_cuda", "refine", 2)),
        ]
        for result in row["results"]:
            assert result["converged"]
            assert len(result["solve_samples_s"]) == 2
            assert sum(result["edges_by_rank"]) == result["edges"]
            assert (result["received_bytes"] > 0) == any(result.get("foreign_values_by_rank", []))
            assert result["exchange_s"] >= 0.0
            if result["engine"] == "mpi_cuda":
                assert result["residual_l1"] < 1e-6
                assert result["difference_l1"] < 2e-6 * 0.85 / 0.15
        power, refined = row["results"][-2:]
        foreign = refined["foreign_values_by_rank"]
        # One of these graphs has rows on one rank alone, so that ranks tell each other numbers and no more.
        assert refined["link_bytes_per_s"] > 0
        assert (foreign == [0, 0]) == row["graph"].startswith("rmat")
        assert foreign == [0, 0] or refined["received_bytes"] < power["received_bytes"]
        for bits in (16, 64):
            assert refined[f"exchange_{bits}_bits_received_bytes"] == foreign[0] * bits // 8 + 8 * RANK_TOTALS
        assert refined["exchange"] == "direct"
    assert found[0]["results"][-1]["nodes"] == 2 * found[0]["results"][0]["nodes"]


@pytest.mark.slow
def test_rows_are_shown_beside_the_report(recorded, tmp_path):
    assert recorded.exists()
    show.show("scaling_gpu", results=recorded.parent, output=tmp_path)
    table = (tmp_path / "scaling_gpu.md").read_text()
    assert "Karp-Flatt" in table
    (weak, row, _) = rows.read(recorded)
    program = show._program(show_programs()["scaling_gpu"])
    lines = list(program._lines(pd.Series(row)))
    best = min(r["solve_s"] for r in row["results"][:4] if r["method"] == "refine")
    speedup = best / row["results"][-1]["solve_s"]
    assert lines[-1]["psi"] == pytest.approx(speedup)
    assert lines[-1]["efficiency"] == pytest.approx(speedup / 2)
    assert lines[-1]["e"] == pytest.approx(karp_flatt(speedup, 2))
    assert list(program._lines(pd.Series(weak)))[-1]["efficiency"] > 0


def test_without_devices_cells_are_recorded_with_the_reason(tmp_path, monkeypatch):
    def refuses():
        raise UnavailableError("there is no CUDA device")

    monkeypatch.setattr(scaling_gpu, "_devices", refuses)
    monkeypatch.setattr(launch, "mpiexec", lambda: "mpiexec")
    (tmp_path / "x.toml").write_text(CONFIG)
    with pytest.raises(UnavailableError, match="no CUDA device"):
        run(tmp_path / "x.toml", output=tmp_path)
    found = rows.read(tmp_path / "scaling_gpu.jsonl")
    assert [row["status"] for row in found] == ["unavailable"] * 3
    assert "no CUDA device" in found[0]["reason"]


def test_the_table_names_the_commits_of_the_caption(tmp_path):
    show.show("scaling_gpu", output=tmp_path)
    said = json.loads((tmp_path / "scaling_gpu.json").read_text())["caption"]
    assert all(commit in said for commit in pd.read_csv(tmp_path / "scaling_gpu.csv").commit.unique())
