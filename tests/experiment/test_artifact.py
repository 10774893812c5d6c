"""Artifacts: moved elsewhere they rebuild their figures, and their texts hold the rows' facts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpms.cli.main import main
from cpms.experiment.report.artifact import environment
from cpms.experiment.rows.flat import read_rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("made") / "artifact"
    assert main(["artifact", "gpu_conversion", "--output", str(target)]) == 0
    return target


def test_elsewhere_it_rebuilds_its_figures(folder, tmp_path):
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(moved / "figures")
    command = [sys.executable, str(moved / "rebuild.py")]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, cwd=moved, env=environ, check=False).returncode == 0
    assert (moved / "rebuilt" / "gpu_conversion_time.pdf").is_file()
    path = moved / "rows" / "gpu_conversion.jsonl"
    path.write_text(re.sub(r'"convert_gbps": \d', '"convert_gbps": 1', path.read_text()))
    assert subprocess.run(command, cwd=moved, env=environ, check=False).returncode == 1


def test_the_manifest_leads_from_figures_to_rows_and_commits(folder):
    rows = {row["cell"]: row for row in read_rows("gpu_conversion")}
    figures = json.loads((folder / "manifest.json").read_text())["figures"]
    assert figures
    for each in figures:
        assert hashlib.sha256((folder / "figures" / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert set(each["commits"]) == {rows[cell]["git_commit"] for cell in each["cells"]}


def test_texts_have_no_blanks_and_no_addresses_of_registries(folder):
    commit = read_rows("gpu_conversion")[0]["git_commit"]
    assert commit in (folder / "appendix.md").read_text()
    for name in ("appendix.md", "environment.txt", "Containerfile", "numbers.tex"):
        assert "http" not in (folder / name).read_text()
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.+!-]+", line) for line in environment())
    assert {"cpms", "numpy", "matplotlib"} <= {line.split("==")[0] for line in environment()}


def test_the_crate_lists_every_file(folder):
    graph = json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]
    parts = {each["@id"] for each in graph if each["@type"] == "File"}
    held = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert parts == held - {"ro-crate-metadata.json"}


def test_every_number_has_one_name(folder):
    names = re.findall(r"cpmsdefine\{([^{}]+)\}", (folder / "numbers.tex").read_text())
    assert names
    assert len(names) == len(set(names))


def test_folders_that_hold_something_and_missing_rows_are_refused(folder, tmp_path, capsys):
    assert main(["artifact", "gpu_conversion", "--output", str(folder)]) == 2
    assert main(["artifact", str(tmp_path / "none"), "--output", str(tmp_path / "a")]) == 2
    assert main(["artifact", str(tmp_path), "--output", str(tmp_path / "a")]) == 2
    assert "Traceback" not in capsys.readouterr().err
