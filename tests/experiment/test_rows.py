"""Rows: whole or absent, one writer, resumed after kill -9 at any moment."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.errors import CpmsError, InputError, UnavailableError, UnsupportedError
from cpms.experiment.kinds import pagerank
from cpms.experiment.report import show
from cpms.experiment.rows import configured, rows
from cpms.experiment.rows.standing import Recorded
from cpms.experiment.runner import run

CONFIG = """
name = "killed"
kind = "pagerank"
graphs = ["uniform:nodes=400,edges=2000,seed=1", "uniform:nodes=400,edges=2000,seed=2"]
storages = ["fp64", "cpms2", "cpms4"]
layouts = ["csr", "pattern"]
engines = ["reference"]
repetitions = 3
tolerances = [1e-6]
weights = "auto"
max_iterations = 50
"""

ROW = {"cell": "a", "experiment": "x", "status": "ok"}


def test_cells_keep_their_name_whatever_else_changes(tmp_path):
    path = tmp_path / "killed.toml"
    path.write_text(CONFIG.replace('"cpms2", "cpms4"', '"cpms2"').replace("repetitions = 3", "repetitions = 1"))
    target = run(path, output=tmp_path)
    first = {row["cell"] for row in rows.read(target)}
    path.write_text(CONFIG)
    run(path, output=tmp_path)
    found = [row["cell"] for row in rows.read(target)]
    assert len(found) == len(set(found)) == 36
    assert first < set(found)


@pytest.mark.slow
def test_kill_minus_nine_ten_times_leaves_thirty_distinct_whole_rows(tmp_path):
    path = tmp_path / "killed.toml"
    path.write_text(CONFIG.replace("repetitions = 3", "repetitions = 5").replace('"cpms2", "cpms4"', '"cpms2"')
                    .replace('graphs = ["uniform:nodes=400,edges=2000,seed=1", ',
                             'graphs = ["uniform:nodes=400,edges=2000,seed=3", "uniform:nodes=400,edges=2000,seed=1", ')
                    .replace('layouts = ["csr", "pattern"]', 'layouts = ["csr"]'))  # fmt: skip
    program = (
        "from pathlib import Path; from cpms.experiment.runner import run; "
        f"run(Path({str(path)!r}), output=Path({str(tmp_path)!r}))"
    )
    target = tmp_path / "killed.jsonl"
    draw = random.Random(5)
    kills = 0
    while kills < 10:
        started = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        before = target.stat().st_size if target.exists() else 0
        give_up = time.monotonic() + 60
        while started.poll() is None and time.monotonic() < give_up:
            if target.exists() and target.stat().st_size > before + draw.randrange(1, 3000):
                break
            time.sleep(0.001)
        if started.poll() is None:
            os.kill(started.pid, signal.SIGKILL)
        started.wait()
        kills += 1
    subprocess.run([sys.executable, "-c", program], check=True)
    lines = target.read_bytes().split(b"\n")
    assert lines.pop() == b""
    found = [json.loads(line)["cell"] for line in lines]
    assert len(found) == len(set(found)) == 30


def failing(error):
    def measure(context, cell):
        raise error

    return measure


@pytest.mark.parametrize(
    ("error", "status"), [(UnavailableError("no GPU here"), "unavailable"), (MemoryError(), "out of memory")]
)
def test_cells_that_failed_for_want_of_something_run_again(tmp_path, monkeypatch, error, status):
    path = tmp_path / "killed.toml"
    path.write_text(CONFIG)
    with monkeypatch.context() as patched:
        patched.setattr(pagerank.Context, "measure", failing(error))
        with pytest.raises((UnavailableError, UnsupportedError), match="no cell could be measured"):
            run(path, output=tmp_path, only="fp64")
    target = tmp_path / "killed.jsonl"
    assert {row["status"] for row in rows.read(target)} == {status}
    run(path, output=tmp_path, only="fp64")
    found = rows.read(target)
    assert len(found) == 24
    assert {row["status"] for row in found[12:]} == {"ok"}
    assert (show.table_of(Recorded(tmp_path).of(["killed"])).status == "ok").all()


def test_cells_without_one_contestant_run_again_and_others_stay(tmp_path):
    missing, refused, taken = ({"status": status, "reason": "?"} for status in ("unavailable", "unsupported", "ok"))
    path = tmp_path / "x.jsonl"
    with rows.opened(path) as file:
        for cell, results in {"a": [missing, refused], "b": [missing, taken], "c": [refused]}.items():
            file.append({**ROW, "cell": cell, "results": results})
    with rows.opened(path) as file:
        assert file.done.keys() == {"b", "c"}


def test_a_run_counts_what_became_of_its_cells(tmp_path, monkeypatch):
    path = tmp_path / "killed.toml"
    path.write_text(CONFIG.replace('["reference"]', '["reference", "scipy"]').replace("repetitions = 3\n", ""))
    said = []
    run(path, output=tmp_path, echo=said.append)
    assert said.pop().startswith("24 cells run: 14 ok, 10 unsupported (engine scipy ")
    with monkeypatch.context() as patched:
        patched.setattr(pagerank.Context, "measure", failing(UnavailableError("no GPU here")))
        with pytest.raises(UnavailableError, match="no GPU here"):
            run(path, output=tmp_path / "other", only="fp64", echo=said.append)
    assert said.pop() == "8 cells run: 8 unavailable (no GPU here); 0 held already"
    run(path, output=tmp_path, echo=said.append)
    assert said.pop() == "0 cells run; 24 held already"


@pytest.mark.quick
@given(cut=st.integers(0, 200))
def test_a_torn_last_line_is_cut_off_and_nothing_else(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("rows") / "x.jsonl"
    line = json.dumps({**ROW, "cell": "a" * 16, "text": "é\\n"}).encode() + b"\n"
    whole = line + line.replace(b"aaaa", b"bbbb")
    path.write_bytes(whole[: max(len(line), len(whole) - cut)])
    with rows.opened(path) as file:
        file.append({**ROW, "cell": "c" * 16})
    cells = [row["cell"][0] for row in rows.read(path)]
    assert cells in (["a", "b", "c"], ["a", "c"])
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.quick
def test_a_second_writer_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    with rows.opened(path), pytest.raises(InputError, match="another run"), rows.opened(path):
        pass


def test_a_broken_line_in_the_middle_names_file_and_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{json.dumps(ROW)}\n{{"cell":\n{json.dumps(ROW)}\n')
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"x\.jsonl, line 2"), rows.opened(path):
        pass
    assert path.read_bytes() == before


@given(st.binary(max_size=60))
def test_any_bytes_give_rows_or_a_cpms_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("rows") / "x.jsonl"
    path.write_bytes(content)
    with contextlib.suppress(CpmsError):
        rows.read(path)


def test_rows_cannot_go_where_a_file_is(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot be written"), rows.opened(tmp_path / "out" / "x.jsonl"):
        pass


def test_what_was_measured_on_other_threads_or_less_warm_is_measured_again(tmp_path):
    path = tmp_path / "speed.toml"
    text = 'name = "speed"\nkind = "pagerank"\ngraphs = ["grid:rows=3,columns=3"]\nengines = ["reference"]\n'
    counts = []
    for asked in ("", "threads = 1\n", "threads = 1\n", "warmup = 2\n", "warmup = 2\nrecord_history = false\n"):
        path.write_text(text + asked)
        target = run(path, output=tmp_path)
        counts.append(len(rows.read(target)))
    first, *_, last = rows.read(target)
    again = 0 if first["threads"] == 1 else 1
    assert counts == [1, 1 + again, 1 + again, 2 + again, 2 + again]
    assert (first["warmup"], last["warmup"]) == (1, 2)


def test_graphs_are_loaded_and_solved_as_asked(tmp_path):
    (tmp_path / "gap.txt").write_text("0 9\n9 0\n0 9\n9 5\n5 5\n")
    found = {}
    for asked in ('ids = "compact"', 'duplicates = "drop"', 'self_loops = "drop"', 'dangling = "uniform"'):
        path = tmp_path / "asked.toml"
        text = f'name = "asked"\nkind = "pagerank"\ngraphs = ["{tmp_path}/gap.txt"]\nreference_tol = 1e-13\n{asked}\n'
        path.write_text(text)
        found[asked.split()[0]] = rows.read(run(path, output=tmp_path))[-1]
    assert {key: (row["nodes"], row["edges"]) for key, row in found.items()} == {
        "ids": (3, 5),
        "duplicates": (10, 4),
        "self_loops": (10, 4),
        "dangling": (10, 5),
    }
    assert all(row["error_l1"] <= row["error_bound"] for row in found.values())


def test_a_whole_row_without_a_line_end_stays(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"cell": cell, "experiment": "x", "status": "ok"}) for cell in "ab"]
    path.write_text("\n".join(lines))
    assert [row["cell"] for row in rows.read(path)] == ["a", "b"]
    with rows.opened(path) as file:
        assert file.done.keys() == {"a", "b"}
        file.append({"cell": "c", "experiment": "x", "status": "ok"})
    assert [row["cell"] for row in rows.read(path)] == ["a", "b", "c"]


@pytest.mark.parametrize("torn", ["{", '{"cell": "', '{"cell": "abc", "stat'])
def test_a_first_row_that_was_torn_is_cut_off(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    path.write_text(torn)
    with rows.opened(path) as file:
        assert not file.done
    assert path.read_text() == ""


@pytest.mark.parametrize("content", ["my notes: very important", "no row\nprecious last line", '{"cell": 5}', "[1]\n"])
def test_files_of_others_are_left_as_they_are(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match="move"), rows.opened(path):
        pass
    assert path.read_text() == content


def test_rows_record_the_configuration_that_was_run(tmp_path):
    path = tmp_path / "mine.toml"
    text = CONFIG.replace("repetitions = 3", "repetitions = 1")
    path.write_text(text)

    def replaced(graph, *_, **__):
        path.unlink(missing_ok=True)
        return {}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pagerank.Context, "measure", replaced)
        target = run(path, output=tmp_path)
    assert {row["config_sha256"] for row in rows.read(target)} == {configured.digest(text.encode())}


@pytest.mark.parametrize("line", ["tolerances = [inf]", "reference_tol = inf", "policies = [{factor = inf}]"])
def test_numbers_that_no_row_can_hold_are_refused_before_anything_runs(tmp_path, line):
    path = tmp_path / "mine.toml"
    path.write_text(CONFIG.replace("tolerances = [1e-6]", line))
    with pytest.raises(InputError, match="finite"):
        run(path, output=tmp_path)


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 5000])
def test_toml_that_python_cannot_take_is_refused(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="TOML"):
        run(path, output=tmp_path)
