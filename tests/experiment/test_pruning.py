"""Mistyped graphs: refused before a row is written, named in one line, and their rows can be removed."""

from __future__ import annotations

import json

import pytest
import scipy.io
import scipy.sparse

from cpms.base.errors import InputError
from cpms.cli.main import main
from cpms.cli.results.pruning import prune
from cpms.experiment.rows import rows
from cpms.experiment.rows.standing import Recorded
from cpms.experiment.runner import run

CONFIG = 'name = "x"\nkind = "graphs"\ngraphs = [{}]\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("0,1\n1,2\n")
    return tmp_path


def configured(here, *graphs):
    path = here / "x.toml"
    path.write_text(CONFIG.format(", ".join(f'"{graph}"' for graph in graphs)))
    return path


def test_where_no_graph_is_there_no_row_is_written_and_the_folder_is_named(here):
    with pytest.raises(InputError, match=rf"ther\.csv: there is no such file in {here}, the folder that paths"):
        run(configured(here, "ther.csv"), output=here / "out")
    assert not (here / "out").exists()
    run(configured(here, "there.csv"), output=here / "kept")
    with pytest.raises(InputError, match="there is no such file"):
        run(configured(here, "ther.csv"), output=here / "kept")
    assert len(rows.read(here / "kept" / "x.jsonl")) == 1
    assert "there.csv" in (here / "kept" / "x.config.toml").read_text()
    (here / "deep").mkdir()
    (here / "deep" / "own.csv").write_text("0,1\n")
    path = configured(here, "own.csv").rename(here / "deep" / "x.toml")
    with pytest.raises(InputError, match=r"lies beside the configuration: 'cd .*deep' first"):
        run(path, output=here / "out")
    with pytest.raises(InputError, match=rf"1 cell could not run: .*; paths are relative to {here}"):
        run(configured(here, "ther.csv", "there.csv"), output=here / "out")
    assert [row["status"] for row in rows.read(here / "out" / "x.jsonl")] == ["bad input", "ok"]


def test_rows_of_bad_input_and_of_gone_cells_are_removed_and_the_old_file_stays(here, capsys):
    with pytest.raises(InputError):
        run(configured(here, "ther.csv", "there.csv", "grid:rows=2,columns=2"), output=here / "out")
    run(configured(here, "there.csv"), output=here / "out")
    path = here / "out" / "x.jsonl"
    before = path.read_bytes()
    assert main(["rows", "x", "--prune"]) == 0
    said = "2 rows removed (1 of bad input, 1 of cells that the configuration no longer has), 1 kept"
    assert f"out/x.jsonl: {said}; the file as it was: out/x.jsonl.bak" in capsys.readouterr().out
    assert [row["graph"] for row in rows.read(path)] == ["there.csv"]
    assert (here / "out" / "x.jsonl.bak").read_bytes() == before
    assert main(["rows", "x", "--prune"]) == 0
    assert "0 rows removed, 1 kept\n" in capsys.readouterr().out
    with path.open("ab") as file:
        file.write(before)
    assert main(["rows", "out", "--prune"]) == 0
    assert (here / "out" / "x.jsonl.bak").read_bytes() == before
    assert (here / "out" / "x.jsonl.bak2").is_file()


def test_without_a_configuration_measured_rows_stay_and_those_of_cpms_are_left_alone(here):
    lines = [{"cell": f"{k}", "experiment": "x", "status": status} for k, status in enumerate(("ok", "bad input"))]
    (here / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert prune(here / "x.jsonl").removed == {"of bad input": 1}
    assert main(["rows", "topk", "--prune"]) == 2


def test_a_run_that_writes_the_file_is_not_disturbed(here):
    run(configured(here, "there.csv"), output=here / "out")
    with rows.opened(here / "out" / "x.jsonl"), pytest.raises(InputError, match="another run is writing it"):
        prune(here / "out" / "x.jsonl")


def test_cells_that_are_left_out_are_named_in_one_line_with_their_count(here):
    gone = [f"grid:rows={number},columns=2" for number in range(2, 8)]
    run(configured(here, *gone), output=here / "out")
    run(configured(here, "there.csv"), output=here / "out")
    (text,) = Recorded(here / "out").chosen(["x"]).left_out
    assert "6 rows of x, whose configuration has changed since: on grid:rows=2,columns=2, " in text
    assert "and 3 more; 'cpms rows out/x.jsonl --prune'" in text.replace(str(here) + "/", "")


def test_an_experiment_and_its_configuration_name_its_rows_in_out(here, capsys):
    path = configured(here, "there.csv")
    assert main(["rows", "x.toml"]) == 2
    assert "x.toml: is a configuration, not rows; 'cpms run x.toml' writes them to out" in capsys.readouterr().err
    run(path, output=here / "out")
    for source in ("x", "x.toml"):
        assert main(["rows", source]) == 0
        assert capsys.readouterr().out.startswith("1 result\n")


def test_rows_of_a_matrix_are_shown_where_its_file_is_not(here, capsys):
    path = here / "lin.toml"
    path.write_text('name = "lin"\nkind = "linear"\nmatrices = ["a.mtx"]\nways = [{ method = "cg" }]\n')
    with pytest.raises(InputError, match=rf"a\.mtx: there is no such file in {here}, the folder that paths"):
        run(path, output=here / "out")
    scipy.io.mmwrite(here / "a.mtx", scipy.sparse.diags_array([2.0, 3.0, 4.0]))
    run(path, output=here / "out")
    (here / "a.mtx").unlink()
    assert main(["show", "lin.toml"]) == 0
    assert "a.mtx" in capsys.readouterr().out
    path.write_text(path.read_text().replace('"a.mtx"', '"b.mtx", "stencil:points=5,side=3"'))
    with pytest.raises(InputError, match=r"could not run: .*b\.mtx: there is no such file"):
        run(path, output=here / "out")
    assert sorted(row["status"] for row in rows.read(here / "out" / "lin.jsonl")) == ["bad input"] * 2 + ["ok"] * 4
