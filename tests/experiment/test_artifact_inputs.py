"""Artifacts hold the plug-ins and data files of their rows, and the packed configuration runs from their folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cpms.cli.main import main
from cpms.experiment.artifact import inputs
from cpms.experiment.artifact.numbers import numbers
from cpms.experiment.artifact.texts import appendix
from cpms.experiment.report.templates import drawings
from cpms.experiment.rows import digests
from cpms.experiment.rows.flat import read_rows

CONFIG = """name = "mine"
kind = "pagerank"
graphs = ["links.csv"]
storages = ["fp64", "own.py:HALF"]
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Return a folder with rows of a graph in a file and a format in a file that imports another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "halves.py").write_text(
        "from cpms.formats.formats import format_named\n\nHALF = format_named('fp16')\n"
    )
    (tmp_path / "own.py").write_text("from halves import HALF\n")
    (tmp_path / "links.csv").write_text("from,to\nanna,bert\nbert,clara\nclara,anna\nanna,clara\n")
    (tmp_path / "mine.toml").write_text(CONFIG)
    assert main(["run", "mine.toml"]) == 0
    return tmp_path


@pytest.mark.slow
def test_the_printed_command_runs_in_the_folder_of_the_artifact_alone(work, tmp_path_factory):
    moved = tmp_path_factory.mktemp("moved") / "artifact"
    assert main(["artifact", "out", "--output", str(moved)]) == 0
    for name in ("halves.py", "own.py", "links.csv"):
        (work / name).unlink()
    text = (moved / "appendix.md").read_text()
    (command,) = re.findall(r"^- `PYTHONPATH=code python -m (cpms run .+)`$", text, re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": "code"}
    subprocess.run([sys.executable, "-m", *command.split()], cwd=moved, env=environment, check=True)
    assert [row["status"] for row in read_rows(moved / "new")] == ["ok", "ok"]
    assert "halves.py (imported by own.py; the rows hold no digest of it)" in text
    assert not [path for path in moved.rglob("*") if path.is_file() and str(work).encode() in path.read_bytes()]


def test_files_that_changed_since_are_listed_and_not_packed(work, tmp_path_factory):
    target = tmp_path_factory.mktemp("made")
    with (work / "links.csv").open("a") as file:
        file.write("clara,bert\n")
    (work / "own.py").write_text("from halves import HALF  # changed\n")
    packed, left_out = inputs.pack(read_rows("out"), [], target)
    assert (packed, sorted(left_out)) == ([], ["links.csv: it has changed since", "own.py: it has changed since"])
    assert not list(target.iterdir())


def test_modules_beside_a_plugin_are_packed_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "own.py").write_text("import halves\n")
    (tmp_path / "lib" / "halves.py").write_text("HALF = 1\n")
    digest = hashlib.sha256((tmp_path / "lib" / "own.py").read_bytes()).hexdigest()
    plugin = {"name": "lib/own.py:HALF", "group": "formats", "version": None, "sha256": digest}
    row = {"cell": "0", "experiment": "x", "status": "ok", "plugins": [plugin]}
    packed, left_out = inputs.pack([row], [], tmp_path / "target")
    assert ([each.file for each in packed], left_out) == (["lib/own.py", "lib/halves.py"], [])
    assert (tmp_path / "target" / "lib" / "halves.py").read_text() == "HALF = 1\n"


def row_of(graph, **columns):
    digest = digests.of_files([graph])
    return {
        "cell": "0",
        "experiment": "x",
        "status": "ok",
        "graph": str(graph),
        "graph_files_digest": digest,
        **columns,
    }


