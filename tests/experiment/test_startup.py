"""Cold starts: commands that really run, folders of compiled code that are really new, failures that are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import TRIANGLE

import cpms
from cpms.base.errors import InputError, UnavailableError, UnsupportedError
from cpms.experiment import config
from cpms.experiment.kinds.startup import measuring
from cpms.experiment.pages.numbers import Rows, modules
from cpms.experiment.report.observations import observations
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

COMMAND = 'method = "power", engine = "serial"'
CONFIG = f"""
name = "startup_cpu"
kind = "startup"
graphs = ["grid:rows=3,columns=3"]
rounds = 2
commands = [{{ {COMMAND} }}, {{ {COMMAND}, caches = "warm" }}]
"""
ALONE = CONFIG.replace("rounds = 2", "rounds = 1").replace(f', {{ {COMMAND}, caches = "warm" }}', "")
REPORT = """
import json, os, sys
from pathlib import Path
folders = [Path(os.environ[name]) for name in json.loads(sys.argv[1])]
with open(sys.argv[2], "a") as file:
    print(json.dumps([[str(folder), (folder / "marker").exists()] for folder in folders]), file=file)
for folder in folders:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marker").touch()
"""


def configured(tmp_path, text=CONFIG):
    (tmp_path / "startup_cpu.toml").write_text(text)
    return config.read(tmp_path / "startup_cpu.toml")


def measured(tmp_path, text=CONFIG):
    experiment = configured(tmp_path, text)
    (cell,) = experiment.cells()
    return measuring.Context(experiment).measure(cell)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    configured(folder)
    return run(folder / "startup_cpu.toml", output=folder)


def test_a_row_holds_the_times_of_commands_and_of_imports(recorded):
    (row,) = rows.read(recorded)
    assert (row["status"], row["nodes"]) == ("ok", 9)
    assert [result.get("caches", result.get("name")) for result in row["results"]] == [
        "empty",
        "warm",
        "import cpms",
        "import numba",
    ]
    for result in row["results"]:
        assert result["status"] == "ok"
        assert len(result["run_samples_s"]) == 2
        assert min(result["run_samples_s"]) <= result["run_s"] <= max(result["run_samples_s"])
    imported = {result.get("name"): min(result["run_samples_s"]) for result in row["results"]}
    assert min(row["results"][1]["run_samples_s"]) > imported["import cpms"] > 0


def test_each_command_and_import_is_a_contestant_and_a_number(recorded):
    found = observations(rows.read(recorded))
    assert found.called.tolist() == [
        *(f"serial power {caches}" for caches in ("empty", "warm")),
        "import cpms",
        "import numba",
    ]
    numbers = list(modules()["startup"].starts(Rows(recorded.parent)))
    keys = ["power.empty", "power.warm", "import_cpms", "import_numba"]
    assert [number.key for number in numbers] == [f"startup.cpu.{key}" for key in keys]
    assert "of 9 nodes and 12 edges, no compiled code at hand" in numbers[0].what


@pytest.mark.parametrize("caches", ["empty", "warm"])
def test_folders_of_compiled_code_are_new_or_those_of_earlier_runs(tmp_path, monkeypatch, caches):
    """A stand-in for the command says what it finds in its folders, and leaves a marker in each."""
    found, user = tmp_path / "found.jsonl", tmp_path / "user"
    for name in measuring.CACHES:
        monkeypatch.setenv(name, str(user))
    reporting = ["-c", REPORT, json.dumps([*measuring.CACHES]), str(found)]
    monkeypatch.setattr(measuring, "_arguments", lambda *_: reporting)
    measured(
        tmp_path,
        CONFIG.replace(f'{{ {COMMAND}, caches = "warm" }}', "").replace("engine = ", f'caches = "{caches}", engine = '),
    )
    runs = [json.loads(line) for line in found.read_text().splitlines()]
    assert [{seen for _, seen in each} for each in runs] == (
        [{False}, {False}] if caches == "empty" else [{False}, {True}, {True}]
    )
    assert all(Path(folder) != user and not Path(folder).exists() for each in runs for folder, _ in each)
    assert not user.exists()


def test_compiled_code_is_kept_in_the_folders(tmp_path):
    """Numba's cache is by far the largest part of what an empty folder costs on processors."""
    script = "from cpms.base.jit import compiled"
    (tmp_path / "loop.py").write_text(f"{script}\n@compiled()\ndef loop(x):\n    return x + 1\nloop(1)\n")
    measuring.timed([str(tmp_path / "loop.py")], measuring.cache_folders(tmp_path / "caches"), 60.0)
    assert list((tmp_path / "caches" / "numba").rglob("*.nbc"))
    assert not list(tmp_path.glob("__pycache__/*.nbc"))


