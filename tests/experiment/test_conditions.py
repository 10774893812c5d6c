"""Conditions of runs: pinning, order of cells, outliers, and cells that run again by their name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.errors import InputError, UnavailableError
from cpms.cli.main import main
from cpms.experiment.conditions import ordered, pinned
from cpms.experiment.kinds import graphs
from cpms.experiment.pages import config_page
from cpms.experiment.rows import rows
from cpms.experiment.rows.outliers import are_kept, set_aside
from cpms.experiment.rows.standing import Recorded
from cpms.experiment.runner import run

GRAPHS = ["grid:rows=2,columns=2", "grid:rows=3,columns=3", "grid:rows=2,columns=3"]
CONFIG = f'name = "x"\nkind = "graphs"\ngraphs = {GRAPHS}\n'
times = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=12)

pins = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin")


@given(times)
def test_outliers_and_others_are_all_samples_and_most_stay(samples):
    kept = are_kept(samples)
    assert sum(kept) > len(samples) / 2
    row = set_aside({"solve_s": sorted(samples)[len(samples) // 2], "solve_samples_s": samples})
    assert sorted(row["solve_samples_s"] + row.get("solve_set_aside_s", [])) == sorted(samples)


@given(times.filter(lambda samples: len(samples) % 2))
def test_a_far_sample_is_set_aside_wherever_it_is(samples):
    near = [1.0 + 1e-3 * sample / 1e3 for sample in samples] * 3
    middle = sorted([*near, 2.0])[len(near) // 2 : len(near) // 2 + 2]
    row = set_aside({"results": [{"run_s": sum(middle) / 2, "run_samples_s": [2.0, *near]}]})["results"][0]
    assert row["run_set_aside_s"] == [2.0]
    assert row["run_s"] == sorted(near)[len(near) // 2]


def test_samples_of_a_mean_stay_together():
    row = {"query_s": 2.0, "query_samples_s": [1.0, 1.0, 1.0, 1.0, 6.0]}
    assert set_aside(row) == row


@given(st.lists(st.integers()), st.none() | st.integers(0, 2**32))
def test_an_order_is_a_permutation_that_the_seed_determines(parts, seed):
    found = ordered(parts, seed)
    assert sorted(found) == sorted(parts)
    assert found == ordered(parts, seed)
    assert seed is not None or found == parts


@pins
def test_threads_and_processes_are_pinned_within_the_block_alone():
    before, one = os.sched_getaffinity(0), min(os.sched_getaffinity(0))
    begin, end, seen = threading.Event(), threading.Event(), []

    def look():
        begin.wait()
        seen.append(os.sched_getaffinity(0))
        end.wait()
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=look)
    thread.start()
    with pinned([one]):
        begin.set()
        while not seen:
            thread.join(0.01)
        child = subprocess.run(
            [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert os.sched_getaffinity(0) == seen[0] == {one} == {*map(int, child.stdout.split())}
    end.set()
    thread.join()
    assert os.sched_getaffinity(0) == seen[1] == before


@pins
def test_processors_that_are_not_there_are_named(tmp_path):
    (tmp_path / "x.toml").write_text(CONFIG + "affinity = [0, 999999]\n")
    with pytest.raises(UnavailableError, match=r"processors 999999.*it can be of 0"):
        run(tmp_path / "x.toml", output=tmp_path)


@pytest.mark.parametrize("line", ["affinity = []", "affinity = [-1]", "shuffle = -1", 'outliers = "drop"'])
def test_conditions_that_cannot_be_are_refused(tmp_path, line):
    (tmp_path / "x.toml").write_text(f"{CONFIG}{line}\n")
    with pytest.raises(InputError, match=line.split()[0]):
        run(tmp_path / "x.toml", output=tmp_path)


def test_cells_run_in_the_order_of_the_seed_and_rows_say_so(tmp_path):
    (tmp_path / "x.toml").write_text(CONFIG + "shuffle = 3\n")
    found = rows.read(run(tmp_path / "x.toml", output=tmp_path))
    assert [row["graph"] for row in found] == ordered(GRAPHS, 3)
    assert {(row["shuffle"], row["outliers"]) for row in found} == {(3, "keep")}
    assert ordered(GRAPHS, 3) != GRAPHS == [row["graph"] for row in Recorded(tmp_path).of(["x"])]  # to be drawn


def test_outliers_have_a_column_of_their_own_where_the_configuration_asks(tmp_path, monkeypatch):
    measured = {"status": "ok", "solve_s": 1.0, "solve_samples_s": [1.0, 1.0, 9.0, 1.0]}
    monkeypatch.setattr(graphs.Context, "measure", lambda *_: measured)
    (tmp_path / "x.toml").write_text(CONFIG)
    run(tmp_path / "x.toml", output=tmp_path)
    (tmp_path / "x.toml").write_text(CONFIG + 'outliers = "set aside"\n')
    found = rows.read(run(tmp_path / "x.toml", output=tmp_path))
    assert [len(row["solve_samples_s"]) for row in found] == [4, 4, 4, 3, 3, 3]
    assert {(*row["solve_set_aside_s"], row["outliers"]) for row in found[3:]} == {(9.0, "set aside")}


def test_a_cell_runs_again_by_its_name(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text(CONFIG)
    assert main(["run", str(path), "--output", str(tmp_path), "--dry-run"]) == 0
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if "graph=" in line]
    run(path, output=tmp_path)
    for only in (names[1], names[1][:6]):
        assert main(["run", str(path), "--output", str(tmp_path), "--only", only]) == 0
    assert [row["cell"] for row in rows.read(tmp_path / "x.jsonl")] == [*names, names[1], names[1]]
    with pytest.raises(InputError, match="or the name of a cell"):
        run(path, output=tmp_path, only="0123456789abcdef")


def test_a_beginning_of_several_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "cell_key", lambda cell: f"abcdef{cell['graph'][-1]}{len(cell['graph'])}")
    (tmp_path / "x.toml").write_text(CONFIG)
    with pytest.raises(InputError, match=r"begins the names of \d cells"):
        run(tmp_path / "x.toml", output=tmp_path, only="abcdef")


@pytest.mark.quick
def test_the_page_of_configurations_is_that_of_their_models():
    page = Path(__file__).parents[2] / "docs" / "configs.md"
    assert page.read_text(encoding="utf-8") == config_page.page()