def test_nothing_is_written_outside_of_the_folder_or_over_its_own_files(tmp_path, monkeypatch):
    (tmp_path / "here" / "rows").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for name in ("../up.csv", "rows/x.csv", "absolute.csv"):
        (tmp_path / "here" / name).write_text("0,1\n")
    names = ["../up.csv", "rows/x.csv", tmp_path / "here" / "absolute.csv"]
    target = tmp_path / "deep" / "artifact"
    target.mkdir(parents=True)
    packed, left_out = inputs.pack([row_of(Path(name), cell=str(name)) for name in names], [], target)
    assert packed == []
    assert not list(target.iterdir())
    assert left_out == [
        "../up.csv: its path leads out of the current folder",
        "rows/x.csv: an artifact has something else at rows",
        "absolute.csv: the configuration names it by an absolute path",
    ]


def test_files_beyond_the_limit_in_all_are_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inputs, "LIMIT_BYTES", 10)
    for name in ("a.csv", "b.csv", "c.csv"):
        Path(name).write_text("0,1,2\n")
    (tmp_path / "target").mkdir()
    packed, left_out = inputs.pack([row_of(Path(name), cell=name) for name in ("a.csv", "b.csv")], [], Path("target"))
    assert [(each.file, each.size) for each in packed] == [("a.csv", 6)]
    assert left_out == ["b.csv: it has 0.0 MiB, and an artifact packs 0 MiB in all"]


@pytest.mark.slow
def test_an_artifact_is_replaced_by_force_and_other_files_stay(work, capsys):
    assert main(["artifact", "out"]) == 0
    (work / "artifact" / "notes.txt").write_text("mine")
    (work / "artifact" / "numbers.tex").write_text("old")
    assert main(["artifact", "out"]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert (work / "artifact" / "numbers.tex").read_text() == "old"
    assert main(["artifact", "out", "--force"]) == 0
    assert (work / "artifact" / "notes.txt").read_text() == "mine"
    assert (work / "artifact" / "numbers.tex").read_text() != "old"
    listed = json.loads((work / "artifact" / "manifest.json").read_text())["files"]
    held = [path.relative_to(work / "artifact").as_posix() for path in (work / "artifact").rglob("*") if path.is_file()]
    assert sorted(held) == sorted([*listed, "notes.txt"])
    (work / "other").mkdir()
    (work / "other" / "thesis.tex").write_text("mine")
    assert main(["artifact", "out", "--output", "other", "--force"]) == 2
    assert (work / "other" / "thesis.tex").read_text() == "mine"


def test_figures_are_listed_under_their_own_experiment_though_cells_are_alike():
    row = {"cell": "0", "status": "ok", "graph": "path", "solve_s": 1.0}
    rows = [{**row, "experiment": name} for name in ("people", "people_sub")]
    figures = [
        {"file": f"{row['experiment']}_time.pdf", "cells": ["0"], "experiments": [row["experiment"]], "caption": "x"}
        for row in rows
    ]
    text = appendix(rows, figures, drawn_s=1.0, commands=[], packed=[], left_out=[])
    lines = dict(re.findall(r"\| A1 +\| (C\d) +\| (.+?) *\|\n", text))
    assert lines == {"C1": "people_time.pdf", "C2": "people_sub_time.pdf"}


def linear_rows():
    way = {"status": "CONVERGED", "solve_s": 2.0, "iterations": 3, "storage": "fp64", "history": []}
    return [
        {"cell": rhs, "experiment": "lin", "status": "ok", "graph": "spd.mtx", "rhs": rhs, "ways_found": [
            {**way, "method": method, "residual": residual, "iterations_by_bits": {bits: 3}}
            for method, bits, residual in (("cg", "64", 6.85e-11), ("gmres", "32", 3e-12))
        ]}
        for rhs in ("ones", "random")
    ]  # fmt: skip


def test_residuals_are_not_called_errors_and_contestants_are_named_as_in_figures():
    text = numbers(linear_rows())
    assert r"\cpmsdefine{lin/spd.mtx,rhs=ones/cg/residual}{\ensuremath{6.85\times10^{-11}}}" in text
    assert "/error}" not in text
    names = {drawing.name: drawing for drawing in drawings(linear_rows())}
    assert "error" not in names
    assert ": residual, against" in names["residual_by_bits"].caption