def test_the_process_runs_the_same_package_wherever_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "cpms").mkdir()
    (tmp_path / "cpms" / "__init__.py").write_text("raise SystemExit('another one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = f"import cpms, sys; sys.exit(cpms.__file__ != {cpms.__file__!r})"
    assert measuring.timed(["-c", code], {}, 60.0) > 0


@pytest.mark.parametrize(
    ("code", "limit_s", "kind", "reason"),
    [
        (
            "import sys; print('cpms: error: no such graph', file=sys.stderr); sys.exit(2)",
            60.0,
            UnsupportedError,
            "graph",
        ),
        ("raise KeyError('lost')", 60.0, UnavailableError, "KeyError: 'lost'"),
        ("import os; os._exit(9)", 60.0, UnavailableError, "exit code 9"),
        ("import time; time.sleep(60)", 0.2, UnavailableError, "longer than 0.2 s"),
    ],
)
def test_processes_that_fail_have_a_reason(code, limit_s, kind, reason):
    with pytest.raises(kind, match=reason):
        measuring.timed(["-c", code], {}, limit_s)


def test_a_command_that_fails_is_recorded_and_runs_no_more_and_the_others_go_on(tmp_path, monkeypatch):
    calls, timed = [], measuring.timed

    def of_refused(arguments, *rest):
        calls.append(arguments)
        return timed(arguments, *rest) if "refine" in arguments else 1.0

    monkeypatch.setattr(measuring, "timed", of_refused)
    text = CONFIG.replace('method = "power", engine = "serial" }', 'method = "refine", engine = "serial" }', 1)
    refused, other, *_ = measured(tmp_path, text)["results"]
    assert refused["status"] == "unsupported"
    assert "cpms: error" in refused["reason"]
    assert "run_s" not in refused
    assert len(other["run_samples_s"]) == 2
    assert sum("refine" in arguments for arguments in calls) == 1
    assert sum("power" in arguments for arguments in calls) == 3  # One of them fills the folders.


def test_the_name_of_a_graph_is_no_option_and_no_shell_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "--help;$(touch read).mtx"
    Path(name).write_text(TRIANGLE)
    text, timed = ALONE.replace("grid:rows=3,columns=3", name), measuring.timed
    monkeypatch.setattr(measuring, "timed", lambda given, *rest: timed(given, *rest) if str(name) in given else 1.0)
    assert [result["status"] for result in measured(tmp_path, text)["results"]] == ["ok"] * 3
    assert not Path("read").exists()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (CONFIG + "threads = 2\n", "threads: a command"),
        (CONFIG.replace('"warm"', '"lukewarm"'), "commands.1.caches"),
        (CONFIG.replace('"serial"', '"abacus"'), "commands.0.engine"),
        (CONFIG.replace('"power"', '"magic"'), "commands.0.method"),
        (CONFIG.replace("grid:", "girder:"), "graphs.0"),
        (CONFIG.replace("rounds = 2", "rounds = 0"), "rounds"),
    ],
)
def test_bad_configurations_are_refused(tmp_path, given, part):
    with pytest.raises(InputError, match=part):
        configured(tmp_path, given)
