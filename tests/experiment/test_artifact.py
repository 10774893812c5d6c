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

import cpms
from cpms.base import package_data
from cpms.base.package_data import code_digest
from cpms.cli.main import main
from cpms.experiment.artifact.numbers import numbers
from cpms.experiment.artifact.pack import rebuild
from cpms.experiment.artifact.software import environment
from cpms.experiment.artifact.texts import commit_of
from cpms.experiment.rows import commits
from cpms.experiment.rows.flat import read_rows

SECTIONS = (
    *("Contributions", "Computational artifacts", "Relation to contributions", "Expected results"),
    *("Expected reproduction time", "Setup", "Execution", "Analysis", "Artifact evaluation", "Figures"),
)
PROGRAM = """NEEDS = ["gpu_conversion"]


def show(rows, out):
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(3.3, 2.2))
    panel.plot(range(len(rows)), [row["bytes"] for _, row in rows.iterrows()])
    out.figure(figure)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("made")
    (made / "mine.py").write_text(PROGRAM)
    command = ["artifact", "gpu_conversion", "--output", str(made / "artifact"), "--program", str(made / "mine.py")]
    assert main(command) == 0
    return made / "artifact"


def test_its_code_has_the_quoted_rows_that_programs_read(folder):
    held = folder / "code" / "cpms" / "_shipped" / "experiments" / "results"
    assert [path.name for path in held.iterdir()] == ["cugraph_quoted.jsonl"]


def test_its_code_has_every_module_of_the_package(folder):
    package, copy = Path(cpms.__file__).parent, folder / "code" / "cpms"
    sources, copies = ({path.relative_to(root) for path in root.rglob("*.py")} for root in (package, copy))
    sources = {path for path in sources if path.parts[0] != "_shipped"}
    assert {path for path in copies if path.parts[0] != "_shipped"} == sources
    digest = code_digest(package, package_data.folder("kernels"))
    assert code_digest(copy, copy / "_shipped" / "kernels") == digest


def test_commands_of_its_appendix_run_from_its_code(folder, tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(folder / "code"), "PYTHONDONTWRITEBYTECODE": "1"}
    compared = ["compare", str(folder / "rows"), str(folder / "rows"), "--quantity", "convert"]
    for arguments in (["--help"], compared):
        command = [sys.executable, "-m", "cpms", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout


@pytest.mark.slow
def test_elsewhere_it_rebuilds_its_figures_with_its_own_code(folder, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "artifact"), "tar", folder)
    moved = tmp_path / "elsewhere"
    shutil.unpack_archive(archive, moved)
    shutil.rmtree(moved / "figures")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = moved / "code" / "cpms" / "experiment" / "artifact" / "__init__.py"
    own.write_text(own.read_text() + "\nprint('its own code')\n")
    path = moved / "rows" / "gpu_conversion.jsonl"
    command = [sys.executable, str(moved / "rebuild.py")]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert "its own code" in done.stdout
    assert {"mine.pdf", "conversion.tex"} <= {each.name for each in (moved / "rebuilt").iterdir()}
    first, *others = map(json.loads, path.read_text().splitlines())
    path.write_text("".join(json.dumps(row) + "\n" for row in [{**first, "bytes": 2 * first["bytes"]}, *others]))
    said = []
    assert rebuild(moved, echo=said.append) == 1
    assert "differs from the manifest: mine.pdf" in said


def test_what_was_changed_in_it_is_found(folder, tmp_path):
    edited = shutil.copytree(folder, tmp_path / "edited")
    rows, figure = edited / "rows" / "gpu_conversion.jsonl", next((edited / "figures").glob("*.png"))
    given = (edited / "numbers.tex").read_text()
    name, number = re.findall(r"cpmsdefine\{(gpu_conversion/[^{}]+/seconds)\}\{(.*)\}", given)[0]
    (edited / "numbers.tex").write_text(given.replace(f"{{{name}}}{{{number}}}", f"{{{name}}}{{1\\,s}}"))
    rows.write_text(rows.read_text().replace(": ", ":", 1))
    figure.write_bytes(b"")
    (edited / "programs" / "mine.py").unlink()
    manifest = json.loads((edited / "manifest.json").read_text())
    (edited / "manifest.json").write_text(json.dumps({**manifest, "paper": "paper.tex"}))
    said = []
    assert rebuild(edited, echo=said.append) == 1
    assert "missing: programs/mine.py" in said
    assert f"changed since the artifact was made: rows/{rows.name}" in said
    assert f"changed since the artifact was made: figures/{figure.name}" in said
    assert rf"numbers.tex is not that of the rows: {name} is 1\,s, by the rows {number}; 1 more" in said
    assert any("paper" in line for line in said)
    assert f"{{{name}}}{{{number}}}" in (edited / "rebuilt" / "numbers.tex").read_text()


def test_the_manifest_leads_from_figures_to_rows_commits_and_machines(folder):
    rows = {row["cell"]: row for row in read_rows("gpu_conversion")}
    figures = json.loads((folder / "manifest.json").read_text())["figures"]
    assert {"mine.pdf", "conversion.tex"} <= {each["file"] for each in figures}
    for each in figures:
        own = [rows[cell] for cell in each["cells"]]
        assert hashlib.sha256((folder / "figures" / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert set(each["commits"]) == {commit for row in own if (commit := commit_of(row))}
        assert each["not_committed"] == sum(commit_of(row) is None for row in own)
        assert each["machines"] == [f"{own[0]['cpu']} with {own[0]['gpu']}"]


def test_rows_of_a_known_digest_have_its_commit_there_too(monkeypatch, tmp_path):
    row = {"code_digest": "d", "git_commit": "a" * 40, "git_dirty": True}
    assert commit_of(row) is None
    monkeypatch.setattr(commits, "by_digest", lambda _: {"d": "e" * 40})
    assert commit_of(row) == "e" * 40
    monkeypatch.undo()
    (tmp_path / "cpms" / "_shipped").mkdir(parents=True)
    (tmp_path / "cpms" / "_shipped" / commits.NOTE).write_text(json.dumps({"d": "e" * 40}))
    assert commits.by_digest(tmp_path) == {"d": "e" * 40}


def test_texts_have_no_blanks_and_no_addresses_of_registries(folder):
    text = (folder / "appendix.md").read_text()
    row = read_rows("gpu_conversion")[0]
    assert row["gpu"] in text
    for heading in SECTIONS:
        assert re.search(rf"^#+ {heading}\n\n\S", text, re.MULTILINE), heading
    for name in ("appendix.md", "environment.txt", "Containerfile", "numbers.tex"):
        assert "http" not in (folder / name).read_text()
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.+!-]+", line) for line in environment())
    assert {"numpy", "matplotlib"} <= {line.split("==")[0] for line in environment()}


def test_the_crate_lists_every_file(folder):
    graph = json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {each["@id"]: each for each in graph}
    held = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    held = {name for name in held if not name.startswith("code/")} - {"ro-crate-metadata.json"}
    assert {name for name, each in entities.items() if each["@type"] == "File"} == held
    for each in graph:  # Whatever is referred to is described, as the specification demands.
        for value in each.values():
            named = value if isinstance(value, list) else [value]
            assert all(one["@id"] in entities for one in named if "@id" in one and "conformsTo" not in each)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", entities["./"]["datePublished"])


def test_every_number_has_one_name(folder):
    names = re.findall(r"cpmsdefine\{([^{}]+)\}", (folder / "numbers.tex").read_text())
    assert names
    assert len(names) == len(set(names))


def test_numbers_have_units_quartiles_and_ratios():
    row = {"experiment": "mine", "status": "ok", "graph": "a_b", "bits": 16}
    rows = [
        {**row, "cell": "0", "storage": "fp64", "solve_s": 8.0, "solve_samples_s": [4.0, 8.0, 16.0]},
        {**row, "cell": "1", "storage": "cpms4", "solve_s": 2.0, "matrix_bytes": 3e9},
    ]
    found = dict(re.findall(r"cpmsdefine\{([^{}]+)\}\{(.*)\}", numbers(rows)))
    assert found["mine/a_b/fp64/seconds/upper-quartile"] == r"12\,s"
    assert found["mine/a_b/cpms4/bits"] == r"16\,bits"
    assert found["mine/a_b/cpms4/traffic"] == r"\ensuremath{3\times10^{9}}\,B"
    assert found["mine/cpms4/speedup"] == "4"
    assert found["mine/rows"] == "2"


@pytest.mark.parametrize(
    ("graphs", "samples", "parts"),
    [
        (1, 1, {"median"}),
        (1, 9, {"median", "low", "high"}),
        (3, 9, {"median", "least", "most"}),
        (5, 1, {"median", "least", "most", "low", "high"}),
    ],
)
def test_ratios_have_ends_where_figures_draw_an_interval(graphs, samples, parts):
    rows = [
        {"experiment": "mine", "status": "ok", "cell": f"{graph} {bits}", "graph": f"g{graph}", "storage": f"fp{bits}"}
        | {
            "solve_s": bits + graph,
            "solve_samples_s": [bits + graph + (2 * each - samples + 1) / 8 for each in range(samples)],
        }
        for graph in range(graphs)
        for bits in (64, 16)
    ]
    found = dict(re.findall(r"cpmsdefine\{([^{}]+)\}\{(.*)\}", numbers(rows)))
    assert {name.rpartition("/")[2] for name in found if "speedup/" in name} == parts
    if "most" in parts:
        assert found["mine/fp16/speedup/most"] == "4"


def test_rows_of_an_earlier_configuration_are_left_out_as_in_figures(tmp_path, capsys):
    given = 'name = "mine"\nkind = "pagerank"\ngraphs = ["grid:rows=4,columns=5"]\nstorages = ["fp64", "cpms2"]\n'
    for text in (given, given.replace("cpms2", "cpms4")):
        (tmp_path / "mine.toml").write_text(text)
        assert main(["run", str(tmp_path / "mine.toml"), "--output", str(tmp_path / "rows")]) == 0
    capsys.readouterr()
    assert main(["artifact", str(tmp_path / "rows"), "--output", str(tmp_path / "artifact")]) == 0
    assert "left out: 1 row of mine, whose configuration has changed since" in capsys.readouterr().out
    written = (tmp_path / "artifact" / "numbers.tex").read_text()
    assert "cpms4/seconds" in written
    assert "cpms2" not in written
    assert r"\cpmsdefine{mine/rows}{2}" in written
    assert main(["report", str(tmp_path / "rows"), "--output", str(tmp_path / "page.html")]) == 0
    assert "left out: 1 row of mine" in capsys.readouterr().out
    assert "cpms2" not in (tmp_path / "page.html").read_text()


def test_names_with_accents_have_numbers_of_their_own():
    row = {"experiment": "mine", "status": "ok"}
    graphs = {"Straße/Köln.mtx": 1.0, "Straße/Koln.mtx": 2.0, "北.mtx": 3.0, "京.mtx": 4.0}
    rows = [{**row, "cell": name, "graph": name, "engine": "cpu", "solve_s": s} for name, s in graphs.items()]
    found = dict(re.findall(r"cpmsdefine\{([^{}]+/seconds[^{}]*)\}\{(.*)\}", numbers(rows)))
    assert found["mine/Strasse/Koln.mtx/cpu/seconds"] == r"1\,s"
    assert sorted(found.values()) == [rf"{s}\,s" for s in (1, 2, 3, 4)]


def test_a_solve_that_did_not_converge_has_no_seconds():
    row = {"experiment": "mine", "status": "ok", "graph": "g", "solve_samples_s": [1.0, 2.0, 3.0], "iterations": 9}
    rows = [
        {**row, "cell": "0", "storage": "fp64", "converged": True, "residual_l1": 1e-11},
        {**row, "cell": "1", "storage": "fp16", "converged": False, "residual_l1": 1e-3},
    ]
    found = dict(re.findall(r"cpmsdefine\{([^{}]+)\}\{(.*)\}", numbers(rows)))
    assert {name for name in found if "seconds" in name} == {
        f"mine/g/fp64/seconds{part}" for part in ("", "/lower-quartile", "/upper-quartile")
    }
    assert found["mine/g/fp16/residual"] == "0.001"
    assert found["mine/g/fp16/iterations"] == "9"


def test_folders_that_hold_something_and_missing_rows_are_refused(folder, tmp_path, capsys):
    assert main(["artifact", "gpu_conversion", "--output", str(folder)]) == 2
    assert main(["artifact", str(tmp_path / "none"), "--output", str(tmp_path / "a")]) == 2
    assert main(["artifact", str(tmp_path), "--output", str(tmp_path / "a")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    for option, sentence in (("--program", "give the path of a .py file"), ("--paper", "give the path of a .tex file")):
        assert main(["artifact", "gpu_conversion", "--output", str(tmp_path / "a"), option, "none"]) == 2
        assert sentence in capsys.readouterr().err
